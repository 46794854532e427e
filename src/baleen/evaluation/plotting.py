"""Figures as pictures, by matplotlib: PNG and SVG, without a display, the same bytes from the same points."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from baleen.errors import MissingExtraError
from baleen.evaluation.curves import Figure

FORMATS = ("png", "svg")
SIZE, DOTS = (6.4, 4.0), 150
MARKERS = "osD^vP*X"
# What would differ from one run to the next, or from one version of matplotlib to another, is left out.
PLAIN: dict[str, dict[str, Any]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}


def draw(figures: Sequence[Figure], folder: Path) -> list[Path]:
    """Write every figure to `folder` in each format; the files, in order."""
    _import_matplotlib()
    folder.mkdir(parents=True, exist_ok=True)
    return [path for figure in figures for path in _written(figure, folder)]


def _written(figure: Figure, folder: Path) -> list[Path]:
    import matplotlib

    paths = [folder / f"{figure.name}.{ending}" for ending in FORMATS]
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, "svg.hashsalt": "baleen"}):
        canvas = _canvas(figure)
        for path, ending in zip(paths, FORMATS, strict=True):
            canvas.savefig(path, dpi=DOTS, metadata=PLAIN[ending])
    return paths


def _canvas(figure: Figure) -> Any:
    """The figure object; made without pyplot, it needs no display and is forgotten with its last reference."""
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=SIZE)
    canvas.subplots_adjust(left=0.11, right=0.97, top=0.91, bottom=0.13)
    axes = canvas.add_subplot()
    for number, curve in enumerate(figure.curves):
        xs, ys = zip(*curve.points, strict=True)
        axes.plot(xs, ys, marker=MARKERS[number % len(MARKERS)], label=curve.name)
    if figure.spread:
        axes.set_xscale("log")
    ticks = sorted({x for curve in figure.curves for x, _ in curve.points})
    axes.set_xticks(ticks, labels=[str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set(title=figure.title, xlabel=figure.x, ylabel=figure.y, ylim=(0, _top(figure)))
    axes.grid(alpha=0.3)
    axes.legend()
    return canvas


def _top(figure: Figure) -> float:
    """A little above all of it."""
    highest = max(y for curve in figure.curves for _, y in curve.points)
    return 102 if figure.y.endswith("%") else max(1.0, 1.1 * highest)


def _import_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtraError.of("matplotlib", "eval", "drawing figures") from None
