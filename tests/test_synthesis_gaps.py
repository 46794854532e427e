"""Questions with a gap: what may be left out of a statement, how it is asked for, and where the answer stands."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from baleen.errors import ConfigError
from baleen.synthesis.drafting import Drafter
from baleen.synthesis.drafts import BRIDGE, CHAIN, COMPARISON, INTERSECTION, TREE, Draft
from baleen.synthesis.gaps import gap, gaps
from baleen.synthesis.mentions import Mention
from baleen.synthesis.phrases import Describer, Part
from baleen.synthesis.settings import SynthesisConfig
from baleen.synthesis.synthesizing import Claim, synthesize
from small_encyclopaedia import TEXTS, graph

GRAPH = graph()
PAGES = GRAPH.pages
TITLES = list(TEXTS)
NUMBERS = {title: number for number, title in enumerate(TITLES)}


def drafts(kind: str, hops: int, *, ask: bool = False, named: bool = True) -> Iterator[Draft]:
    maker = Drafter(PAGES, Describer(PAGES, lambda number: bool(PAGES[number].kind)))
    for number in maker.candidates(kind, hops):
        for seed in range(6):
            draft = maker.draft(kind, PAGES[number], hops, random.Random(seed), named=named, ask=ask)
            if draft is not None:
                yield draft


def found(text: str, *names: str) -> set[tuple[str, str]]:
    """Each gap of a text that mentions pages: the text as it asks, and the answer."""
    mentions = tuple(Mention(text.index(name), text.index(name) + len(name), NUMBERS[name]) for name in names)
    part = Part(text, 0, 0, mentions)
    return {(text[: each.start] + each.asking + text[each.end :], each.answer) for each in gaps(part, PAGES)}


class TestWhatMayBeLeftOut:
    def test_a_page_is_asked_for_by_its_kind_and_a_person_by_who(self) -> None:
        assert found("grew up in Quillham", "Quillham") == {("grew up in which town", "Quillham")}
        assert found("studied under Mara Ellwood", "Mara Ellwood") == {("studied under who", "Mara Ellwood")}

    def test_a_name_without_a_page_is_asked_for_by_what(self) -> None:
        assert found("published the poems of Clara Hadley") == {("published the poems of what", "Clara Hadley")}

    def test_what_leads_up_to_a_name_goes_with_it(self) -> None:
        assert found("was screened at the Corona Theatre") == {("was screened at what", "Corona Theatre")}
        assert found('appeared in "Winter Ferries"', "Winter Ferries") == {
            ("appeared in which novel", "Winter Ferries")
        }

    def test_a_year_and_a_count(self) -> None:
        assert found("was founded in 1288 by monks") == {("was founded in what year by monks", "1288")}
        assert found("made 212 appearances") == {("made how many appearances", "212")}

    @pytest.mark.parametrize(
        "text",
        [
            "was released on 9 March 1974",  # a year that belongs to a day
            "played in the 1966 final",  # and one that tells a final from others
            "has over 150 members",  # about so many
            "was a Corvian novelist",  # no noun phrase can stand there
            "won many prizes",
        ],
    )
    def test_what_cannot_be_asked_for_is_left(self, text: str) -> None:
        assert found(text) == set()


class TestGap:
    def test_asks_for_what_a_gold_sentence_says_word_for_word(self) -> None:
        made = 0
        for draft in (*drafts(CHAIN, 2), *drafts(BRIDGE, 3), *drafts(TREE, 3), *drafts(INTERSECTION, 3)):
            question = gap(draft, PAGES, GRAPH.texts.__getitem__, random.Random(0))
            if question is None:
                continue
            made += 1
            gold = [TEXTS[TITLES[page]][sid] for page, sid in draft.facts]
            assert any(question.answer in sentence for sentence in gold)
            assert question.text.endswith("?")
            assert question.answer in draft.text
            assert question.answer not in question.text
            assert (question.draft.facts, question.draft.order) == (draft.facts, draft.order)
        assert made > 50

    def test_the_rest_of_the_statement_stays_as_it_was(self) -> None:
        draft = next(iter(drafts(CHAIN, 2)))
        question = gap(draft, PAGES, GRAPH.texts.__getitem__, random.Random(0))
        assert question is not None
        asked = [(old.text, new.text) for old, new in zip(draft.parts, question.draft.parts, strict=True)]
        assert sum(old != new for old, new in asked) == 1
        assert question.text == f"{question.draft.text[:-1]}?"

    def test_nothing_is_left_out_of_what_only_tells_which_one_is_meant(self) -> None:
        for draft in (*drafts(BRIDGE, 2), *drafts(CHAIN, 2, named=False)):
            for seed in range(4):
                question = gap(draft, PAGES, GRAPH.texts.__getitem__, random.Random(seed))
                assert question is None or question.draft.subject == draft.subject

    def test_comparisons_and_statements_that_ask_already_have_none(self) -> None:
        for draft in (*drafts(COMPARISON, 2), *drafts(CHAIN, 2, ask=True)):
            assert gap(draft, PAGES, GRAPH.texts.__getitem__, random.Random(0)) is None

    def test_nor_has_one_whose_answer_the_page_spells_otherwise(self) -> None:
        draft = next(iter(drafts(CHAIN, 2)))
        assert gap(draft, PAGES, lambda _: "", random.Random(0)) is None


class TestSynthesis:
    def made(self, **settings: float) -> list[Claim]:
        return list(synthesize(GRAPH, SynthesisConfig(limit=60, solved=1, **settings)))  # type: ignore[arg-type]

    def test_all_questions_may_be_gaps(self) -> None:
        made = self.made(questions=1, gaps=1)
        assert len(made) == 60
        texts = {page.pid: TEXTS[page.title] for page in PAGES}
        for claim in made:
            assert claim.label is None
            assert claim.answer is not None
            assert any(claim.answer in texts[pid][sid] for pid, sid in claim.facts)
            assert claim.answer not in claim.text

    def test_without_a_share_there_are_none_and_nothing_else_changes(self) -> None:
        assert self.made(questions=0.5) == self.made(questions=0.5, gaps=0.0)
        assert not any(" what year" in claim.text and claim.kind == CHAIN for claim in self.made(questions=1))

    def test_a_share_above_one_is_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"gaps = 1.5; expected a share between 0 and 1"):
            SynthesisConfig(gaps=1.5)
