"""A retriever that follows names: what the claim names, or a passage that carries a fact, is more likely to be of use.

follower = Follower(retriever, bonus=2.0)
follower.retrieve([query], k=25)[0].named           {pid of a passage that came: pid of the passage that names it}

Half of what a search misses at a later hop is named, word for word, in a passage that an earlier hop kept: its title stands
there, in a sentence that says nothing else of it.  Such passages are scored whether the search finds them or not, and their
scores are raised by `bonus`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from baleen.names import mentioned
from baleen.retriever import Retrieved, Retriever
from baleen.stopwatch import Stopwatch
from baleen.types import Passage, Query

CLAIM = ""  # stands for the claim where a pid would stand for what names a passage


class Follower:
    """Serves as the retriever of a run."""

    def __init__(self, retriever: Retriever, bonus: float) -> None:
        self._retriever, self._bonus = retriever, bonus

    def retrieve(self, queries: Sequence[Query], k: int = 10, **options: Any) -> list[Retrieved]:
        """`Retriever.retrieve`, with the passages that are named favoured; the scores of these are the raised ones."""
        watch = Stopwatch(len(queries))
        with watch("name"):
            named = [self.named(query) for query in queries]
        found = self._retriever.retrieve(queries, k, favoured=named, bonus=self._bonus, **options)
        return [
            replace(each, seconds={**watch.seconds, **each.seconds}, named=_came(each, by))
            for each, by in zip(found, named, strict=True)
        ]

    def passage(self, pid: str) -> Passage:
        return self._retriever.passage(pid)

    def named(self, query: Query) -> dict[str, str]:
        """The passages that are named, each with the first of the passages that name it, or CLAIM."""
        index = self._retriever.index
        found = {pid: CLAIM for pids in mentioned(query.text, index.bearers) for pid in pids}
        for source in dict.fromkeys(fact.pid for fact in query.facts):
            if source in index:  # facts may be somebody's own
                passage = index.passage(source)
                begins = {start for start, _ in passage.spans}
                for pids in mentioned(passage.text, index.bearers, begins or (0,)):
                    found.update((pid, source) for pid in pids if pid != source and pid not in found)
        return found


def _came(found: Retrieved, named: Mapping[str, str]) -> dict[str, str]:
    return {pid: named[pid] for pid in found.ranking.pids if pid in named}
