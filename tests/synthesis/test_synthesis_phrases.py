"""Descriptions that replace names."""

from __future__ import annotations

import random

import pytest

from baleen.synthesis.mentions import Mention
from baleen.synthesis.pages import Clause
from baleen.synthesis.phrases import Describer, leaks, part_of, slot
from baleen.synthesis.quality import names_any
from small_encyclopaedia import graph


def clause_of(text: str) -> tuple[Clause, Mention]:
    """A clause with the mention in brackets."""
    start, end = text.index("["), text.index("]") - 1
    mention = Mention(start, end, 0)
    return Clause(1, text.replace("[", "").replace("]", ""), (mention,)), mention


class TestSlot:
    @pytest.mark.parametrize(
        ("text", "kept"),
        [
            ("was born in [Brenholt]", "was born in"),
            ("was born in [Brenholt] in 1931", "was born in"),
            ("was born in [Brenholt], Corvia", "was born in"),
            ("flows through the [Brenholt]", "flows through"),
            ("lives in the town of [Brenholt]", "lives in"),
            ("was directed by American director [Mara Ellwood]", "was directed by"),
            ('was adapted from "[Winter Ferries]"', "was adapted from"),
            ("married [Anders Roque] in 1948", "married"),
            ("worked with Bob and [Anders Roque]", "worked with Bob and"),
        ],
    )
    def test_starts_after_the_preposition_or_verb_before_a_name(self, text: str, kept: str) -> None:
        clause, mention = clause_of(text)
        place = slot(clause, mention)
        assert place is not None
        assert clause.text[:place] == f"{kept} "

    @pytest.mark.parametrize(
        "text",
        [
            "was born in [Brenholt]'s harbour",
            "was born in [Brenholt] Harbour",
            "was born in New-[Brenholt]",
            "lies between [Brenholt] and Tarnby",
            "became Duke of [Brenholt]",
            "is [Brenholt]",
        ],
    )
    def test_there_is_none_where_a_description_would_not_read(self, text: str) -> None:
        assert slot(*clause_of(text)) is None


def test_a_part_of_a_clause_has_its_mentions() -> None:
    page = graph().pages[7]
    (clause,) = [clause for clause in page.clauses if clause.text.startswith("taught")]
    whole, cut = part_of(page, clause), part_of(page, clause, 7)
    assert (whole.whole, cut.whole) == (True, False)
    for part in (whole, cut):
        (mention,) = part.mentions
        assert part.text[mention.start : mention.end] == "Osterby Academy"
    assert part_of(page, clause, 0, 9).mentions == ()


class TestLeaks:
    @pytest.mark.parametrize("text", ["A town near Toledo.", "The class of 1984 met."])
    def test_capitalised_words_and_numbers_of_a_name_leak(self, text: str) -> None:
        assert leaks(text, "University of Toledo 1984")

    @pytest.mark.parametrize("text", ["A university of note.", "Toledoans met.", "In 19845."])
    def test_other_words_do_not(self, text: str) -> None:
        assert not leaks(text, "University of Toledo 1984")


def describer(deepest: int = 4) -> Describer:
    return Describer(graph().pages, lambda number: bool(graph().pages[number].kind), deepest)


class TestDescriber:
    @pytest.mark.parametrize("hops", [1, 2, 3])
    def test_a_description_rests_on_as_many_pages_and_names_none(self, hops: int) -> None:
        made, described = 0, describer()
        for page in graph().pages:
            for seed in range(6):
                phrase = described.describe(page, hops, frozenset(), random.Random(seed))
                if phrase is None:
                    continue
                made += 1
                assert phrase.hidden[0] == page.number
                assert len(set(phrase.hidden)) == len(phrase.hidden) == hops
                assert {number for number, _ in phrase.facts} == set(phrase.hidden)
                assert not leaks(phrase.text, page.name)
                assert not names_any(phrase.text, [page.name])
        assert made >= 20

    def test_never_mentions_a_used_page(self) -> None:
        brenholt, described = 11, describer()
        for page in graph().pages:
            phrase = described.describe(page, 2, frozenset({brenholt}), random.Random(0))
            assert phrase is None or brenholt not in phrase.hidden[1:]

    def test_reach_is_how_deep_a_description_can_go(self) -> None:
        reach = {page.title: describer().reach[page.number] for page in graph().pages}
        assert (reach["Tarnby"], reach["Tarnby Athletic"]) == (1, 1)
        assert reach["Brenholt"] >= 2
        assert max(describer(2).reach) == 2

    def test_depths_beyond_reach_are_not_described(self) -> None:
        described = describer()
        for page in graph().pages:
            if described.reach[page.number] < 3:
                assert described.describe(page, 3, frozenset(), random.Random(0)) is None

    def test_a_page_that_is_not_usable_keeps_its_name(self) -> None:
        described = Describer(graph().pages, lambda _: False)
        assert max(described.reach) == 1
