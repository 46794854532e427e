"""Query and passages -> facts: the few sentences of a hop that matter.

Stage 1 reads claim and facts beside each passage and scores its every sentence; the best go on.  Stage 2 reads all
candidate facts together beside the claim, those of earlier hops among them, and keeps what scores above a threshold.
What is kept on the way may be more than what stands at the end: a doubtful fact can lead to a passage that settles it.

condenser = Condenser(sentences, facts)                     two CrossEncoders, or one twice
condenser.condense([query], [passages], hop=1)[0].facts

A condenser without training: a cross-encoder's own relevance score, sentence by sentence.

It serves where no condenser has been trained yet.  There is no second stage: the best new sentences of each hop are
kept if they score above a threshold, and no fact is dropped again before the end.  Sentences are read beside the claim
alone: with facts next to it, a relevance score that never met any likes everything.
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
    """The two stages; each claim of a batch comes out as it would alone."""

    untrained: tuple[str, ...] = ()

    def __init__(self, sentences: CrossEncoder, facts: CrossEncoder, config: CondenserConfig | None = None) -> None:
        self.sentences, self.facts, self.config = sentences, facts, config or CondenserConfig()

    def condense(
        self, queries: Sequence[Query], passages: Sequence[Sequence[Passage]], hop: int = 1
    ) -> list[Condensed]:
        """For each query, the facts that stand after reading its passages."""
        watch = StageTimer(len(queries))
        with watch(SENTENCE_STAGE):
            scored = score_sentences(self.sentences, queries, passages, hop, watch)
        scored = [without_known(facts, query) for facts, query in zip(scored, queries, strict=True)]
        with watch(FACT_STAGE):
            pools = [
                [*query.facts, *top_facts(new, self.config.pool)] for query, new in zip(queries, scored, strict=True)
            ]
            weighed = self._weigh(queries, pools, watch)
        return [
            watch.stamp(number, select_facts(new, pool, facts, hop, self.config))
            for number, (new, pool, facts) in enumerate(zip(scored, pools, weighed, strict=True))
        ]

    def finish(self, trace: Trace, passage: Lookup) -> Trace:
        return finish(trace, passage, self.config)

    def _weigh(self, queries: Sequence[Query], pools: Sequence[Sequence[Fact]], watch: StageTimer) -> list[list[Fact]]:
        """Stage 2: every fact of each pool with its score among the others."""
        self.facts.inputs.cache_facts(fact for pool in pools for fact in pool)
        windows = [self.facts.inputs.facts(query.text, pool) for query, pool in zip(queries, pools, strict=True)]
        scores = iter(self.facts.score(FACT_STAGE, [row for rows in windows for row in rows]))
        weighed = []
        for number, (rows, pool) in enumerate(zip(windows, pools, strict=True)):
            watch.read(number, FACT_STAGE, sum(map(len, rows)))
            found = {key: float(score) for row in rows for key, score in zip(row.keys, next(scores)[:, 0], strict=True)}
            weighed.append([replace(fact, score=found[place]) for place, fact in enumerate(pool)])
        return weighed


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
    """`score_sentences` in two parts, as `CrossEncoder.submit` has them."""
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
    """Those that the query does not hold already, as it may where it came with facts."""
    known = {(fact.pid, fact.sid) for fact in query.facts}
    return [fact for fact in facts if (fact.pid, fact.sid) not in known]


def top_facts(facts: Sequence[Fact], count: int) -> list[Fact]:
    """The `count` highest scores; equal ones in order of passage and sentence."""
    return sorted(facts, key=lambda fact: (-fact.score, fact.pid, fact.sid))[:count]


def select_facts(
    new: Sequence[Fact], pool: Sequence[Fact], weighed: Sequence[Fact], hop: int, config: CondenserConfig
) -> Condensed:
    """What stays of a pool, by the scores of stage 2, and what is said of every sentence."""
    above = [fact for fact in weighed if fact.score > config.thresholds.keep]
    # Where there are too many, those go first that would not even be read at the end, then those that would not stand,
    # then old facts before new ones.
    levels = config.thresholds.read, config.thresholds.final
    worth = sorted(
        above,
        key=lambda fact: (*(fact.score <= level for level in levels), fact.hop != hop, -fact.score, fact.pid, fact.sid),
    )
    kept = worth[: config.max_facts]
    first = {(fact.pid, fact.sid): fact.score for fact in new}
    judged = [
        Judgement(fact.pid, fact.sid, first.get((fact.pid, fact.sid)), fact.score, *decision(fact, kept, config))
        for fact in weighed
    ]
    entered = {(fact.pid, fact.sid) for fact in pool}
    others = [not_pooled(fact, config) for fact in new if (fact.pid, fact.sid) not in entered]
    return Condensed(sort_facts(kept), tuple(judged + others))


def decision(fact: Fact, kept: Sequence[Fact], config: CondenserConfig) -> tuple[bool, str]:
    """Whether a fact that was weighed is among those `kept`, and why or why not."""
    if fact in kept:
        return True, "above the threshold"
    if fact.score > config.thresholds.keep:
        return False, f"over the limit of {config.max_facts} facts"
    return False, f"not above the threshold of {config.thresholds.keep:g}"


def finish(trace: Trace, passage: Lookup, config: CondenserConfig) -> Trace:
    """A run that is over, with the facts that stand at its end."""
    return finalize(
        trace,
        passage,
        config.thresholds,
        min_passages=config.min_passages,
        max_facts=config.max_facts,
    )


def not_pooled(fact: Fact, config: CondenserConfig) -> Judgement:
    return Judgement(fact.pid, fact.sid, fact.score, reason=f"not among the best {config.pool} sentences of the hop")


HEAD = "reranker"
RELEVANCE_CONFIG = CondenserConfig(pool=2)


class RelevanceCondenser:
    """Takes the place of a Condenser, and says that it does."""

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
            watch.stamp(number, self._settle(query, new))
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

    def _settle(self, query: Query, new: Sequence[Fact]) -> Condensed:
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
