"""Evaluate a system, a baseline or a TREC run: predict and score in batches, resume from a file, read results back."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from baleen.core.config import override
from baleen.core.errors import ConfigError, DatasetError
from baleen.core.progress import progress
from baleen.core.types import Ranking
from baleen.data.example import Example
from baleen.evaluation.baselines.baseline import Baseline
from baleen.evaluation.collection import Collection, IndexedCorpus
from baleen.evaluation.datasets import find_dataset
from baleen.evaluation.results import (
    Prediction,
    Result,
    ResultsFile,
    Run,
    describe_run,
    format_thresholds,
    numbered_lines,
)
from baleen.evaluation.scoring import Scorer
from baleen.index.index import Index

if TYPE_CHECKING:
    from baleen.hops.config import RunConfig
    from baleen.hops.pipeline import Reader
    from baleen.system import Baleen


log = logging.getLogger(__name__)

VERIFIER, ANSWERER = "verifier", "answerer"


class Predictor(Protocol):
    def predict(self, examples: Sequence[Example]) -> list[Prediction]: ...


class SystemPredictor:
    """Retrieves in hops, then verifies or answers if the model has the reader; `options` are RunConfig's."""

    def __init__(self, system: Baleen, dataset: str, options: Mapping[str, Any]) -> None:
        self.system, self.options = system, options
        self._dataset = find_dataset(dataset)
        self._missing_readers: set[str] = set()

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        from baleen.hops.pipeline import read_outcomes  # imports the models' libraries, which baselines can do without

        *_, traces = self.system.hops([example.text for example in examples], **self.options)
        for component in (VERIFIER, ANSWERER):
            places = [place for place, example in enumerate(examples) if self._component_for(example) == component]
            reader = self._reader(component) if places else None
            if reader is not None:
                read = read_outcomes([traces[place] for place in places], reader)
                for place, trace in zip(places, read, strict=True):
                    traces[place] = trace
        return [Prediction.of_trace(trace) for trace in traces]

    def _component_for(self, example: Example) -> str | None:
        """The dataset's reader, or else by what the example has: a label, an answer or neither."""
        if self._dataset.reader is not None:
            return self._dataset.reader
        if example.label is not None:
            return VERIFIER
        return ANSWERER if example.answer is not None else None

    def _reader(self, component: str) -> Reader | None:
        reader = self.system.reader(component, optional=True)
        if reader is None and component not in self._missing_readers:
            self._missing_readers.add(component)
            log.warning("the model has no %s: its outcomes are not scored", component)
        return reader


class BaselinePredictor:
    """Rankings of a baseline, of up to `depth` passages."""

    def __init__(self, baseline: Baseline, depth: int) -> None:
        self.baseline, self.depth = baseline, depth

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        return [Prediction(ranking) for ranking in self.baseline.rank([each.text for each in examples], self.depth)]


class RunPredictor:
    """Rankings read from a TREC run, by question id; a question without one gets an empty ranking."""

    def __init__(self, rankings: Mapping[str, Ranking]) -> None:
        self.rankings = rankings

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        return [Prediction(self.rankings.get(example.qid, Ranking())) for example in examples]


COMMAND = "eval"
CPU_BATCH, DEVICE_BATCH = 4, 64


@dataclass(frozen=True)
class EvaluationTarget:
    """What to evaluate.

    `run` holds everything that the results depend on except the questions.  A CPU gains nothing from larger batches,
    and small ones give an estimate of the remaining time sooner.
    """

    name: str
    predictor: Predictor
    collection: Collection
    run: Run
    batch_size: int = DEVICE_BATCH


def system_target(
    system: Baleen, dataset: str, cutoffs: Sequence[int], options: Mapping[str, Any], name: str | None = None
) -> EvaluationTarget:
    """The target for a model and its index; `options` are RunConfig's, `name` replaces the pipeline's name."""
    config = override(system.config, **options)
    described = describe_run(COMMAND, system, config, explained=False)
    settings = {key: value for key, value in described.items() if key not in ("command", "explain")}
    called = name or config.pipeline
    index = system.retriever.index
    if not isinstance(index, Index):
        raise ConfigError("the index is remote, so its passages cannot be listed; evaluate over a local index")
    return EvaluationTarget(
        _name(called, config),
        SystemPredictor(system, dataset, options),
        IndexedCorpus(index),
        run_settings(dataset, cutoffs, called, settings),
        CPU_BATCH if system.retriever.encoder.device.type == "cpu" else DEVICE_BATCH,
    )


def _name(called: str, config: RunConfig) -> str:
    """`condense, untrained at 25+10, ranked by evidence, keep -1`"""
    untrained = ", untrained" if config.untrained else ""
    ranked_by = "" if config.ranked_by == "hops" else f", ranked by {config.ranked_by}"
    named = f", mention boost {config.mention_boost:g}" if config.mention_boost else ""
    return f"{called}{untrained} at {'+'.join(map(str, config.depths))}{ranked_by}{named}{format_thresholds(config.thresholds)}"


def run_settings(dataset: str, cutoffs: Sequence[int], system: str, settings: Mapping[str, Any]) -> Run:
    return {"command": COMMAND, "dataset": dataset, "at": list(cutoffs), "system": system, **settings}


def evaluate_batches(
    examples: Sequence[Example],
    predictor: Predictor,
    scorer: Scorer,
    *,
    batch_size: int = 32,
    before: Sequence[Result] = (),
) -> Iterator[list[Result]]:
    """Yield the results of each batch; the progress bar shows the mean headline metric, `before` included."""
    values = [result.metrics[scorer.headline] for result in before if scorer.headline in result.metrics]
    with progress("evaluating", total=len(examples), unit="questions") as bar:
        for first in range(0, len(examples), batch_size):
            batch = examples[first : first + batch_size]
            pairs = zip(batch, predictor.predict(batch), strict=True)
            results = [scorer.score(example, prediction) for example, prediction in pairs]
            yield results
            values += [result.metrics[scorer.headline] for result in results if scorer.headline in result.metrics]
            if values:
                bar.note(f"{scorer.headline} {100 * sum(values) / len(values):.1f}")
            bar.advance(len(batch))


def run_evaluation(
    target: EvaluationTarget,
    examples: Sequence[Example],
    scorer: Scorer,
    *,
    out: Path | None = None,
    batch_size: int | None = None,
) -> list[Result]:
    """Results of all examples, in order; `out` is appended to, and examples that have a result there are skipped."""
    size = batch_size or target.batch_size
    if out is None:
        batches = evaluate_batches(examples, target.predictor, scorer, batch_size=size)
        return [result for batch in batches for result in batch]
    with ResultsFile.open(out, target.run) as file:
        left = [example for example in examples if not file.holds(example.qid, example.text)]
        before = read_results(out).results if file.done else []
        if before:
            log.info("%s of %s are in %s already", f"{len(examples) - len(left):,}", f"{len(examples):,}", out)
        found = {result.example.qid: result for result in before}
        _refuse_other_gold(out, examples, found)
        for batch in evaluate_batches(left, target.predictor, scorer, batch_size=size, before=before):
            file.append((result.example.qid, {"query": result.example.text, **result.to_json()}) for result in batch)
            found |= {result.example.qid: result for result in batch}
    return [found[example.qid] for example in examples]


def _refuse_other_gold(out: Path, examples: Iterable[Example], found: Mapping[str, Result]) -> None:
    for example in examples:
        if example.qid in found and found[example.qid].example != example:
            raise ConfigError(
                f"{out}: the result of '{example.qid}' was scored against other gold (passages, sentences, label, answer, "
                "hops, kind or order) than the question has now; choose another --out, or remove this one"
            )


class StoredResults(NamedTuple):
    """Contents of a results file: its run's settings and its results, in order."""

    run: Mapping[str, Any]
    results: list[Result]


def read_results(path: Path) -> StoredResults:
    """Read a file that `baleen eval --out` wrote; any other content is a DatasetError."""
    run: Mapping[str, Any] = {}
    results: list[Result] = []
    for place, line in numbered_lines(path):
        run, result = _parse_line(line, place)
        results.append(result)
    if not results:
        raise DatasetError(f"{path}: contains no result; expected the output of `baleen eval --out`")
    return StoredResults(run, results)


def _parse_line(line: bytes, place: str) -> tuple[Mapping[str, Any], Result]:
    try:
        record = json.loads(line)
        return dict(record["run"]), Result.from_json({key: record[key] for key in ("example", "prediction", "metrics")})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DatasetError(
            f"{place}: not a result of `baleen eval`; expected a line of its --out (run it again to complete a file that "
            "was cut short)"
        ) from None
