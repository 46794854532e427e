"""`baleen card`: a model's card, out of a run's folder and of what `baleen eval --json` printed."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Annotated

import typer

from baleen.cli.options import JsonOption

log = logging.getLogger(__name__)


def card(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A finished run's folder, as 'train' wrote it")],
    results: Annotated[
        list[Path] | None,
        typer.Option("--results", help="What 'eval --json' printed: a file, or a folder of them (repeatable)"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Where the card goes, such as README.md", show_default="printed")
    ] = None,
    model: Annotated[Path | None, typer.Option("--model", help="The model's folder", show_default="RUN's own")] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="What the model is called", show_default="as its folder is")
    ] = None,
    licence: Annotated[
        str | None,
        typer.Option("--license", help="Of the weights", show_default="mit where all backbones are known, else other"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a model's card: data, settings, hardware, figures, limits, licences, all from files."""
    from baleen.card.evaluations import read_evaluations
    from baleen.card.subject import read_subject
    from baleen.card.writing import make_card, write_card

    found = read_evaluations(results or [])
    made = make_card(read_subject(run, found.evaluations, model=model, name=name), licence)
    if found.passed_over:
        names = ", ".join(file.name for file in found.passed_over)
        log.warning("passed over, as `baleen eval ... --json` does not print such: %s", names)
    for line in made.left_out:
        log.warning("left out: %s", line)
    if out is not None:
        write_card(made, out)
    if as_json:
        told = {"card": made.text, "out": None if out is None else str(out), "left_out": list(made.left_out)}
        typer.echo(json.dumps({**told, "passed_over": [str(file) for file in found.passed_over]}, ensure_ascii=False))
    else:
        typer.echo(made.text if out is None else str(out), nl=out is not None)
