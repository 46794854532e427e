"""Sentence splitting: spans, order, limits."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baleen.core.errors import MissingExtraError
from baleen.data import sentences

PROSE = st.lists(
    st.sampled_from(["Dr.", "He", "ran", "home", "U.S.", "“Yes!”", "Zoë", "😀", "\n", "\n\n", " ", "."])
).map(" ".join)


def sentences_of(text: str) -> list[str]:
    return [text[start:end] for start, end in sentences.split_sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t ", []),
        ("One sentence", ["One sentence"]),
        ("He ran home. She stayed.", ["He ran home.", "She stayed."]),
        ("  He ran home.   She stayed. ", ["He ran home.", "She stayed."]),
        ("Dr. Smith met Mr. J. Jones. They talked.", ["Dr. Smith met Mr. J. Jones.", "They talked."]),
        ("He lives in the U.S. with her. She works.", ["He lives in the U.S. with her.", "She works."]),
        ("Is it so? It is! Good.", ["Is it so?", "It is!", "Good."]),
    ],
)
def test_text_is_split_into_sentences(text: str, expected: list[str]) -> None:
    assert sentences_of(text) == expected


def test_offsets_count_characters_whatever_their_width() -> None:
    assert sentences_of("Zoë met “Ümit” 😀. 𐍈nd she left. Fin.") == ["Zoë met “Ümit” 😀.", "𐍈nd she left.", "Fin."]


@pytest.mark.parametrize("blank", ["\n\n", "\n  \t\n", "\r\n\r\n", "\n\n\n\n"])
def test_a_blank_line_ends_a_sentence_without_a_full_stop(blank: str) -> None:
    assert sentences_of(f"A heading{blank}and a text") == ["A heading", "and a text"]


def test_a_line_break_alone_does_not_end_a_sentence() -> None:
    assert sentences_of("A sentence that was\nwrapped by an editor. Another.") == [
        "A sentence that was\nwrapped by an editor.",
        "Another.",
    ]


@pytest.mark.parametrize("space", ["\u00a0", "\u0085", "\u2028", "\u3000"])
def test_a_wide_space_between_a_capital_and_a_full_stop_does_no_harm(space: str) -> None:
    assert sentences_of(f"He got an A{space}. Then he left.")[-1] == "Then he left."


def test_a_lone_surrogate_does_no_harm() -> None:
    assert sentences_of("He \ud800 ran. She stayed.") == ["He \ud800 ran.", "She stayed."]


@given(st.text() | PROSE)
def test_spans_are_ordered_disjoint_stripped_and_hold_every_visible_character(text: str) -> None:
    check(text, sentences.split_sentences(text))


@given(st.text(alphabet="ab .。\n\u3000é"))
def test_so_they_are_where_a_paragraph_is_longer_than_the_window(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sentences, "WINDOW", 5)
        check(text, sentences.split_sentences(text))


def check(text: str, spans: tuple[tuple[int, int], ...]) -> None:
    position, covered = 0, ""
    for start, end in spans:
        assert position <= start < end <= len(text)
        assert text[start:end] == text[start:end].strip()
        assert not text[position:start].strip()
        covered += text[start:end]
        position = end
    assert "".join(covered.split()) == "".join(text.split())


def test_windows_do_not_move_the_boundaries_of_a_long_paragraph() -> None:
    one = "The ship left the harbour of Gdańsk at dawn. "
    assert sentences_of(one * 1000) == [one.strip()] * 1000


def test_a_sentence_longer_than_the_window_is_cut_at_a_space() -> None:
    found = sentences_of("word " * 5000)
    assert max(map(len, found)) <= sentences.WINDOW
    assert {word for sentence in found for word in sentence.split()} == {"word"}


def test_a_text_without_spaces_takes_no_quadratic_time() -> None:
    before = time.process_time()
    assert len(sentences.split_sentences("今日は。" * 25_000)) == 25_000
    assert time.process_time() - before < 3


def test_importing_the_module_does_not_import_the_library() -> None:
    code = "import sys, baleen.data.sentences; sys.exit('sentencex' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencex", None)
    sentences._library.cache_clear()
    with pytest.raises(MissingExtraError, match="pip install 'sentencex"):
        sentences.split_sentences("Some text.")
