"""The paper: for each hop retrieve, then condense; after the last, read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from baleen.evidence import with_its_fact
from baleen.retriever import Retrieved
from baleen.stopwatch import Stopwatch
from baleen.types import Answer, Condensed, Hop, Lookup, Passage, Query, Trace, Verdict


class Search(Protocol):
    """A retriever, or what stands before one."""

    def retrieve(self, queries: Sequence[Query], k: int = 10, **options: Any) -> list[Retrieved]: ...

    def passage(self, pid: str) -> Passage: ...


class Reading(Protocol):
    """A condenser, or a reranker in its place."""

    untrained: tuple[str, ...]

    def condense(
        self, queries: Sequence[Query], passages: Sequence[Sequence[Passage]], hop: int = 1
    ) -> list[Condensed]: ...

    def finish(self, trace: Trace, passage: Lookup) -> Trace:
        """A run after its last hop, with the facts that stand: some may have been there to lead on only."""


class Reader(Protocol):
    """A verifier or an answerer."""

    def read(self, queries: Sequence[Query], watch: Stopwatch | None = None) -> Sequence[Verdict | Answer]: ...


def run(
    queries: Sequence[Query], retriever: Search, reading: Reading, depths: Sequence[int], stop_early: bool = False
) -> Iterator[list[Trace]]:
    """The traces of all queries after each hop, `depths[i]` passages deep; one that has stopped stays as it is."""
    traces = [Trace(query, untrained=reading.untrained) for query in queries]
    for number, depth in enumerate(depths, start=1):
        going = [place for place, trace in enumerate(traces) if not trace.stopped]
        hops = take_hop([traces[place] for place in going], retriever, reading, number, depth) if going else []
        for place, hop in zip(going, hops, strict=True):
            reason = _reason_to_stop(hop, number, stop_early)
            trace = replace(traces[place], hops=(*traces[place].hops, hop), stopped=reason)
            over = reason or number == len(depths)
            traces[place] = reading.finish(trace, retriever.passage) if over else trace
        yield list(traces)


def take_hop(traces: Sequence[Trace], retriever: Search, reading: Reading, number: int, depth: int) -> list[Hop]:
    """Retrieve with the facts so far, without the passages so far; condense what comes."""
    queries, excluded = [trace.next_query for trace in traces], [trace.pids for trace in traces]
    found = retriever.retrieve(queries, depth, exclude=excluded)
    passages = [[retriever.passage(pid) for pid in each.ranking.pids] for each in found]
    condensed = reading.condense(queries, passages, number)
    return [
        Hop(query, each.seen, without, each.ranking, facts, each.seconds, each.tokens, each.named)
        for query, each, without, facts in zip(queries, found, excluded, condensed, strict=True)
    ]


def _reason_to_stop(hop: Hop, number: int, stop_early: bool) -> str:
    if not len(hop.ranking):
        return f"no passage was left at hop {number}"
    added = any(fact.hop == number for fact in hop.facts)
    return "" if added or not stop_early else f"hop {number} added no fact that leads on"


def conclude(traces: Sequence[Trace], reader: Reader) -> list[Trace]:
    """Each trace with what the reader makes of its claim and of the facts that it weighs."""
    watch = Stopwatch(len(traces))
    with watch("read"):
        outcomes = reader.read([trace.final_query for trace in traces], watch)
    ended = zip(map(with_its_fact, traces, outcomes), watch.tokens, strict=True)
    return [replace(trace, seconds=watch.seconds, tokens=tokens) for trace, tokens in ended]
