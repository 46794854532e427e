"""`baleen difference`: a checkpoint as what it differs by from another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from baleen.cli.options import JsonOption, OverwriteOption, refuse_there


def difference(
    checkpoint: Annotated[str, typer.Argument(help="The folder of a condenser, reranker or reader")],
    base: Annotated[Path, typer.Option("--base", help="What it differs from, and cannot be read without")],
    out: Annotated[Path, typer.Option("--out", help="The folder of the difference")],
    rank: Annotated[int, typer.Option("--rank", min=1, help="How many directions of each matrix are kept")] = 64,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a checkpoint as its difference to another: a sixth of its bytes, for two that are much alike.

    A model folder may then have readers with a backbone of their own for little more than those that they share.
    """
    from baleen.checkpoint import read, refuse_model, resolve, write_difference
    from baleen.crossencoder import KIND
    from baleen.errors import CheckpointError

    source = resolve(checkpoint)
    if source.resolve() == out.resolve():
        raise CheckpointError(f"{out}: is the checkpoint itself, which would be lost; name another folder")
    refuse_model(out)
    refuse_there(out, overwrite)
    write_difference(out, read(source, KIND), base, rank)
    size = sum(file.stat().st_size for file in out.iterdir())
    typer.echo(json.dumps({"out": str(out), "bytes": size}) if as_json else f"{out}: {size:,} bytes")
