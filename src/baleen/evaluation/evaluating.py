"""Questions through a predictor and past a judge, batch by batch; and results of a run that lies on disk."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from baleen import bytelines
from baleen.datasets import Example
from baleen.errors import ConfigError, DatasetError
from baleen.evaluation.contender import Contender
from baleen.evaluation.judging import Judge
from baleen.evaluation.predicting import Predictor
from baleen.evaluation.prediction import Result
from baleen.progress import progress
from baleen.results import Results

log = logging.getLogger(__name__)


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
        for number, line in enumerate(bytelines.read(path), start=1):
            run, result = _parsed(line, f"{path}:{number}")
            results.append(result)
    except bytelines.BROKEN as error:
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
