"""Results of many questions in a few figures: means in percent, with bootstrap intervals, by number of hops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from baleen.evaluation.prediction import Result
from baleen.types import Record

SAMPLES = 1000
LEVEL = 95
# The order in which metrics are told.
KINDS = (
    "all", "mean", "retrieval", "passage_recall", "answer_recall", "passage_em", "passage_f1", "sentence_em",
    "sentence_f1", "label_accuracy", "hover_score", "answer_em", "answer_f1", "joint_em", "joint_f1",
)  # fmt: skip
_CELLS = 4_000_000  # numbers that one block of resampling draws

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Summary(Record):
    """Means of each metric over the questions that it applies to (`counts`), in percent, with 95% `intervals`."""

    questions: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)


def summarize(results: Sequence[Result], samples: int = SAMPLES, seed: int = 0) -> Summary:
    """All results together; the intervals are those of `samples` resamplings of the questions."""
    columns = {name: column(results, name) for name in metric_names(results)}
    return Summary(
        len(results),
        {name: percent(float(values.mean())) for name, values in columns.items()},
        {name: interval(values, samples, seed) for name, values in columns.items()} if samples else {},
        {name: len(values) for name, values in columns.items()},
    )


def by_hops(results: Sequence[Result], samples: int = SAMPLES, seed: int = 0) -> dict[int, Summary]:
    """A summary for each number of hops that questions have."""
    numbers = sorted({result.example.hops for result in results if result.example.hops is not None})
    groups = {hops: [result for result in results if result.example.hops == hops] for hops in numbers}
    return {hops: summarize(group, samples, seed) for hops, group in groups.items()}


def metric_names(results: Sequence[Result]) -> list[str]:
    """Every metric that applies to some question, kind by kind, and by cutoff."""
    return sorted({name for result in results for name in result.metrics}, key=_place)


def _place(name: str) -> tuple[int, int, str]:
    kind, _, cutoff = name.partition("@")
    return KINDS.index(kind) if kind in KINDS else len(KINDS), int(cutoff or 0), name


def column(results: Sequence[Result], name: str) -> Floats:
    """A metric's values over the questions that it applies to."""
    return np.array([result.metrics[name] for result in results if name in result.metrics], np.float64)


def interval(values: Floats, samples: int = SAMPLES, seed: int = 0) -> tuple[float, float]:
    """The 95% bootstrap interval of a mean, in percent; the same seed draws the same questions."""
    low, high = np.percentile(resampled_means(values, samples, seed), [(100 - LEVEL) / 2, (100 + LEVEL) / 2])
    return percent(float(low)), percent(float(high))


def resampled_means(values: Floats, samples: int, seed: int) -> Floats:
    """Means of `samples` draws of as many values, with replacement: (samples,)"""
    generator, means = np.random.default_rng(seed), []
    rows = max(1, _CELLS // max(1, len(values)))
    for first in range(0, samples, rows):
        drawn = generator.integers(0, len(values), (min(rows, samples - first), len(values)))
        means.append(values[drawn].mean(axis=1))
    return np.concatenate(means)


def percent(share: float) -> float:
    return round(100 * share, 4)
