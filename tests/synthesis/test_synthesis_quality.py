"""Checks of synthetic claims."""

from __future__ import annotations

import pytest

from baleen.synthesis.quality import LONGEST, fingerprint, names_any, reads_well


class TestReadsWell:
    @pytest.mark.parametrize(
        "text",
        [
            "Ada Roe was born in a harbour town.",
            "Is it true that Ada Roe lives in a town?",
            'A film that was adapted from "Dune" won a prize.',
        ],
    )
    def test_plain_claims_read_well(self, text: str) -> None:
        assert reads_well(text)

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("Ada was born.", "too short"),
            ("Ada " + "very " * LONGEST + "often sang.", "too long"),
            ("Ada Roe lives in a the town.", "two articles"),
            ("Ada Roe lives in the an old town.", "two articles"),
            ("Ada Roe lives in in a town.", "a word twice"),
            ("Ada Roe lives in a town of of Corvia.", "a word twice"),
            ("Ada Roe was is in a town.", "two verbs"),
            ("Ada Roe lives in a town , and sings.", "a comma that hangs"),
            ("Ada Roe lives in a town near the sea..", "two full stops"),
            ("Ada Roe married him in a town.", "a pronoun that means nobody"),
            ("Is it true that it was in a town?", "likewise"),
            ("Ada Roe and Bob Low lived in a town respectively.", "likewise"),
            ('Ada Roe wrote "Dune in a town.', "half a quotation"),
            ("A man who saw a man who saw a man who saw a man who saw a man who saw a man who sang.", "nested too deep"),
        ],
    )  # fmt: skip
    def test_visible_seams_do_not_read_well(self, text: str, why: str) -> None:
        assert not reads_well(text), why


class TestNamesAny:
    @pytest.mark.parametrize(
        "text", ["In New York, a man.", "in NEW YORK", "the New-York man", "New York", "(New York)", 'a "New York" man']
    )
    def test_names_match_in_any_case_and_punctuation(self, text: str) -> None:
        assert names_any(text, ["Paris", "New York"])

    @pytest.mark.parametrize("text", ["New Yorkers", "In York a new man", "Anew York", ""])
    def test_parts_of_words_and_parts_of_names_do_not_count(self, text: str) -> None:
        assert not names_any(text, ["New York"])

    def test_no_names_no_leak(self) -> None:
        assert not names_any("New York", [])


class TestFingerprint:
    def test_case_punctuation_and_articles_make_no_difference(self) -> None:
        assert fingerprint("The man, a poet, LEFT.") == fingerprint("a man the poet left")

    @pytest.mark.parametrize("other", ["The man left a poet.", "The men left.", "The man left in 1990."])
    def test_other_words_and_another_order_do(self, other: str) -> None:
        assert fingerprint(other) != fingerprint("The man, a poet, left.")
