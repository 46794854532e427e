"""Facts of questions that are not searched for: gold ones, and other sentences of gold passages."""

from __future__ import annotations

from baleen.core.types import Passage
from baleen.data.example import Example
from baleen.training.cross_encoder.condenser_examples import draw_fixed, fact_sources
from baleen.training.cross_encoder.inference import KEPT, QuestionFacts
from baleen.training.cross_encoder.likely_sentences import facts_without_search

PASSAGES = {
    "a": Passage.from_sentences("a", "Ada", ["Ada is a baker.", "", "She was hired by Bo.", "She sails."]),
    "b": Passage.from_sentences("b", "Bo", ["Bo is a painter.", "Bo lives in Vardal."]),
    "long": Passage.from_sentences("long", "Long", [f"Sentence {n} of it." for n in range(KEPT + 40)]),
}


def test_other_sentences_of_gold_passages_are_distractors() -> None:
    example = Example("q", "Ada was hired by a painter.", ("b", "a"), (("a", 2), ("b", 0)), order=("a", "b"))
    found = facts_without_search(PASSAGES.__getitem__)(example)
    assert [(fact.pid, fact.sid, fact.hop) for fact in found.gold] == [("b", 0, 2), ("a", 2, 1)]
    assert sorted((fact.pid, fact.sid, fact.hop) for fact in found.found) == [("a", 0, 1), ("a", 3, 1), ("b", 1, 2)]
    assert all(fact.text.strip() for fact in found.found)


def test_stage_two_learns_from_unsearched_questions() -> None:
    example = Example("q", "Ada was hired by a painter.", ("b", "a"), (("a", 2), ("b", 0)), order=("a", "b"))
    found = facts_without_search(PASSAGES.__getitem__)(example)
    made = draw_fixed(fact_sources([example], lambda _: found.gold, lambda _: found.found), copies=4)
    assert len(made.records) == 4
    for record in made.records:
        gold = {(fact.pid, fact.sid) for fact, label in zip(record.facts, record.labels, strict=True) if label}
        assert gold in ({("a", 2)}, {("a", 2), ("b", 0)}), "the second hop's fact is not found before the first's"


def test_sentences_are_inferred_only_if_wanted() -> None:
    example = Example("q", "Who was hired by Bo?", ("a", "b"))
    inferred, trusting = (facts_without_search(PASSAGES.__getitem__, infer)(example) for infer in (True, False))
    assert ("a", 2) in {(fact.pid, fact.sid) for fact in inferred.gold}
    assert trusting.gold == ()
    assert {fact.hop for fact in inferred.gold} == {0}, "no order is known"


def test_only_the_best_distractors_are_kept() -> None:
    found = facts_without_search(PASSAGES.__getitem__)(Example("q", "What of sentence 45?", ("long",), (("long", 0),)))
    assert len(found.found) == KEPT
    assert found.found[0].sid == 45


def test_without_gold_passages_there_are_no_facts() -> None:
    assert facts_without_search(PASSAGES.__getitem__)(Example("q", "What?")) == QuestionFacts("q", (), ())
