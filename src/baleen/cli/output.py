"""What several commands print and write: a report of figures, a ranking of passages, lines of which there have to be some."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import typer

Item = TypeVar("Item")

if TYPE_CHECKING:
    from baleen.retriever import Retriever
    from baleen.types import Query, Ranking


def print_report(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(report))
        return
    for key, value in report.items():
        shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
        typer.echo(f"{key.replace('_', ' '):>18}  {shown}")


def print_ranking(query: Query, ranking: Ranking, retriever: Retriever, seconds: float, as_json: bool) -> None:
    passages = [retriever.passage(hit.pid) for hit in ranking]
    if as_json:
        hits = [
            {"pid": passage.pid, "title": passage.title, "score": hit.score, "text": passage.text}
            for hit, passage in zip(ranking, passages, strict=True)
        ]
        typer.echo(json.dumps({"query": query.text, "hits": hits, "seconds": round(seconds, 6)}, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for rank, (hit, passage) in enumerate(zip(ranking, passages, strict=True), start=1):
        head = Text.assemble(
            f"{rank:>3}. ", (passage.title or passage.pid, "bold"), (f"  {hit.score:.3f}  [{passage.pid}]", "dim")
        )
        console.print(head)
        console.print(
            Text(passage.text if len(passage.text) <= 240 else passage.text[:240].rstrip() + " …"), style="dim"
        )
    console.print(
        Text(f"{len(ranking)} of {len(retriever.index):,} passages in {1000 * seconds:.1f} ms", style="italic")
    )


def some(items: Iterator[Item], error: Callable[[], Exception]) -> Iterator[Item]:
    """The items; an error where there is none, so that no empty file is left for a training run to stumble over."""
    first = next(items, None)
    if first is None:
        raise error()
    yield first
    yield from items
