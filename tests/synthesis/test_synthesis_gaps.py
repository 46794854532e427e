"""Questions with a gap: the gap, its question word, and the place of the answer."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from baleen.core.errors import ConfigError
from baleen.synthesis.drafting import Drafter
from baleen.synthesis.drafts import BRIDGE, CHAIN, COMPARISON, TREE, Draft
from baleen.synthesis.gaps import GAP, gap, gaps
from baleen.synthesis.mentions import Mention
from baleen.synthesis.pages import Page
from baleen.synthesis.phrases import Describer, Part
from baleen.synthesis.questions import Question
from baleen.synthesis.settings import SynthesisConfig
from baleen.synthesis.synthesizing import MOST_ASKED, Claim, synthesize
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


def asked(draft: Draft, seed: int = 0) -> Question | None:
    return gap(draft, PAGES, GRAPH.texts.__getitem__, random.Random(seed))


def found(text: str, *names: str, pages: list[Page] | None = None) -> set[tuple[str, str]]:
    """Each gap of a text that mentions pages: the text as it asks, and the answer."""
    mentions = tuple(Mention(text.index(name), text.index(name) + len(name), NUMBERS[name]) for name in names)
    part = Part(text, 0, 0, mentions)
    return {(text[: each.start] + each.asking + text[each.end :], each.answer) for each in gaps(part, pages or PAGES)}


def without_kind(title: str, kind: str) -> list[Page]:
    """The pages, one of which is of another kind."""
    pages = list(PAGES)
    pages[NUMBERS[title]] = replace(pages[NUMBERS[title]], kind=kind)
    return pages


class TestNames:
    def test_pages_are_asked_by_kind_and_people_by_who(self) -> None:
        assert found("grew up in Quillham", "Quillham") == {("grew up in which town", "Quillham")}
        assert found("studied under Mara Ellwood", "Mara Ellwood") == {("studied under who", "Mara Ellwood")}

    @pytest.mark.parametrize("kind", ["", "southernmost", "entity"])
    def test_a_page_without_a_noun_is_asked_by_what(self, kind: str) -> None:
        pages = without_kind("Quillham", kind)
        assert found("grew up in Quillham", "Quillham", pages=pages) == {("grew up in what", "Quillham")}

    def test_a_name_without_a_page_is_asked_by_what(self) -> None:
        assert found("published the poems of Clara Hadley") == {("published the poems of what", "Clara Hadley")}
        assert found("studied at the University of the Arts") == {("studied at what", "University of the Arts")}

    @pytest.mark.parametrize("doing", ["was directed by", "was composed by", "married"])
    def test_or_by_who_after_verbs_of_people(self, doing: str) -> None:
        assert found(f"{doing} Clara Hadley") == {(f"{doing} who", "Clara Hadley")}

    def test_words_that_lead_up_to_a_name_are_left_out(self) -> None:
        assert found("was screened at the Corona Theatre") == {("was screened at what", "Corona Theatre")}
        assert found('appeared in "Winter Ferries"', "Winter Ferries") == {
            ("appeared in which novel", "Winter Ferries")
        }

    @pytest.mark.parametrize(
        "text",
        [
            "was run by the Department for Transport",  # one name, of which neither half may go
            "taught at the School of Arts and Sciences",
            "toured in Corvia and Lower Sound",  # one of two
            'appeared in "Night in Corvia with Friends"',  # part of a title
            "ended in November",
            "was a Corvian novelist",  # no noun phrase can stand there
            "won many prizes",
        ],
    )
    def test_parts_of_names_are_no_gaps(self, text: str) -> None:
        assert not found(text)


class TestNumbers:
    @pytest.mark.parametrize("before", ["was founded in", "was closed until", "has stood since", "was led from"])
    def test_a_year(self, before: str) -> None:
        assert found(f"{before} 1288") == {(f"{before} what year", "1288")}
        assert found(f"{before} 1288 by monks") == {(f"{before} what year by monks", "1288")}

    def test_a_count(self) -> None:
        assert found("made 212 appearances") == {("made how many appearances", "212")}

    @pytest.mark.parametrize(
        "text",
        [
            "was released on 9 March 1974",  # a year that belongs to a day
            "was released on March 9 and seen by many",  # a day is no count
            "played in the 1966 final",  # a year that tells a final from others
            "was fought in 1990 and 1991",
            "rose in 1200 metres",  # a quantity
            "has over 150 members",  # about so many
            "ran the men's 110 metres hurdles",  # what a race is called
            "lies on highway 12 near the coast",
            "lies along Interstate 12 corridor",
            "made 212 and left",  # of what, it does not say
        ],
    )
    def test_other_numbers_are_left(self, text: str) -> None:
        assert not found(text)

    def test_the_number_in_a_name_is_left(self) -> None:
        text = "won at Winter Ferries in 1938"
        inside = Part(text, 0, 0, (Mention(7, len(text), NUMBERS["Winter Ferries"]),))
        assert {each.asking for each in gaps(inside, PAGES)} == {"which novel"}
        counted = Part("led 11 towns", 0, 0, (Mention(4, 12, NUMBERS["Winter Ferries"]),))
        assert {each.asking for each in gaps(counted, PAGES)} <= {"which novel"}


class TestGap:
    def test_the_answer_is_in_a_gold_sentence_word_for_word(self) -> None:
        made = 0
        for draft in (*drafts(CHAIN, 2), *drafts(BRIDGE, 3), *drafts(TREE, 3), *drafts(CHAIN, 3, named=False)):
            question = asked(draft)
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
        for draft in drafts(CHAIN, 2):
            question = asked(draft)
            if question is None:
                continue
            both = list(zip(draft.parts, question.draft.parts, strict=True))
            (changed,) = (new for old, new in both if old != new)
            assert (changed.mentions, changed.whole) == ((), False), "its words are not what the page says any more"
            assert question.text == question.draft.question

    def test_the_answer_is_on_a_page_that_is_not_named(self) -> None:
        for draft in (*drafts(CHAIN, 2), *drafts(TREE, 3)):
            for seed in range(4):
                question = asked(draft, seed)
                if question is not None:
                    (changed,) = set(question.draft.parts) - set(draft.parts)
                    assert changed.page not in draft.named

    def test_parts_that_only_identify_a_page_have_no_gap(self) -> None:
        for draft in (*drafts(BRIDGE, 2), *drafts(CHAIN, 2, named=False)):
            for seed in range(4):
                question = asked(draft, seed)
                assert question is None or question.draft.subject == draft.subject

    def test_a_question_contains_no_part_of_its_answer(self) -> None:
        page, said = NUMBERS["Quillham"], "was named after Clara Hadley"
        whole = Part(said, page, 0)
        draft = Draft(CHAIN, (Part("Ada Roe"),), (Part("lives in a town that "), whole), ((page, 0),), (0, page), (0,))
        texts = lambda _: "Clara Hadley"  # noqa: E731
        question = gap(draft, PAGES, texts, random.Random(0))
        assert question is not None
        assert question.text == "Ada Roe lives in a town that was named after what?"
        hinted = replace(draft, subject=(Part("Clara Roe"),))
        assert gap(hinted, PAGES, texts, random.Random(0)) is None

    def test_comparisons_and_statements_that_ask_already_have_none(self) -> None:
        others = [*drafts(COMPARISON, 2), *drafts(COMPARISON, 3), *drafts(CHAIN, 2, ask=True)]
        assert len({draft.kind for draft in others}) == 2
        for draft in others:
            assert asked(draft) is None

    def test_answers_spelt_otherwise_on_the_page_are_no_gaps(self) -> None:
        with_gaps = [draft for draft in drafts(CHAIN, 2) if asked(draft)]
        assert with_gaps
        assert all(gap(draft, PAGES, lambda _: "", random.Random(0)) is None for draft in with_gaps)


class TestSynthesis:
    def made(self, **settings: Any) -> list[Claim]:
        return list(synthesize(GRAPH, SynthesisConfig(limit=300, solved=1, **settings)))

    def test_all_questions_except_comparisons_can_be_gaps(self) -> None:
        made = self.made(questions=1, gaps=1)
        texts = {page.pid: TEXTS[page.title] for page in PAGES}
        assert {claim.kind for claim in made} >= {CHAIN, BRIDGE, TREE, COMPARISON}
        for claim in made:
            assert claim.label is None
            assert claim.answer is not None
            assert (claim.made == GAP) == (claim.kind != COMPARISON)
            if claim.made == GAP:
                assert any(claim.answer in texts[pid][sid] for pid, sid in claim.facts)
                assert claim.answer not in claim.text

    def test_a_share_of_them_may_be(self) -> None:
        made = [claim for claim in self.made(questions=1, gaps=0.3) if claim.kind != COMPARISON]
        assert 0.15 < sum(claim.made == GAP for claim in made) / len(made) < 0.45

    def test_the_same_gap_is_asked_for_a_limited_number_of_times(self) -> None:
        made = [claim for claim in self.made(questions=1, gaps=1) if claim.made == GAP]
        times = Counter(
            (piece["id"], piece["sid"], claim.answer)
            for claim in made
            for piece in claim.pieces
            if any(word in f" {piece['text']} " for word in (" what ", " which ", " who ", " how many "))
        )
        assert max(times.values()) <= MOST_ASKED

    def test_without_a_share_there_are_no_gaps(self) -> None:
        made = [claim.to_json() for claim in self.made(questions=0.5)]
        digest = hashlib.sha256(json.dumps(made).encode()).hexdigest()[:16]
        assert (len(made), digest) == (208, "90af4cf43da21032"), "of the code before gaps.py, by these lines"

    @pytest.mark.parametrize("share", [1.5, -0.1])
    def test_an_invalid_share_is_refused(self, share: float) -> None:
        with pytest.raises(ConfigError, match=rf"gaps = {share}; expected a share between 0 and 1"):
            SynthesisConfig(gaps=share)
