"""The subject of a passage, and statements about it."""

from __future__ import annotations

import pytest

from baleen.synthesis.pages import Page, noun_of
from small_encyclopaedia import graph_of


def page_of(title: str, *sentences: str) -> Page:
    return graph_of(**{title: sentences}).pages[0]


def said(page: Page) -> list[tuple[int, str]]:
    return [(clause.sid, clause.text) for clause in page.clauses]


class TestNounOf:
    @pytest.mark.parametrize(
        ("predicate", "found"),
        [
            ("a harbour town in Corvia", ("a", "harbour town", "town")),
            ("an English actress and film producer who left", ("an", "English actress and film producer", "producer")),
            ("the 44th edition of the Berlin Marathon", None),
            ("an album by The Roes", ("an", "album", "album")),
            ("a novel, written in 1950", ("a", "novel", "novel")),
            ("a mayor of Corvia", ("a", "mayor", "mayor")),
            ("a member of parliament", ("a", "member of parliament", "member")),
            ("a surname", None),
            ("the most populous", None),
            ("a very very long and winding tale that tells not what it is of", ("a", "very very long and winding tale", "tale")),
            ("a", None),
        ],
    )  # fmt: skip
    def test_article_noun_phrase_and_noun(self, predicate: str, found: tuple[str, str, str] | None) -> None:
        assert noun_of(predicate) == found


class TestDefinition:
    def test_finds_the_kind_of_a_page(self) -> None:
        page = page_of("Brenholt", "Brenholt (pop. 3,000) is a harbour town in Corvia.")
        assert (page.article, page.noun, page.kind, page.person) == ("a", "harbour town", "town", False)
        assert page.definition is not None
        assert page.definition.text == "is a harbour town in Corvia"

    @pytest.mark.parametrize(
        "first", ["Brenholt lies in Corvia.", "Corvia is a country.", "Brenholt is a town", "Is it?"]
    )
    def test_there_may_be_none(self, first: str) -> None:
        page = page_of("Brenholt", first)
        assert (page.kind, page.article, page.definition) == ("", "", None)

    def test_the_article_of_its_first_sentence_is_part_of_the_subject(self) -> None:
        assert page_of("Aske River", "The Aske River is a river in Corvia.").subject == "the Aske River"
        assert page_of("The Roes", "The Roes are a rock band.").subject == "The Roes"

    def test_a_bracket_goes_before_the_name_where_it_is_a_noun(self) -> None:
        assert page_of("Dune (1984 film)", "Dune is a film.").subject == "the 1984 film Dune"
        assert page_of("Dune (Arrakis)", "Dune is a planet.").subject == "Dune (Arrakis)"


class TestPerson:
    @pytest.mark.parametrize(
        "sentences",
        [
            ["Ada Roe (born 1931) is a painter."],
            ["Ada Roe is a painter.", "She lives in Brenholt."],
            ["Ada Roe is a film director.", "Her films won prizes."],
            ["Ada Roe (born 1931) is a film critic."],
        ],
    )
    def test_a_birth_or_a_pronoun_makes_a_person(self, sentences: list[str]) -> None:
        page = page_of("Ada Roe", *sentences)
        assert page.person
        assert page.which == "who"

    @pytest.mark.parametrize(
        "sentences",
        [
            ["Ada Roe is a film.", "He made it in 1990."],
            ["Ada Roe is a film score.", "He wrote it in 1990."],
            ["Ada Roe is a ship.", "Her captain was Bob Roe (born 1950)."],
            ["Ada Roe is a foundation named after Bob Roe (born 1950)."],
        ],
    )
    def test_what_is_none(self, sentences: list[str]) -> None:
        page = page_of("Ada Roe", *sentences)
        assert not page.person
        assert page.which == "that"


class TestClauses:
    def test_are_taken_from_sentences_whose_subject_is_the_page(self) -> None:
        page = page_of(
            "Mara Ellwood",
            "Mara Ellwood (born 1931) is a film director.",
            "She was born in Brenholt and studied in Tarnby.",
            "Ellwood won the Silver Heron in 1970.",
            "Mara Ellwood also wrote two novels.",
            "Her brother lived in Quillham.",
            "Bob Roe left the country.",
        )
        texts = [text for _, text in said(page)]
        assert "won the Silver Heron in 1970" in texts
        assert "wrote two novels" in texts
        assert {sid for sid, _ in said(page)} == {1, 2, 3}

    def test_a_pronoun_means_the_page_only_after_a_sentence_about_it(self) -> None:
        page = page_of(
            "Brenholt",
            "Brenholt is a town.",
            "The mayor is Bob Roe.",
            "It was founded in 1288.",
            "The town has a harbour.",
        )
        assert said(page) == [(3, "has a harbour")]

    def test_he_and_she_are_persons_and_it_is_a_thing(self) -> None:
        assert said(page_of("Brenholt", "Brenholt is a town.", "He was founded in 1288.")) == []
        assert said(page_of("Ada Roe", "Ada Roe (born 1931) is a poet.", "It was written in 1950.")) == []

    def test_know_their_sentence_and_the_mentions_in_them(self) -> None:
        graph = graph_of(
            Ada_Roe=["Ada Roe (born 1931) is a poet.", "She was born (in May) in Brenholt and later moved to Tarnby."],
            Brenholt=["Brenholt is a harbour town in Corvia."],
            Tarnby=["Tarnby is a market town in Corvia."],
        )
        page = graph.pages[0]
        spelled = [
            (clause.sid, clause.text[mention.start : mention.end], mention.target)
            for clause in page.all_clauses
            for mention in clause.mentions
        ]
        assert spelled == [(1, "Brenholt", 1), (1, "Tarnby", 2)]
        assert page.links == {1, 2}


class TestBegun:
    @pytest.mark.parametrize(
        ("first", "year"),
        [
            ("Ada Roe (born 3 May 1931) is a poet.", 1931),
            ("Ada Roe (born Ada Low; 1931) is a poet.", 1931),
            ("Ada Roe (3 May 1931 – 12 June 2004) was a poet.", 1931),
            ("Ada Roe (1931-2004) was a poet.", 1931),
            ("Ada Roe (reigned 1931–2004) was a poet.", None),
            ("Ada Roe (fl. 1531–1560) was a poet.", None),
            ("Ada Roe was a poet, the wife of Bob Roe (born 1920).", None),
            ("Ada Roe was a poet.", None),
        ],
    )
    def test_a_birth_is_in_the_bracket_of_the_subject(self, first: str, year: int | None) -> None:
        page = page_of("Ada Roe", first, "She lived in Corvia.")
        assert page.begun == (None if year is None else ("born", year, 0))

    def test_a_thing_is_founded_or_opened_where_a_clause_says_so(self) -> None:
        town = page_of("Brenholt", "Brenholt is a town.", "It was founded by monks in 1288.")
        assert town.begun == ("founded", 1288, 1)
        assert page_of("Roe Hall", "Roe Hall is a theatre.", "It was opened in 1903.").begun == ("opened", 1903, 1)

    @pytest.mark.parametrize(
        "second", ["It was destroyed and founded again in 1300.", "It was founded by monks.", "It opened."]
    )
    def test_and_nowhere_else(self, second: str) -> None:
        assert page_of("Brenholt", "Brenholt is a town.", second).begun is None
