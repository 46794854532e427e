"""False drafts: one change each, which the page does not support."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

import pytest

from baleen.core.types import Passage
from baleen.data.example import NOT_ENOUGH, REFUTED
from baleen.synthesis.drafting import Drafter
from baleen.synthesis.drafts import BRIDGE, CHAIN, COMPARISON, INTERSECTION, TREE, Draft
from baleen.synthesis.falsehoods import BORROWED, ENTITY, NUMBER, ORDER, RELATION, Falsehood, Falsifier
from baleen.synthesis.graph import Graph, read_graph
from baleen.synthesis.lexicon import OPPOSITES
from baleen.synthesis.phrases import Describer, Part
from small_encyclopaedia import graph, graph_of

CELLS = [(CHAIN, 2), (CHAIN, 3), (BRIDGE, 2), (BRIDGE, 3), (TREE, 3), (INTERSECTION, 3), (COMPARISON, 2)]


def falsifier(graph: Graph) -> Falsifier:
    return Falsifier(graph.pages, lambda number: graph.texts[number])


def drafts() -> Iterator[Draft]:
    maker = Drafter(graph().pages, Describer(graph().pages, lambda number: bool(graph().pages[number].kind)))
    for kind, hops in CELLS:
        for number in maker.candidates(kind, hops):
            for seed in range(4):
                draft = maker.draft(kind, graph().pages[number], hops, random.Random(seed))
                if draft is not None:
                    yield draft


@cache
def refuted() -> list[tuple[Draft, Falsehood]]:
    turner = falsifier(graph())
    pairs = [(draft, turner.refute(draft, random.Random(seed))) for seed, draft in enumerate(drafts())]
    return [(draft, false) for draft, false in pairs if false is not None]


@cache
def unsettled() -> list[tuple[Draft, Falsehood]]:
    turner = falsifier(graph())
    pairs = [(draft, turner.unsettle(draft, random.Random(seed))) for seed, draft in enumerate(drafts())]
    return [(draft, false) for draft, false in pairs if false is not None]


def changed(true: Draft, false: Draft) -> list[tuple[Part, Part]]:
    """The parts that differ."""
    pairs = zip(true.parts, false.parts, strict=True)
    return [(one, two) for one, two in pairs if one.text != two.text]


def difference(true: str, false: str) -> tuple[list[str], list[str]]:
    """The words that one text has and the other has not."""
    one, two = true.split(), false.split()
    while one and two and one[0] == two[0]:
        one, two = one[1:], two[1:]
    while one and two and one[-1] == two[-1]:
        one, two = one[:-1], two[:-1]
    return one, two


class TestRefuted:
    def test_is_made_in_every_way(self) -> None:
        assert {false.how for _, false in refuted()} == {NUMBER, ENTITY, RELATION, ORDER}
        assert {false.label for _, false in refuted()} == {REFUTED}

    def test_differs_in_one_piece_and_rests_on_the_same_sentences(self) -> None:
        for true, false in refuted():
            assert len(changed(true, false.draft)) == 1
            assert false.draft.facts == true.facts
            assert (false.draft.order, false.draft.named) == (true.order, true.named)

    def test_the_other_number_is_not_on_the_page(self) -> None:
        for true, false in refuted():
            if false.how == NUMBER:
                ((one, two),) = changed(true, false.draft)
                (_, (new,)) = difference(one.text, two.text)
                assert new.strip(",.") not in graph().texts[one.page]

    def test_the_other_entity_has_the_kind_and_no_link_to_the_page(self) -> None:
        names = {page.name: page for page in graph().pages}
        for true, false in refuted():
            if false.how == ENTITY:
                ((one, two),) = changed(true, false.draft)
                old, new = (names[" ".join(words)] for words in difference(one.text, two.text))
                assert (old.kind, old.person) == (new.kind, new.person)
                assert new.number not in graph().pages[one.page].links
                assert new.name not in graph().texts[one.page]

    def test_the_other_relation_is_the_opposite_and_not_on_the_page(self) -> None:
        for true, false in refuted():
            if false.how == RELATION:
                ((one, two),) = changed(true, false.draft)
                ((old,), (new,)) = difference(one.text, two.text)
                assert OPPOSITES[old.strip(",")] == new.strip(",")
                assert new.strip(",") not in graph().texts[one.page].split()

    def test_the_order_of_a_comparison_is_reversed(self) -> None:
        for true, false in refuted():
            if true.kind == COMPARISON:
                assert false.how == ORDER
                turned = {"before": "after", "after": "before"}
                assert false.draft.text == " ".join(turned.get(word, word) for word in true.text.split())

    def test_joined_and_left_are_not_exchanged(self) -> None:
        found = graph_of(Bob_Low=["Bob Low (born 1940) is a poet.", "He joined the navy.", "He left the navy."])
        part = Part("joined the navy", 0, 1)
        draft = Draft(CHAIN, (Part("Bob Low"),), (part,), ((0, 1),), (0,), (0,))
        assert falsifier(found).refute(draft, random.Random(0)) is None

    def test_a_draft_without_changeable_words_is_not_refuted(self) -> None:
        found = graph_of(Bob_Low=["Bob Low (born 1940) is a poet.", "He wrote many poems."])
        draft = Draft(CHAIN, (Part("Bob Low"),), (Part("wrote many poems", 0, 1),), ((0, 1),), (0,), (0,))
        assert falsifier(found).refute(draft, random.Random(0)) is None

    @pytest.mark.parametrize("seed", range(20))
    def test_a_year_is_not_changed_to_one_that_the_page_gives(self, seed: int) -> None:
        years = " ".join(str(year) for year in range(1930, 1970) if year != 1955)
        found = graph_of(Bob_Low=["Bob Low (born 1940) is a poet.", "He won it in 1950.", f"Prizes: {years}."])
        draft = Draft(CHAIN, (Part("Bob Low"),), (Part("came in 1950", 0, 1),), ((0, 1),), (0,), (0,))
        false = falsifier(found).refute(draft, random.Random(seed))
        assert false is None or "1955" in false.draft.text

    @pytest.mark.parametrize(("said", "text"), [
        ("It has a stand.", "Bob Low played for Tarnby United."),
        ("It was led by Bob Low.", None),
    ])  # fmt: skip
    def test_an_entity_that_mentions_the_page_is_not_used(self, said: str, text: str | None) -> None:
        found = graph_of(
            Bob_Low=["Bob Low (born 1940) is a footballer.", "He played for Brenholt Rovers."],
            Brenholt_Rovers=["Brenholt Rovers is a football club."],
            Tarnby_United=["Tarnby United is a football club.", said],
        )
        clause = found.pages[0].clauses[0]
        draft = Draft(CHAIN, (Part("Bob Low"),), (Part(clause.text, 0, 1, clause.mentions),), ((0, 1),), (0,), (0,))
        false = falsifier(found).refute(draft, random.Random(0))
        assert (false.draft.text if false else None) == text

    @pytest.mark.parametrize("seed", range(20))
    def test_numbers_inside_a_name_stay(self, seed: int) -> None:
        found = graph_of(
            Area_1951=["Area 1951 is a band.", "It was formed in Corvia."],
            Bob_Low=["Bob Low (born 1940) is a poet.", "He played in Area 1951."],
        )
        clause = found.pages[1].clauses[0]
        draft = Draft(CHAIN, (Part("Bob Low"),), (Part(clause.text, 1, 1, clause.mentions),), ((1, 1),), (1,), (1,))
        assert falsifier(found).refute(draft, random.Random(seed)) is None


class TestNotEnough:
    def test_is_a_clause_borrowed_from_another_of_the_kind(self) -> None:
        assert unsettled()
        for true, false in unsettled():
            assert (false.label, false.how) == (NOT_ENOUGH, BORROWED)
            ((one, two),) = changed(true, false.draft)
            page = graph().pages[one.page]
            lenders = [each for each in graph().pages if two.text in {clause.text for clause in each.clauses}]
            assert lenders
            assert all((each.kind, each.person) == (page.kind, page.person) for each in lenders)
            assert page not in lenders

    def test_rests_on_sentences_of_all_its_pages(self) -> None:
        for true, false in unsettled():
            assert {page for page, _ in false.draft.facts} == set(true.order)
            assert len(set(false.draft.facts)) == len(false.draft.facts)

    def test_is_not_stated_by_the_page(self) -> None:
        for true, false in unsettled():
            ((one, two),) = changed(true, false.draft)
            telling = [word.strip(",") for word in two.text.split() if word[0].isupper() or word[0].isdigit()]
            assert telling
            assert not any(word in graph().texts[one.page] for word in telling)

    def test_a_founding_year_is_not_borrowed(self) -> None:
        texts = {
            name: [f"{name} is a town in Corvia.", f"It was founded in {year} by monks.", "It has a harbour."]
            for name, year in (("Brenholt", 1288), ("Tarnby", 1402))
        }
        found = graph_of(**texts)
        part = Part("has a harbour", 0, 2, whole=True)
        draft = Draft(CHAIN, (Part("Brenholt"),), (part,), ((0, 2),), (0,), (0,))
        assert falsifier(found).unsettle(draft, random.Random(0)) is None

    def test_nothing_is_borrowed_from_another_section_of_the_same_document(self) -> None:
        sections = [
            ["Brenholt is a town.", "It has a harbour."],
            ["Brenholt is a town.", "It was built by monks from Osterby."],
        ]
        found = read_graph(Passage.from_sentences(str(sid), "Brenholt", said) for sid, said in enumerate(sections))
        part = Part("has a harbour", 0, 1, whole=True)
        draft = Draft(CHAIN, (Part("Brenholt"),), (part,), ((0, 1),), (0,), (0,))
        assert falsifier(found).unsettle(draft, random.Random(0)) is None
