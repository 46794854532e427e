"""Whoever answers questions of a dataset: a whole system over its hops, a ranking baseline, or somebody's run.

Who is evaluated, with all that the results depend on; a system over its hops is described here once for all commands.

Questions through a predictor and past a judge, batch by batch; and results of a run that lies on disk.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from baleen.core import files
from baleen.core.config import override
from baleen.core.errors import ConfigError, DatasetError
from baleen.core.progress import progress
from baleen.core.types import Ranking, Trace
from baleen.data.example import Example
from baleen.evaluation.baselines.baseline import Baseline
from baleen.evaluation.collection import Collection, Indexed
from baleen.evaluation.measures import CLAIMS, QUESTIONS, Judge
from baleen.evaluation.results import Prediction, Result, Results, Run, describe_run, format_thresholds
from baleen.index.index import Index

if TYPE_CHECKING:
    from baleen.hops.config import RunConfig
    from baleen.system import Baleen


log = logging.getLogger(__name__)

VERIFIER, ANSWERER = "verifier", "answerer"


class Predictor(Protocol):
    def predict(self, examples: Sequence[Example]) -> list[Prediction]: ...


class System:
    """Claims are verified and questions answered, where the model has a reader for them; `options` are RunConfig's."""

    def __init__(self, system: Baleen, dataset: str, options: Mapping[str, Any]) -> None:
        self.system, self.dataset, self.options = system, dataset, options
        self._lacking: set[str] = set()

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        *_, traces = self.system.hops([example.text for example in examples], **self.options)
        for component in (VERIFIER, ANSWERER):
            places = [place for place, example in enumerate(examples) if self._reader_for(example) == component]
            read = self._read(component, [traces[place] for place in places])
            for place, trace in zip(places, read, strict=True):
                traces[place] = trace
        return [Prediction.of_trace(trace) for trace in traces]

    def _reader_for(self, example: Example) -> str | None:
        """By the dataset; a file of one's own may hold claims, questions, and texts that are neither."""
        if self.dataset in CLAIMS or (self.dataset not in QUESTIONS and example.label is not None):
            return VERIFIER
        return ANSWERER if self.dataset in QUESTIONS or example.answer is not None else None

    def _read(self, component: str, traces: list[Trace]) -> list[Trace]:
        from baleen.hops.pipeline import (
            read_outcomes as conclude,  # brings the models' libraries, which a baseline may do without
        )

        if not traces:
            return []
        reader = self.system.reader(component, optional=True)
        if reader is None and component not in self._lacking:
            self._lacking.add(component)
            log.warning("the model has no %s, so what it would say is not judged", component)
        return traces if reader is None else conclude(traces, reader)


class Ranked:
    """What a baseline ranks, `depth` passages deep."""

    def __init__(self, baseline: Baseline, depth: int) -> None:
        self.baseline, self.depth = baseline, depth

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        return [Prediction(ranking) for ranking in self.baseline.rank([each.text for each in examples], self.depth)]


class Recorded:
    """Rankings that somebody else made, by question; a question that has none counts as nothing found."""

    def __init__(self, rankings: Mapping[str, Ranking]) -> None:
        self.rankings = rankings

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        return [Prediction(self.rankings.get(example.qid, Ranking())) for example in examples]


COMMAND = "eval"
CPU_BATCH, DEVICE_BATCH = 4, 64


@dataclass(frozen=True)
class Contender:
    """`run` holds all that the results depend on, but for the questions; `batch_size` is how many go through at once.

    On a CPU larger batches gain nothing, and small ones tell sooner how long it will take.
    """

    name: str
    predictor: Predictor
    collection: Collection
    run: Run
    batch_size: int = DEVICE_BATCH


def system_contender(
    system: Baleen, dataset: str, cutoffs: Sequence[int], options: Mapping[str, Any], name: str | None = None
) -> Contender:
    """A model over its index; `options` are RunConfig's, `name` what it is called instead of its pipeline."""
    config = override(system.config, **options)
    described = describe_run(COMMAND, system, config, explained=False)
    settings = {key: value for key, value in described.items() if key not in ("command", "explain")}
    called = name or config.pipeline
    index = system.retriever.index
    if not isinstance(index, Index):
        raise ConfigError(
            "the index is not a local one, and its passages cannot be listed; evaluate beside a local index"
        )
    return Contender(
        _name(called, config),
        System(system, dataset, options),
        Indexed(index),
        run_of(dataset, cutoffs, called, settings),
        CPU_BATCH if system.retriever.encoder.device.type == "cpu" else DEVICE_BATCH,
    )


def _name(called: str, config: RunConfig) -> str:
    """`condense, untrained at 25+10, ranked by evidence, keep -1`"""
    untrained = ", untrained" if config.untrained else ""
    ranked_by = "" if config.ranked_by == "hops" else f", ranked by {config.ranked_by}"
    named = f", names raised by {config.mention_boost:g}" if config.mention_boost else ""
    return f"{called}{untrained} at {'+'.join(map(str, config.depths))}{ranked_by}{named}{format_thresholds(config.thresholds)}"


def run_of(dataset: str, cutoffs: Sequence[int], system: str, settings: Mapping[str, Any]) -> Run:
    return {"command": COMMAND, "dataset": dataset, "at": list(cutoffs), "system": system, **settings}


def evaluate(
    examples: Sequence[Example],
    predictor: Predictor,
    judge: Judge,
    *,
    batch_size: int = 32,
    before: Sequence[Result] = (),
) -> Iterator[list[Result]]:
    """The results of each batch, with the running headline beside the bar; `before` counts towards that."""
    values = [result.metrics[judge.headline] for result in before if judge.headline in result.metrics]
    with progress("evaluating", total=len(examples), unit="questions") as bar:
        for first in range(0, len(examples), batch_size):
            batch = examples[first : first + batch_size]
            pairs = zip(batch, predictor.predict(batch), strict=True)
            results = [judge.result(example, prediction) for example, prediction in pairs]
            yield results
            values += [result.metrics[judge.headline] for result in results if judge.headline in result.metrics]
            if values:
                bar.note(f"{judge.headline} {100 * sum(values) / len(values):.1f}")
            bar.advance(len(batch))


def results_of(
    contender: Contender,
    examples: Sequence[Example],
    judge: Judge,
    *,
    out: Path | None = None,
    batch_size: int | None = None,
) -> list[Result]:
    """The results of all examples, in order; with `out` they are kept there, and those that are there are not made again."""
    size = batch_size or contender.batch_size
    if out is None:
        batches = evaluate(examples, contender.predictor, judge, batch_size=size)
        return [result for batch in batches for result in batch]
    with Results.open(out, contender.run) as kept:
        left = [example for example in examples if not kept.holds(example.qid, example.text)]
        before = read_results(out).results if kept.done else []
        if before:
            log.info("%s of %s are in %s already", f"{len(examples) - len(left):,}", f"{len(examples):,}", out)
        found = {result.example.qid: result for result in before}
        _refuse_other_gold(out, examples, found)
        for batch in evaluate(left, contender.predictor, judge, batch_size=size, before=before):
            kept.append((result.example.qid, {"query": result.example.text, **result.to_json()}) for result in batch)
            found |= {result.example.qid: result for result in batch}
    return [found[example.qid] for example in examples]


def _refuse_other_gold(out: Path, examples: Iterable[Example], found: Mapping[str, Result]) -> None:
    for example in examples:
        if example.qid in found and found[example.qid].example != example:
            raise ConfigError(
                f"{out}: its result '{example.qid}' was judged by another gold (passages, sentences, label, answer, hops, "
                "kind or order) than the question has now; choose another --out, or remove this one"
            )


class Stored(NamedTuple):
    """What a results file holds: how it was made, and its results in order."""

    run: Mapping[str, Any]
    results: list[Result]


def read_results(path: Path) -> Stored:
    """The results that `baleen eval --out` wrote; whatever else stands there is a DatasetError."""
    run: Mapping[str, Any] = {}
    results: list[Result] = []
    try:
        for number, line in enumerate(files.read_lines(path), start=1):
            run, result = _parsed(line, f"{path}:{number}")
            results.append(result)
    except files.BROKEN as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise DatasetError(f"{path}: cannot be read: {reason}") from None
    if not results:
        raise DatasetError(f"{path}: holds no result; expected what `baleen eval --out` writes")
    return Stored(run, results)


def _parsed(line: bytes, place: str) -> tuple[Mapping[str, Any], Result]:
    try:
        told = json.loads(line)
        return dict(told["run"]), Result.from_json({key: told[key] for key in ("example", "prediction", "metrics")})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DatasetError(
            f"{place}: no result of `baleen eval`; expected a line of its --out (run it again to complete a file that "
            "a kill cut short)"
        ) from None
