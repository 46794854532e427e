"""Questions made from drafts, and their answers."""

from __future__ import annotations

import random
from collections.abc import Iterator

from baleen.synthesis import questions
from baleen.synthesis.drafting import Drafter
from baleen.synthesis.drafts import BRIDGE, CHAIN, COMPARISON, TREE, Draft
from baleen.synthesis.phrases import Describer, Part
from small_encyclopaedia import TEXTS, graph

PAGES = graph().pages
TITLES = list(TEXTS)


def drafts(kind: str, hops: int, *, ask: bool = False) -> Iterator[Draft]:
    maker = Drafter(PAGES, Describer(PAGES, lambda number: bool(PAGES[number].kind)))
    for number in maker.candidates(kind, hops):
        for seed in range(6):
            draft = maker.draft(kind, PAGES[number], hops, random.Random(seed), ask=ask)
            if draft is not None:
                yield draft


def gold(draft: Draft) -> list[str]:
    return [TEXTS[TITLES[page]][sid] for page, sid in draft.facts]


class TestInPlace:
    def test_asks_for_an_entity_in_a_gold_sentence(self) -> None:
        for draft in [*drafts(CHAIN, 2, ask=True), *drafts(BRIDGE, 3, ask=True)]:
            question = questions.in_place(draft, PAGES)
            assert question is not None
            assert question.text == f"{draft.text[:-1]}?"
            assert any(question.answer in sentence for sentence in gold(draft))
            assert question.answer not in question.text

    def test_asks_nothing_if_the_draft_does_not(self) -> None:
        assert all(questions.in_place(draft, PAGES) is None for draft in drafts(CHAIN, 2))


class TestYear:
    def test_asks_when_the_subject_of_a_bridge_began(self) -> None:
        found = [(draft, questions.year(draft, PAGES)) for draft in drafts(BRIDGE, 2)]
        assert any(question for _, question in found)
        for draft, question in found:
            page = PAGES[draft.order[1]]
            assert (question is None) == (page.begun is None)
            if question is None:
                continue
            assert question.text.startswith("In what year was the ")
            assert question.text.endswith(("founded?", "born?"))
            assert any(question.answer in sentence for sentence in gold(question.draft))
            assert {number for number, _ in question.draft.facts} == set(draft.order)
            assert question.draft.order == draft.order
            assert question.answer not in question.text

    def test_asks_no_year_of_other_drafts(self) -> None:
        others = [*drafts(BRIDGE, 3), *drafts(CHAIN, 2), *drafts(COMPARISON, 2)]
        assert all(questions.year(draft, PAGES) is None for draft in others)


class TestFirst:
    def test_asks_for_the_earlier_of_two_by_the_years(self) -> None:
        found = list(drafts(COMPARISON, 2))
        assert found
        for draft in found:
            question = questions.first(draft, PAGES)
            assert question is not None
            years = {PAGES[number].name: begun[1] for number in draft.order if (begun := PAGES[number].begun)}
            assert question.answer == min(years, key=lambda name: years[name])
            assert question.text.startswith("Who was born" if PAGES[draft.order[0]].person else "Which was founded")
            assert all(name in question.text for name in years)

    def test_asks_it_only_where_both_are_named(self) -> None:
        assert all(questions.first(draft, PAGES) is None for draft in drafts(COMPARISON, 3))


class TestYesOrNo:
    def test_puts_a_copula_first(self) -> None:
        draft = Draft(CHAIN, (Part("Ada Roe"),), (Part("was born in a town", 0, 1),), ((0, 1),), (0,), (0,))
        assert questions.yes_or_no(draft, holds=True).text == "Was Ada Roe born in a town?"

    def test_asks_whether_other_statements_are_true(self) -> None:
        draft = Draft(CHAIN, (Part("the Aske River"),), (Part("flows on", 0, 1),), ((0, 1),), (0,), (0,))
        assert questions.yes_or_no(draft, holds=True).text == "Is it true that the Aske River flows on?"

    def test_and_about_two_statements(self) -> None:
        said = (Part("was born in a town", 0, 1), Part(", and "), Part("moved to a city", 0, 2))
        draft = Draft(TREE, (Part("Ada Roe"),), said, ((0, 1), (0, 2)), (0,), (0,))
        assert questions.yes_or_no(draft, holds=True).text.startswith("Is it true that Ada Roe was born")

    def test_the_answer_is_yes_if_the_statement_is_true(self) -> None:
        (draft, *_) = drafts(CHAIN, 2)
        assert questions.yes_or_no(draft, holds=True).answer == "yes"
        assert questions.yes_or_no(draft, holds=False).answer == "no"
