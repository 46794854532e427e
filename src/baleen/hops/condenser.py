"""Query and passages -> facts: the few sentences of a hop that matter.

condenser = Condenser(sentences, facts)                     two CrossEncoders, or one twice
condenser.condense([query], [passages], hop=1)[0].facts

Stage 1 reads the query beside each passage and scores every sentence; the best go on.  Stage 2 reads all candidate facts
together beside the claim, including those of earlier hops, and keeps those that score above a threshold.  More facts are
kept between hops than are reported, as a borderline fact can lead to the passage that confirms it.

`RelevanceCondenser` needs no training: it scores sentences by the reranker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from baleen.core.machine import StageTimer
from baleen.core.types import Condensed, Fact, Judgement, Lookup, Passage, Query, Trace, sort_facts
from baleen.hops.config import CondenserConfig
from baleen.hops.evidence import finalize
from baleen.models.cross_encoder import CrossEncoder

SENTENCE_STAGE, FACT_STAGE = "sentences", "facts"


class Condenser:
    """Both stages; the result for a claim does not depend on the other claims of its batch."""

    untrained: tuple[str, ...] = ()

    def __init__(self, sentences: CrossEncoder, facts: CrossEncoder, config: CondenserConfig | None = None) -> None:
        self.sentences, self.facts, self.config = sentences, facts, config or CondenserConfig()

    def condense(
        self, queries: Sequence[Query], passages: Sequence[Sequence[Passage]], hop: int = 1
    ) -> list[Condensed]:
        """The facts of each query after reading its passages."""
        watch = StageTimer(len(queries))
        with watch(SENTENCE_STAGE):
            scored = score_sentences(self.sentences, queries, passages, hop, watch)
        scored = [without_known(facts, query) for facts, query in zip(scored, queries, strict=True)]
        with watch(FACT_STAGE):
            pools = [
                [*query.facts, *top_facts(new, self.config.pool)] for query, new in zip(queries, scored, strict=True)
            ]
            scored_facts = self._score_facts(queries, pools, watch)
        return [
            watch.stamp(number, select_facts(new, pool, facts, hop, self.config))
            for number, (new, pool, facts) in enumerate(zip(scored, pools, scored_facts, strict=True))
        ]

    def finish(self, trace: Trace, passage: Lookup) -> Trace:
        return finish(trace, passage, self.config)

    def _score_facts(
        self, queries: Sequence[Query], pools: Sequence[Sequence[Fact]], watch: StageTimer
    ) -> list[list[Fact]]:
        """Stage 2: every fact of each pool with its score."""
        self.facts.inputs.cache_facts(fact for pool in pools for fact in pool)
        windows = [self.facts.inputs.facts(query.text, pool) for query, pool in zip(queries, pools, strict=True)]
        scores = iter(self.facts.score(FACT_STAGE, [row for rows in windows for row in rows]))
        scored_facts = []
        for number, (rows, pool) in enumerate(zip(windows, pools, strict=True)):
            watch.read(number, FACT_STAGE, sum(map(len, rows)))
            found = {key: float(score) for row in rows for key, score in zip(row.keys, next(scores)[:, 0], strict=True)}
            scored_facts.append([replace(fact, score=found[place]) for place, fact in enumerate(pool)])
        return scored_facts


def score_sentences(
    reading: CrossEncoder,
    queries: Sequence[Query],
    passages: Sequence[Sequence[Passage]],
    hop: int,
    watch: StageTimer,
) -> list[list[Fact]]:
    """Stage 1: every sentence of each query's passages, in order, as a fact with its score."""
    return submit_sentences(reading, queries, passages, hop, watch)()


def submit_sentences(
    reading: CrossEncoder,
    queries: Sequence[Query],
    passages: Sequence[Sequence[Passage]],
    hop: int,
    watch: StageTimer,
) -> Callable[[], list[list[Fact]]]:
    """Start `score_sentences`; call the result to wait for it."""
    reading.inputs.cache_queries(queries)
    reading.inputs.cache_passages((passage for own in passages for passage in own), sentences=True)
    laid = [reading.inputs.sentences_of(query, own) for query, own in zip(queries, passages, strict=True)]
    windows = [
        [(passage, row) for passage, rows in zip(own, each, strict=True) for row in rows]
        for own, each in zip(passages, laid, strict=True)
    ]
    for number, rows in enumerate(windows):
        watch.read(number, SENTENCE_STAGE, sum(len(row) for _, row in rows))
    said = reading.submit(SENTENCE_STAGE, [row for rows in windows for _, row in rows])

    def collect() -> list[list[Fact]]:
        scores = iter(said())
        return [
            [
                passage.fact(sid, float(score), hop)
                for passage, row in rows
                for sid, score in zip(row.keys, next(scores)[:, 0], strict=True)
            ]
            for rows in windows
        ]

    return collect


def without_known(facts: Sequence[Fact], query: Query) -> list[Fact]:
    """Facts that the query does not have yet."""
    known = {(fact.pid, fact.sid) for fact in query.facts}
    return [fact for fact in facts if (fact.pid, fact.sid) not in known]


def top_facts(facts: Sequence[Fact], count: int) -> list[Fact]:
    """The `count` best facts; equal scores in order of passage and sentence."""
    return sorted(facts, key=lambda fact: (-fact.score, fact.pid, fact.sid))[:count]


def select_facts(
    new: Sequence[Fact], pool: Sequence[Fact], scored_facts: Sequence[Fact], hop: int, config: CondenserConfig
) -> Condensed:
    """Facts kept from a pool by their scores in stage 2, with a judgement for every sentence."""
    above = [fact for fact in scored_facts if fact.score > config.thresholds.keep]
    # If there are too many, drop facts first that would not reach the reader, then those that would not be reported,
    # then old facts before new ones.
    levels = config.thresholds.read, config.thresholds.final
    ranked = sorted(
        above,
        key=lambda fact: (*(fact.score <= level for level in levels), fact.hop != hop, -fact.score, fact.pid, fact.sid),
    )
    kept = ranked[: config.max_facts]
    first = {(fact.pid, fact.sid): fact.score for fact in new}
    judged = [
        Judgement(fact.pid, fact.sid, first.get((fact.pid, fact.sid)), fact.score, *decision(fact, kept, config))
        for fact in scored_facts
    ]
    entered = {(fact.pid, fact.sid) for fact in pool}
    others = [not_pooled(fact, config) for fact in new if (fact.pid, fact.sid) not in entered]
    return Condensed(sort_facts(kept), tuple(judged + others))


def decision(fact: Fact, kept: Sequence[Fact], config: CondenserConfig) -> tuple[bool, str]:
    """Whether a scored fact is among those kept, and the reason."""
    if fact in kept:
        return True, "above the threshold"
    if fact.score > config.thresholds.keep:
        return False, f"over the limit of {config.max_facts} facts"
    return False, f"not above the threshold of {config.thresholds.keep:g}"


def finish(trace: Trace, passage: Lookup, config: CondenserConfig) -> Trace:
    """Settle the facts of a run after its last hop."""
    minimum, maximum = config.min_passages, config.max_facts
    return finalize(trace, passage, config.thresholds, min_passages=minimum, max_facts=maximum)


def not_pooled(fact: Fact, config: CondenserConfig) -> Judgement:
    return Judgement(fact.pid, fact.sid, fact.score, reason=f"not among the best {config.pool} sentences of the hop")


HEAD = "reranker"
RELEVANCE_CONFIG = CondenserConfig(pool=2)


class RelevanceCondenser:
    """A condenser without training: keeps the best new sentences of each hop by the reranker's relevance score.

    There is no second stage, and no fact is dropped before the end.  Sentences are read beside the claim alone: with
    facts next to it, an untrained relevance score is high for everything.
    """

    untrained: tuple[str, ...] = ("condenser",)

    def __init__(self, relevance: CrossEncoder, config: CondenserConfig = RELEVANCE_CONFIG) -> None:
        self.relevance, self.config = relevance, config

    def condense(
        self, queries: Sequence[Query], passages: Sequence[Sequence[Passage]], hop: int = 1
    ) -> list[Condensed]:
        watch = StageTimer(len(queries))
        with watch(SENTENCE_STAGE):
            scored = self._score(queries, passages, hop, watch)
        return [
            watch.stamp(number, self._select(query, new))
            for number, (query, new) in enumerate(zip(queries, scored, strict=True))
        ]

    def finish(self, trace: Trace, passage: Lookup) -> Trace:
        return finish(trace, passage, self.config)

    def _score(
        self, queries: Sequence[Query], passages: Sequence[Sequence[Passage]], hop: int, watch: StageTimer
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
            watch.read(number, SENTENCE_STAGE, sum(map(len, own)))
        return [[passage.fact(sid, float(next(scores)[0, 0]), hop) for passage, sid, _ in own] for own in places]

    def _select(self, query: Query, new: Sequence[Fact]) -> Condensed:
        config = self.config
        ranked = top_facts(without_known(new, query), len(new))
        entered, others = ranked[: config.pool], ranked[config.pool :]
        room = None if config.max_facts is None else max(0, config.max_facts - len(query.facts))
        kept = [fact for fact in entered if fact.score > config.thresholds.keep][:room]
        judgements = [Judgement(fact.pid, fact.sid, kept=True, reason="kept before") for fact in query.facts]
        judgements += [
            Judgement(fact.pid, fact.sid, fact.score, None, *decision(fact, kept, config)) for fact in entered
        ]
        judgements += [not_pooled(fact, config) for fact in others]
        return Condensed((*query.facts, *kept), tuple(judgements))
