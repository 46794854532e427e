"""Query and passages -> the best passage of a hop, which is added to the query whole.

The reranking pipeline's counterpart of the condenser.
"""

from __future__ import annotations

from collections.abc import Sequence

from baleen.core.machine import StageTimer
from baleen.core.types import WHOLE_PASSAGE, Condensed, Fact, Hit, Judgement, Lookup, Passage, Query, Ranking, Trace
from baleen.models.cross_encoder import CrossEncoder

STAGE = "reranker"


class Reranker:
    """Scores a passage beside the claim and the passages of earlier hops."""

    untrained: tuple[str, ...] = ()

    def __init__(self, reading: CrossEncoder, untrained: bool = False) -> None:
        self.reading = reading
        self.untrained = ("reranker",) if untrained else ()

    def rank(self, queries: Sequence[Query], passages: Sequence[Sequence[Passage]]) -> list[Ranking]:
        """Each query's passages, best first; a long passage has the score of its best window."""
        return self._rank(queries, passages, StageTimer(len(queries)))

    def _rank(
        self, queries: Sequence[Query], passages: Sequence[Sequence[Passage]], watch: StageTimer
    ) -> list[Ranking]:
        inputs = self.reading.inputs
        inputs.cache_passages((passage for own in passages for passage in own), sentences=False)
        windows = [
            [inputs.passage(query, passage) for passage in own] for query, own in zip(queries, passages, strict=True)
        ]
        scores = iter(self.reading.score(STAGE, [row for own in windows for rows in own for row in rows]))
        rankings = []
        for number, (own, read) in enumerate(zip(windows, passages, strict=True)):
            watch.read(number, STAGE, sum(len(row) for rows in own for row in rows))
            best = [max(float(next(scores)[0, 0]) for _ in rows) for rows in own]
            hits = [Hit(passage.pid, score) for passage, score in zip(read, best, strict=True)]
            rankings.append(Ranking(tuple(sorted(hits, key=lambda hit: (-hit.score, hit.pid)))))
        return rankings

    def condense(
        self, queries: Sequence[Query], passages: Sequence[Sequence[Passage]], hop: int = 1
    ) -> list[Condensed]:
        """Add the best passage to those of earlier hops."""
        watch = StageTimer(len(queries))
        with watch(STAGE):
            rankings = self._rank(queries, passages, watch)
        return [
            watch.stamp(number, _choose(query, ranking, {passage.pid: passage for passage in own}, hop))
            for number, (query, ranking, own) in enumerate(zip(queries, rankings, passages, strict=True))
        ]

    def finish(self, trace: Trace, _: Lookup) -> Trace:
        return trace  # every passage that was added is reported


def _choose(query: Query, ranking: Ranking, passages: dict[str, Passage], hop: int) -> Condensed:
    judgements = [Judgement(fact.pid, fact.sid, kept=True, reason="chosen before") for fact in query.facts]
    facts = list(query.facts)
    for rank, hit in enumerate(ranking):
        reason = "the best of the hop" if rank == 0 else "not the best of the hop"
        judgements.append(Judgement(hit.pid, WHOLE_PASSAGE, hit.score, None, rank == 0, reason))
    if len(ranking):
        first = passages[ranking[0].pid]
        facts.append(Fact(first.pid, WHOLE_PASSAGE, first.title, first.text, ranking[0].score, hop))
    return Condensed(tuple(facts), tuple(judgements), ranking)
