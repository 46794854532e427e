"""Recall curves and words of context of runs that `baleen eval --out` wrote, as PNG and SVG.

    python experiments/plot.py BM25=bm25.jsonl Baleen=a.jsonl --out figures

    recall-at-k         questions with every gold passage among the first k of the ranking
    recall-after-hops   ... among the passages of the first hops
    recall-by-hops      ... at any rank, by the number of hops that a question needs
    context-words       mean words of context after each hop

The same results give the same bytes.  --json prints the points too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from baleen.core.errors import BaleenError, ConfigError, MissingExtraError
from baleen.core.records import Record
from baleen.evaluation.evaluate import read_results
from baleen.evaluation.measures import all_found
from baleen.evaluation.results import Result
from baleen.evaluation.statistics import percent

DEPTHS = (1, 2, 3, 5, 10, 20, 50, 100)
FORMATS = ("png", "svg")
SIZE, DOTS = (6.4, 4.0), 150
MARKERS = "osD^vP*X"
# Metadata that differs between runs or versions of matplotlib is left out.
PLAIN: dict[str, dict[str, Any]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}

Results = Sequence[Result]
Point = tuple[int, float]


@dataclass(frozen=True, slots=True)
class Curve(Record):
    """The line of one run: points (x, y), y in percent or in words."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Figure(Record):
    """One picture: a line for each run; `log` makes the x axis logarithmic."""

    name: str
    title: str
    x: str
    y: str
    curves: tuple[Curve, ...]
    log: bool = False


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="results of 'baleen eval --out': FILE or NAME=FILE")
    parser.add_argument("--out", type=Path, required=True, help="folder of the figures")
    parser.add_argument("--json", action="store_true", help="print the files and the points as JSON")
    options = parser.parse_args(arguments)
    try:
        found = figures(read_runs(options.runs))
        if not found:
            raise ConfigError("no question of these runs has gold passages or hops, so there is nothing to draw")
        paths = [str(path) for path in draw(found, options.out)]
    except BaleenError as error:
        parser.exit(error.exit_code, f"error: {error}\n")
    if options.json:
        print(json.dumps({"files": paths, "figures": [each.to_json() for each in found]}, ensure_ascii=False))
    else:
        print("\n".join(paths))


def read_runs(arguments: Sequence[str]) -> dict[str, Results]:
    """Read results by the name of their run: the given name, or the file's without its ending."""
    runs: dict[str, Results] = {}
    for argument in arguments:
        given, _, rest = ("", "", argument) if Path(argument).is_file() else argument.rpartition("=")
        name = given or Path(rest).stem
        if name in runs:
            raise ConfigError(f"two runs are called '{name}': give them names, as in NAME={rest}")
        runs[name] = read_results(Path(rest)).results
    return runs


# Points


def figures(runs: Mapping[str, Results]) -> list[Figure]:
    """Return every figure that some run has points for."""
    found = "questions with every gold passage found, %"
    drawn = [
        Figure("recall-at-k", "Recall against k", "k", found, _curves(runs, recall_at_k), log=True),
        Figure("recall-after-hops", "Recall against hops", "hops taken", found, _curves(runs, recall_after_hops)),
        Figure("recall-by-hops", "Recall by question", "hops of a question", found, _curves(runs, recall_by_hops)),
        Figure("context-words", "Context", "hops taken", "words of context", _curves(runs, words_after_hops)),
    ]
    return [figure for figure in drawn if figure.curves]


def recall_at_k(results: Results) -> list[Point]:
    """Share of questions with all gold passages among the first k, up to the deepest ranking."""
    with_gold = _with_gold(results)
    deepest = max((len(result.prediction.ranking) for result in with_gold), default=0)
    depths = [k for k in DEPTHS if k <= deepest]
    return [(k, _share(with_gold, [each.prediction.ranking.pids[:k] for each in with_gold])) for k in depths]


def recall_after_hops(results: Results) -> list[Point]:
    """Share of questions with all gold passages among those of the first hops; empty for a run without hops."""
    with_gold = _with_gold(results)
    return [(hops, _share(with_gold, [_found(each, hops) for each in with_gold])) for hops in _hops_taken(with_gold)]


def recall_by_hops(results: Results) -> list[Point]:
    """Share of questions with all gold passages found at any rank, by the number of hops that they need."""
    with_gold = _with_gold(results)
    numbers = sorted({result.example.hops for result in with_gold if result.example.hops is not None})
    groups = {number: [result for result in with_gold if result.example.hops == number] for number in numbers}
    return [(number, _share(own, [each.prediction.ranking.pids for each in own])) for number, own in groups.items()]


def words_after_hops(results: Results) -> list[Point]:
    """Mean words of context after each hop; a question that stopped early keeps its last number."""
    taken = [result.prediction.hops for result in results if result.prediction.hops]
    return [
        (hops, round(fmean(own[min(hops, len(own)) - 1].words for own in taken), 4)) for hops in _hops_taken(results)
    ]


def _curves(runs: Mapping[str, Results], points: Callable[[Results], list[Point]]) -> tuple[Curve, ...]:
    curves = (Curve(name, tuple(points(results))) for name, results in runs.items())
    return tuple(curve for curve in curves if curve.points)


def _with_gold(results: Results) -> list[Result]:
    return [result for result in results if result.example.gold]


def _hops_taken(results: Results) -> range:
    return range(1, 1 + max((len(result.prediction.hops) for result in results), default=0))


def _found(result: Result, hops: int) -> list[str]:
    return [pid for hop in result.prediction.hops[:hops] for pid in hop.pids]


def _share(results: Results, found: Sequence[Sequence[str]]) -> float:
    both = zip(results, found, strict=True)
    return percent(fmean(all_found(pids, result.example.gold, len(pids)) for result, pids in both))


# Pictures


def draw(drawn: Sequence[Figure], folder: Path) -> list[Path]:
    """Write every figure to `folder` in each format, without a display; return the files in order."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtraError.of("matplotlib", "eval", "drawing figures") from None
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for figure in drawn:
        with matplotlib.rc_context({**matplotlib.rcParamsDefault, "svg.hashsalt": "baleen"}):
            canvas = _canvas(figure)
            for ending in FORMATS:
                paths.append(folder / f"{figure.name}.{ending}")
                canvas.savefig(paths[-1], dpi=DOTS, metadata=PLAIN[ending])
    return paths


def _canvas(figure: Figure) -> Any:
    """Draw a figure without pyplot, which would need a display."""
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=SIZE)
    canvas.subplots_adjust(left=0.11, right=0.97, top=0.91, bottom=0.13)
    axes = canvas.add_subplot()
    for number, curve in enumerate(figure.curves):
        xs, ys = zip(*curve.points, strict=True)
        axes.plot(xs, ys, marker=MARKERS[number % len(MARKERS)], label=curve.name)
    if figure.log:
        axes.set_xscale("log")
    ticks = sorted({x for curve in figure.curves for x, _ in curve.points})
    axes.set_xticks(ticks, labels=[str(tick) for tick in ticks])
    axes.minorticks_off()
    highest = max(y for curve in figure.curves for _, y in curve.points)
    top = 102 if figure.y.endswith("%") else max(1.0, 1.1 * highest)
    axes.set(title=figure.title, xlabel=figure.x, ylabel=figure.y, ylim=(0, top))
    axes.grid(alpha=0.3)
    axes.legend()
    return canvas


if __name__ == "__main__":
    main()
