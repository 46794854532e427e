"""Mentions of other passages in texts."""

from __future__ import annotations

import sys
from collections.abc import Collection
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baleen.core.errors import MissingExtraError
from baleen.synthesis.mentions import Finder, Mention, explicit, find_form, merged, name_of, short_forms


def finder(*titles: str, common: Collection[str] = ()) -> Finder:
    return Finder([(name_of(title), number) for number, title in enumerate(titles)], common)


def found(finder: Finder, text: str, own: int | None = None) -> list[tuple[str, int]]:
    return [(text[start:end], target) for start, end, target in finder.find(text, own)]


class TestName:
    def test_is_the_title(self) -> None:
        assert name_of("Salt Lantern").text == "Salt Lantern"

    def test_is_the_title_without_its_bracket(self) -> None:
        name = name_of("Casino Royale (2006 film)")
        assert (name.text, name.beside) == ("Casino Royale", frozenset({"2006", "film"}))

    def test_words_of_the_bracket_that_tell_nothing_do_not_count(self) -> None:
        assert name_of("Ada Roe (born 1931 in the south)").beside == {"1931", "south"}

    def test_is_composed_unicode(self) -> None:
        assert name_of("Ae\u0301ro").text == "A\u00e9ro"


class TestFinder:
    def test_finds_names_with_their_places(self) -> None:
        names = finder("University of Toledo", "Ohio")
        assert names.find("He studied at the University of Toledo in Ohio.") == [Mention(18, 38, 0), Mention(42, 46, 1)]

    def test_places_count_characters_in_any_script(self) -> None:
        assert found(finder("Ærø", "Łódź"), "Von Ærø – über “Łódź” – zurück.") == [("Ærø", 0), ("Łódź", 1)]

    def test_the_longest_name_wins(self) -> None:
        assert found(finder("York", "New York", "New York City"), "In New York City and York.") == [
            ("New York City", 2),
            ("York", 0),
        ]

    def test_names_begin_and_end_where_words_do(self) -> None:
        assert found(finder("Toledo"), "Toledoan and McToledo, Toledo's and MyToledo.") == [("Toledo", 0)]

    @pytest.mark.parametrize(
        "text", ["We saw West Toledo.", "We saw Toledo Hall.", "An anti-Toledo vote.", "The Toledo-5."]
    )
    def test_a_part_of_a_longer_name_is_not_meant(self, text: str) -> None:
        assert found(finder("Toledo"), text) == []

    def test_the_first_word_of_a_sentence_makes_no_longer_name(self) -> None:
        assert found(finder("Toledo"), "In Toledo, Toledo is praised.") == [("Toledo", 0), ("Toledo", 0)]

    def test_the_punctuation_inside_a_name_may_differ(self) -> None:
        assert found(finder("AC/DC", "Jean-Luc Roe"), "AC-DC met Jean Luc Roe.") == [("AC-DC", 0), ("Jean Luc Roe", 1)]

    def test_the_mark_that_a_name_ends_with_is_part_of_it(self) -> None:
        names = finder("Mother!")
        assert found(names, "She saw Mother! in Paris.") == [("Mother!", 0)]
        assert found(names, "Mother, she said, Mother.") == []

    def test_a_name_of_several_titles_is_ignored(self) -> None:
        assert found(finder("Mercury (planet)", "Mercury (element)"), "The planet Mercury is no element.") == []
        assert found(finder("Mercury", "Mercury (planet)"), "The planet Mercury.") == []

    def test_parts_of_one_document_share_its_name_and_the_first_bears_it(self) -> None:
        assert found(finder("Whales", "Whales"), "About Whales.") == [("Whales", 0)]

    def test_a_bracket_needs_one_of_its_words_beside_the_name(self) -> None:
        names = finder("Casino Royale (2006 film)")
        assert found(names, "The film Casino Royale was a success.") == [("Casino Royale", 0)]
        assert found(names, "Casino Royale came out in 2006.") == [("Casino Royale", 0)]
        assert found(names, "Fleming wrote Casino Royale.") == []

    def test_and_the_name_itself_is_not_beside_it(self) -> None:
        names = finder("Summer Song (song)")
        assert found(names, "He hummed Summer Song at home.") == []
        assert found(names, "He hummed the song Summer Song.") == [("Summer Song", 0)]

    def test_a_single_word_that_is_also_written_small_is_that_word(self) -> None:
        names = finder("Light", "Light House", common={"light", "house"})
        assert found(names, "Light fell on Light House.") == [("Light House", 1)]

    @pytest.mark.parametrize(
        "title", ["May", "1984", "May 1984", "American", "of the", "is", "Ab", "List of Ships", ""]
    )
    def test_dates_small_words_and_very_short_ones_are_no_names(self, title: str) -> None:
        names = finder(title)
        assert len(names) == 0
        assert names.find(f"In {title} it was so.") == []

    def test_a_passage_does_not_mention_itself(self) -> None:
        assert found(finder("Toledo", "Ohio"), "Toledo is in Ohio.", own=0) == [("Ohio", 1)]

    def test_without_names_nothing_is_found(self) -> None:
        assert finder().find("Toledo is in Ohio.") == []

    @given(st.lists(st.sampled_from(["Ash", "Oak", "Ash Oak", "Elm,", "and", "Åre", "elm."]), max_size=12))
    def test_mentions_are_in_order_apart_and_spell_their_names(self, words: list[str]) -> None:
        titles, text = ("Ash", "Oak", "Ash Oak", "Elm", "Åre"), " ".join(words)
        mentions = finder(*titles).find(text)
        assert [text[mention.start : mention.end] for mention in mentions] == [titles[each.target] for each in mentions]
        assert all(one.end < two.start for one, two in pairwise(mentions))

    def test_the_package_that_finds_them_is_an_extra(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "ahocorasick_rs", None)
        with pytest.raises(MissingExtraError, match=r"'ahocorasick_rs'.*pip install 'baleen\[synthesis\]'"):
            finder("Toledo")


class TestShortForms:
    def test_a_person_s_surname(self) -> None:
        assert short_forms("Mara Ellwood", "She met Mara Ellwood.", person=True) == ["Ellwood"]

    @pytest.mark.parametrize("name", ["Madonna", "Kim Roe", "Anne the small"])
    def test_unless_it_is_short_or_none(self, name: str) -> None:
        assert short_forms(name, f"She met {name}.", person=True) == []

    def test_only_people_have_a_surname(self) -> None:
        assert short_forms("Salt Lantern", "She saw Salt Lantern.", person=False) == []

    @pytest.mark.parametrize("bracket", ["(WHO)", "(the WHO)"])
    def test_an_acronym_that_is_put_in_brackets(self, bracket: str) -> None:
        sentence = f"He joined the World Health Organization {bracket} in 1950."
        assert short_forms("World Health Organization", sentence, person=False) == ["WHO"]

    @pytest.mark.parametrize("bracket", ["(born 1931)", "(Oslo)", "(WHO or such)"])
    def test_other_brackets_hold_none(self, bracket: str) -> None:
        assert short_forms("World Health Organization", f"World Health Organization {bracket} is.", person=False) == []


class TestFindForm:
    def test_stands_by_itself(self) -> None:
        assert find_form("Ellwood", "He met Ellwood, and Ellwood left.", 4) == [Mention(7, 14, 4), Mention(20, 27, 4)]

    @pytest.mark.parametrize(
        "text",
        ["He met Ann Ellwood.", "He left Ellwood Hall.", "He met Ellwoods.", "At Ellwood-on-Sea.", "Ellwood's son."],
    )
    def test_not_in_another_name(self, text: str) -> None:
        assert find_form("Ellwood", text, 4) == []


def test_of_mentions_that_overlap_the_first_and_then_the_longest_stays() -> None:
    one, inside, same, after = Mention(3, 9, 0), Mention(5, 12, 1), Mention(3, 6, 2), Mention(9, 11, 3)
    assert merged([inside, same, after, one]) == [one, after]


NUMBERS = {"Ohio": 0, "Mara Ellwood": 1}


class TestExplicit:
    def test_titles_in_the_text_are_links(self) -> None:
        assert explicit(["Ohio", "Nowhere"], NUMBERS, "In Ohio and Nowhere.") == [Mention(3, 7, 0)]

    def test_pairs_are_a_text_and_a_title(self) -> None:
        assert explicit([["the director", "Mara Ellwood"]], NUMBERS, "By the director.") == [Mention(3, 15, 1)]

    def test_only_as_whole_words(self) -> None:
        assert explicit(["Ohio"], NUMBERS, "An Ohioan from Ohio.") == [Mention(15, 19, 0)]
        assert explicit([["art", "Ohio"]], NUMBERS, "It started.") == []

    @pytest.mark.parametrize(
        "links", [None, "Ohio", {"Ohio": 1}, 7, [None, 3, ["Ohio"], ["a", 1], ["", "Ohio"], [1, "Ohio"]]]
    )
    def test_whatever_else_a_corpus_calls_links_is_passed_over(self, links: object) -> None:
        assert explicit(links, NUMBERS, "In Ohio.") == []
