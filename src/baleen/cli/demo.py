"""`baleen demo`: the shortest way to see something."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer

from baleen.cli.options import DeviceOption
from baleen.cli.output import print_ranking
from baleen.cli.searching import open_retriever

if TYPE_CHECKING:
    from baleen.retriever import Retriever
    from baleen.types import Query, Ranking


def demo(device: DeviceOption = None) -> None:
    """Two hops over the demonstration corpus, by hand: search, take a fact, search again with it."""
    from baleen.embedded import QUESTION
    from baleen.types import Fact, Query

    retriever = open_retriever(None, None, device, None)
    query = Query(QUESTION)
    typer.echo(f"Question: {query.text}\n\nHop 1")
    first = _timed_search(query, retriever, [])
    best = retriever.passage(first[0].pid)
    fact = Fact(best.pid, 0, best.title, best.sentences[0])
    typer.echo(f"\nFact kept: {fact.title} | {fact.text}\n\nHop 2")
    _timed_search(Query(query.text, (fact,)), retriever, [best.pid])


def _timed_search(query: Query, retriever: Retriever, exclude: list[str]) -> Ranking:
    start = time.perf_counter()
    ranking = retriever.search(query, 3, exclude=exclude)
    print_ranking(query, ranking, retriever, time.perf_counter() - start, as_json=False)
    return ranking
