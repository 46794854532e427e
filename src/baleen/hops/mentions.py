"""A retriever that follows names: what the claim names, or a passage that carries a fact, is more likely to be of use.

follower = Follower(retriever, bonus=2.0)
follower.retrieve([query], k=25)[0].mentioned           {pid of a passage that came: pid of the passage that names it}

Half of what a search misses at a later hop is named, word for word, in a passage that an earlier hop kept: its title stands
there, in a sentence that says nothing else of it.  Such passages are scored whether the search finds them or not, and their
scores are raised by `bonus`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import Any

from baleen.core.machine import StageTimer
from baleen.core.types import Passage, Query
from baleen.data.titles import find_mentions
from baleen.hops.retriever import Retrieval, Retriever

Bearers = Callable[[Sequence[str]], Sequence[Sequence[str]]]  # the pids that bear each of some names

MOST_NAMED = 256
MOST_KEPT = 4096  # passages whose names are remembered from hop to hop
CLAIM = ""  # stands for the claim where a pid would stand for what names a passage


class MentionBoost:
    """Serves as the retriever of a run; what a passage names is looked up once in its life."""

    def __init__(self, retriever: Retriever, bonus: float) -> None:
        self._retriever, self._bonus = retriever, bonus
        self._in_passage = lru_cache(MOST_KEPT)(self._look_through)

    def retrieve(self, queries: Sequence[Query], k: int = 10, **options: Any) -> list[Retrieval]:
        """`Retriever.retrieve`, with the passages that are named favoured; the scores of these are the raised ones."""
        watch = StageTimer(len(queries))
        with watch("name"):
            named = [self.mentioned(query) for query in queries]
        found = self._retriever.retrieve(queries, k, boosted=named, boost=self._bonus, **options)
        return [
            replace(each, seconds={**watch.seconds, **each.seconds}, mentioned=_came(each, by))
            for each, by in zip(found, named, strict=True)
        ]

    def passage(self, pid: str) -> Passage:
        return self._retriever.passage(pid)

    def passages(self, pids: Sequence[str]) -> list[Passage]:
        return self._retriever.passages(pids)

    def mentioned(self, query: Query) -> dict[str, str]:
        """The passages that are named, each with the first of the passages that name it, or CLAIM."""
        return find_mentioned(query, self._titled, self._in_passage)

    def _look_through(self, pid: str) -> tuple[str, ...]:
        (passage,) = self._retriever.index.passages([pid])
        return () if passage is None else tuple(mentioned_in(passage, self._titled))  # a fact may come from elsewhere

    def _titled(self, names: Sequence[str]) -> list[tuple[str, ...]]:
        return [found.pids for found in self._retriever.index.titled(names)]


def find_mentioned(query: Query, bearers: Bearers, in_passage: Callable[[str], Iterable[str]]) -> dict[str, str]:
    """What a query names, each with the first of the passages that name it, or CLAIM.

    `in_passage` has what a passage names, by its pid; those that carry facts are asked for, in the facts' order.  Of a
    list that names thousands, the first MOST_NAMED are taken.
    """
    pairs = chain(
        ((pid, CLAIM) for pids in find_mentions(query.text, bearers) for pid in pids),
        ((pid, source) for source in dict.fromkeys(fact.pid for fact in query.facts) for pid in in_passage(source)),
    )
    found: dict[str, str] = {}
    for pid, source in pairs:
        if pid != source:
            found.setdefault(pid, source)
        if len(found) == MOST_NAMED:
            break
    return found


def mentioned_in(passage: Passage, bearers: Bearers) -> Iterator[str]:
    """The passages that a passage names, itself perhaps among them."""
    begins = {start for start, _ in passage.spans} or {0}
    return (pid for pids in find_mentions(passage.text, bearers, begins) for pid in pids)


def _came(found: Retrieval, named: Mapping[str, str]) -> dict[str, str]:
    return {pid: named[pid] for pid in found.ranking.pids if pid in named}
