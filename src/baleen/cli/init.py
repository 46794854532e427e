"""`baleen init`: an untrained model to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from baleen.cli.options import OverwriteOption, refuse_there

SAMPLE = 2_000


def init(
    backbone: Annotated[
        str | None, typer.Argument(help="A Hugging Face encoder's folder or name", show_default="a small one")
    ] = None,
    cross_encoder: Annotated[
        str | None,
        typer.Option("--cross-encoder", help="Another, to read passages with: its untrained heads make a whole model"),
    ] = None,
    corpus: Annotated[
        list[Path] | None,
        typer.Option("--corpus", help="Collections that the projection is fitted to (repeatable)", show_default="ours"),
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="So many of their passages", show_default=f"{SAMPLE:,}")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of that sample", show_default="0")] = None,
    dim: Annotated[int, typer.Option(min=1, help="Of the vectors")] = 128,
    out: Annotated[Path, typer.Option("--out", help="The model's folder")] = Path("checkpoints/flipr-untrained"),
    overwrite: OverwriteOption = False,
) -> None:
    """Make an untrained encoder of a BACKBONE: a starting point for training that already retrieves."""
    from baleen.checkpoint import refuse_model
    from baleen.corpus import read
    from baleen.corpus import sample as sampled
    from baleen.embedded import untrained, write_whole
    from baleen.progress import track

    if not corpus and not (sample is None and seed is None):
        raise typer.BadParameter("--sample and --seed are of the passages of --corpus, and none is named")
    if cross_encoder is None:
        refuse_model(out)
    refuse_there(out, overwrite)
    passages = (
        sampled(track(read(corpus), "sampling", unit="passages"), sample or SAMPLE, seed or 0) if corpus else None
    )
    encoder = untrained(backbone, passages, dim)
    if cross_encoder is None:
        encoder.save(out)
    else:
        write_whole(out, encoder, cross_encoder)
    typer.echo(str(out))
