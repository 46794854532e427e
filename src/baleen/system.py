"""`Baleen`: a whole model over an index, which verifies claims and answers questions.

baleen = Baleen.load("model folder or name", index="wiki.index")
trace = baleen.verify("The mayor of the town on the Grey Fjord is a former cellist.")
trace.outcome, trace.facts, trace.hops                      the verdict, the final facts, every step

for trace in baleen.stream("Who ...?", task="ask"):         the trace after each hop, and last with the answer
    ...
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self, Unpack

from baleen.core.config import did_you_mean, from_mapping, override
from baleen.core.errors import ConfigError
from baleen.core.types import Query, RankedBy, Trace, reject_string
from baleen.hops.condenser import RELEVANCE_CONFIG, Condenser, RelevanceCondenser
from baleen.hops.config import ASK, TASKS, VERIFY, CondenserConfig, RunConfig, RunOptions, Task, TaskName
from baleen.hops.mentions import MentionBoost
from baleen.hops.pipeline import Condensing, Reader, read_outcomes, run_hops, run_hybrid
from baleen.hops.readers import Answerer, Verifier
from baleen.hops.reranker import Reranker
from baleen.hops.retriever import Retriever, open_demo_index, open_index
from baleen.models.checkpoint import resolve_folder
from baleen.models.cross_encoder import CrossEncoder
from baleen.models.device import Precision
from baleen.models.encoder import Encoder
from baleen.models.folder import ModelFolder, read_model

READERS: Mapping[str, Callable[[CrossEncoder], Reader]] = {"verifier": Verifier, "answerer": Answerer}
WARM_UP = "A short text."


class Baleen:
    """A model over an index.  Components are loaded when they are first needed, once per folder; threads may share it."""

    def __init__(self, model: ModelFolder, retriever: Retriever, config: RunConfig | None = None) -> None:
        self.model, self.retriever = model, retriever
        self.config = config or from_mapping(RunConfig, model.settings.get("run", {}), f"{model.root}: run")
        self._cross_encoders: dict[Path, CrossEncoder] = {}
        self._loading = threading.Lock()

    @classmethod
    def load(
        cls,
        model: str | Path | None = None,
        index: str | Path | None = None,
        *,
        device: str | None = None,
        threads: int | None = None,
        precision: Precision | None = None,
        warm: bool = False,
    ) -> Self:
        """Load a model by folder or name over an index; both default to the embedded ones, with fewer passages per hop.

        `precision` is the arithmetic of the models (None: the best for the device; int8 on a CPU only).  With `warm`,
        every component is loaded now, and not by the first call.
        """
        from baleen.hops.demo import DEMO_DEPTH, default_model

        opened = open_index(index, device, threads)
        folder = read_model(resolve_folder(model if model is not None else default_model()))
        encoder = Encoder.load(folder.folder("retriever"), device=device, precision=precision)
        retriever = Retriever(encoder, opened if opened is not None else open_demo_index(encoder, threads))
        system = cls(folder, retriever)
        if opened is None:
            depths = tuple(min(depth, DEMO_DEPTH) for depth in system.config.depths)
            system = cls(folder, retriever, replace(system.config, k=depths))
        if warm:
            system.warm()
        return system

    def warm(self, task: TaskName | None = None) -> None:
        """Load the components of a task (None: of every task that the model has a reader for), and run them once."""
        names = [task] if task is not None else [name for name, each in TASKS.items() if each.component in self.model]
        runs = [self.stream_many([WARM_UP], name, hops=2, k=2) for name in names]
        for steps in runs or [self.hops([WARM_UP], hops=2, k=2)]:
            for _ in steps:
                pass

    def verify(self, claim: str, **options: Unpack[RunOptions]) -> Trace:
        """Verify a claim; the outcome of its trace is a Verdict."""
        return self.verify_many([claim], **options)[0]

    def ask(self, question: str, **options: Unpack[RunOptions]) -> Trace:
        """Answer a question; the outcome of its trace is an Answer."""
        return self.ask_many([question], **options)[0]

    def verify_many(self, claims: Sequence[str], **options: Unpack[RunOptions]) -> list[Trace]:
        """Verify claims in shared batches; each trace is the same as for the claim alone."""
        *_, traces = self.stream_many(claims, VERIFY.name, **options)
        return traces

    def ask_many(self, questions: Sequence[str], **options: Unpack[RunOptions]) -> list[Trace]:
        """Answer questions in shared batches; each trace is the same as for the question alone."""
        *_, traces = self.stream_many(questions, ASK.name, **options)
        return traces

    def stream(self, text: str, task: TaskName = "verify", **options: Unpack[RunOptions]) -> Iterator[Trace]:
        """The trace of a text after each hop, and last with its outcome.

        There is no outcome if the run is `untrained` and the model has no reader.
        """
        return _changes(traces[0] for traces in self.stream_many([text], task, **options))

    def stream_many(
        self, texts: Sequence[str], task: TaskName = "verify", **options: Unpack[RunOptions]
    ) -> Iterator[list[Trace]]:
        """The traces of all texts after each hop, and last with their outcomes; a stopped run stays as it is."""
        config = override(self.config, **options)
        reader = self.reader(find_task(task).component, optional=config.untrained)
        return _with_outcomes(self.hops(texts, **options), reader)

    def hops(self, texts: Sequence[str], **options: Unpack[RunOptions]) -> Iterator[list[Trace]]:
        """The traces of all texts after each hop, without outcomes."""
        config = override(self.config, **options)
        steps = self._run([Query(text).checked() for text in reject_string(texts, "texts")], config)
        return ([_ranked(trace, config.ranked_by) for trace in traces] for traces in steps)

    def _run(self, queries: Sequence[Query], config: RunConfig) -> Iterator[list[Trace]]:
        retriever = self.retriever.pinned()
        search = MentionBoost(retriever, config.mention_boost) if config.mention_boost else retriever
        if config.pipeline == "hybrid":
            both = self.condenser(config.untrained, **config.thresholds), self.reranker()
            return run_hybrid(queries, search, *both, config.depths, config.stop_early)
        condenses = config.pipeline == "condense"
        condenser = self.condenser(config.untrained, **config.thresholds) if condenses else self.reranker()
        return run_hops(queries, search, condenser, config.depths, config.stop_early)

    # Components

    def condenser(self, untrained: bool = False, **thresholds: float) -> Condensing:
        """The model's condenser, or the untrained one; `thresholds` (keep, read, final) outrank its own."""
        if untrained:
            return RelevanceCondenser(self._component("reranker"), override(RELEVANCE_CONFIG, **thresholds))
        source = f"{self.model.root}: condenser"
        config = override(from_mapping(CondenserConfig, self.model.settings.get("condenser", {}), source), **thresholds)
        return Condenser(self._component("sentences"), self._component("facts"), config)

    def reranker(self) -> Condensing:
        """The model's reranker, in the place of a condenser."""
        cross_encoder = self._component("reranker")
        return Reranker(cross_encoder, untrained=bool(cross_encoder.notes.get("untrained")))

    def reader(self, component: str, *, optional: bool = False) -> Reader | None:
        """The model's "verifier" or "answerer"; None if it is missing and `optional`."""
        if component not in READERS:
            raise ConfigError(f"there is no reader '{component}'; there are {' and '.join(READERS)}")
        if optional and component not in self.model:
            return None
        return READERS[component](self._component(component))

    def _component(self, name: str) -> CrossEncoder:
        cross_encoder = self._load_once(self.model.folder(name))
        cross_encoder.outputs(name)
        return cross_encoder

    def _load_once(self, folder: Path) -> CrossEncoder:
        with self._loading:
            if folder not in self._cross_encoders:
                encoder = self.retriever.encoder
                loaded = CrossEncoder.load(folder, device=encoder.device, precision=encoder.precision)
                self._cross_encoders[folder] = loaded
            return self._cross_encoders[folder]


def find_task(name: str) -> Task:
    """The task of this name; an unknown one is a ConfigError."""
    for task in TASKS.values():
        if task.name == name:
            return task
    raise ConfigError(f"there is no task '{name}'{did_you_mean(name, TASKS)}")


def _with_outcomes(steps: Iterator[list[Trace]], reader: Reader | None) -> Iterator[list[Trace]]:
    traces: list[Trace] = []
    for traces in steps:
        yield traces
    if reader is not None:
        yield read_outcomes(traces, reader)


def _changes(traces: Iterator[Trace]) -> Iterator[Trace]:
    """The traces without repetitions of a run that has stopped."""
    known = None
    for trace in traces:
        if trace != known:
            yield trace
        known = trace


def _ranked(trace: Trace, by: RankedBy) -> Trace:
    """A trace and its parts with an order of passages."""
    return replace(trace, ranked_by=by, parts=tuple(_ranked(part, by) for part in trace.parts))
