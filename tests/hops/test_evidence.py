"""The final facts of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from baleen.core.types import (
    UNSCORED,
    WHOLE_PASSAGE,
    Answer,
    Condensed,
    Fact,
    Hit,
    Hop,
    Judgement,
    Passage,
    Query,
    Ranking,
    Trace,
    Verdict,
)
from baleen.hops.config import Thresholds
from baleen.hops.evidence import BORDERLINE, finalize, with_answer_fact

PASSAGES = {
    pid: Passage.from_sentences(pid, pid.upper(), [f"{pid} says {number}." for number in range(4)]) for pid in "abcde"
}
CLAIM = Query("claim")
FILLED_UP = (True, "the best of its passage, as fewer than 2 passages carried facts")


def judged(place: str, first: float | None = None, second: float | None = None) -> Judgement:
    """`judged("a1", 2.0)`: sentence 1 of passage a."""
    return Judgement(place[0], int(place[1]), first, second, reason="as it was")


def hop_of(pids: str, kept: dict[str, float], *judgements: Judgement, number: int = 1, before: str = "") -> Hop:
    """One that found these passages and kept these sentences, of which those of `before` are of the hop before."""
    facts = tuple(
        PASSAGES[place[0]].fact(int(place[1]), score, number - (place[0] in before)) for place, score in kept.items()
    )
    ranking = Ranking(tuple(Hit(pid, -float(rank)) for rank, pid in enumerate(pids)))
    said = tuple(replace(each, kept=f"{each.pid}{each.sid}" in kept) for each in judgements)
    return Hop(CLAIM, ranking=ranking, condensed=Condensed(facts, said))


def ended(*hops: Hop, final: float = -0.5, **settings: Any) -> Trace:
    thresholds = Thresholds(settings.pop("keep", -2.0), settings.pop("read", None) or final, final)
    return finalize(Trace(CLAIM, hops), PASSAGES.__getitem__, thresholds, **settings)


def facts(trace: Trace) -> dict[str, float]:
    return {f"{fact.pid}{fact.sid}": fact.score for fact in trace.facts}


def decisions(trace: Trace) -> dict[str, tuple[bool, str]]:
    return {f"{each.pid}{each.sid}": (each.kept, each.reason) for each in trace.hops[-1].condensed.judgements}


def test_facts_not_above_final_are_dropped_with_a_reason() -> None:
    hop = hop_of("ab", {"a0": 2.0, "a1": -0.5, "b0": -1.5}, judged("a0"), judged("a1"), judged("b0"), judged("b1"))
    trace = ended(hop)
    assert facts(trace) == {"a0": 2.0}, "a score on the threshold is not above it"
    gone = (False, "not above the threshold of -0.5 at the end")
    assert decisions(trace) == {"a0": (True, "as it was"), "a1": gone, "b0": gone, "b1": (False, "as it was")}
    assert ended(*trace.hops) == trace, "what has ended stays as it is"


HELD_BACK = (False, BORDERLINE)


def seen_by_reader(trace: Trace) -> list[str]:
    return [f"{fact.pid}{fact.sid}" for fact in trace.final_query.facts]


def of_three_thresholds(**settings: Any) -> Trace:
    """Facts above all three (a0), two (b0, a1) and one of them (c0), in hop 1."""
    kept = {"a0": 2.0, "b0": 0.5, "a1": -0.2, "c0": -1.5}
    read = [judged(place, 1.0, score) for place, score in kept.items()]
    return ended(hop_of("abc", kept, *read), read=-0.5, final=1.0, **settings)


def test_facts_between_read_and_final_are_borderline() -> None:
    trace = of_three_thresholds()
    assert facts(trace) == {"a0": 2.0}
    assert seen_by_reader(trace) == ["a0", "b0", "a1"], "in their order, whether they are reported or not"
    gone = (False, "not above the threshold of -0.5 at the end")
    assert decisions(trace) == {"a0": (True, "as it was"), "b0": HELD_BACK, "a1": HELD_BACK, "c0": gone}
    assert ended(*trace.hops, read=-0.5, final=1.0) == trace, "what has ended stays as it is"


def test_without_read_the_reader_sees_the_final_facts() -> None:
    trace = ended(hop_of("ab", {"a0": 2.0, "b0": -1.0}, judged("a0"), judged("b0")))
    assert (seen_by_reader(trace), trace.hops[-1].condensed.borderline) == (["a0"], ())
    assert trace.final_query == trace.next_query
    assert Trace(CLAIM).final_query == CLAIM


def test_a_borderline_fact_that_fills_up_is_read_once() -> None:
    trace = of_three_thresholds(min_passages=2)
    assert facts(trace) == {"a0": 2.0, "b0": 0.5}
    assert seen_by_reader(trace) == ["a0", "b0", "a1"]
    assert (decisions(trace)["b0"], decisions(trace)["a1"]) == (FILLED_UP, HELD_BACK)


def test_the_fact_that_contains_the_answer_is_reported() -> None:
    answered = with_answer_fact(of_three_thresholds(), Answer("0", 0.9, "b", 0))
    assert answered.outcome == Answer("0", 0.9, "b", 0)
    assert facts(answered) == {"a0": 2.0, "b0": 0.5}
    assert decisions(answered)["b0"] == (True, "contains the answer")
    assert seen_by_reader(answered) == ["a0", "b0", "a1"], "what was read is as it was"


def test_reading_a_run_again_undoes_the_promotion_of_a_fact() -> None:
    first = with_answer_fact(of_three_thresholds(), Answer("0", 0.9, "b", 0))
    again = with_answer_fact(first, Answer("1", 0.9, "a", 1))
    assert facts(again) == {"a0": 2.0, "a1": -0.2}
    assert (decisions(again)["a1"], decisions(again)["b0"]) == ((True, "contains the answer"), HELD_BACK)
    assert seen_by_reader(again) == seen_by_reader(first)
    assert with_answer_fact(first, Answer("yes", 0.9)).facts == of_three_thresholds().facts


def test_fillers_displace_the_lowest_borderline_facts() -> None:
    kept = {"a0": 2.0, "a1": 0.5, "a2": 0.7}
    read = [judged(place, 1.0, score) for place, score in kept.items()]
    trace = ended(hop_of("ab", kept, *read, judged("b0", 1.0, -4.0)), read=-0.5, final=1.0, min_passages=2, max_facts=3)
    assert (facts(trace), seen_by_reader(trace)) == ({"a0": 2.0, "b0": -4.0}, ["a0", "a2", "b0"])
    assert decisions(trace)["a1"] == (False, "over the limit of 3 facts")


@pytest.mark.parametrize("outcome", [Answer("0", 0.9, "a", 0), Answer("yes", 0.9), Verdict("supported", 0.9)])
def test_other_outcomes_change_nothing_about_the_facts(outcome: Answer | Verdict) -> None:
    trace = of_three_thresholds()
    assert with_answer_fact(trace, outcome) == replace(trace, outcome=outcome)
    assert with_answer_fact(Trace(CLAIM), outcome) == Trace(CLAIM, outcome=outcome)


def test_one_threshold_without_min_passages_changes_nothing() -> None:
    hop = hop_of("ab", {"a0": 2.0, "b0": -0.4}, judged("a0", 1.0, 2.0), judged("b0", 1.0, -0.4))
    assert ended(hop, keep=-0.5) == Trace(CLAIM, (hop,))


def test_facts_that_came_with_a_query_stay() -> None:
    hop = hop_of("", {"a0": -3.0, "a1": -2.0})
    assert facts(ended(hop)) == {"a0": -3.0, "a1": -2.0}


def test_a_run_without_a_hop_has_nothing_to_end() -> None:
    assert ended(min_passages=2) == Trace(CLAIM)


def test_min_passages_adds_the_best_sentence_of_the_best_other_passage() -> None:
    read = [judged("a0", 3.0, 2.0), judged("b0", 1.0, -2.5), judged("b1", 2.0, -3.0), judged("c0", 0.5, -2.5)]
    trace = ended(hop_of("cba", {"a0": 2.0}, *read), min_passages=2)
    assert facts(trace) == {"a0": 2.0, "b1": -3.0}, "by the sum of both scores, with the score among the facts"
    assert trace.facts[1] == Fact("b", 1, "B", "b says 1.", -3.0, 1)
    assert decisions(trace)["b1"] == FILLED_UP
    assert decisions(trace)["b0"] == (False, "as it was")


def test_a_dropped_fact_may_return_as_a_filler() -> None:
    hop = hop_of("ab", {"a0": 2.0, "b0": -1.5, "a1": -1.0}, judged("a0", 1.0, 2.0), judged("b0", 1.0, -1.5))
    assert facts(ended(hop, min_passages=2)) == {"a0": 2.0, "b0": -1.5}


def test_fillers_reach_min_passages_and_no_more() -> None:
    read = [judged(f"{pid}0", 0.0, -3.0 - rank) for rank, pid in enumerate("abcd")]
    hop = hop_of("abcd", {}, *read)
    for least in range(5):
        assert list(facts(ended(hop, min_passages=least))) == [f"{pid}0" for pid in "abcd"[:least]]
    assert len(facts(ended(hop, min_passages=9))) == 4, "there are no more"
    assert [fact.pid for fact in ended(hop_of("abcd", {"c0": 1.0}, *read), min_passages=2).fillers] == ["a"]
    enough = hop_of("abcd", {"c0": 1.0, "d0": 1.0}, *read)
    assert not ended(enough, min_passages=2).fillers
    assert facts(ended(enough, min_passages=2)) == {"c0": 1.0, "d0": 1.0}, "though others are ranked before them"


def test_fillers_of_earlier_hops_keep_their_latest_scores_and_order() -> None:
    first = hop_of("ab", {"a0": 1.0, "b0": -1.0}, judged("a0", 1.0, 1.0), judged("b0", 4.0, -1.0))
    read = [judged("c0", 2.0, 3.0), judged("a0", None, -4.0), judged("b0", None, -3.0)]
    trace = ended(first, hop_of("c", {"c0": 3.0}, *read, number=2), min_passages=2)
    assert [(fact.pid, fact.score, fact.hop) for fact in trace.facts] == [("b", -3.0, 1), ("c", 3.0, 2)]
    assert trace.hops[0] == first, "what earlier hops did is as it was"
    assert decisions(trace)["b0"] == FILLED_UP
    assert trace.hops[1].condensed.judgements[2].sentence_score is None, (
        "the last hop did not read it beside its passage again"
    )


def test_a_filler_of_an_earlier_hop_is_judged_at_the_last_hop() -> None:
    first = hop_of("ab", {"a0": 1.0}, judged("a0", 1.0, 1.0), judged("b3", 0.5))
    trace = ended(first, hop_of("", {"a0": 1.0}, judged("a0", None, 1.0), number=2, before="a"), min_passages=2)
    assert facts(trace) == {"a0": 1.0, "b3": UNSCORED}, "its score beside its passage is none of a fact"
    assert decisions(trace)["b3"] == FILLED_UP


def test_passages_that_were_not_retrieved_do_not_join() -> None:
    given = judged("e0", None, -3.0)  # a fact that the query came with, of a passage that nobody found
    assert facts(ended(hop_of("a", {"a0": 1.0}, judged("a0", 1.0, 1.0), given), min_passages=2)) == {"a0": 1.0}


def test_a_fact_that_came_with_the_query_joins_as_it_came() -> None:
    given = Fact("b", WHOLE_PASSAGE, "B", "All that b says.", 7.0)
    hop = hop_of("ab", {"a0": 1.0}, judged("a0", 1.0, 1.0), Judgement("b", WHOLE_PASSAGE, None, -3.0))
    trace = finalize(
        Trace(Query("claim", (given,)), (hop,)), PASSAGES.__getitem__, Thresholds(-2.0, -0.5, -0.5), min_passages=2
    )
    assert trace.facts == (replace(given, score=-3.0), *hop.facts)


@pytest.mark.parametrize(
    ("most", "left"),
    [(None, ["a0", "a2", "a1", "b0"]), (4, ["a0", "a2", "a1", "b0"]), (3, ["a0", "a2", "b0"]), (2, ["a0", "b0"])],
)
def test_beyond_max_facts_every_passage_keeps_a_fact(most: int | None, left: list[str]) -> None:
    kept = {"a0": 3.0, "a1": 1.0, "a2": 2.0}
    read = [judged(place, 1.0, score) for place, score in kept.items()]
    trace = ended(hop_of("ab", kept, *read, judged("b0", 1.0, -4.0)), min_passages=2, max_facts=most)
    assert list(facts(trace)) == left
    for place in kept.keys() - set(left):
        assert decisions(trace)[place] == (False, f"over the limit of {most} facts")
