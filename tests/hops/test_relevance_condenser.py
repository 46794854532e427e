from __future__ import annotations

from dataclasses import replace
from typing import Any

from baleen.core.types import Condensed, Fact, Hop, Passage, Query, Trace
from baleen.hops.condenser import RELEVANCE_CONFIG, RelevanceCondenser
from baleen.hops.config import CondenserConfig
from fakes import CORPUS
from hop_fakes import CLAIM, MAYOR, STANDS, TEACHES, ScriptedCrossEncoder, facts_of

PASSAGES = {passage.pid: passage for passage in CORPUS}
READING = ScriptedCrossEncoder(reranker={TEACHES: 2.0, STANDS: 1.0, MAYOR: 3.0, CORPUS[0].sentences[0]: 0.0})


def condense(*passages: Passage, facts: tuple[Fact, ...] = (), hop: int = 1, **settings: Any) -> Condensed:
    config = CondenserConfig(**settings) if settings else RELEVANCE_CONFIG
    (condensed,) = RelevanceCondenser(READING, config).condense([Query(CLAIM, facts)], [passages], hop)  # type: ignore[arg-type]
    return condensed


def test_facts_that_a_query_came_with_stand_at_the_end() -> None:
    trace = Trace(Query(CLAIM), (Hop(Query(CLAIM), condensed=Condensed((Fact("p0", 0, "", "", 0.0),))),))
    assert RelevanceCondenser(ScriptedCrossEncoder()).finish(trace, PASSAGES.__getitem__) == trace  # type: ignore[arg-type]


def test_the_best_two_sentences_above_the_threshold_are_kept() -> None:
    assert condense(*CORPUS[:3]).facts == (*facts_of(("p2", 1), score=3.0), *facts_of(("p0", 1), score=2.0))
    assert condense(CORPUS[0]).facts == facts_of(("p0", 1), score=2.0), "0 is not above 0"


def test_no_fact_is_dropped_again() -> None:
    old = facts_of(("p4", 0), ("p5", 0), score=-9.0)
    assert condense(CORPUS[1], facts=old, hop=2).facts == (*old, *facts_of(("p1", 1), score=1.0, hop=2))
    assert condense(facts=old, hop=2).facts == old


def test_at_most_max_facts_stand_and_old_ones_stay() -> None:
    condensed = condense(*CORPUS[:3], facts=facts_of(("p4", 0)), hop=2, pool=3, max_facts=2)
    assert [(fact.pid, fact.sid) for fact in condensed.facts] == [("p4", 0), ("p2", 1)]
    full = facts_of(("p4", 0), ("p5", 0), ("p6", 0))
    assert condense(*CORPUS[:3], facts=full, hop=2, pool=3, max_facts=2).facts == full


def test_every_judgement_has_its_scores_and_its_reason() -> None:
    condensed = condense(*CORPUS[:3], facts=facts_of(("p4", 0)), hop=2, pool=4, max_facts=3)
    found = {
        (judged.pid, judged.sid): (judged.sentence_score, judged.kept, judged.reason) for judged in condensed.judgements
    }
    assert found == {
        ("p4", 0): (None, True, "kept before"),
        ("p2", 1): (3.0, True, "above the threshold"),
        ("p0", 1): (2.0, True, "above the threshold"),
        ("p1", 1): (1.0, False, "over the limit of 3 facts"),
        ("p0", 0): (0.0, False, "not above the threshold of 0"),
        ("p1", 0): (-5.0, False, "not among the best 4 sentences of the hop"),
        ("p2", 0): (-5.0, False, "not among the best 4 sentences of the hop"),
    }
    assert len(condensed.judgements) == len(found)
    assert all(judged.fact_score is None for judged in condensed.judgements), "there is no second stage"


def test_a_sentence_that_the_query_holds_already_is_not_found_again() -> None:
    old = facts_of(("p0", 1), hop=0)
    assert condense(CORPUS[0], facts=old).facts == old


def test_empty_sentences_and_passages_are_passed_over() -> None:
    empty = Passage("p", "", "")
    assert condense(empty, Passage.from_sentences("q", "t", ["", MAYOR])).facts[0].sid == 1
    assert condense(empty).facts == condense().facts == ()


def test_it_says_that_it_is_untrained_and_what_it_cost() -> None:
    assert RelevanceCondenser(READING).untrained == ("condenser",)  # type: ignore[arg-type]
    condensed = condense(*CORPUS[:2])
    assert condensed.seconds.keys() == {"sentences"}
    sentences = [(passage.title, text) for passage in CORPUS[:2] for text in passage.sentences]
    rows = [READING.inputs.sentence(Query(CLAIM), title, text) for title, text in sentences]
    assert condensed.tokens == {"sentences": sum(map(len, rows))}


def test_claims_of_a_batch_come_out_as_they_would_alone() -> None:
    untrained = RelevanceCondenser(READING)  # type: ignore[arg-type]
    queries, passages = [Query("one"), Query("two", facts_of(("p4", 0)))], [CORPUS[:1], CORPUS[1:3]]
    together = untrained.condense(queries, passages, 2)
    alone = [untrained.condense([query], [own], 2)[0] for query, own in zip(queries, passages, strict=True)]
    assert [replace(each, seconds={}) for each in together] == [replace(each, seconds={}) for each in alone]
