"""Synthesized claims and questions: their properties, and their shares."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from typing import Any

import pytest

from baleen.data.example import NOT_ENOUGH, REFUTED, SUPPORTED, Example
from baleen.synthesis.avoiding import Avoided, name_key
from baleen.synthesis.drafts import BRIDGE, CHAIN, COMPARISON, TREE
from baleen.synthesis.quality import fingerprint, names_any, reads_well
from baleen.synthesis.settings import SynthesisConfig
from baleen.synthesis.synthesizing import Claim, Synthesizer, synthesize
from small_encyclopaedia import graph, graph_of, passages

PASSAGES = {passage.pid: passage for passage in passages()}
ALL: dict[str, Any] = {"limit": 5000, "solved": 1.0, "per_page": 100}


def claims(**settings: Any) -> list[Claim]:
    return list(synthesize(graph(), SynthesisConfig(**{**ALL, **settings})))


@cache
def everything() -> tuple[Claim, ...]:
    return tuple(claims())


class TestEveryClaim:
    def test_there_are_many(self) -> None:
        assert len(everything()) >= 150
        assert {claim.kind for claim in everything()} == {"chain", "bridge", "tree", "intersection", "comparison"}
        assert {claim.hops for claim in everything()} == {2, 3, 4}
        assert {claim.label for claim in everything()} == {None, SUPPORTED, REFUTED, NOT_ENOUGH}

    def test_hops_are_the_gold_passages_each_once(self) -> None:
        for claim in everything():
            assert claim.hops == len(claim.gold) == len(set(claim.gold))
            assert sorted(claim.order) == sorted(claim.gold)

    def test_facts_are_sentences_of_exactly_the_gold_passages(self) -> None:
        for claim in everything():
            assert {pid for pid, _ in claim.facts} == set(claim.gold)
            assert len(set(claim.facts)) == len(claim.facts)
            assert all(0 <= sid < len(PASSAGES[pid].sentences) for pid, sid in claim.facts)

    def test_facts_are_in_the_order_of_hops(self) -> None:
        for claim in everything():
            places = [(claim.order.index(pid), sid) for pid, sid in claim.facts]
            assert places == sorted(places)

    def test_has_a_label_or_an_answer(self) -> None:
        for claim in everything():
            assert (claim.label is None) != (claim.answer is None)
            assert claim.text.endswith("." if claim.label else "?")

    def test_records_the_change_that_made_it_false(self) -> None:
        for claim in everything():
            false = claim.label in {REFUTED, NOT_ENOUGH} or claim.answer == "no"
            assert (claim.made is not None) == false
            assert (claim.made == "borrowed") == (claim.label == NOT_ENOUGH)

    def test_an_answer_is_in_a_gold_sentence_or_title(self) -> None:
        for claim in everything():
            if claim.answer not in {None, "yes", "no"}:
                found = [f"{PASSAGES[pid].title} | {PASSAGES[pid].sentences[sid]}" for pid, sid in claim.facts]
                assert any(str(claim.answer) in sentence for sentence in found), claim

    def test_only_comparisons_contain_their_answer(self) -> None:
        for claim in everything():
            if claim.answer not in {None, "yes", "no"} and claim.kind != COMPARISON:
                assert not names_any(claim.text, [str(claim.answer)])

    def test_pieces_have_the_sources_of_the_text(self) -> None:
        for claim in everything():
            elsewhere = [piece for piece in claim.pieces if (piece["id"], piece["sid"]) not in claim.facts]
            assert len(elsewhere) == (claim.made == "borrowed")  # a borrowed clause is its lender's
            for piece in elsewhere:
                words = re.findall(r"\w+", PASSAGES[piece["id"]].sentences[piece["sid"]])
                assert set(re.findall(r"\w+", piece["text"])) <= set(words)
            for piece in claim.pieces:
                if claim.made is None and claim.kind != COMPARISON and claim.answer is None:
                    assert piece["text"].lower() in claim.text.lower()

    def test_supported_claims_consist_of_gold_sentences(self) -> None:
        for claim in everything():
            if claim.label == SUPPORTED and claim.kind != COMPARISON:
                for piece in claim.pieces:
                    said = re.findall(r"\w+", PASSAGES[piece["id"]].text)
                    assert set(re.findall(r"\w+", piece["text"])) <= {*said, "who", "that", "the"}, claim

    def test_names_the_first_of_its_passages_or_none(self) -> None:
        for claim in everything():
            first, *others = (PASSAGES[pid].title for pid in claim.order)
            if claim.kind in {CHAIN, BRIDGE, TREE}:
                assert not names_any(claim.text, others)
            if claim.kind == BRIDGE:
                assert names_any(claim.text, [first])

    def test_comparisons_are_right_by_the_years(self) -> None:
        years = {page.pid: page.begun[1] for page in graph().pages if page.begun}
        for claim in everything():
            if claim.kind == COMPARISON and claim.answer in {None, "yes", "no"}:
                holds = claim.label == SUPPORTED or claim.answer == "yes"
                earlier = years[claim.order[0]] < years[claim.order[-1]]
                assert (" before " in claim.text) == (earlier == holds), claim

    def test_reads_well(self) -> None:
        assert all(reads_well(claim.text) for claim in everything())

    def test_is_made_once(self) -> None:
        marks = Counter(fingerprint(claim.text) for claim in everything())
        assert marks.most_common(1)[0][1] == 1

    def test_has_an_id_of_its_own(self) -> None:
        assert [claim.id for claim in everything()] == [f"0-{number:06d}" for number in range(len(everything()))]

    def test_comes_back_from_json(self) -> None:
        assert all(Claim.from_json(claim.to_json()) == claim for claim in everything())


class TestSeeds:
    def test_the_same_seed_gives_the_same_claims(self) -> None:
        assert tuple(claims()) == everything()

    def test_another_gives_others(self) -> None:
        one, two = claims(limit=30), claims(limit=30, seed=1)
        assert {claim.text for claim in one} != {claim.text for claim in two}
        assert two[0].id == "1-000000"


class TestLimits:
    @pytest.mark.parametrize("limit", [1, 7, 50])
    def test_the_limit_is_kept(self, limit: int) -> None:
        assert len(claims(limit=limit)) == limit

    def test_a_page_starts_at_most_per_page_claims(self) -> None:
        starts = Counter(claim.order[0] for claim in claims(per_page=2))
        assert max(starts.values()) == 2

    def test_pages_with_too_many_mentions_are_not_described(self) -> None:
        (named,) = graph().mentioned.most_common(1)
        pid = graph().pages[named[0]].pid
        described = [claim for claim in claims(max_mentions=named[1] - 1) if claim.kind == CHAIN]
        assert described
        assert not any(pid in claim.order[1:] for claim in described)


class TestShares:
    def test_of_questions(self) -> None:
        assert all(claim.answer is None for claim in claims(questions=0.0))
        assert all(claim.label is None for claim in claims(questions=1.0))
        asked = sum(claim.answer is not None for claim in claims(limit=80, questions=0.5))
        assert 20 <= asked <= 60

    def test_of_labels(self) -> None:
        assert {claim.label for claim in claims(questions=0.0, labels={REFUTED: 1.0})} == {REFUTED}
        assert {claim.label for claim in claims(questions=0.0, labels={SUPPORTED: 1.0, REFUTED: 0.0})} == {SUPPORTED}

    def test_of_hops_and_kinds(self) -> None:
        found = claims(hops={2: 1.0}, kinds={CHAIN: 1.0, BRIDGE: 0.0})
        assert {(claim.hops, claim.kind) for claim in found} == {(2, CHAIN)}

    def test_are_roughly_kept_while_there_is_enough(self) -> None:
        found = claims(limit=60, hops={2: 0.75, 3: 0.25}, kinds={CHAIN: 1.0}, labels={SUPPORTED: 1.0})
        assert 0.5 <= sum(claim.hops == 2 for claim in found) / len(found) <= 0.95

    def test_missing_kinds_are_made_up_for_by_others(self) -> None:
        found = claims(limit=30, hops={2: 0.1, 9: 0.9})
        assert Counter(claim.hops for claim in found) == {2: 30}

    def test_of_claims_that_name_none_of_their_passages(self) -> None:
        named = claims(kinds={CHAIN: 1.0}, unnamed=0.0)
        assert all(names_any(claim.text, [PASSAGES[claim.order[0]].title]) for claim in named)
        unnamed = claims(kinds={CHAIN: 1.0}, unnamed=1.0)
        assert unnamed
        assert not any(names_any(claim.text, [PASSAGES[pid].title for pid in claim.order]) for claim in unnamed)


class TestSolved:
    def test_solved_claims_are_kept_by_their_share(self) -> None:
        depth = 5
        found = claims(solved=0.0, solved_depth=depth)
        assert found
        assert all(claim.rank is not None and claim.rank > depth for claim in found)
        assert any(claim.rank is not None and claim.rank <= depth for claim in everything())

    def test_dropped_claims_are_counted(self) -> None:
        synthesizer = Synthesizer(graph(), SynthesisConfig(limit=5000, solved=0.0, solved_depth=len(PASSAGES)))
        assert list(synthesizer.claims()) == []
        assert synthesizer.dropped["solved by one search"] > 50


class TestAvoided:
    def test_claims_like_avoided_questions_are_dropped(self) -> None:
        first = everything()[:20]
        examples = [Example(claim.id, claim.text, claim.gold) for claim in first]
        numbers = {name_key(page.pid): [page.number] for page in graph().pages}
        synthesizer = Synthesizer(graph(), SynthesisConfig(**ALL), Avoided(examples, numbers))
        found = list(synthesizer.claims())
        assert found
        assert synthesizer.dropped["like a question to avoid"] > 0
        assert not {claim.text for claim in first} & {claim.text for claim in found}
        assert not {frozenset(claim.gold) for claim in first} & {frozenset(claim.gold) for claim in found}


class TestNothing:
    @pytest.mark.parametrize(
        "texts",
        [
            {},
            {"Brenholt": ["Brenholt is a town."]},
            {"Brenholt": ["Brenholt is a town."], "Tarnby": ["Tarnby is a town."]},
            {"Brenholt": ["Brenholt lies near Tarnby."], "Tarnby": ["Tarnby lies near Brenholt."]},
        ],
    )
    def test_unrelated_or_undefined_passages_give_no_claims(self, texts: dict[str, list[str]]) -> None:
        assert list(synthesize(graph_of(**texts), SynthesisConfig())) == []
