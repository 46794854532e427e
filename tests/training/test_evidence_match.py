"""Fast word matching agrees with the definition."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baleen.training.hop_order.evidence_match import (
    contains,
    contains_words,
    content_words,
    join_words,
    name_words,
    title_overlap,
    words,
)

TEXTS = st.text(
    st.characters(codec="utf-8") | st.sampled_from("aB_1 .-\t\x1c\u0301\u00e9\u0130\u2013\ufb01\u00df"), max_size=12
)


def by_definition(text: str) -> tuple[str, ...]:
    """The words of a text, character by character."""
    bare = "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
    return tuple(re.findall(r"\w+", bare))


@given(TEXTS)
def test_words_match_the_definition(text: str) -> None:
    assert words(text) == by_definition(text)


@pytest.mark.parametrize("block", range(0, 0x3000, 0x800))
def test_words_match_the_definition_for_common_characters(block: int) -> None:
    for code in range(block, block + 0x800):
        text = f"a{chr(code)}b\u0301 {chr(code)}"
        assert words(text) == by_definition(text), hex(code)


@given(TEXTS, TEXTS)
def test_contains_words_agrees_with_contains(text: str, phrase: str) -> None:
    assert contains_words(words(phrase), join_words(words(text))) == contains(text, phrase)


@given(TEXTS, TEXTS)
def test_full_title_overlap_means_the_name_is_contained(title: str, text: str) -> None:
    assert contains_words(name_words(title), join_words(words(text))) == (title_overlap(title, text) == 1)


def test_content_words_are_unique_and_no_stop_words() -> None:
    assert content_words("The Harbour of the harbour-TOWN") == {"harbour", "town"}
