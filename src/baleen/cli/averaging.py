"""`baleen average`: several trainings of one model into one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from baleen.cli.options import JsonOption, OverwriteOption, refuse_there


def average(
    checkpoints: Annotated[
        list[str], typer.Argument(metavar="CHECKPOINT...", help="Folders of one component, or names of them")
    ],
    out: Annotated[Path, typer.Option("--out", help="The folder of the mean")],
    weight: Annotated[
        list[float] | None,
        typer.Option("--weight", help="How much each counts (one for each, in their order)", show_default="alike"),
    ] = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Average the weights of several trainings of one model.

    They should have started from the same weights. Measure what comes out: it may be better than any of them. A retriever's
    mean encodes otherwise than its parts do, and needs an index of its own.
    """
    from baleen.averaging import NOTE
    from baleen.averaging import average as mean
    from baleen.checkpoint import refuse_model, resolve, write

    refuse_model(out)
    refuse_there(out, overwrite)
    made = mean([resolve(name) for name in checkpoints], weight)
    write(out, made)
    shares = [part["share"] for part in made.notes[NOTE]]
    if as_json:
        typer.echo(json.dumps({"out": str(out), "weights_sha256": made.weights_sha256, "shares": shares}))
    else:
        told = ", ".join(f"{name} {share:.0%}" for name, share in zip(checkpoints, shares, strict=True))
        typer.echo(f"{out}: {told}")
