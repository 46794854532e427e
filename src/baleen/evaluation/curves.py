"""What is drawn of results: recall against k, against the hops taken and against a question's own hops, and context.

Points are (x, y) with y in percent, or in words; `plotting` draws them, and anybody else may.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from baleen.evaluation.measures import all_found
from baleen.evaluation.prediction import Result
from baleen.evaluation.summary import percent
from baleen.types import Record

DEPTHS = (1, 2, 3, 5, 10, 20, 50, 100)

Runs = Mapping[str, Sequence[Result]]
Point = tuple[int, float]


@dataclass(frozen=True, slots=True)
class Curve(Record):
    """A run's line in a figure."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Figure(Record):
    """What one picture shows: a line for each run; `spread` marks an x axis whose steps grow."""

    name: str
    title: str
    x: str
    y: str
    curves: tuple[Curve, ...]
    spread: bool = False


def figures(runs: Runs) -> list[Figure]:
    """Every figure that some run has points for, of runs by their names."""
    found = "questions with every gold passage found, %"
    drawn = [
        Figure("recall-at-k", "Recall against k", "k", found, _curves(runs, recall_at_k), spread=True),
        Figure("recall-after-hops", "Recall against hops", "hops taken", found, _curves(runs, recall_after_hops)),
        Figure("recall-by-hops", "Recall by question", "hops of a question", found, _curves(runs, recall_by_hops)),
        Figure("context-words", "Context", "hops taken", "words of context", _curves(runs, words_after_hops)),
    ]
    return [figure for figure in drawn if figure.curves]


def recall_at_k(results: Sequence[Result]) -> list[Point]:
    """The share of questions whose gold passages all are among the first k, up to the deepest ranking."""
    judged = _with_gold(results)
    deepest = max((len(result.prediction.ranking) for result in judged), default=0)
    depths = [k for k in DEPTHS if k <= deepest]
    return [(k, _share(judged, [each.prediction.ranking.pids[:k] for each in judged])) for k in depths]


def recall_after_hops(results: Sequence[Result]) -> list[Point]:
    """The share of questions whose gold passages all are among those of the first hops; none of a run without hops."""
    judged = _with_gold(results)
    return [(hops, _share(judged, [_found(each, hops) for each in judged])) for hops in _hops_taken(judged)]


def recall_by_hops(results: Sequence[Result]) -> list[Point]:
    """The share of questions with everything found, whatever its rank, for each number of hops that they need."""
    judged = _with_gold(results)
    numbers = sorted({result.example.hops for result in judged if result.example.hops is not None})
    groups = {number: [result for result in judged if result.example.hops == number] for number in numbers}
    return [(number, _share(own, [each.prediction.ranking.pids for each in own])) for number, own in groups.items()]


def words_after_hops(results: Sequence[Result]) -> list[Point]:
    """Mean words of context after each hop; a question that stopped early keeps what it had."""
    taken = [result.prediction.hops for result in results if result.prediction.hops]
    return [
        (hops, round(fmean(own[min(hops, len(own)) - 1].words for own in taken), 4)) for hops in _hops_taken(results)
    ]


def _curves(runs: Runs, points: Callable[[Sequence[Result]], list[Point]]) -> tuple[Curve, ...]:
    curves = (Curve(name, tuple(points(results))) for name, results in runs.items())
    return tuple(curve for curve in curves if curve.points)


def _with_gold(results: Sequence[Result]) -> list[Result]:
    return [result for result in results if result.example.gold]


def _hops_taken(results: Sequence[Result]) -> range:
    return range(1, 1 + max((len(result.prediction.hops) for result in results), default=0))


def _found(result: Result, hops: int) -> list[str]:
    return [pid for hop in result.prediction.hops[:hops] for pid in hop.pids]


def _share(results: Sequence[Result], found: Sequence[Sequence[str]]) -> float:
    """In percent, of questions for which all gold passages are among those found."""
    both = zip(results, found, strict=True)
    return percent(fmean(all_found(pids, result.example.gold, len(pids)) for result, pids in both))
