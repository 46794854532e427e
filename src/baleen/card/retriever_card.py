"""The card of a retriever that was ready before a run: what it says in its front matter that it is made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path


@dataclass(frozen=True)
class RetrieverCard:
    """Where it lies, from the model's folder on, and the names on the hub of what the retriever is made from."""

    place: str
    made_from: tuple[str, ...]


def read_retriever_card(model: Path, component: str | None) -> RetrieverCard | None:
    """The README.md beside the weights of a model's retriever; None without one, and for a retriever alone."""
    if component in (None, "."):
        return None
    file = model / component / "README.md"
    if not file.is_file():
        return None
    lines = file.read_text("utf-8").splitlines()
    front = list(takewhile(lambda line: line != "---", lines[1:])) if lines[:1] == ["---"] else []
    return RetrieverCard(f"{component}/{file.name}", tuple(_items(front, "base_model")))


def _items(front: list[str], key: str) -> Iterator[str]:
    """What a key of the front matter has: one name behind it, or a list below."""
    start = next((number for number, line in enumerate(front) if line.startswith(f"{key}:")), len(front))
    for line in front[start : start + 1]:
        name = line.partition(":")[2].strip()
        if name:
            yield name.strip("\"'")
    for line in takewhile(lambda line: line.strip().startswith("- "), front[start + 1 :]):
        yield line.strip().removeprefix("- ").strip("\"'")
