"""The paper: for each hop retrieve, then condense; after the last, read.

Condensing and reranking side by side: two runs with one retriever, merged hop by hop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any, Protocol

from baleen.core.machine import StageTimer
from baleen.core.types import Answer, Condensed, Hit, Hop, Lookup, Passage, Query, Ranking, Trace, Verdict
from baleen.hops.evidence import with_answer_fact
from baleen.hops.retriever import Retrieval


class Retrieving(Protocol):
    """A retriever, or what stands before one."""

    def retrieve(self, queries: Sequence[Query], k: int = 10, **options: Any) -> list[Retrieval]: ...

    def passage(self, pid: str) -> Passage: ...

    def passages(self, pids: Sequence[str]) -> list[Passage]: ...


class Condensing(Protocol):
    """A condenser, or a reranker in its place."""

    untrained: tuple[str, ...]

    def condense(
        self, queries: Sequence[Query], passages: Sequence[Sequence[Passage]], hop: int = 1
    ) -> list[Condensed]: ...

    def finish(self, trace: Trace, passage: Lookup) -> Trace:
        """A run after its last hop, with the facts that stand: some may have been there to lead on only."""


class Reader(Protocol):
    """A verifier or an answerer."""

    def read(self, queries: Sequence[Query], watch: StageTimer | None = None) -> Sequence[Verdict | Answer]: ...


def run_hops(
    queries: Sequence[Query],
    retriever: Retrieving,
    reading: Condensing,
    depths: Sequence[int],
    stop_early: bool = False,
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


def take_hop(traces: Sequence[Trace], retriever: Retrieving, reading: Condensing, number: int, depth: int) -> list[Hop]:
    """Retrieve with the facts so far, without the passages so far; condense what comes."""
    queries, excluded = [trace.next_query for trace in traces], [trace.pids for trace in traces]
    found = retriever.retrieve(queries, depth, exclude=excluded)
    wanted = list(dict.fromkeys(pid for each in found for pid in each.ranking.pids))
    known = dict(zip(wanted, retriever.passages(wanted), strict=True))
    passages = [[known[pid] for pid in each.ranking.pids] for each in found]
    condensed = reading.condense(queries, passages, number)
    return [
        Hop(query, each.encoded_query, without, each.ranking, facts, each.seconds, each.tokens, each.mentioned)
        for query, each, without, facts in zip(queries, found, excluded, condensed, strict=True)
    ]


def _reason_to_stop(hop: Hop, number: int, stop_early: bool) -> str:
    if not len(hop.ranking):
        return f"no passage was left at hop {number}"
    added = any(fact.hop == number for fact in hop.facts)
    return "" if added or not stop_early else f"hop {number} added no fact that leads on"


def read_outcomes(traces: Sequence[Trace], reader: Reader) -> list[Trace]:
    """Each trace with what the reader makes of its claim and of the facts that it weighs."""
    watch = StageTimer(len(traces))
    with watch("read"):
        outcomes = reader.read([trace.final_query for trace in traces], watch)
    ended = zip(map(with_answer_fact, traces, outcomes), watch.tokens, strict=True)
    return [replace(trace, seconds=watch.seconds, tokens=tokens) for trace, tokens in ended]


class SharedFirstSearch:
    """Serves as the retriever of a run, and answers a search that is the first one over again from memory.

    Runs of the same queries differ from the second hop on only.  Each trace tells the seconds and tokens of the first
    hop, as it would alone.
    """

    def __init__(self, retriever: Retrieving) -> None:
        self._retriever = retriever
        self._asked: tuple[Any, ...] | None = None
        self._found: list[Retrieval] = []

    def retrieve(self, queries: Sequence[Query], k: int = 10, **options: Any) -> list[Retrieval]:
        asked = (queries, k, options)
        if asked == self._asked:
            return self._found
        found = self._retriever.retrieve(queries, k, **options)
        if self._asked is None:
            self._asked, self._found = asked, found
        return found

    def passage(self, pid: str) -> Passage:
        return self._retriever.passage(pid)

    def passages(self, pids: Sequence[str]) -> list[Passage]:
        return self._retriever.passages(pids)


def run_hybrid(
    queries: Sequence[Query],
    retriever: Retrieving,
    condenser: Condensing,
    reranker: Condensing,
    depths: Sequence[int],
    stop_early: bool = False,
) -> Iterator[list[Trace]]:
    """Both pipelines apart but for the first search, merged after each hop."""
    shared = SharedFirstSearch(retriever)
    runs = [run_hops(queries, shared, reading, depths, stop_early) for reading in (condenser, reranker)]
    for condensed, reranked in zip(*runs, strict=True):
        yield [merge_traces(*pair, depths) for pair in zip(condensed, reranked, strict=True)]


def merge_traces(condensed: Trace, reranked: Trace, depths: Sequence[int]) -> Trace:
    """At each hop the better half of either run's passages, without duplicates; facts are those of the condenser."""
    hops: list[Hop] = []
    taken: set[str] = set()
    for left, right, depth in zip_longest(condensed.hops, reranked.hops, depths):
        if left is None and right is None:
            break
        ours, theirs = (hop.ranking if hop else Ranking() for hop in (left, right))
        ranking = merge_rankings(ours, theirs, depth, taken)
        taken |= set(ranking.pids)
        first = left or replace(right, condensed=Condensed(condensed.facts, borderline=condensed.borderline))
        hops.append(replace(first, ranking=ranking, mentioned=_named(ranking, right, left)))
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


def _named(ranking: Ranking, *hops: Hop | None) -> dict[str, str]:
    """The passages that were raised where their hits come from; of two such hops the last one says by what."""
    came = [(hit, hop) for hit in ranking for hop in hops if hop is not None and hit in hop.ranking.hits]
    return {hit.pid: hop.mentioned[hit.pid] for hit, hop in came if hit.pid in hop.mentioned}
