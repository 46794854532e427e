"""Drafts of every kind: their sources, names and order of pages."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

import pytest

from baleen.synthesis.drafting import Drafter
from baleen.synthesis.drafts import BRIDGE, CHAIN, COMPARISON, INTERSECTION, KINDS, TREE, Draft
from baleen.synthesis.graph import Graph
from baleen.synthesis.phrases import GLUE, Describer, leaks
from baleen.synthesis.quality import names_any
from small_encyclopaedia import TEXTS, graph, graph_of

TITLES = list(TEXTS)
CELLS = [(CHAIN, 2), (CHAIN, 3), (CHAIN, 4), (BRIDGE, 2), (BRIDGE, 3), (BRIDGE, 4), (TREE, 3), (TREE, 4)]
CELLS += [(INTERSECTION, 3), (INTERSECTION, 4), (COMPARISON, 2), (COMPARISON, 3)]


def drafter(graph: Graph) -> Drafter:
    return Drafter(graph.pages, Describer(graph.pages, lambda number: bool(graph.pages[number].kind)))


def drafted(
    graph: Graph, kind: str, hops: int, *, named: bool = True, ask: bool = False, seeds: int = 8
) -> Iterator[Draft]:
    maker = drafter(graph)
    for number in maker.candidates(kind, hops):
        for seed in range(seeds):
            draft = maker.draft(kind, graph.pages[number], hops, random.Random(seed), named=named, ask=ask)
            if draft is not None:
                yield draft


@cache
def drafts(kind: str, hops: int, named: bool = True, ask: bool = False) -> tuple[Draft, ...]:
    return tuple(drafted(graph(), kind, hops, named=named, ask=ask))


@pytest.mark.parametrize(("kind", "hops"), CELLS)
class TestEveryDraft:
    def test_exists(self, kind: str, hops: int) -> None:
        assert drafts(kind, hops)

    def test_has_its_kind_and_one_page_per_hop(self, kind: str, hops: int) -> None:
        for draft in drafts(kind, hops):
            assert draft.kind == kind
            assert len(draft.order) == len(set(draft.order)) == hops

    def test_has_facts_of_exactly_its_pages(self, kind: str, hops: int) -> None:
        for draft in drafts(kind, hops):
            assert {page for page, _ in draft.facts} == set(draft.order)
            assert len(draft.facts) == len(set(draft.facts))
            assert all(0 <= sid < len(TEXTS[TITLES[page]]) for page, sid in draft.facts)

    def test_every_part_is_from_a_fact(self, kind: str, hops: int) -> None:
        for draft in drafts(kind, hops):
            for part in draft.parts:
                if part.page == GLUE:
                    continue
                assert (part.page, part.sid) in draft.facts
                if not part.opening and kind != COMPARISON:
                    assert part.text.strip() in TEXTS[TITLES[part.page]][part.sid]

    def test_starts_at_a_page_that_it_names(self, kind: str, hops: int) -> None:
        for draft in drafts(kind, hops):
            assert draft.order[0] in draft.named
            assert all(names_any(draft.text, [graph().pages[number].name]) for number in draft.named)

    def test_hidden_pages_are_not_named(self, kind: str, hops: int) -> None:
        for draft in drafts(kind, hops):
            for number in draft.hidden:
                assert not leaks(draft.text, graph().pages[number].name)
                assert not names_any(draft.text, [graph().pages[number].name])

    def test_is_one_sentence(self, kind: str, hops: int) -> None:
        for draft in drafts(kind, hops):
            assert draft.text[0].isupper()
            assert draft.text.endswith(".")
            assert draft.text.count(". ") == 0

    def test_is_the_same_for_the_same_random_numbers(self, kind: str, hops: int) -> None:
        assert tuple(drafted(graph(), kind, hops)) == drafts(kind, hops)


class TestNamed:
    @pytest.mark.parametrize("kind", [BRIDGE, INTERSECTION, COMPARISON])
    def test_other_kinds_always_name_one(self, kind: str) -> None:
        assert all(draft.named for draft in drafts(kind, 3, named=False))

    @pytest.mark.parametrize(("kind", "hops"), [(CHAIN, 2), (CHAIN, 3), (TREE, 3)])
    def test_chains_and_trees_may_name_none_of_their_pages(self, kind: str, hops: int) -> None:
        found = drafts(kind, hops, named=False)
        assert found
        for draft in found:
            assert draft.named == ()
            assert set(draft.hidden) == set(draft.order)
            assert {page for page, _ in draft.facts} == set(draft.order)
            assert not any(names_any(draft.text, [graph().pages[number].name]) for number in draft.order)

    def test_an_intersection_names_both_ends(self) -> None:
        for draft in drafts(INTERSECTION, 3):
            assert draft.named == (draft.order[0], draft.order[2])


class TestAsk:
    @pytest.mark.parametrize(("kind", "hops"), [(CHAIN, 2), (CHAIN, 3), (CHAIN, 4), (BRIDGE, 2), (BRIDGE, 3)])
    def test_asks_for_a_page_that_the_last_sentence_names(self, kind: str, hops: int) -> None:
        found = drafts(kind, hops, ask=True)
        assert found
        for draft in found:
            assert draft.asked is not None
            assert draft.asked not in draft.order
            assert draft.asked in draft.hidden
            last = [TEXTS[TITLES[page]][sid] for page, sid in draft.facts if page == draft.order[-1]]
            assert any(TITLES[draft.asked] in sentence for sentence in last)
            assert draft.text.endswith(f"which {graph().pages[draft.asked].noun}.")

    def test_a_surname_is_no_answer(self) -> None:
        texts = {
            "Mara_Ellwood": ["Mara Ellwood (born 1931) is a film director."],
            "Roe_Hall": ["Roe Hall is a house.", "It was bought by Mara Ellwood.", "It was sold by Ellwood in 1970."],
            "Bob_Low": ["Bob Low (born 1940) is a poet.", "He lives at Roe Hall."],
        }
        found = {draft.text for draft in drafted(graph_of(**texts), CHAIN, 2, ask=True)}
        assert found == {"Bob Low lives at a house that was bought by which film director."}

    @pytest.mark.parametrize("kind", [TREE, INTERSECTION, COMPARISON])
    def test_other_kinds_ask_for_nothing(self, kind: str) -> None:
        assert drafts(kind, 3, ask=True) == ()


class TestComparison:
    @pytest.mark.parametrize("hops", [2, 3])
    def test_is_right_by_the_years(self, hops: int) -> None:
        years = {page.number: page.begun[1] for page in graph().pages if page.begun}
        for draft in drafts(COMPARISON, hops):
            first, last = years[draft.order[0]], years[draft.order[-1]]
            assert (" before " in draft.text, " after " in draft.text) == (first < last, first > last)
            assert (" before " in draft.opposite, " after " in draft.opposite) == (first > last, first < last)

    def test_compares_two_pages_of_one_kind(self) -> None:
        for draft in drafts(COMPARISON, 2):
            one, two = (graph().pages[number] for number in draft.order)
            assert one.kind == two.kind
            assert one.begun is not None
            assert two.begun is not None
            assert one.begun[0] == two.begun[0]

    def test_two_are_enough_for_one(self) -> None:
        texts = {
            "Brenholt": ["Brenholt is a town in Corvia.", "It was founded in 1288.", "It lies on the Aske River."],
            "Tarnby": ["Tarnby is a town in Corvia.", "It was founded in 1402.", "It lies on the Blue Lake."],
            "Aske_River": ["Aske River is a river."],
            "Blue_Lake": ["Blue Lake is a lake."],
        }
        assert {draft.text for draft in drafted(graph_of(**texts), COMPARISON, 2)} == {
            "Brenholt was founded before Tarnby.",
            "Tarnby was founded after Brenholt.",
        }

    def test_equal_years_are_stated_as_equal(self) -> None:
        texts = {name: [f"{name} is a town in Corvia.", "It was founded in 1288."] for name in ("Brenholt", "Tarnby")}
        found = list(drafted(graph_of(**texts), COMPARISON, 2))
        assert found[0].text == "Brenholt was founded in the same year as Tarnby."
        assert found[0].opposite.startswith("was founded ten years before")


class TestCandidates:
    def test_drafts_exist_only_for_candidates(self) -> None:
        maker = drafter(graph())
        for kind in KINDS:
            for hops in (2, 3, 4, 5):
                for page in graph().pages:
                    if page.number not in maker.candidates(kind, hops):
                        assert maker.draft(kind, page, hops, random.Random(0)) is None, (kind, hops, page.title)

    def test_no_candidates_for_a_length_outside_the_kind(self) -> None:
        maker = drafter(graph())
        assert maker.candidates(TREE, 2) == maker.candidates(INTERSECTION, 2) == maker.candidates(COMPARISON, 4) == []
