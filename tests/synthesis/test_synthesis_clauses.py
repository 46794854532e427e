"""Tidying sentences and splitting them into clauses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baleen.synthesis.clauses import clauses, is_plain, predicate, stands_alone, tidied


class TestTidied:
    @pytest.mark.parametrize(
        ("sentence", "tidy"),
        [
            ("Toledo (/təˈliːdoʊ/) is a city in Ohio.", "Toledo is a city in Ohio."),
            ("Ada (born 1815 (or 1816)) was a countess.", "Ada was a countess."),
            ("The club[1] won [citation needed] in 1990.", "The club won in 1990."),
            ("He wrote “Dune” – a ‘novel’.", "He wrote \"Dune\" - a 'novel'."),
            ("  Two\tblanks  and\nlines. ", "Two blanks and lines."),
            ("Rome (Italy) , the capital (1870) .", "Rome, the capital."),
            ("Ada, (a countess), wrote.", "Ada, wrote."),
            ("", ""),
            ("(all of it)", ""),
        ],
    )
    def test_brackets_are_removed_and_punctuation_is_plain(self, sentence: str, tidy: str) -> None:
        assert tidied(sentence) == tidy

    def test_an_unclosed_bracket_stays_and_is_not_plain(self) -> None:
        assert tidied("Toledo (a city is in Ohio.") == "Toledo (a city is in Ohio."
        assert not is_plain("Toledo (a city is in Ohio.")

    @given(st.text(alphabet="ab ()[]“”–", max_size=60))
    def test_tidying_twice_changes_nothing(self, text: str) -> None:
        assert tidied(tidied(text)) == tidied(text)

    @given(st.text(max_size=60))
    def test_blanks_are_single(self, text: str) -> None:
        assert "  " not in tidied(text)


class TestIsPlain:
    @pytest.mark.parametrize("text", ["Ada wrote it.", 'He wrote "Dune".', "Ærø is a Danish island."])
    def test_one_statement_in_latin_letters_is_plain(self, text: str) -> None:
        assert is_plain(text)

    @pytest.mark.parametrize(
        "text", ["", "Ada wrote it", "Who wrote it?", 'He wrote "Dune.', "Токио is a city.", "It costs <5>."]
    )
    def test_other_texts_are_not_plain(self, text: str) -> None:
        assert not is_plain(text)


class TestPredicate:
    def test_begins_with_the_finite_verb(self) -> None:
        assert predicate(["was", "born", "in", "Ohio"]) == 0

    def test_or_after_adverbs(self) -> None:
        assert predicate(["also", "later", "played", "for", "them"]) == 2

    @pytest.mark.parametrize("said", ["University was founded", "and Bob played", "", "also then later played"])
    def test_other_words_are_no_finite_verbs(self, said: str) -> None:
        assert predicate(said.split()) is None


class TestClauses:
    @pytest.mark.parametrize(
        ("said", "found"),
        [
            ("played for the Rovers", ["played for the Rovers"]),
            ("played for the Rovers and moved to Quillham in 2010", ["played for the Rovers", "moved to Quillham in 2010"]),
            ("was founded and destroyed in 1940", ["was founded and destroyed in 1940"]),
            ("lies on the Aske River, which freezes", ["lies on the Aske River"]),
            ("won the cup in 1938, becoming a hero", ["won the cup in 1938"]),
        ],
    )  # fmt: skip
    def test_a_predicate_is_split_before_verbs_of_the_same_subject(self, said: str, found: list[str]) -> None:
        assert list(clauses(said)) == found

    @given(
        st.lists(
            st.sampled_from(["was", "born", "in", "Ohio", "and", "moved", "to", "Paris", ",", "which", "which", "he"]),
            max_size=14,
        )
    )
    def test_clauses_are_complete_parts_of_the_predicate(self, words: list[str]) -> None:
        said = " ".join(words).replace(" ,", ",")
        for clause in clauses(said):
            assert clause in said
            assert stands_alone(clause)


class TestStandsAlone:
    @pytest.mark.parametrize("clause", ["was born in Ohio", "won the cup in 1938", 'wrote the novel "Dune"'])
    def test_complete_clauses_are_accepted(self, clause: str) -> None:
        assert stands_alone(clause)

    @pytest.mark.parametrize(
        ("clause", "why"),
        [
            ("was born", "too short"),
            ("was " + "very " * 24 + "long", "too long"),
            ("was born in the", "ends in the air"),
            ("married him in 1930", "speaks of somebody outside"),
            ("joined the latter in 1990", "likewise"),
            ("wrote the novel \"Dune", "half a quotation"),
            ("was there", "vague"),
            ("is one of them all", "vague"),
            ("sold it, won it, lost the cup", "the middle of a list"),
        ],
    )  # fmt: skip
    def test_incomplete_clauses_do_not(self, clause: str, why: str) -> None:
        assert not stands_alone(clause), why


@pytest.mark.parametrize(
    ("said", "parts"),
    [
        ("was founded in 1900 and destroyed in 1905", ["was founded in 1900 and destroyed in 1905"]),
        ("was born and brought up in the old town", ["was born and brought up in the old town"]),
        ("was a house built in 1900 and sold in 1905", ["was a house built in 1900 and sold in 1905"]),
        ("was a poet of the town and founded a school in 1900", ["was a poet of the town", "founded a school in 1900"]),
    ],
)
def test_a_verb_after_and_can_share_its_auxiliary(said: str, parts: list[str]) -> None:
    assert list(clauses(said)) == parts
