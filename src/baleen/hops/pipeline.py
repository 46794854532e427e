"""The paper: for each hop retrieve, then condense; after the last, read.

A hybrid runs the condenser and the reranker with one retriever, and merges both runs hop by hop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Protocol

from baleen.core.machine import StageTimer
from baleen.core.types import Answer, Condensed, Hit, Hop, Lookup, Passage, Query, Ranking, Trace, Verdict
from baleen.hops.evidence import with_answer_fact
from baleen.hops.retriever import Retrieval
from baleen.index.protocol import DEFAULT_OPTIONS, SearchOptions


class Retrieving(Protocol):
    """A retriever, or a wrapper of one."""

    def retrieve(
        self, queries: Sequence[Query], k: int = 10, options: SearchOptions = DEFAULT_OPTIONS
    ) -> list[Retrieval]: ...

    def passage(self, pid: str) -> Passage: ...

    def passages(self, pids: Sequence[str]) -> list[Passage]: ...


class Condensing(Protocol):
    """A condenser, or a reranker in its place."""

    untrained: tuple[str, ...]

    def condense(
        self, queries: Sequence[Query], passages: Sequence[Sequence[Passage]], hop: int = 1
    ) -> list[Condensed]: ...

    def finish(self, trace: Trace, passage: Lookup) -> Trace:
        """Settle the facts of a run after its last hop."""


class Reader(Protocol):
    """A verifier or an answerer."""

    def read(self, queries: Sequence[Query], watch: StageTimer | None = None) -> Sequence[Verdict | Answer]: ...


def run_hops(
    queries: Sequence[Query],
    retriever: Retrieving,
    condenser: Condensing,
    depths: Sequence[int],
    stop_early: bool = False,
) -> Iterator[list[Trace]]:
    """The traces of all queries after each hop, which retrieves `depths[i]` passages; a stopped run stays as it is."""
    traces = [Trace(query, untrained=condenser.untrained) for query in queries]
    for number, depth in enumerate(depths, start=1):
        active = [trace for trace in traces if not trace.stopped]
        taken = zip(active, take_hop(active, retriever, condenser, number, depth), strict=True)
        moved = [advance(trace, hop, stop_early) for trace, hop in taken]
        last = number == len(depths)
        ended = iter([condenser.finish(each, retriever.passage) if last or each.stopped else each for each in moved])
        traces = [trace if trace.stopped else next(ended) for trace in traces]
        yield list(traces)


def take_hop(
    traces: Sequence[Trace], retriever: Retrieving, condenser: Condensing, number: int, depth: int
) -> list[Hop]:
    """Retrieve with the facts so far, without the passages so far, and condense the passages."""
    if not traces:
        return []
    queries, excluded = [trace.next_query for trace in traces], [trace.pids for trace in traces]
    found = retriever.retrieve(queries, depth, SearchOptions(exclude=excluded))
    wanted = list(dict.fromkeys(pid for each in found for pid in each.ranking.pids))
    known = dict(zip(wanted, retriever.passages(wanted), strict=True))
    passages = [[known[pid] for pid in each.ranking.pids] for each in found]
    condensed = condenser.condense(queries, passages, number)
    return [
        each.hop(query, without, own, facts)
        for each, query, without, own, facts in zip(found, queries, excluded, passages, condensed, strict=True)
    ]


def advance(trace: Trace, hop: Hop, stop_early: bool) -> Trace:
    """Add a hop to a run, and stop the run if no passage is left or, with `stop_early`, if no fact was added."""
    number, stopped = len(trace.hops) + 1, ""
    if not len(hop.ranking):
        stopped = f"no passage was left at hop {number}"
    elif stop_early and all(fact.hop != number for fact in hop.facts):
        stopped = f"hop {number} added no fact"
    return replace(trace, hops=(*trace.hops, hop), stopped=stopped)


def read_outcomes(traces: Sequence[Trace], reader: Reader) -> list[Trace]:
    """Add the outcome that the reader finds for each claim and its facts."""
    watch = StageTimer(len(traces))
    with watch("read"):
        outcomes = reader.read([trace.final_query for trace in traces], watch)
    ended = zip(map(with_answer_fact, traces, outcomes), watch.tokens, strict=True)
    return [replace(trace, seconds=watch.seconds, tokens=tokens) for trace, tokens in ended]


class SharedFirstSearch:
    """A retriever for several runs of the same queries, whose first search is the same and is run once.

    Each trace has the seconds and tokens of that search, as it would alone.
    """

    def __init__(self, retriever: Retrieving) -> None:
        self._retriever = retriever
        self._asked: tuple[Sequence[Query], int, SearchOptions] | None = None
        self._found: list[Retrieval] = []

    def retrieve(
        self, queries: Sequence[Query], k: int = 10, options: SearchOptions = DEFAULT_OPTIONS
    ) -> list[Retrieval]:
        asked = (queries, k, options)
        if asked == self._asked:
            return self._found
        found = self._retriever.retrieve(queries, k, options)
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
    """Both pipelines, which share the first search, merged after each hop."""
    shared = SharedFirstSearch(retriever)
    runs = [run_hops(queries, shared, each, depths, stop_early) for each in (condenser, reranker)]
    for condensed, reranked in zip(*runs, strict=True):
        yield [merge_traces(*pair, depths) for pair in zip(condensed, reranked, strict=True)]


def merge_traces(condensed: Trace, reranked: Trace, depths: Sequence[int]) -> Trace:
    """Merge the better half of each run's passages at each hop; the facts are those of the condenser."""
    hops: list[Hop] = []
    taken: set[str] = set()
    for left, right, depth in zip_longest(condensed.hops, reranked.hops, depths):
        if left is None and right is None:
            break
        ours, theirs = (hop.ranking if hop else Ranking() for hop in (left, right))
        ranking = merge_rankings(ours, theirs, depth, taken)
        taken |= set(ranking.pids)
        first = left or replace(right, condensed=Condensed(condensed.facts, borderline=condensed.borderline))
        titles = {pid: title for hop in (right, left) if hop for pid, title in hop.titles.items()}
        kept_titles = {pid: titles[pid] for pid in ranking.pids if pid in titles}
        mentioned = _mentioned(ranking, right, left)
        hops.append(replace(first, ranking=ranking, titles=kept_titles, mentioned=mentioned))
    longest = max(condensed, reranked, key=lambda trace: len(trace.hops))
    stopped = longest.stopped if condensed.stopped and reranked.stopped else ""
    untrained = tuple(dict.fromkeys((*condensed.untrained, *reranked.untrained)))
    return replace(condensed, hops=tuple(hops), stopped=stopped, parts=(condensed, reranked), untrained=untrained)


def merge_rankings(left: Ranking, right: Ranking, depth: int, taken: set[str]) -> Ranking:
    """Alternate the best hits of both, 13 and 12 of 25, without those in `taken`; hits keep their scores."""
    ours = [hit for hit in left if hit.pid not in taken][: (depth + 1) // 2]
    twice = taken | {hit.pid for hit in ours}
    theirs = [hit for hit in right if hit.pid not in twice][: depth // 2]
    merged: list[Hit] = [hit for pair in zip_longest(ours, theirs) for hit in pair if hit is not None]
    return Ranking(tuple(merged))


def _mentioned(ranking: Ranking, *hops: Hop | None) -> dict[str, str]:
    """The boosted passages in the hops that their hits come from; the last hop outranks the first."""
    came = [(hit, hop) for hit in ranking for hop in hops if hop is not None and hit in hop.ranking.hits]
    return {hit.pid: hop.mentioned[hit.pid] for hit, hop in came if hit.pid in hop.mentioned}
