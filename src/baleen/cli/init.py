"""`baleen init`: an untrained model to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def init(
    backbone: Annotated[
        str | None, typer.Argument(help="A Hugging Face encoder's folder or name", show_default="a small one")
    ] = None,
    cross_encoder: Annotated[
        str | None,
        typer.Option("--cross-encoder", help="Another, to read passages with: its untrained heads make a whole model"),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="The model's folder")] = Path("checkpoints/flipr-untrained"),
) -> None:
    """Make an untrained encoder of a BACKBONE: a starting point for training that already retrieves."""
    from baleen.embedded import untrained, write_whole

    if cross_encoder is None:
        untrained(backbone).save(out)
    else:
        write_whole(out, untrained(backbone), cross_encoder)
    typer.echo(str(out))
