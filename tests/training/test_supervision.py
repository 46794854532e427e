"""Supervision of hops: worked examples, and invariants."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baleen.core.errors import DatasetError
from baleen.core.types import Fact, Hit, Passage, Query, Ranking
from baleen.data.example import Example
from baleen.training.hop_order import evidence_match, report
from baleen.training.hop_order.fixed import heuristic_order, oracle_order
from baleen.training.hop_order.report import FoundPassage, HopReport, HopSummary, OrderAgreement, Summary
from baleen.training.hop_order.supervision import (
    NEGATIVE_DEPTH,
    Positive,
    State,
    Step,
    Supervised,
    first_sentences,
    gather,
    latent_hop,
    ordered_hop,
    partly_found,
    start,
    unfinished,
    weak_targets,
)
from fakes import CORPUS

TEXT = "The mayor of the town where Lena Orlova teaches wrote an opera."
# Lena Orlova > University of Vardal > Ivo Brandt; the sentences of the last are not known.
EXAMPLE = Example("q", TEXT, ("p3", "p1", "p0"), (("p0", 1), ("p1", 1), ("p1", 0)))


def passages(pid: str) -> Passage:
    return CORPUS[int(pid[1:])]


def ranking(*pids: str) -> Ranking:
    return Ranking(tuple(Hit(pid, -float(rank)) for rank, pid in enumerate(pids)))


def first_hop(
    example: Example, ranked: Ranking, *, depth: int | None = 20, negative_depth: int = NEGATIVE_DEPTH
) -> Supervised:
    """Training record of R_1."""
    return latent_hop(start(example), ranked, passages, depth=depth, negative_depth=negative_depth).supervised


def fact(pid: str, sid: int, hop: int) -> Fact:
    return Fact(pid, sid, passages(pid).title, passages(pid).sentences[sid], hop=hop)


class TestPartlyFound:
    """Records of queries that know a part of what a hop found."""

    def test_with_two_positives_each_is_given_once(self) -> None:
        step = latent_hop(start(EXAMPLE), ranking("p1", "p2", "p0", "p4"), passages, depth=10)
        first, second = partly_found(step, passages)
        assert first == Supervised(
            "q", 2, Query(TEXT, (fact("p1", 0, 1), fact("p1", 1, 1))), ("p0",), step.supervised.negatives
        )
        assert second == Supervised("q", 2, Query(TEXT, (fact("p0", 1, 1),)), ("p1",), ("p2", "p4"))

    def test_with_three_positives_one_or_two_are_given(self) -> None:
        step = latent_hop(start(EXAMPLE), ranking("p1", "p0", "p3", "p2"), passages, depth=10)
        records = partly_found(step, passages)
        known = [{fact.pid for fact in record.query.facts} for record in records]
        assert sorted(map(sorted, known)) == [["p0"], ["p0", "p1"], ["p0", "p3"], ["p1"], ["p1", "p3"], ["p3"]]
        for record, own in zip(records, known, strict=True):
            assert own.isdisjoint(record.positives)
            assert own.union(record.positives) == {"p0", "p1", "p3"}

    def test_facts_of_earlier_hops_stay(self) -> None:
        first = latent_hop(start(EXAMPLE), ranking("p0", "p2"), passages, depth=1)
        second = latent_hop(first.state, ranking("p1", "p3", "p2"), passages, depth=None)
        for record in partly_found(second, passages):
            assert record.query.facts[0] == fact("p0", 1, 1)
            assert record.hop == 3

    def test_a_hop_with_fewer_than_two_positives_adds_nothing(self) -> None:
        one = latent_hop(start(EXAMPLE), ranking("p0", "p2"), passages, depth=1)
        none = latent_hop(start(EXAMPLE), ranking("p2"), passages, depth=1)
        assert partly_found(one, passages) == partly_found(none, passages) == []


class TestFirstHop:
    """R_1 learns from the gold passages that an off-the-shelf retriever ranks high."""

    def test_gold_passages_within_the_depth_are_positives_and_the_others_are_negatives(self) -> None:
        record = first_hop(EXAMPLE, ranking("p5", "p0", "p6", "p1", "p2", "p3"), depth=4)
        assert record == Supervised("q", 1, Query(TEXT), ("p0", "p1"), ("p5", "p6", "p2"))

    def test_a_gold_passage_beyond_the_depth_is_neither(self) -> None:
        record = first_hop(EXAMPLE, ranking("p0", "p5", "p3"), depth=1)
        assert (record.positives, record.negatives) == (("p0",), ("p5",))

    def test_fallback_takes_the_best_ranked_passage(self) -> None:
        ranked = ranking("p5", "p6", "p1", "p0")
        assert first_hop(EXAMPLE, ranked, depth=2).positives == ("p1",)

    def test_unranked_gold_passages_are_no_fallback(self) -> None:
        record = first_hop(EXAMPLE, ranking("p5", "p6"), depth=2)
        assert (record.positives, record.negatives) == ((), ("p5", "p6"))

    def test_depth_of_all_takes_unranked_passages(self) -> None:
        assert first_hop(EXAMPLE, ranking("p5", "p1"), depth=None).positives == ("p1", "p3", "p0")

    def test_negatives_come_from_the_top_of_the_ranking_only(self) -> None:
        record = first_hop(EXAMPLE, ranking("p5", "p0", "p6", "p2"), negative_depth=3)
        assert record.negatives == ("p5", "p6")


class TestLatentHop:
    """Hops by the retriever's own ranking."""

    def test_three_hops_of_one_claim(self) -> None:
        first = latent_hop(start(EXAMPLE), ranking("p5", "p0", "p6", "p1"), passages, depth=2)
        assert first.supervised == Supervised("q", 1, Query(TEXT), ("p0",), ("p5", "p6"))
        assert first.chosen == (Positive("p0", 2),)
        assert first.state == State(EXAMPLE, Query(TEXT, (fact("p0", 1, 1),)), ("p3", "p1"), 2)

        second = latent_hop(first.state, ranking("p1", "p5", "p3"), passages, depth=2)
        assert second.supervised == Supervised("q", 2, first.state.query, ("p1",), ("p5",))
        assert second.facts == (fact("p1", 0, 2), fact("p1", 1, 2))

        third = latent_hop(second.state, ranking("p2", "p3"), passages, depth=None)
        assert third.supervised.positives == ("p3",)
        assert third.state.query.facts == (fact("p0", 1, 1), fact("p1", 0, 2), fact("p1", 1, 2), fact("p3", 0, 3))
        assert third.state.done

        assert unfinished([first, third]) == [first.state]
        assert gather([[first], [second], [third]]) == [first.supervised, second.supervised, third.supervised]

    def test_several_passages_of_a_hop_are_best_ranked_first(self) -> None:
        step = latent_hop(start(EXAMPLE), ranking("p1", "p0", "p5"), passages, depth=2)
        assert step.chosen == (Positive("p1", 1), Positive("p0", 2))
        assert step.state.remaining == ("p3",)

    def test_ranks_are_counted_without_the_passages_of_earlier_hops(self) -> None:
        after = latent_hop(start(EXAMPLE), ranking("p0"), passages, depth=1).state
        step = latent_hop(after, ranking("p0", "p1"), passages, depth=1)
        assert step.chosen == (Positive("p1", 1),)

    def test_a_passage_of_an_earlier_hop_is_no_negative(self) -> None:
        after = latent_hop(start(EXAMPLE), ranking("p0"), passages, depth=1).state
        assert latent_hop(after, ranking("p0", "p1", "p5"), passages, depth=1).supervised.negatives == ("p5",)

    def test_the_fallback_is_marked(self) -> None:
        ranked = ranking("p5", "p6", "p1")
        step = latent_hop(start(EXAMPLE), ranked, passages, depth=2)
        assert (step.chosen, step.fallback) == ((Positive("p1", 3),), True)
        assert not latent_hop(start(EXAMPLE), ranked, passages, depth=3).fallback

    def test_a_hop_without_positives_changes_nothing(self) -> None:
        step = latent_hop(start(EXAMPLE), ranking("p5", "p6"), passages, depth=2)
        assert step.state == State(EXAMPLE, Query(TEXT), EXAMPLE.gold, 2)
        assert unfinished([step]) == [step.state]
        assert gather([[step]]) == []

    def test_an_example_without_gold_is_done_before_it_starts(self) -> None:
        assert start(Example("q", TEXT)).done

    def test_steps_survive_json(self) -> None:
        step = latent_hop(start(EXAMPLE), ranking("p5", "p0"), passages, depth=2)
        assert Step.from_json(json.loads(json.dumps(step.to_json()))) == step


class TestWeakTargets:
    def test_remaining_gold_passages_against_the_last_negatives(self) -> None:
        step = latent_hop(start(EXAMPLE), ranking("p5", "p0", "p6", "p1"), passages, depth=2)
        record = weak_targets(step.state, step.supervised.negatives)
        assert record == Supervised("q", 2, step.state.query, ("p3", "p1"), ("p5", "p6"))

    def test_gold_passages_are_never_negatives(self) -> None:
        assert weak_targets(start(EXAMPLE), ["p1", "p5"]).negatives == ("p5",)


class TestOracleFacts:
    def facts(self, example: Example, *pids: str) -> list[tuple[str, int]]:
        step = ordered_hop(start(example), ranking(*pids), passages, positives=pids)
        return [(fact.pid, fact.sid) for fact in step.facts]

    def test_at_most_five_facts_a_hop(self) -> None:
        example = Example(
            "q", TEXT, ("p0", "p1", "p2"), tuple((pid, sid) for pid in ("p0", "p1", "p2") for sid in (0, 1))
        )
        assert self.facts(example, "p0", "p1", "p2") == [("p0", 0), ("p0", 1), ("p1", 0), ("p1", 1), ("p2", 0)]

    def test_every_passage_gives_one_fact_before_a_second(self) -> None:
        gold = ("p0", "p1", "p2", "p3")
        example = Example("q", TEXT, gold, tuple((pid, sid) for pid in gold for sid in (0, 1)))
        assert self.facts(example, *gold) == [("p0", 0), ("p0", 1), ("p1", 0), ("p2", 0), ("p3", 0)]

    def test_first_sentence_is_the_default_without_annotation(self) -> None:
        assert self.facts(Example("q", TEXT, ("p7", "p0")), "p7", "p0") == [("p7", 0), ("p0", 0)]

    def test_first_sentences_skips_blank_ones(self) -> None:
        state = start(Example("q", TEXT, ("p7",)))
        step = latent_hop(state, ranking("p7"), passages, depth=1, sentences=first_sentences(2))
        assert [fact.sid for fact in step.facts] == [0, 2]

    def test_a_callable_can_pick_sentences(self) -> None:
        state = start(Example("q", TEXT, ("p7",)))
        step = latent_hop(
            state, ranking("p7"), passages, depth=1, sentences=lambda _, passage: [len(passage.spans) - 1]
        )
        assert step.facts == (fact("p7", 2, 1),)

    def test_a_blank_annotated_sentence_is_no_fact(self) -> None:
        assert self.facts(Example("q", TEXT, ("p7",), (("p7", 1), ("p7", 2))), "p7") == [("p7", 2)]
        assert self.facts(Example("q", TEXT, ("p7",), (("p7", 1),)), "p7") == [("p7", 0)]


class TestMatching:
    @pytest.mark.parametrize(
        ("text", "phrase", "expected"),
        [
            ("It was founded in 1811.", "1811", True),
            ("It was founded in 18110.", "1811", False),
            ("Krøyer and GÖRANSSON's album", "goransson", True),
            ("the harbour-town of Vardal", "Harbour Town", True),
            ("anything", "", False),
            ("anything", "?!", False),
        ],
    )
    def test_words_are_compared_without_case_accents_or_punctuation(
        self, text: str, phrase: str, expected: bool
    ) -> None:
        assert evidence_match.contains(text, phrase) is expected

    @pytest.mark.parametrize(
        ("title", "text", "expected"),
        [
            ("Red Flaherty", "A game Red Flaherty umpired.", 1.0),
            ("Harrier (dog)", "The Harrier is a breed.", 1.0),
            ("University of Vardal", "The town of Vardal.", 2 / 3),
            ("University of Vardal", "One of us.", 0.0),
            ("The Who", "Asked who the man was.", 0.0),
            ("The Who", "A song of the Who.", 1.0),
            ("Baseball Hall of Fame", "The fame of a hall", 1 / 4),
            ("(What's the Story)", "what's the story", 1.0),
            ("?", "?", 0.0),
        ],
    )
    def test_titles_match_in_full_or_in_part(self, title: str, text: str, expected: float) -> None:
        assert evidence_match.title_overlap(title, text) == expected


class TestHeuristicOrder:
    """Each hop takes the titles with the largest overlap, and adds their texts."""

    def test_a_chain_of_titles_gives_one_passage_a_hop(self) -> None:
        example = Example("q", "Where Lena Orlova teaches there is a mayor.", ("p3", "p2", "p1", "p0"))
        # Lena Orlova's text names the University of Vardal, and so Vardal; the town's text names its mayor, Ivo Brandt.
        assert heuristic_order(example, passages) == (("p0",), ("p2", "p1"), ("p3",))

    def test_equal_overlaps_share_a_hop(self) -> None:
        example = Example("q", "Tromsk and Vardal are towns, says Ivo.", ("p3", "p2", "p5"))
        assert heuristic_order(example, passages) == (("p2", "p5"), ("p3",))

    def test_the_only_passage_with_the_answer_comes_last(self) -> None:
        example = Example("q", "What did Ivo Brandt, mayor of Vardal, write?", ("p3", "p2"), answer="the opera")
        assert heuristic_order(example, passages) == (("p2",), ("p3",))
        both = Example("q", "Who is the mayor of Vardal?", ("p3", "p2"), answer="Ivo Brandt")
        assert heuristic_order(both, passages) == (("p2",), ("p3",))

    @pytest.mark.parametrize("answer", ["yes", None])
    def test_answers_that_are_no_string_do_not_fix_the_last_hop(self, answer: str | None) -> None:
        example = Example("q", "Ivo Brandt and Tromsk?", ("p3", "p5"), answer=answer)
        assert heuristic_order(example, passages) == (("p3", "p5"),)

    def test_without_matches_the_best_later_overlaps_win(self) -> None:
        # No title is in the claim.  From Ivo Brandt on nothing leads to Vardal; from Vardal on, all is named.
        example = Example("q", "Somebody sang.", ("p4", "p3", "p2"))
        assert heuristic_order(example, passages) == (("p2",), ("p3",), ("p4",))

    def test_without_any_overlap_the_gold_order_is_kept(self) -> None:
        example = Example("q", "Somebody sang.", ("p6", "p5"))
        assert heuristic_order(example, passages) == (("p6",), ("p5",))

    def test_many_passages_without_overlap_are_quick(self) -> None:
        alone = {f"n{number}": Passage(f"n{number}", f"title{number}", "") for number in range(40)}
        order = heuristic_order(Example("q", "Somebody sang.", tuple(alone)), alone.__getitem__)
        assert order == tuple((pid,) for pid in alone)

    def test_without_gold_passages_there_are_no_hops(self) -> None:
        assert heuristic_order(Example("q", TEXT), passages) == ()


class TestOracleOrder:
    def test_one_passage_a_hop_in_the_given_order(self) -> None:
        assert oracle_order(Example("q", TEXT, ("p3", "p0"), order=("p0", "p3"))) == (("p0",), ("p3",))

    def test_missing_gold_comes_last_and_others_are_dropped(self) -> None:
        example = Example("q", TEXT, ("p3", "p1", "p0"), order=("p0", "p7", "p0"))
        assert oracle_order(example) == (("p0",), ("p3", "p1"))

    def test_a_missing_order_is_refused(self) -> None:
        with pytest.raises(DatasetError, match="q: the dataset gives no order of hops"):
            oracle_order(EXAMPLE)


class TestOrderedHops:
    """Hops fixed beforehand give the same kind of records and states as latent ones."""

    ORDER = (("p0",), ("p1",), ("p3",))
    RANKINGS = (ranking("p5", "p1", "p0"), ranking("p6"), ranking("p2", "p3"))

    def steps(self) -> list[Step]:
        state, steps = start(EXAMPLE), []
        for ranked, pids in zip(self.RANKINGS, self.ORDER, strict=True):
            steps.append(ordered_hop(state, ranked, passages, positives=pids))
            state = steps[-1].state
        return steps

    def test_the_ranking_gives_ranks_and_negatives(self) -> None:
        first, second, third = self.steps()
        assert first.supervised == Supervised("q", 1, Query(TEXT), ("p0",), ("p5",))
        assert (first.chosen, second.chosen) == ((Positive("p0", 3),), (Positive("p1", None),))
        assert (third.supervised.positives, third.supervised.negatives) == (("p3",), ("p2",))

    def test_each_hop_takes_its_passages_ranked_or_not_and_adds_their_facts(self) -> None:
        states = [step.state for step in self.steps()]
        assert [state.remaining for state in states] == [("p3", "p1"), ("p3",), ()]
        assert states[1].query.facts == (fact("p0", 1, 1), fact("p1", 0, 2), fact("p1", 1, 2))
        assert states[-1].done

    def test_latent_hop_with_the_same_passages_is_the_same_step(self) -> None:
        latent = latent_hop(start(EXAMPLE), ranking("p0", "p5"), passages, depth=1)
        assert latent == ordered_hop(start(EXAMPLE), ranking("p0", "p5"), passages, positives=["p0"])

    def test_positives_that_are_not_remaining_gold_are_ignored(self) -> None:
        step = ordered_hop(start(EXAMPLE), ranking("p5", "p0"), passages, positives=["p5", "p0"])
        assert step.supervised.positives == ("p0",)
        assert ordered_hop(step.state, ranking("p0"), passages, positives=["p0"]).supervised.positives == ()


class TestInspection:
    def lines(self) -> list[HopReport]:
        first = latent_hop(start(EXAMPLE), ranking("p5", "p0"), passages, depth=1)
        second = latent_hop(first.state, ranking("p1", "p5"), passages, depth=1)
        other = latent_hop(start(Example("r", "Tromsk?", ("p5",))), ranking("p5"), passages, depth=1)
        return [report.inspect(step, passages) for step in (first, second, other)]

    def test_a_report_has_passages_ranks_and_new_facts(self) -> None:
        assert self.lines()[0] == HopReport(
            qid="q",
            hop=1,
            text=TEXT,
            found=(FoundPassage("p0", "Lena Orlova", 2),),
            facts=(fact("p0", 1, 1),),
            remaining=("p3", "p1"),
            fallback=True,
        )

    def test_a_summary_counts_claims_and_gold_passages_hop_by_hop(self) -> None:
        summary = report.summarise(self.lines())
        assert summary == Summary(
            claims=2,
            complete=1,
            golds=4,
            found=3,
            hops=(
                HopSummary(hop=1, claims=2, without=0, fallbacks=1, golds=2, facts=2, median_rank=1.5),
                HopSummary(hop=2, claims=1, without=0, fallbacks=0, golds=1, facts=2, median_rank=1.0),
            ),
        )

    def test_summary_of_no_reports_is_zero(self) -> None:
        assert report.summarise([]) == Summary(0, 0, 0, 0, ())

    def test_orders_are_read_from_reports(self) -> None:
        assert report.orders(reversed(self.lines())) == {"q": (("p0",), ("p1",)), "r": (("p5",),)}

    def test_agreement_counts_claims_hops_and_pairs(self) -> None:
        latent = {"a": (("1",), ("2",), ("3",)), "b": (("4", "5"),), "c": (("6",),)}
        heuristic = {"a": (("1",), ("3",), ("2",)), "b": (("4", "5"),), "d": (("7",),)}
        # Of a: only 1 is in the same hop, and the pair of 2 and 3 is reversed.
        assert report.agreement(latent, heuristic) == OrderAgreement(
            claims=2, identical=1, golds=5, same_hop=3, pairs=4, same_pairs=3
        )

    def test_agreement_ignores_passages_of_one_order_alone(self) -> None:
        found = report.agreement({"a": (("1",), ("2",))}, {"a": (("1",),)})
        assert found == OrderAgreement(claims=1, identical=0, golds=1, same_hop=1, pairs=0, same_pairs=0)


PIDS = [passage.pid for passage in CORPUS]
GOLD = st.lists(st.sampled_from(PIDS), unique=True, max_size=5).map(tuple)
RANKINGS = st.lists(
    st.lists(st.sampled_from(PIDS), unique=True).map(lambda pids: ranking(*pids)), min_size=1, max_size=5
)
DEPTHS = st.none() | st.integers(1, 8)


@st.composite
def examples(draw: st.DrawFn) -> Example:
    gold = draw(GOLD)
    facts = draw(st.lists(st.tuples(st.sampled_from(gold), st.integers(0, 1)), unique=True)) if gold else []
    order = draw(st.permutations(gold))
    return Example("q", draw(st.sampled_from([TEXT, "whales", "Vardal"])), gold, tuple(facts), order=tuple(order))


def check(steps: list[Step], example: Example) -> None:
    """Invariants of any run of hops."""
    taken: list[str] = []
    for number, step in enumerate(steps, 1):
        record, before = step.supervised, set(example.gold) - set(taken)
        assert (record.hop, step.state.hop) == (number, number + 1)
        assert set(record.positives) <= before, "positives are gold passages that no hop has taken"
        assert not set(record.negatives) & set(example.gold), "negatives are never gold"
        assert set(step.state.remaining) == before - set(record.positives), "the positives are removed"
        assert len(step.facts) <= 5
        assert {fact.pid for fact in step.facts} == set(record.positives), "every positive says something"
        assert step.state.query.facts == record.query.facts + step.facts
        taken += record.positives
    assert len(taken) == len(set(taken)), "a gold passage is used once"


class TestInvariants:
    @given(examples(), RANKINGS, DEPTHS)
    def test_latent_hops_keep_the_invariants(
        self, example: Example, rankings: list[Ranking], depth: int | None
    ) -> None:
        state, steps = start(example), []
        for ranked in rankings:
            steps.append(latent_hop(state, ranked, passages, depth=depth))
            state = steps[-1].state
        check(steps, example)
        assert steps == [
            latent_hop(before, ranked, passages, depth=depth)
            for before, ranked in zip([start(example), *(step.state for step in steps)], rankings, strict=False)
        ]

    @given(examples(), RANKINGS)
    def test_a_last_hop_of_depth_all_leaves_no_passage(self, example: Example, rankings: list[Ranking]) -> None:
        state = start(example)
        for ranked in rankings:
            state = latent_hop(state, ranked, passages, depth=2).state
        assert latent_hop(state, Ranking(), passages, depth=None).state.done

    @given(examples(), RANKINGS, DEPTHS)
    def test_a_ranked_gold_passage_is_always_found(
        self, example: Example, rankings: list[Ranking], depth: int | None
    ) -> None:
        step = latent_hop(start(example), rankings[0], passages, depth=depth)
        assert bool(step.chosen) >= bool(set(example.gold) & set(rankings[0].pids))

    @given(examples(), RANKINGS, st.sampled_from(["heuristic", "oracle"]))
    def test_ordered_hops_keep_the_invariants(self, example: Example, rankings: list[Ranking], kind: str) -> None:
        if kind == "oracle" and not example.gold:
            return
        order = oracle_order(example) if kind == "oracle" else heuristic_order(example, passages)
        assert sorted(pid for hop in order for pid in hop) == sorted(example.gold)
        assert all(order)
        state, steps = start(example), []
        for number, pids in enumerate(order):
            steps.append(ordered_hop(state, rankings[number % len(rankings)], passages, positives=pids))
            state = steps[-1].state
        check(steps, example)
        assert state.done

    @given(examples(), RANKINGS, DEPTHS)
    def test_weak_targets_and_first_hops_keep_the_invariants(
        self, example: Example, rankings: list[Ranking], depth: int | None
    ) -> None:
        step = latent_hop(start(example), rankings[0], passages, depth=depth)
        for record in (weak_targets(step.state, PIDS), first_hop(example, rankings[0], depth=depth)):
            assert set(record.positives) <= set(example.gold)
            assert not set(record.negatives) & set(example.gold)
