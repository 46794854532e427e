"""`Baleen`: a whole model over an index, which verifies claims and answers questions.

baleen = Baleen.load("model folder or name", index="wiki.index")
trace = baleen.verify("The mayor of the town on the Grey Fjord is a former cellist.")
trace.outcome, trace.facts, trace.hops                      the verdict, the sentences that stand, every step
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, Self, get_args

from baleen.checkpoint import resolve
from baleen.condenser import Condenser, CondenserConfig, Threshold
from baleen.config import NO_SETTING, from_mapping, override
from baleen.crossencoder import CrossEncoder
from baleen.devices import Precision
from baleen.errors import ConfigError
from baleen.follower import Follower
from baleen.hybrid import run_hybrid
from baleen.model_folder import ModelFolder, read_model
from baleen.pipeline import Reader, Reading, conclude, run
from baleen.reader import Answerer, Verifier
from baleen.reranker import Reranker
from baleen.retriever import Retriever
from baleen.standin import CONFIG as STAND_IN
from baleen.standin import StandIn
from baleen.types import Query, RankedBy, Trace, several

Pipeline = Literal["condense", "rerank", "hybrid"]
READERS: Mapping[str, Callable[[CrossEncoder], Reader]] = {"verifier": Verifier, "answerer": Answerer}


@dataclass(frozen=True)
class RunConfig:
    """How a claim is taken through its hops.

    `k` is how many passages each hop retrieves: one number for all, or one for each, of which the last goes on where
    there are more `hops` (None: as many as `k` has numbers, or 4).  `stop_early` ends a run at the first hop that adds
    no fact; the paper always runs all.  `stand_in` puts the relevance score of the reranker in the place of a
    condenser, and does without a reader if need be.  `threshold` is what facts have to score above to be kept, or two
    numbers, for the way and for the end, or a third between them, for the reader; it is for a call to say (None: the
    condenser's own, among a model's settings).
    `ranked_by` is how the passages of all hops end up in one list: as the paper has it, or by what was read in them.
    `named_bonus` is what a passage's score is raised by if the claim names it, or a passage that carries a fact; with 0
    names are not looked for.
    """

    pipeline: Pipeline = "condense"
    hops: int | None = None
    k: int | Sequence[int] = 25
    stop_early: bool = False
    stand_in: bool = False
    ranked_by: RankedBy = "hops"
    named_bonus: float = 0.0
    threshold: Threshold | None = field(default=None, metadata=NO_SETTING)

    def __post_init__(self) -> None:
        for name, known in (("pipeline", get_args(Pipeline)), ("ranked_by", get_args(RankedBy))):
            if getattr(self, name) not in known:
                raise ConfigError(f"{name} = {getattr(self, name)!r} should be one of {', '.join(known)}")
        counts = [*self._given, *([] if self.hops is None else [self.hops])]
        if not self._given or not all(isinstance(count, int) and count >= 1 for count in counts):
            raise ConfigError(f"hops = {self.hops!r} and k = {self.k!r}: both should be whole numbers, at least 1")
        number = isinstance(self.named_bonus, (int, float)) and not isinstance(self.named_bonus, bool)
        if not (number and 0 <= self.named_bonus < math.inf):
            raise ConfigError(f"named_bonus = {self.named_bonus!r} should be a number, 0 or above")
        if self.threshold is not None:
            CondenserConfig(threshold=self.threshold)  # refuses what is no threshold
            if self.pipeline == "rerank":
                raise ConfigError("a threshold is for a condenser, and pipeline = 'rerank' has none: leave it out")

    @property
    def depths(self) -> tuple[int, ...]:
        """Passages of each hop."""
        hops = self.hops if self.hops is not None else 4 if isinstance(self.k, int) else len(self._given)
        return (*self._given[:hops], *self._given[-1:] * (hops - len(self._given)))

    @property
    def _given(self) -> tuple[int, ...]:
        return tuple(self.k) if isinstance(self.k, Sequence) else (self.k,)


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
        from baleen.embedded import DEPTH, default_model

        retriever = Retriever.load(model, index, device=device, threads=threads, precision=precision)
        system = cls(read_model(resolve(model if model is not None else default_model())), retriever)
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
        steps = self._run([Query(text).checked() for text in several(texts, "texts")], config)
        return ([_ranked(trace, config.ranked_by) for trace in traces] for traces in steps)

    def _run(self, queries: Sequence[Query], config: RunConfig) -> Iterator[list[Trace]]:
        search = Follower(self.retriever, config.named_bonus) if config.named_bonus else self.retriever
        if config.pipeline == "hybrid":
            readings = self.condenser(config.stand_in, config.threshold), self.reranker()
            return run_hybrid(queries, search, *readings, config.depths, config.stop_early)
        condenses = config.pipeline == "condense"
        reading = self.condenser(config.stand_in, config.threshold) if condenses else self.reranker()
        return run(queries, search, reading, config.depths, config.stop_early)

    def _run_and_read(self, texts: Sequence[str], component: str, options: dict[str, Any]) -> list[Trace]:
        reader = self.reader(component, optional=override(self.config, **options).stand_in)
        *_, traces = self.hops(texts, **options)
        return conclude(traces, reader) if reader is not None else traces

    # Components

    def condenser(self, stand_in: bool = False, threshold: Threshold | None = None) -> Reading:
        """The model's condenser, or what stands in for it; `threshold` outranks its own."""
        if stand_in:
            return StandIn(self._component("reranker"), override(STAND_IN, threshold=threshold))
        config = from_mapping(
            CondenserConfig, self.model.settings.get("condenser", {}), f"{self.model.root}: condenser"
        )
        chosen = override(config, threshold=threshold)
        return Condenser(self._component("sentences"), self._component("facts"), chosen)

    def reranker(self) -> Reading:
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
