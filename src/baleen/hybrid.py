"""Condensing and reranking side by side: two runs with one retriever, merged hop by hop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from baleen.pipeline import Reading, run
from baleen.retriever import Retriever
from baleen.types import Condensed, Hit, Hop, Query, Ranking, Trace


def run_hybrid(
    queries: Sequence[Query],
    retriever: Retriever,
    condenser: Reading,
    reranker: Reading,
    depths: Sequence[int],
    stop_early: bool = False,
) -> Iterator[list[Trace]]:
    """Both pipelines apart, merged after each hop."""
    runs = [run(queries, retriever, reading, depths, stop_early) for reading in (condenser, reranker)]
    for condensed, reranked in zip(*runs, strict=True):
        yield [merge(*pair, depths) for pair in zip(condensed, reranked, strict=True)]


def merge(condensed: Trace, reranked: Trace, depths: Sequence[int]) -> Trace:
    """At each hop the better half of either run's passages, without duplicates; facts are those of the condenser."""
    hops: list[Hop] = []
    taken: set[str] = set()
    for left, right, depth in zip_longest(condensed.hops, reranked.hops, depths):
        if left is None and right is None:
            break
        ours, theirs = (hop.ranking if hop else Ranking() for hop in (left, right))
        ranking = merge_rankings(ours, theirs, depth, taken)
        taken |= set(ranking.pids)
        hops.append(replace(left or replace(right, condensed=Condensed(condensed.facts)), ranking=ranking))
    longest = max(condensed, reranked, key=lambda trace: len(trace.hops))
    stopped = longest.stopped if condensed.stopped and reranked.stopped else ""
    untrained = tuple(dict.fromkeys((*condensed.untrained, *reranked.untrained)))
    return replace(condensed, hops=tuple(hops), stopped=stopped, parts=(condensed, reranked), untrained=untrained)


def merge_rankings(left: Ranking, right: Ranking, depth: int, taken: set[str]) -> Ranking:
    """The best 13 and 12 of 25, in turn, of those that are not among `taken`; hits keep the scores they came with."""
    ours = [hit for hit in left if hit.pid not in taken][: (depth + 1) // 2]
    twice = taken | {hit.pid for hit in ours}
    theirs = [hit for hit in right if hit.pid not in twice][: depth // 2]
    merged: list[Hit] = [hit for pair in zip_longest(ours, theirs) for hit in pair if hit is not None]
    return Ranking(tuple(merged))
