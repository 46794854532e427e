"""Means of metrics with bootstrap intervals, and paired comparisons of two runs.

Means are in percent.  A comparison has paired bootstrap intervals and p-values of a permutation test, both seeded, and
the questions whose metric differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from baleen.core.errors import DatasetError
from baleen.core.records import Record
from baleen.evaluation.results import Prediction, Result

SAMPLES = 1000  # resamplings for an interval
PERMUTATIONS = 10_000
LEVEL = 95  # of an interval, in percent
# Metrics in the order of tables.
KINDS = (
    "all", "mean", "retrieval", "passage_recall", "answer_recall", "passage_em", "passage_f1", "sentence_em",
    "sentence_f1", "label_accuracy", "hover_score", "answer_em", "answer_f1", "joint_em", "joint_f1",
)  # fmt: skip
_CELLS = 4_000_000  # random numbers drawn at once

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Summary(Record):
    """Mean of each metric in percent, its 95% interval, and the number of questions that it applies to (`counts`)."""

    questions: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)


def summarize(results: Sequence[Result], samples: int = SAMPLES, seed: int = 0) -> Summary:
    """Summarize results, with intervals from `samples` resamplings of the questions (0: none)."""
    columns = {name: column(results, name) for name in metric_names(results)}
    return Summary(
        len(results),
        {name: percent(float(values.mean())) for name, values in columns.items()},
        {name: interval(values, samples, seed) for name, values in columns.items()} if samples else {},
        {name: len(values) for name, values in columns.items()},
    )


def by_hops(results: Sequence[Result], samples: int = SAMPLES, seed: int = 0) -> dict[int, Summary]:
    """A summary for each number of hops."""
    numbers = sorted({result.example.hops for result in results if result.example.hops is not None})
    groups = {hops: [result for result in results if result.example.hops == hops] for hops in numbers}
    return {hops: summarize(group, samples, seed) for hops, group in groups.items()}


def metric_names(results: Sequence[Result]) -> list[str]:
    """All metrics of the results, by kind and cutoff."""
    return sorted({name for result in results for name in result.metrics}, key=_sort_key)


def _sort_key(name: str) -> tuple[int, int, str]:
    kind, _, cutoff = name.partition("@")
    return KINDS.index(kind) if kind in KINDS else len(KINDS), int(cutoff or 0), name


def column(results: Sequence[Result], name: str) -> Floats:
    """Values of a metric for the questions that it applies to."""
    return np.array([result.metrics[name] for result in results if name in result.metrics], np.float64)


def interval(values: Floats, samples: int = SAMPLES, seed: int = 0) -> tuple[float, float]:
    """95% bootstrap interval of a mean, in percent; a seed always draws the same questions."""
    low, high = np.percentile(resampled_means(values, samples, seed), [(100 - LEVEL) / 2, (100 + LEVEL) / 2])
    return percent(float(low)), percent(float(high))


def resampled_means(values: Floats, samples: int, seed: int) -> Floats:
    """Means of `samples` bootstrap samples: (samples,)"""
    generator, means = np.random.default_rng(seed), []
    rows = max(1, _CELLS // max(1, len(values)))
    for first in range(0, samples, rows):
        drawn = generator.integers(0, len(values), (min(rows, samples - first), len(values)))
        means.append(values[drawn].mean(axis=1))
    return np.concatenate(means)


def percent(share: float) -> float:
    return round(100 * share, 4)


@dataclass(frozen=True, slots=True)
class Difference(Record):
    """Means of one metric over the questions where both runs have it, in percent; `difference` is second - first."""

    questions: int
    first: float
    second: float
    difference: float
    interval: tuple[float, float]
    p: float


@dataclass(frozen=True, slots=True)
class Flip(Record):
    """A question whose metric differs; `first` and `second` describe each run's gold ranks and outcome."""

    qid: str
    text: str
    before: float
    after: float
    gold: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Comparison(Record):
    """`questions` counts those of both runs; `flips` are the questions that differ in `metric`, largest gains first."""

    questions: int
    only_first: int
    only_second: int
    metric: str
    differences: Mapping[str, Difference] = field(default_factory=dict)
    flips: tuple[Flip, ...] = ()


def compare(
    first: Sequence[Result],
    second: Sequence[Result],
    metric: str | None = None,
    *,
    samples: int = PERMUTATIONS,
    seed: int = 0,
) -> Comparison:
    """Compare two runs question by question; differing texts or gold passages are a DatasetError."""
    pairs = _paired(first, second)
    ours, theirs = [list(side) for side in zip(*pairs, strict=True)]
    in_theirs = set(metric_names(theirs))
    names = [name for name in metric_names(ours) if name in in_theirs]
    if not names:
        raise DatasetError("the two runs share no metric; expected results over the same dataset")
    if metric is not None and metric not in names:
        raise DatasetError(f"no metric '{metric}' in both runs; they share {', '.join(names)}")
    chosen = metric or ("all@20" if "all@20" in names else names[0])
    return Comparison(
        questions=len(pairs),
        only_first=len(first) - len(pairs),
        only_second=len(second) - len(pairs),
        metric=chosen,
        differences={name: _difference(pairs, name, samples, seed) for name in names},
        flips=tuple(_flips(pairs, chosen)),
    )


def _paired(first: Sequence[Result], second: Sequence[Result]) -> list[tuple[Result, Result]]:
    others = {result.example.qid: result for result in second}
    pairs = [(result, others[result.example.qid]) for result in first if result.example.qid in others]
    if not pairs:
        raise DatasetError("the two runs have no question in common; expected results over the same dataset")
    for one, other in pairs:
        if (one.example.text, set(one.example.gold)) != (other.example.text, set(other.example.gold)):
            raise DatasetError(
                f"the question '{one.example.qid}' has another text or other gold passages in the second run; "
                "expected results over the same dataset and corpus"
            )
    return pairs


def _difference(pairs: Sequence[tuple[Result, Result]], name: str, samples: int, seed: int) -> Difference:
    values = np.array([[side.metrics[name] for side in pair] for pair in pairs if _both_have(pair, name)], np.float64)
    if not len(values):
        return Difference(0, 0.0, 0.0, 0.0, (0.0, 0.0), 1.0)
    deltas = values[:, 1] - values[:, 0]
    first, second = values.mean(axis=0).tolist()
    return Difference(
        len(values),
        percent(first),
        percent(second),
        percent(second - first),
        interval(deltas, samples, seed),
        permutation_p(deltas, samples, seed),
    )


def _both_have(pair: tuple[Result, Result], name: str) -> bool:
    return name in pair[0].metrics and name in pair[1].metrics


def permutation_p(deltas: Floats, samples: int = PERMUTATIONS, seed: int = 0) -> float:
    """Two-sided p-value of a mean difference, by random flips of signs."""
    changed = deltas[deltas != 0]
    if not len(changed):
        return 1.0
    generator, observed, extreme = np.random.default_rng(seed), abs(changed.sum()) - 1e-9, 0
    rows = max(1, _CELLS // len(changed))
    for start in range(0, samples, rows):
        signs = generator.integers(0, 2, (min(rows, samples - start), len(changed))) * 2 - 1
        extreme += int((np.abs(signs @ changed) >= observed).sum())
    return (extreme + 1) / (samples + 1)  # the observed difference counts as one permutation


def _flips(pairs: Sequence[tuple[Result, Result]], name: str) -> list[Flip]:
    flips = []
    for one, other in pairs:
        if not _both_have((one, other), name) or one.metrics[name] == other.metrics[name]:
            continue
        gold = ", ".join(part for part in (*one.example.gold, one.example.label, one.example.answer) if part)
        before, after = one.metrics[name], other.metrics[name]
        first, second = (_describe(result.prediction, one.example.gold) for result in (one, other))
        flips.append(Flip(one.example.qid, one.example.text, before, after, gold, first, second))
    return sorted(flips, key=lambda flip: (flip.before - flip.after, flip.qid))


def _describe(prediction: Prediction, gold: Sequence[str]) -> str:
    """Ranks of the gold passages in the order of `gold`, and the outcome: `ranks 1, 7, -; supported`."""
    places = {pid: rank for rank, pid in enumerate(prediction.ranking.pids, start=1)}
    ranks = "ranks " + ", ".join(str(places.get(pid, "-")) for pid in gold)
    return "; ".join(part for part in (ranks if gold else "", prediction.label, prediction.answer) if part)
