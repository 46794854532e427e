"""Measures, one worked example for each definition: retrieval, sets, labels, HoVer's score, HotPotQA's recalls."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baleen.core.errors import ConfigError
from baleen.core.types import WHOLE_PASSAGE, Answer, Fact, Hit, Hop, Query, Ranking, Trace, Verdict
from baleen.core.types import Condensed as Read
from baleen.data.example import LABELS, NOT_ENOUGH, NOT_SUPPORTED, REFUTED, SUPPORTED, Example, token_f1
from baleen.data.gold import Catalogue
from baleen.evaluation import measures
from baleen.evaluation.results import Prediction, Result
from baleen.evaluation.scoring import Scorer, match_gold
from fakes import CORPUS

CUTOFFS = (1, 2, 3)
CLAIM = Example("q1", "x", ("p0", "p2"), (("p0", 1), ("p2", 0), ("p2", 1)), label=SUPPORTED, hops=2)
QUESTION = Example("q1", "x", ("p0", "p2"), (("p0", 1), ("p2", 1)), answer="Ivo Brandt", hops=2)


def ranked(*pids: str) -> Ranking:
    return Ranking(tuple(Hit(pid, float(-rank)) for rank, pid in enumerate(pids)))


def chosen(*places: tuple[str, int], label: str | None = None, answer: str | None = None) -> Prediction:
    """A system that submits these sentences, best first, and ranks their passages first."""
    facts = tuple(Fact(pid, sid, pid, "", score=-float(rank)) for rank, (pid, sid) in enumerate(places))
    pids = dict.fromkeys([*(pid for pid, _ in places), *(passage.pid for passage in CORPUS)])
    return Prediction(ranked(*pids), facts, condensed=True, label=label, answer=answer)


# Every dataset


def test_all_and_mean_at_k_look_at_the_first_k_alone() -> None:
    found = measures.retrieval_measures(CLAIM, Prediction(ranked("p2", "p7", "p0")), CUTOFFS)
    assert found == {"all@1": 0, "all@2": 0, "all@3": 1, "mean@1": 0.5, "mean@2": 0.5, "mean@3": 1}
    assert measures.retrieval_measures(CLAIM, Prediction(), (5,)) == {"all@5": 0, "mean@5": 0}
    assert measures.retrieval_measures(Example("q", "x"), Prediction(ranked("p0")), (5,)) == {}


def test_passages_and_sentences_are_sets() -> None:
    exact = measures.evidence_measures(CLAIM, chosen(("p2", 1), ("p0", 1), ("p2", 0)))
    assert exact == {"passage_em": 1, "passage_f1": 1, "sentence_em": 1, "sentence_f1": 1}
    found = measures.evidence_measures(CLAIM, chosen(("p2", 1), ("p1", 0), ("p0", 1)))
    assert found["passage_em"] == found["sentence_em"] == 0
    assert found["passage_f1"] == pytest.approx(2 * (2 / 3) * 1 / (2 / 3 + 1))
    assert found["sentence_f1"] == pytest.approx(2 / 3)
    assert set(measures.evidence_measures(CLAIM, chosen()).values()) == {0}


def test_evidence_is_not_scored_without_facts_or_gold() -> None:
    assert measures.evidence_measures(CLAIM, Prediction(ranked("p0", "p2"))) == {}
    whole = Prediction(
        ranked("p0", "p2"), (Fact("p0", WHOLE_PASSAGE, "", ""), Fact("p2", WHOLE_PASSAGE, "", "")), condensed=True
    )
    assert measures.evidence_measures(CLAIM, whole) == {"passage_em": 1, "passage_f1": 1}
    unknown = Example("q", "x", ("p0",))
    assert set(measures.evidence_measures(unknown, chosen(("p0", 0)))) == {"passage_em", "passage_f1"}


@pytest.mark.parametrize(
    ("label", "gold", "right"),
    [
        (SUPPORTED, SUPPORTED, True),
        (SUPPORTED, REFUTED, False),
        (NOT_SUPPORTED, REFUTED, True),
        (NOT_SUPPORTED, NOT_ENOUGH, True),
        (NOT_SUPPORTED, SUPPORTED, False),
        (REFUTED, NOT_SUPPORTED, True),
        (NOT_ENOUGH, NOT_SUPPORTED, True),
        (REFUTED, NOT_ENOUGH, False),
        (REFUTED, REFUTED, True),
    ],
)
def test_labels_of_two_kinds_and_of_three_compare(label: str, gold: str, right: bool) -> None:
    example = Example("q", "x", label=gold)
    assert measures.outcome_measures(example, Prediction(label=label)) == {"label_accuracy": right}


@given(st.sampled_from(LABELS), st.sampled_from(LABELS))
def test_labels_compare_both_ways(one: str, other: str) -> None:
    assert measures.same_label(one, other) == measures.same_label(other, one)


def test_answers_compare_as_squad_does() -> None:
    found = measures.outcome_measures(QUESTION, Prediction(answer="the Ivo  brandt!"))
    assert found == {"answer_em": 1, "answer_f1": 1}
    assert measures.outcome_measures(QUESTION, Prediction(answer="Brandt")) == {
        "answer_em": 0,
        "answer_f1": pytest.approx(2 / 3),
    }
    assert (
        measures.outcome_measures(QUESTION, Prediction())
        == measures.outcome_measures(CLAIM, Prediction(answer="x"))
        == {}
    )


# HoVer


def test_retrieval_at_k_is_over_supported_claims() -> None:
    assert measures.hover_measures(CLAIM, Prediction(ranked("p0", "p2")), (2,))["retrieval@2"] == 1
    refuted = Example("q", "x", ("p0",), label=NOT_SUPPORTED)
    assert measures.hover_measures(refuted, Prediction(ranked("p0")), (2,)) == {"all@2": 1, "mean@2": 1}


def test_hover_compares_titles_in_nfd() -> None:
    composed, decomposed = (unicodedata.normalize(form, "Beyoncé") for form in ("NFC", "NFD"))
    assert composed != decomposed
    example = Example("q", "x", (composed,), ((composed, 0),), label=SUPPORTED, hops=1)
    found = measures.hover_measures(example, chosen((decomposed, 0), label=SUPPORTED), (2,))
    names = ("passage_em", "passage_f1", "sentence_em", "sentence_f1", "hover_score")
    assert [found[name] for name in names] == [1] * 5


GOLD = [("A", 0), ("A", 3), ("B", 1)]


@pytest.mark.parametrize(
    ("evidence", "covered"),
    [
        ([("A", 0), ("B", 1)], True),
        ([("A", 3), ("B", 1)], True),
        ([("B", 1), ("C", 0), ("A", 0)], True),
        ([("C", 0), ("B", 1), ("D", 0), ("A", 0)], False),  # A is the fourth document of a claim of two hops
        ([("A", 1), ("A", 2), ("A", 3), ("B", 1)], False),  # the gold sentence is A's third
        ([("A", 1), ("B", 0), ("A", 3), ("B", 1)], True),  # the second of each, though not in a row
        ([("A", 0), ("A", 3)], False),
        ([], False),
    ],
)
def test_the_hover_score_looks_at_the_first_documents_and_two_sentences_of_each(
    evidence: list[tuple[str, int]], covered: bool
) -> None:
    assert measures.covers(evidence, GOLD, hops=2) is covered


def test_the_number_of_documents_grows_with_the_hops() -> None:
    evidence = [("C", 0), ("B", 1), ("D", 0), ("A", 0)]
    assert [measures.covers(evidence, GOLD, hops) for hops in (2, 3, 4)] == [False, True, True]


def test_the_hover_score_needs_the_right_label() -> None:
    places = (("p0", 1), ("p2", 0))
    assert measures.hover_measures(CLAIM, chosen(*places, label=SUPPORTED), (2,))["hover_score"] == 1
    assert measures.hover_measures(CLAIM, chosen(*places, label=NOT_SUPPORTED), (2,))["hover_score"] == 0
    assert "hover_score" not in measures.hover_measures(CLAIM, chosen(*places), (2,))
    unknown = Example("q", "x", ("p0", "p2"), label=SUPPORTED)
    assert "hover_score" not in measures.hover_measures(unknown, chosen(*places, label=SUPPORTED), (2,))


# HotPotQA


def test_passage_em_is_of_the_facts_or_of_the_first_two() -> None:
    assert measures.hotpotqa_measures(QUESTION, Prediction(ranked("p2", "p0", "p1")), (2,))["passage_em"] == 1
    assert measures.hotpotqa_measures(QUESTION, Prediction(ranked("p2", "p1", "p0")), (2,))["passage_em"] == 0
    assert measures.hotpotqa_measures(QUESTION, chosen(("p0", 0), ("p2", 0)), (2,))["passage_em"] == 1
    assert measures.hotpotqa_measures(QUESTION, chosen(("p0", 0), ("p2", 0), ("p1", 0)), (2,))["passage_em"] == 0


def test_answer_recall_is_the_answer_in_one_of_the_first_k() -> None:
    scorer = Scorer("hotpotqa", (1, 2), {passage.pid: passage for passage in CORPUS}.__getitem__)
    found = scorer.score(QUESTION, Prediction(ranked("p0", "p2"))).metrics
    assert (found["answer_recall@1"], found["answer_recall@2"]) == (0, 1)
    assert (found["passage_recall@1"], found["passage_recall@2"]) == (0, 1)
    assert scorer.score(QUESTION, Prediction(ranked("p0", "p1", "p2"))).metrics["answer_recall@2"] == 0


def test_an_answer_is_found_as_whole_words_in_text_or_title() -> None:
    passages = [CORPUS[4], CORPUS[3]]  # "... by whales, so to speak."; "He wrote the opera The Deep Choir."
    assert measures.answer_rank("whales so", passages) == 1
    assert measures.answer_rank("whale", passages) is None
    assert measures.answer_rank("an opera, Deep Choir", passages) == 2
    assert measures.answer_rank("the Ivo Brandt", passages) == 2


@pytest.mark.parametrize("answer", ["yes", "No", " yes."])
def test_yes_and_no_are_left_out_of_answer_recall(answer: str) -> None:
    example = Example("q", "x", ("p0",), answer=answer)
    assert measures.answer_recall(example, Prediction(), (2,), {}.__getitem__) == {}


def test_joint_multiplies_precisions_and_recalls() -> None:
    found = measures.hotpotqa_measures(QUESTION, chosen(("p0", 1), ("p2", 0), answer="mayor Ivo Brandt"), (2,))
    precision, recall = (2 / 3) * (1 / 2), 1 * (1 / 2)
    assert found["joint_f1"] == pytest.approx(2 * precision * recall / (precision + recall))
    assert found["joint_em"] == 0
    right = measures.hotpotqa_measures(QUESTION, chosen(("p2", 1), ("p0", 1), answer="Ivo Brandt"), (2,))
    assert (right["joint_em"], right["joint_f1"]) == (1, 1)
    assert measures.joint_measures(QUESTION, chosen(("p0", 1), answer="yes")) == {"joint_em": 0, "joint_f1": 0}
    assert measures.joint_measures(QUESTION, chosen(("p0", 1))) == {}


@given(*[st.lists(st.sampled_from(["ivo", "brandt", "the", "yes", "1974"]), max_size=4).map(" ".join)] * 2)
def test_the_overlap_of_answers_is_the_official_f1(answer: str, gold: str) -> None:
    if gold.replace("the", "").strip():
        assert measures.answer_overlap(answer, gold).f1 == pytest.approx(token_f1(answer, gold))


# Predictions and their scores


def test_a_trace_becomes_a_prediction_with_its_evidence_best_first() -> None:
    facts = (Fact("p1", 0, "", "", 0.1), Fact("p0", 0, "", "", 0.2), Fact("p0", 1, "", "", 0.9))
    hop = Hop(Query("x"), ranking=ranked("p1", "p5", "p0"), condensed=Read(facts))
    prediction = Prediction.of_trace(Trace(Query("x"), (hop,), Verdict(SUPPORTED, 0.9)))
    assert prediction.ranking.pids == ("p0", "p1", "p5")
    assert prediction.evidence == (("p0", 1), ("p0", 0), ("p1", 0))
    assert (prediction.condensed, prediction.label, prediction.answer) == (True, SUPPORTED, None)
    assert Prediction.of_trace(Trace(Query("x"), (hop,), Answer("yes", 1.0))).answer == "yes"


def test_results_go_to_json_and_back() -> None:
    result = Scorer("hover", CUTOFFS, {}.__getitem__).score(CLAIM, chosen(("p0", 1), label=REFUTED))
    assert Result.from_json(result.to_json()) == result


def test_other_datasets_have_the_common_measures() -> None:
    for dataset in ("2wiki", "musique", "exfever", "own"):
        scorer = Scorer(dataset, (5, 2, 2), {}.__getitem__)
        assert set(scorer.score(QUESTION, chosen(("p0", 1), answer="x")).metrics) == {
            *(f"{kind}@{k}" for kind in ("all", "mean") for k in (2, 5)),
            "passage_em", "passage_f1", "sentence_em", "sentence_f1", "answer_em", "answer_f1",
        }  # fmt: skip
    with pytest.raises(ConfigError, match="at least 1"):
        Scorer("own", (0,), {}.__getitem__)


def test_gold_sentences_count_only_where_the_corpus_has_all_of_them() -> None:
    catalogue = Catalogue.of(CORPUS)
    whole = Example("a", "x", ("Vardal", "Tromsk"), (("Vardal", 0), ("Tromsk", 1)))
    beyond = Example("b", "x", ("Vardal", "Tromsk"), (("Vardal", 0), ("Tromsk", 1), ("Tromsk", 9)))
    partial = Example("c", "x", ("Vardal", "Tromsk"), (("Vardal", 0),))
    examples, report = match_gold([whole, beyond, partial], catalogue)
    assert [example.facts for example in examples] == [(("p2", 0), ("p5", 1)), (), ()]
    assert [example.gold for example in examples] == [("p2", "p5")] * 3
    assert report.facts_dropped == 1
