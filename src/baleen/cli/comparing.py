"""`baleen compare`: two runs that `baleen eval --out` wrote, question by question."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from baleen.cli.options import JsonOption

if TYPE_CHECKING:
    from baleen.evaluation.comparison import Comparison


def compare(
    first: Annotated[
        Path, typer.Argument(metavar="RUN_A", dir_okay=False, exists=True, help="What 'eval --out' wrote")
    ],
    second: Annotated[Path, typer.Argument(metavar="RUN_B", dir_okay=False, exists=True, help="Another such file")],
    metric: Annotated[
        str | None, typer.Option("--metric", help="Show the questions that differ in it", show_default="all@20")
    ] = None,
    show: Annotated[int, typer.Option("--show", min=0, help="How many of those, best and worst")] = 10,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Permutations and resamplings")] = 10_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of both")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Compare RUN_B with RUN_A: differences, their significance, and the questions that flipped."""
    from baleen.evaluation.comparison import compare as compare_results
    from baleen.evaluation.evaluating import read_results

    ours, theirs = read_results(first), read_results(second)
    comparison = compare_results(ours.results, theirs.results, metric, samples=samples, seed=seed)
    if as_json:
        told = {"first": dict(ours.run), "second": dict(theirs.run), **comparison.to_json()}
        typer.echo(json.dumps(told, ensure_ascii=False))
        return
    typer.echo(f"A: {first} ({ours.run.get('system')})\nB: {second} ({theirs.run.get('system')})\n")
    typer.echo(_page(comparison, show))


def _page(comparison: Comparison, show: int) -> str:
    from baleen.evaluation.tables import comparison_table, flips_table

    parts = [comparison_table(comparison)]
    if comparison.only_first or comparison.only_second:
        parts.append(f"left out: {comparison.only_first} questions of A alone, {comparison.only_second} of B alone")
    better = [flip for flip in comparison.flips if flip.after > flip.before]
    worse = [flip for flip in reversed(comparison.flips) if flip.after < flip.before]
    for title, flips in (("better", better), ("worse", worse)):
        parts.append(f"{comparison.metric}: {len(flips)} questions are {title} in B")
        if flips[:show]:
            parts.append(flips_table(flips[:show]))
    return "\n\n".join(parts)
