"""`Baleen`: a whole model over an index, which verifies claims and answers questions.

baleen = Baleen.load("model folder or name", index="wiki.index")
trace = baleen.verify("The mayor of the town on the Grey Fjord is a former cellist.")
trace.outcome, trace.facts, trace.hops                      the verdict, the sentences that stand, every step
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Self

from baleen.core.config import from_mapping, override
from baleen.core.errors import ConfigError
from baleen.core.types import Query, RankedBy, Trace, reject_string
from baleen.hops.condenser import RELEVANCE_CONFIG as STAND_IN
from baleen.hops.condenser import Condenser, RelevanceCondenser
from baleen.hops.config import CondenserConfig, RunConfig
from baleen.hops.mentions import MentionBoost
from baleen.hops.pipeline import Condensing, Reader, read_outcomes, run_hops, run_hybrid
from baleen.hops.readers import Answerer, Verifier
from baleen.hops.reranker import Reranker
from baleen.hops.retriever import Retriever
from baleen.models.checkpoint import resolve_folder
from baleen.models.cross_encoder import CrossEncoder
from baleen.models.device import Precision
from baleen.models.folder import ModelFolder, read_model

READERS: Mapping[str, Callable[[CrossEncoder], Reader]] = {"verifier": Verifier, "answerer": Answerer}


class Baleen:
    """Components are loaded when they are first needed; those that share a backbone share it in memory."""

    def __init__(self, model: ModelFolder, retriever: Retriever) -> None:
        self.model, self.retriever = model, retriever
        self.config = from_mapping(RunConfig, model.settings.get("run", {}), f"{model.root}: run")
        encoder = retriever.encoder
        self._cross_encoder = cache(partial(CrossEncoder.load, device=encoder.device, precision=encoder.precision))

    @classmethod
    def load(
        cls,
        model: str | Path | None = None,
        index: str | Path | None = None,
        *,
        device: str | None = None,
        threads: int | None = None,
        precision: Precision | None = None,
    ) -> Self:
        """A model by folder or name over an index; without either, the embedded default, whose hops are less deep.

        `precision` is the arithmetic of its models: None for the device's best, int8 on a CPU only.
        """
        from baleen.hops.demo import DEMO_DEPTH as DEPTH
        from baleen.hops.demo import default_model

        retriever = Retriever.load(model, index, device=device, threads=threads, precision=precision)
        system = cls(read_model(resolve_folder(model if model is not None else default_model())), retriever)
        if index is None:
            system.config = replace(system.config, k=tuple(min(depth, DEPTH) for depth in system.config.depths))
        return system

    def verify(self, claim: str, **options: Any) -> Trace:
        """The run of a claim, with a Verdict as its outcome; `options` are those of RunConfig."""
        return self.verify_many([claim], **options)[0]

    def ask(self, question: str, **options: Any) -> Trace:
        """The run of a question, with an Answer as its outcome; `options` are those of RunConfig."""
        return self.ask_many([question], **options)[0]

    def verify_many(self, claims: Sequence[str], **options: Any) -> list[Trace]:
        """Many claims at once, in shared batches; each comes out as it would alone."""
        return self._run_and_read(claims, "verifier", options)

    def ask_many(self, questions: Sequence[str], **options: Any) -> list[Trace]:
        return self._run_and_read(questions, "answerer", options)

    def hops(self, texts: Sequence[str], **options: Any) -> Iterator[list[Trace]]:
        """The traces of all texts after each hop, as it completes; `conclude` with a `reader` ends a run."""
        config = override(self.config, **options)
        steps = self._run([Query(text).checked() for text in reject_string(texts, "texts")], config)
        return ([_ranked(trace, config.ranked_by) for trace in traces] for traces in steps)

    def _run(self, queries: Sequence[Query], config: RunConfig) -> Iterator[list[Trace]]:
        search = MentionBoost(self.retriever, config.mention_boost) if config.mention_boost else self.retriever
        if config.pipeline == "hybrid":
            readings = self.condenser(config.untrained, **config.thresholds), self.reranker()
            return run_hybrid(queries, search, *readings, config.depths, config.stop_early)
        condenses = config.pipeline == "condense"
        reading = self.condenser(config.untrained, **config.thresholds) if condenses else self.reranker()
        return run_hops(queries, search, reading, config.depths, config.stop_early)

    def _run_and_read(self, texts: Sequence[str], component: str, options: dict[str, Any]) -> list[Trace]:
        reader = self.reader(component, optional=override(self.config, **options).untrained)
        *_, traces = self.hops(texts, **options)
        return read_outcomes(traces, reader) if reader is not None else traces

    # Components

    def condenser(self, untrained: bool = False, **thresholds: float) -> Condensing:
        """The model's condenser, or the untrained one; `thresholds` (keep, read, final) outrank its own."""
        if untrained:
            return RelevanceCondenser(self._component("reranker"), override(STAND_IN, **thresholds))
        config = from_mapping(
            CondenserConfig, self.model.settings.get("condenser", {}), f"{self.model.root}: condenser"
        )
        chosen = override(config, **thresholds)
        return Condenser(self._component("sentences"), self._component("facts"), chosen)

    def reranker(self) -> Condensing:
        reading = self._component("reranker")
        return Reranker(reading, untrained=bool(reading.notes.get("untrained")))

    def reader(self, component: str, *, optional: bool = False) -> Reader | None:
        """The "verifier" or the "answerer"; one that is `optional` may be missing, and then None comes."""
        if component not in READERS:
            raise ConfigError(f"there is no reader '{component}'; there are {' and '.join(READERS)}")
        if optional and component not in self.model:
            return None
        return READERS[component](self._component(component))

    def _component(self, name: str) -> CrossEncoder:
        reading: CrossEncoder = self._cross_encoder(self.model.folder(name))
        reading.outputs(name)
        return reading


def _ranked(trace: Trace, by: RankedBy) -> Trace:
    """With its parts, if it was merged from some."""
    return replace(trace, ranked_by=by, parts=tuple(_ranked(part, by) for part in trace.parts))
