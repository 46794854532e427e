"""A retriever that boosts passages whose title is mentioned in the claim or in a passage that supplied a fact.

boosting = MentionBoost(retriever, boost=2.0)
boosting.retrieve([query], k=25)[0].mentioned           {pid of a boosted passage: pid of the passage that mentions it}

Half of the passages that a search misses at a later hop are mentioned, by their exact title, in a passage that an earlier
hop kept.  A mentioned passage is scored even if the search does not reach it, and `boost` is added to its score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain

from baleen.core.machine import StageTimer
from baleen.core.types import Passage, Query, Ranking
from baleen.data.titles import find_mentions
from baleen.hops.retriever import Retrieval, Retriever
from baleen.index.protocol import DEFAULT_OPTIONS, SearchOptions

Titled = Callable[[Sequence[str]], Sequence[Sequence[str]]]  # the pids of the passages with each of some titles

MAX_MENTIONED = 256
CACHE_SIZE = 4096  # passages whose mentions are remembered from hop to hop
CLAIM = ""  # in place of a pid: the claim mentions the passage


class MentionBoost:
    """Takes the place of a run's retriever; the mentions of a passage are looked up once."""

    def __init__(self, retriever: Retriever, boost: float) -> None:
        self._retriever, self._boost = retriever, boost
        self._mentions_of = lru_cache(CACHE_SIZE)(self._find_in_passage)

    def retrieve(
        self, queries: Sequence[Query], k: int = 10, options: SearchOptions = DEFAULT_OPTIONS
    ) -> list[Retrieval]:
        """`Retriever.retrieve`, with `boost` added to the scores of mentioned passages."""
        watch = StageTimer(len(queries))
        with watch("name"):
            mentioned = [self.mentioned(query) for query in queries]
        found = self._retriever.retrieve(queries, k, replace(options, boosted=mentioned, boost=self._boost))
        return [
            replace(each, seconds={**watch.seconds, **each.seconds}, mentioned=_within(each.ranking, by))
            for each, by in zip(found, mentioned, strict=True)
        ]

    def passage(self, pid: str) -> Passage:
        return self._retriever.passage(pid)

    def passages(self, pids: Sequence[str]) -> list[Passage]:
        return self._retriever.passages(pids)

    def mentioned(self, query: Query) -> dict[str, str]:
        """Mentioned passages, each with the first passage that mentions it, or CLAIM."""
        return find_mentioned(query, self._titled, self._mentions_of)

    def _find_in_passage(self, pid: str) -> tuple[str, ...]:
        (passage,) = self._retriever.index.passages([pid])
        return () if passage is None else tuple(mentioned_in(passage, self._titled))  # a fact may come from elsewhere

    def _titled(self, names: Sequence[str]) -> list[tuple[str, ...]]:
        return [found.pids for found in self._retriever.index.titled(names)]


def find_mentioned(query: Query, titled: Titled, mentions_of: Callable[[str], Iterable[str]]) -> dict[str, str]:
    """The passages that a query mentions, each with the first passage that mentions it, or CLAIM.

    `mentions_of` has the passages that a passage mentions, by its pid; it is called for the passages of the facts, in
    the facts' order.  At most MAX_MENTIONED passages are returned.
    """
    pairs = chain(
        ((pid, CLAIM) for pids in find_mentions(query.text, titled) for pid in pids),
        ((pid, source) for source in dict.fromkeys(fact.pid for fact in query.facts) for pid in mentions_of(source)),
    )
    found: dict[str, str] = {}
    for pid, source in pairs:
        if pid != source:
            found.setdefault(pid, source)
        if len(found) == MAX_MENTIONED:
            break
    return found


def mentioned_in(passage: Passage, titled: Titled) -> Iterator[str]:
    """The passages that a passage mentions, possibly itself."""
    begins = {start for start, _ in passage.spans} or {0}
    return (pid for pids in find_mentions(passage.text, titled, begins) for pid in pids)


def _within(ranking: Ranking, mentioned: Mapping[str, str]) -> dict[str, str]:
    return {pid: mentioned[pid] for pid in ranking.pids if pid in mentioned}
