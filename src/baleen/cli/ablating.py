"""`baleen ablate`: the rows of the paper's ablation table, trained and evaluated from one plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from baleen.cli.options import DeviceOption, JsonOption


def ablate(
    plan: Annotated[
        Path,
        typer.Argument(
            metavar="CONFIG", help="A plan as for 'train', TOML; what its \\[ablation] may say: docs/evaluation.md"
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="The ablation's folder", show_default="the plan's name and -ablation")
    ] = None,
    rows: Annotated[
        str | None, typer.Option("--rows", metavar="A,B...", help="Of A to G", show_default="the plan's, or A to F")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="The first N questions of each file", show_default="all")
    ] = None,
    device: DeviceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train and evaluate Baleen and what is left of it without its parts, and print them in one table."""
    from baleen.ablation.plan import read_ablation
    from baleen.ablation.run import ablate as run

    letters = [letter.strip().upper() for letter in rows.split(",")] if rows is not None else None
    settings = read_ablation(plan, letters, limit)
    report = run(settings, out or plan.with_name(f"{plan.stem}-ablation"), device=device)
    typer.echo(json.dumps(report.told, ensure_ascii=False) if as_json else report.page)
