"""A condenser without training: a cross-encoder's own relevance score, sentence by sentence.

It serves where no condenser has been trained yet.  There is no second stage: the best new sentences of each hop are
kept if they score above a threshold, and no fact is dropped again.
"""

from __future__ import annotations

from collections.abc import Sequence

from baleen.condenser import FIRST, CondenserConfig, best, sentence_fact
from baleen.crossencoder import CrossEncoder
from baleen.stopwatch import Stopwatch
from baleen.types import Condensed, Fact, Judgement, Passage, Query

HEAD = "reranker"
CONFIG = CondenserConfig(pool=2, threshold=0.0)


class StandIn:
    """Takes the place of a Condenser, and says that it does."""

    untrained: tuple[str, ...] = ("condenser",)

    def __init__(self, relevance: CrossEncoder, config: CondenserConfig = CONFIG) -> None:
        self.relevance, self.config = relevance, config

    def condense(
        self, queries: Sequence[Query], passages: Sequence[Sequence[Passage]], hop: int = 1
    ) -> list[Condensed]:
        watch = Stopwatch(len(queries))
        with watch(FIRST):
            scored = self._score(queries, passages, hop, watch)
        return [
            watch.stamp(number, self._settle(query, new))
            for number, (query, new) in enumerate(zip(queries, scored, strict=True))
        ]

    def _score(
        self, queries: Sequence[Query], passages: Sequence[Sequence[Passage]], hop: int, watch: Stopwatch
    ) -> list[list[Fact]]:
        places = [
            [(passage, sid) for passage in own for sid, text in enumerate(passage.sentences) if text.strip()]
            for own in passages
        ]
        inputs = self.relevance.inputs
        rows = [
            [inputs.sentence(query, passage.title, passage.sentences[sid]) for passage, sid in own]
            for query, own in zip(queries, places, strict=True)
        ]
        scores = iter(self.relevance.score(HEAD, [row for own in rows for row in own]))
        for number, own in enumerate(rows):
            watch.read(number, FIRST, sum(map(len, own)))
        return [[sentence_fact(passage, sid, float(next(scores)[0, 0]), hop) for passage, sid in own] for own in places]

    def _settle(self, query: Query, new: Sequence[Fact]) -> Condensed:
        room = None if self.config.max_facts is None else max(0, self.config.max_facts - len(query.facts))
        chosen = [fact for fact in best(new, self.config.pool) if fact.score > self.config.threshold][:room]
        judgements = [Judgement(fact.pid, fact.sid, None, fact.score, True, "kept before") for fact in query.facts]
        for fact in best(new, len(new)):
            reason = "above the threshold" if fact in chosen else "not among the best, or not above the threshold"
            judgements.append(Judgement(fact.pid, fact.sid, fact.score, None, fact in chosen, reason))
        return Condensed((*query.facts, *chosen), tuple(judgements))
