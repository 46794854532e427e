"""`baleen init`: an untrained model to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def init(
    backbone: Annotated[
        str | None, typer.Argument(help="A Hugging Face encoder's folder or name", show_default="a small one")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="The checkpoint's folder")] = Path("checkpoints/flipr-untrained"),
) -> None:
    """Make an untrained encoder of a BACKBONE: a starting point for training that already retrieves."""
    from baleen.embedded import untrained

    untrained(backbone).save(out)
    typer.echo(str(out))
