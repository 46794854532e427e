"""Options that several commands share, each described once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from baleen.core.errors import ConfigError

IndexOption = Annotated[
    Path | None, typer.Option("--index", help="An index's folder", show_default="the demonstration corpus")
]
ModelOption = Annotated[
    str | None, typer.Option("--model", help="A model's folder or name", show_default="the embedded one")
]
DeviceOption = Annotated[str | None, typer.Option("--device", help="cpu or cuda", show_default="the best there is")]
ThreadsOption = Annotated[
    int | None, typer.Option("--threads", min=1, help="CPU threads of a search", show_default="all cores")
]
PrecisionName = Literal["float32", "bfloat16", "int8"]  # devices.Precision, which would take torch to import

PrecisionOption = Annotated[
    PrecisionName | None,
    typer.Option(
        "--precision",
        help="Arithmetic of the models; int8 on a CPU only",
        show_default="bfloat16 where the device has it, else float32",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace a model that is there already")]


def refuse_there(out: Path, overwrite: bool) -> None:
    """A model may be hours of work: it is replaced by those who say so."""
    if not overwrite and (out / "config.json").is_file():
        raise ConfigError(f"{out}: there is a model here already; name another --out, or replace it with --overwrite")
