"""`baleen search`: one hop."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any

import typer

from baleen.cli.options import (
    DeviceOption,
    IndexOption,
    JsonOption,
    ModelOption,
    PrecisionOption,
    ThreadsOption,
)
from baleen.cli.output import print_ranking
from baleen.errors import ConfigError


def search(
    query: Annotated[str, typer.Argument(help="A question or a claim")],
    index: IndexOption = None,
    model: ModelOption = None,
    k: Annotated[int, typer.Option("-k", help="How many passages")] = 10,
    fact: Annotated[
        list[str] | None, typer.Option("--fact", help="A fact found before, 'title | sentence' (repeatable)")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", metavar="ID", help="Leave a passage out (repeatable)")
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option("--where", metavar="KEY=VALUE", help="Only passages with this metadata")
    ] = None,
    probes: Annotated[int | None, typer.Option(help="Cells that each query vector looks into")] = None,
    candidates: Annotated[int | None, typer.Option(help="Passages that are scored by their centroids")] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Score every passage")] = False,
    device: DeviceOption = None,
    threads: ThreadsOption = None,
    precision: PrecisionOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rank passages for QUERY: one hop."""
    from baleen.retriever import Retriever
    from baleen.types import Fact, Query

    titled = [text.partition(" | ") if " | " in text else ("", "", text) for text in fact or []]
    asked = Query(query, tuple(Fact("", 0, title, text) for title, _, text in titled)).checked()
    retriever = Retriever.load(model, index, device=device, threads=threads, precision=precision)
    start = time.perf_counter()
    ranking = retriever.search(
        asked,
        k,
        exclude=exclude or [],
        where=_conditions(where or []),
        probes=probes,
        candidates=candidates,
        exact=exact,
    )
    print_ranking(asked, ranking, retriever, time.perf_counter() - start, as_json)


def _conditions(conditions: list[str]) -> dict[str, Any]:
    """`key=value` options; a value that reads as JSON is meant as JSON (2017, true), any other as text."""
    where: dict[str, Any] = {}
    for condition in conditions:
        key, sign, value = condition.partition("=")
        if not sign or not key:
            raise ConfigError(f"--where {condition}: should be KEY=VALUE")
        try:
            where[key] = json.loads(value)
        except json.JSONDecodeError:
            where[key] = value
    return where
