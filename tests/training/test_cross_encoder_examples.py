"""Training examples of condenser, reranker and readers, worked by hand over eight passages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baleen.core.records import Record
from baleen.core.types import WHOLE_PASSAGE, Fact, Hit, Passage, Query, Ranking
from baleen.data.example import Example, exact_match, normalize_answer, token_f1
from baleen.models.cross_encoder import THREE_LABELS, TWO_LABELS
from baleen.models.markup import fact_text
from baleen.training.cross_encoder.condenser_examples import (
    FactExample,
    FactSource,
    RerankExample,
    SentenceExample,
    draw_fixed,
    fact_sources,
    gold_facts,
    rerank_examples,
    sentence_examples,
)
from baleen.training.cross_encoder.reader_examples import (
    AnswerExample,
    AnswerSource,
    AnswerSpan,
    EvidencePools,
    VerdictExample,
    VerdictSource,
    answer_sources,
    answer_spans,
    fitting_label,
    verdict_sources,
)
from baleen.training.hop_order.evidence_match import occurrences, words
from baleen.training.hop_order.supervision import Step, latent_hop, start
from fakes import CORPUS

BY_PID = {passage.pid: passage for passage in CORPUS}
passages = BY_PID.__getitem__

MAYOR = Example(
    "mayor",
    "Who is the mayor of the town where Lena Orlova teaches?",
    gold=("p0", "p1", "p2"),
    facts=(("p0", 1), ("p1", 1), ("p2", 1)),
    answer="Ivo Brandt",
)


def ranking(*pids: str) -> Ranking:
    return Ranking(tuple(Hit(pid, float(-rank)) for rank, pid in enumerate(pids)))


def sentence(pid: str, sid: int, score: float = 0.0, hop: int = 0) -> Fact:
    return Fact(pid, sid, BY_PID[pid].title, BY_PID[pid].sentences[sid], score, hop)


def hops(example: Example = MAYOR) -> list[Step]:
    """Hop 1 finds p0 among others, hop 2 the other two."""
    first = latent_hop(start(example), ranking("p5", "p0", "p3", "p6"), passages, depth=2)
    return [first, latent_hop(first.state, ranking("p2", "p4", "p1", "p7"), passages, depth=None)]


# Condenser, stage 1


def test_each_gold_passage_is_paired_with_retrieved_negatives() -> None:
    made = sentence_examples(hops(), passages)
    before, after = Query(MAYOR.text), Query(MAYOR.text, (sentence("p0", 1, hop=1),))
    assert made.records == [
        SentenceExample("mayor", 1, before, "p0", (1,), ("p5", "p3", "p6")),
        SentenceExample("mayor", 2, after, "p2", (1,), ("p4", "p7")),
        SentenceExample("mayor", 2, after, "p1", (1,), ("p4", "p7")),
    ]
    assert not made.left_out


def test_the_best_ranked_negatives_are_taken_first() -> None:
    assert [record.negatives for record in sentence_examples(hops(), passages, negatives=1).records] == [
        ("p5",),
        ("p4",),
        ("p4",),
    ]


def test_passages_without_annotation_are_left_out_and_counted() -> None:
    unsure = replace(MAYOR, facts=(("p1", 1),))
    made = sentence_examples(hops(unsure), passages)
    assert [record.positive for record in made.records] == ["p1"]
    assert made.left_out == {"no gold sentence is known": 2}


def test_inferred_sentences_are_the_best_by_the_scorer() -> None:
    unsure, asked = replace(MAYOR, facts=(("p1", 1),)), []

    def likes_towns(query: Query, passage: Passage) -> list[float]:
        asked.append((len(query.facts), passage.pid))
        return [float("town" in text) for text in passage.sentences]

    made = sentence_examples(hops(unsure), passages, scorer=likes_towns)
    # Of equal scores the first sentence comes first; what is known is not asked for.
    assert [(record.positive, record.sids) for record in made.records] == [("p0", (0,)), ("p2", (0,)), ("p1", (1,))]
    assert asked == [(0, "p0"), (1, "p2")]
    both = sentence_examples(hops(unsure), passages, scorer=likes_towns, inferred=2)
    assert [record.sids for record in both.records] == [(0, 1), (0, 1), (1,)]


def test_a_blank_sentence_is_never_gold() -> None:
    whale = Example("whale", "whales", gold=("p7",), facts=(("p7", 1), ("p7", 2)))
    steps = [latent_hop(start(whale), ranking("p7", "p4"), passages, depth=1)]
    assert [record.sids for record in sentence_examples(steps, passages).records] == [(2,)]
    unsure = [latent_hop(start(replace(whale, facts=())), ranking("p7", "p4"), passages, depth=1)]
    made = sentence_examples(unsure, passages, scorer=lambda _, __: [0.0, 9.0, 1.0], inferred=3)
    assert [record.sids for record in made.records] == [(0, 2)]


def test_without_negatives_there_are_no_examples() -> None:
    alone = [latent_hop(start(MAYOR), ranking("p0"), passages, depth=1)]
    assert sentence_examples(alone, passages).left_out == {"no negatives were retrieved": 1}
    assert rerank_examples(alone, passages).left_out == {"no negatives were retrieved": 1}


# Condenser, stage 2

OTHERS = [sentence(pid, sid, score) for score, (pid, sid) in enumerate([("p5", 0), ("p6", 1), ("p3", 0), ("p0", 0)])]
MANY = [
    *OTHERS,
    *(sentence(pid, sid, -1.0) for pid, sid in [("p4", 0), ("p7", 0), ("p7", 2)]),
    *(sentence(pid, 1, -2.0) for pid in ("p3", "p4", "p5")),
]


def scored(_: Example) -> Sequence[Fact]:
    """The best sentences of stage 1, with a gold fact and a repeated sentence among them."""
    return [sentence("p2", 1, 9.0), sentence("p3", 0, 0.5), *MANY]


def test_a_pool_has_gold_facts_and_the_best_others() -> None:
    made = draw_fixed(fact_sources([MAYOR], gold_facts(passages), scored), copies=40)
    assert len(made.records) == 40
    golds = {(pid, sid) for pid, sid in MAYOR.facts}
    others = [("p0", 0), ("p3", 0), ("p6", 1), ("p5", 0), ("p4", 0), ("p7", 0), ("p7", 2), ("p3", 1)]
    seen = set()
    for record in made.records:
        places = [(fact.pid, fact.sid) for fact in record.facts]
        assert 7 <= len(places) == len(set(places)) <= 9
        assert record.labels == tuple(place in golds for place in places)
        chosen = [place for place in places if place in golds]
        assert {place for place in places if place not in golds} == set(others[: len(places) - len(chosen)])
        seen.add((len(places), len(chosen)))
    assert seen == {(size, count) for size in (7, 8, 9) for count in (1, 2, 3)}


def test_a_pool_is_of_one_hop() -> None:
    """Hops go on after the second, which finds the last gold fact."""
    golds = tuple(replace(sentence(pid, 0), hop=hop) for pid, hop in (("p0", 1), ("p1", 2), ("p2", 2)))
    others = tuple(Fact(f"hop {hop}", place, "", "", 10.0 - place, hop) for hop in (1, 2, 3, 4) for place in range(12))
    scored = tuple(replace(fact, score=9.5) for fact in golds)
    source = FactSource("q", "claim", golds, (*others, *scored))
    latest = Counter[int]()
    for draw in range(200):
        pool = source.draw(np.random.default_rng(draw))
        hop = max(fact.hop for fact in pool.facts)
        latest[hop] += 1
        kept = {fact for fact, label in zip(pool.facts, pool.labels, strict=True) if label}
        assert kept == {fact for fact in golds if fact.hop <= hop}
        new = {fact.sid for fact in pool.facts if fact.pid == f"hop {hop}"}
        assert new == set(range(len(new))), "the best of the hop"
        assert 7 <= len(new) + sum(fact.hop == hop for fact in kept) <= 9
        order = [(fact.hop, -fact.score) for fact in pool.facts if fact not in kept and fact.hop == hop]
        assert order == sorted(order), "as stage 1 ranks them"
        assert [fact.hop for fact in pool.facts] == sorted(fact.hop for fact in pool.facts)
        stale = [fact for fact in pool.facts if fact not in kept and fact.hop < hop]
        assert len(stale) <= 3
        assert hop > 1 or not stale
    assert min(latest[hop] for hop in (1, 2, 3, 4)) > 30


def test_gold_facts_of_a_pool_are_ranked_by_stage_1() -> None:
    gold = replace(sentence("p0", 0), hop=1)
    found = tuple(Fact("other", place, "", "", 10.0 - place, 1) for place in range(12))
    fourth = FactSource("q", "claim", (gold,), (*found, replace(gold, score=6.5)))
    unscored = FactSource("q", "claim", (gold,), found)
    places = [
        [source.draw(np.random.default_rng(draw)).labels.index(True) for draw in range(200)]
        for source in (fourth, unscored)
    ]
    assert set(places[0]) == {4}
    assert Counter(places[1]).most_common(2)[0][0] == 0, "most often first, where its place is not known"
    assert len(set(places[1])) > 4
    second = replace(sentence("p1", 0), hop=1)
    behind = FactSource("q", "claim", (gold, second), (*found, replace(gold, score=6.5)))
    both = [pool for pool in (behind.draw(np.random.default_rng(draw)) for draw in range(50)) if sum(pool.labels) == 2]
    assert both
    assert all(pool.facts[-1] == second for pool in both), "what stage 1 has further down comes last"


def test_pools_of_unsearched_questions_use_all_hops() -> None:
    golds = tuple(replace(sentence(pid, 0), hop=hop) for pid, hop in (("p0", 1), ("p1", 2)))
    others = tuple(Fact(f"hop {hop}", place, "", "", 1.0 - place / 9, hop) for hop in (1, 2) for place in range(4))
    sizes = {len(FactSource("q", "claim", golds, others).draw(np.random.default_rng(draw)).facts) for draw in range(60)}
    assert min(sizes) >= 7


def test_a_fixed_pool_depends_on_seed_and_example_alone() -> None:
    other = replace(MAYOR, qid="other")
    alone = draw_fixed(fact_sources([MAYOR], gold_facts(passages), scored)).records
    assert draw_fixed(fact_sources([other, MAYOR], gold_facts(passages), scored)).records[1:] == alone
    assert draw_fixed(fact_sources([MAYOR], gold_facts(passages), scored), seed=1).records != alone
    assert draw_fixed(fact_sources([other], gold_facts(passages), scored)).records[0].facts != alone[0].facts


def test_sentences_of_unknown_label_are_in_no_pool() -> None:
    unsure = replace(MAYOR, facts=(("p1", 1), ("p2", 1)))  # which of p0's are gold is not known
    (record,) = draw_fixed(fact_sources([unsure], gold_facts(passages), scored)).records
    assert "p0" not in {fact.pid for fact in record.facts}
    latent = gold_facts(passages, scorer=lambda _, __: [0.0, 1.0])
    assert [(fact.pid, fact.sid) for fact in latent(unsure)] == list(MAYOR.facts)


def test_a_pool_has_gold_and_other_facts() -> None:
    few = draw_fixed(fact_sources([MAYOR], gold_facts(passages), lambda _: OTHERS[:1]), copies=9)
    assert all(set(record.labels) == {True, False} and len(record.facts) <= 4 for record in few.records)
    none = draw_fixed(fact_sources([MAYOR, replace(MAYOR, facts=())], gold_facts(passages), lambda _: []))
    assert none.records == []
    assert none.left_out == {"no other sentence was scored": 1, "no gold fact is known": 1}


# Reranker


def test_the_reranker_reads_whole_passages_of_earlier_hops() -> None:
    chosen = Fact("p0", WHOLE_PASSAGE, "Lena Orlova", BY_PID["p0"].text, hop=1)
    assert rerank_examples(hops(), passages).records == [
        RerankExample("mayor", 1, Query(MAYOR.text), "p0", ("p5", "p3", "p6")),
        RerankExample("mayor", 2, Query(MAYOR.text, (chosen,)), "p2", ("p4", "p7")),
        RerankExample("mayor", 2, Query(MAYOR.text, (chosen,)), "p1", ("p4", "p7")),
    ]


# Verifier


@pytest.mark.parametrize(
    ("label", "of_two", "of_three"),
    [
        ("supported", "supported", "supported"),
        ("refuted", "not supported", "refuted"),
        ("not enough information", "not supported", "not enough information"),
        ("not supported", "not supported", None),
        (None, None, None),
    ],
)
def test_labels_fit_the_head(label: str | None, of_two: str | None, of_three: str | None) -> None:
    assert fitting_label(label, TWO_LABELS) == of_two
    assert fitting_label(label, THREE_LABELS) == of_three


def test_verdict_examples_have_the_gold_facts() -> None:
    claims = [replace(MAYOR, qid=label, label=label) for label in ("supported", "refuted", "not supported")]
    evidence = EvidencePools(gold_facts(passages))
    query = Query(MAYOR.text, (sentence("p0", 1), sentence("p1", 1), sentence("p2", 1)))
    assert draw_fixed(verdict_sources(claims, evidence, TWO_LABELS)).records == [
        VerdictExample("supported", query, "supported"),
        VerdictExample("refuted", query, "not supported"),
        VerdictExample("not supported", query, "not supported"),
    ]
    three = draw_fixed(verdict_sources([*claims, replace(claims[0], facts=())], evidence, THREE_LABELS))
    assert [record.label for record in three.records] == ["supported", "refuted"]
    assert three.left_out == {"the head lacks the label": 1, "no facts": 1}


def test_distractors_are_mixed_in_and_score_lowest() -> None:
    sizes = set()
    for seed in range(20):
        facts = EvidencePools(gold_facts(passages), scored).pool(MAYOR).draw(np.random.default_rng(seed))
        gold = [fact for fact in facts if (fact.pid, fact.sid) in MAYOR.facts]
        others = [fact for fact in facts if fact not in gold]
        assert gold == [sentence(pid, sid) for pid, sid in MAYOR.facts], "in their order"
        assert {fact.score for fact in others} <= {-1.0}, "below every gold fact"
        best = [("p0", 0), ("p3", 0), ("p6", 1)][: len(others)]
        assert {(fact.pid, fact.sid) for fact in others} == set(best)
        sizes.add(len(facts))
    assert sizes == {3, 4, 5, 6}
    two = EvidencePools(lambda _: [sentence("p0", 1)], lambda _: OTHERS[:1]).pool(MAYOR)
    assert {len(two.draw(np.random.default_rng(seed))) for seed in range(9)} == {2}, "at least, where there are two"


def test_only_the_best_facts_are_kept_in_order() -> None:
    condensed = [sentence(pid, 0, float(score)) for pid, score in zip(BY_PID, (5, 1, 7, 3, 2, 8, 4, 6), strict=True)]
    kept = EvidencePools(lambda _: condensed, scored).pool(MAYOR).own
    assert [fact.pid for fact in kept] == ["p0", "p2", "p3", "p5", "p6", "p7"]


def test_incomplete_evidence_misses_one_fact() -> None:
    """It does not come back as a distractor either, even if it was found."""
    gold = [sentence(pid, sid) for pid, sid in MAYOR.facts]
    unnamed = replace(MAYOR, facts=())
    evidence = EvidencePools(lambda _: gold, lambda _: [*gold, *OTHERS], incomplete=0.5)
    source = evidence.pool(unnamed)
    read = [[fact for fact in source.draw(np.random.default_rng(n)) if fact in gold] for n in range(200)]
    assert {len(facts) for facts in read} == {2, 3}
    assert 60 < sum(len(facts) == 2 for facts in read) < 140
    assert {tuple(fact.pid for fact in facts) for facts in read} == {
        ("p0", "p1", "p2"), ("p0", "p1"), ("p0", "p2"), ("p1", "p2")
    }  # fmt: skip
    alone = EvidencePools(lambda _: gold[:1], incomplete=1.0).pool(MAYOR)
    assert alone.draw(np.random.default_rng(0)) == (gold[0],), "a single gold fact is kept"


def test_fixed_draws_depend_on_seed_and_example_alone() -> None:
    claim, evidence = replace(MAYOR, label="supported"), EvidencePools(gold_facts(passages), scored)
    other = replace(claim, qid="other")
    alone = draw_fixed(verdict_sources([claim], evidence, TWO_LABELS)).records
    both = verdict_sources([other, claim], evidence, TWO_LABELS)
    assert draw_fixed(both).records[1:] == alone
    assert draw_fixed(both).records[0].query != alone[0].query
    assert any(draw_fixed(both, seed=seed).records[1:] != alone for seed in range(1, 5))


# Answerer


def test_all_occurrences_of_an_answer_are_found() -> None:
    facts = (sentence("p3", 0), sentence("p2", 1), sentence("p0", 1))
    (record,) = draw_fixed(answer_sources([MAYOR], EvidencePools(lambda _: facts))).records
    assert record == AnswerExample(
        "mayor",
        Query(MAYOR.text, facts),
        "span",
        "Ivo Brandt",
        (AnswerSpan(0, 0, 10), AnswerSpan(0, 13, 23), AnswerSpan(1, 35, 45)),
    )
    assert all(fact_text(facts[span.fact])[span.start : span.end] == "Ivo Brandt" for span in record.spans)


def test_yes_no_and_missing_answers() -> None:
    answers = ["Yes", "no.", "Lisbon", None, "?"]
    examples = [replace(MAYOR, qid=str(number), answer=answer) for number, answer in enumerate(answers)]
    made = draw_fixed(answer_sources([*examples, replace(MAYOR, facts=())], EvidencePools(gold_facts(passages))))
    assert [(record.qid, record.kind, record.spans) for record in made.records] == [("0", "yes", ()), ("1", "no", ())]
    assert made.left_out == {"the answer is in none of the facts": 1, "no answer is known": 2, "no facts": 1}


@pytest.mark.parametrize(
    ("text", "answer", "found"),
    [
        ("He wrote The Deep Choir, an opera.", "the deep choir", ["The Deep Choir"]),
        ("He wrote Deep Choir", "The Deep Choir", ["Deep Choir"]),
        ("born in S\u00e3o Paulo", "Sao Paulo", ["S\u00e3o Paulo"]),
        ("born in Sa\u0303o\u0303 or sao", "SAO", ["Sa\u0303o\u0303", "sao"]),
        ("the \ufb01rst of 1,000", "first", ["\ufb01rst"]),
        ("founded in 1811", "181", []),
        ("a-b-a-b-a", "a b a", ["a-b-a", "a-b-a"]),
    ],
)
def test_an_answer_is_matched_by_words(text: str, answer: str, found: list[str]) -> None:
    fact = Fact("p", 0, "", text)
    assert [text[span.start : span.end] for span in answer_spans([fact], answer)] == found


@given(
    st.text(max_size=30)
    | st.lists(st.sampled_from(["e\u0301", "\ufb03", "\u00bd", "a", " ", "-", "\u0130", "ß"])).map("".join)
)
def test_occurrences_contain_the_words(text: str) -> None:
    for word in words(text):
        spans = occurrences(text, word)
        assert spans
        assert all(word in "".join(words(text[start:end])) for start, end in spans)
    assert occurrences(text, "") == []


# Scoring answers


@pytest.mark.parametrize(
    ("answer", "gold", "f1"),
    [
        ("The Deep Choir!", "deep choir", 1.0),
        ("Deep Choir opera", "the Deep Choir", 0.8),
        ("Lisbon", "Ivo Brandt", 0.0),
        ("yes", "yes", 1.0),
        ("yes it is", "yes", 0.0),
        ("", "Brandt", 0.0),
        ("the", "a", 1.0),
        ("Brandt Brandt", "Brandt", 2 / 3),
    ],
)
def test_answers_are_compared_as_squad_does(answer: str, gold: str, f1: float) -> None:
    assert token_f1(answer, gold) == pytest.approx(f1)
    assert token_f1(gold, answer) == pytest.approx(f1)
    assert exact_match(answer, gold) == (normalize_answer(answer) == normalize_answer(gold)) == (f1 == 1.0)


def test_records_survive_json() -> None:
    records: list[Record] = [
        *sentence_examples(hops(), passages).records,
        *rerank_examples(hops(), passages).records,
        *draw_fixed(fact_sources([MAYOR], gold_facts(passages), scored)).records,
        *fact_sources([MAYOR], gold_facts(passages), scored).records,
        *answer_sources([MAYOR], EvidencePools(gold_facts(passages))).records,
        *verdict_sources([replace(MAYOR, label="refuted")], EvidencePools(gold_facts(passages)), TWO_LABELS).records,
        *draw_fixed(answer_sources([MAYOR], EvidencePools(gold_facts(passages)))).records,
        VerdictExample("q", Query("claim"), "supported"),
    ]
    assert {type(record) for record in records} == {
        SentenceExample,
        RerankExample,
        FactExample,
        FactSource,
        FactSource,
        AnswerExample,
        AnswerSource,
        VerdictExample,
        VerdictSource,
    }
    for record in records:
        assert type(record).from_json(record.to_json()) == record
