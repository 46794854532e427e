"""A condenser without training: a cross-encoder's own relevance score, sentence by sentence.

It serves where no condenser has been trained yet.  There is no second stage: the best new sentences of each hop are
kept if they score above a threshold, and no fact is dropped again before the end.  Sentences are read beside the claim
alone: with facts next to it, a relevance score that never met any likes everything.
"""

from __future__ import annotations

from collections.abc import Sequence

from baleen.condenser import FIRST, CondenserConfig, best, decision, finish, left_out, unknown
from baleen.crossencoder import CrossEncoder
from baleen.stopwatch import Stopwatch
from baleen.types import Condensed, Fact, Judgement, Lookup, Passage, Query, Trace

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

    def finish(self, trace: Trace, passage: Lookup) -> Trace:
        return finish(trace, passage, self.config)

    def _score(
        self, queries: Sequence[Query], passages: Sequence[Sequence[Passage]], hop: int, watch: Stopwatch
    ) -> list[list[Fact]]:
        places = [
            [(passage, sid, text) for passage in own for sid, text in enumerate(passage.sentences) if text.strip()]
            for own in passages
        ]
        inputs = self.relevance.inputs
        rows = [
            [inputs.sentence(Query(query.text), passage.title, text) for passage, _, text in own]
            for query, own in zip(queries, places, strict=True)
        ]
        scores = iter(self.relevance.score(HEAD, [row for own in rows for row in own]))
        for number, own in enumerate(rows):
            watch.read(number, FIRST, sum(map(len, own)))
        return [[passage.fact(sid, float(next(scores)[0, 0]), hop) for passage, sid, _ in own] for own in places]

    def _settle(self, query: Query, new: Sequence[Fact]) -> Condensed:
        config = self.config
        ranked = best(unknown(new, query), len(new))
        entered, others = ranked[: config.pool], ranked[config.pool :]
        room = None if config.max_facts is None else max(0, config.max_facts - len(query.facts))
        kept = [fact for fact in entered if fact.score > config.leading][:room]
        judgements = [Judgement(fact.pid, fact.sid, kept=True, reason="kept before") for fact in query.facts]
        judgements += [
            Judgement(fact.pid, fact.sid, fact.score, None, *decision(fact, kept, config)) for fact in entered
        ]
        judgements += [left_out(fact, config) for fact in others]
        return Condensed((*query.facts, *kept), tuple(judgements))
