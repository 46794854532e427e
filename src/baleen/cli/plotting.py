"""`baleen plot`: figures of runs that `baleen eval --out` wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from baleen.cli.comparing import RunsArgument, read_runs
from baleen.cli.options import JsonOption


def plot(
    runs: RunsArgument,
    out: Annotated[Path, typer.Option("--out", file_okay=False, help="A folder, made if it is missing")],
    as_json: JsonOption = False,
) -> None:
    """Draw recall against k and against hops, and words of context, as PNG and SVG: a line for each run."""
    from baleen.evaluation.curves import figures
    from baleen.evaluation.plotting import draw

    found = figures({name: stored.results for name, stored in read_runs(runs).items()})
    if not found:
        raise typer.BadParameter("no question of these runs has gold passages or hops, so there is nothing to draw")
    paths = draw(found, out)
    if as_json:
        told = {"files": [str(path) for path in paths], "figures": [figure.to_json() for figure in found]}
        typer.echo(json.dumps(told, ensure_ascii=False))
    else:
        typer.echo("\n".join(map(str, paths)))
