"""DATASET:FILE on the command line: a file of questions, and how it is to be read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from baleen.datasets import Example


def named(item: str) -> tuple[str, Path]:
    """The dataset and the file."""
    dataset, separator, file = item.partition(":")
    if not separator:
        raise typer.BadParameter(f"'{item}': expected DATASET:FILE, as in hover:dev.json")
    return dataset, Path(file)


def examples_of(item: str) -> list[Example]:
    """The questions in it."""
    from baleen.datasets import read_examples

    return read_examples(*named(item))
