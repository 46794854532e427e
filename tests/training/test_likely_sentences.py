"""Likely gold sentences of datasets that annotate passages alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baleen.core.types import Passage, Query
from baleen.data.example import Example
from baleen.training.cross_encoder.condenser_examples import gold_sids
from baleen.training.cross_encoder.likely_sentences import (
    likelihood_scorer,
    likelihoods,
    likely_sentences,
    word_overlaps,
)
from baleen.training.hop_order.evidence_match import contains, content_words, is_extractive, title_overlap

PASSAGES = {
    passage.pid: passage
    for passage in (
        Passage.from_sentences(
            "orlova",
            "Lena Orlova",
            ["Lena Orlova is a chemist.", "She was born in 1950.", "", "She teaches at the University of Vardal."],
        ),
        Passage.from_sentences(
            "vardal",
            "University of Vardal (north)",
            ["It is old.", "Its opera house was built by Ivo Brandt.", "Ivo Brandt is its rector, who wrote an opera."],
        ),
        Passage.from_sentences("blank", "Blank", ["", " "]),
        Passage.from_sentences("empty", "Empty", []),
    )
}

WORDS = ["Lena", "orlova", "chemist", "the", "1950", "OPERA", "Ivo", "vardal", "?", "built by"]
ANSWERS = [None, "", "yes", "Ivo Brandt", "1950.", "a chemist", "Moscow"]


def chosen(text: str, pid: str, *gold: str, answer: str | None = None, most: int = 2) -> list[int]:
    example = Example("q", text, gold or ("orlova", "vardal"), answer=answer)
    return list(likely_sentences(PASSAGES.__getitem__, most)(example, PASSAGES[pid]))


def test_sentences_with_words_of_the_question_are_likely() -> None:
    assert chosen("A chemist of 1950 wrote it.", "orlova", "orlova") == [0, 1]
    assert chosen("Someone born in 1950 wrote it.", "orlova", "orlova") == [1]


def test_naming_another_gold_passage_makes_a_sentence_likely() -> None:
    assert chosen("What of Lena Orlova?", "orlova") == [3]
    assert chosen("What of Lena Orlova?", "orlova", "orlova") == [0], "without a sign, the first one"


def test_a_sentence_with_the_answer_is_likely() -> None:
    assert chosen("Who?", "vardal", answer="Ivo Brandt") == [1, 2]
    assert chosen("Who wrote an opera?", "vardal", answer="Ivo Brandt") == [2]
    assert chosen("Is it?", "vardal", answer="yes") == [0]


def test_the_passages_own_title_does_not_count() -> None:
    assert chosen("Did Lena Orlova live in 1950?", "orlova", "orlova") == [1]


def test_number_of_likely_sentences_is_limited() -> None:
    text = "A rector of the opera house was built by Ivo Brandt who wrote an opera"
    assert chosen(text, "vardal", most=1) == [1]
    assert len(chosen(text, "vardal", most=2)) <= 2


def test_blank_sentences_are_never_chosen() -> None:
    assert chosen("Blank?", "blank", "blank") == chosen("Empty?", "empty", "empty") == []


def test_choices_do_not_depend_on_other_questions() -> None:
    choose = likely_sentences(PASSAGES.__getitem__)
    first, second = (Example(str(n), text, ("orlova",)) for n, text in enumerate(("A chemist?", "Born in 1950?")))
    assert [list(choose(each, PASSAGES["orlova"])) for each in (first, second, first)] == [[0], [1], [0]]


def test_likelihood_scorer_finds_gold_sentences() -> None:
    example = Example("q", "Who was born in 1950?", ("orlova", "vardal"))
    scorer = likelihood_scorer([example], PASSAGES.__getitem__)
    passage = PASSAGES["orlova"]
    assert list(scorer(Query(example.text), passage)) == likelihoods(example, passage, PASSAGES.__getitem__)
    assert likelihoods(example, passage, PASSAGES.__getitem__) == pytest.approx([0, 1, 0, 0.3])
    assert gold_sids(example, Query(example.text), passage, scorer) == (1,)


@given(st.sampled_from(sorted(PASSAGES)), st.lists(st.sampled_from(WORDS), max_size=9), st.sampled_from(ANSWERS))
def test_likelihoods_match_the_definition(pid: str, asked: list[str], answer: str | None) -> None:
    """The expected scores are computed by sentence and word."""
    example, passage = Example("q", " ".join(asked), ("orlova", "vardal"), answer=answer), PASSAGES[pid]
    title = content_words(passage.title)
    left = content_words(example.text) - title
    others = [each for each in (PASSAGES["orlova"], PASSAGES["vardal"]) if each.pid != pid]
    expected = []
    for sentence in passage.sentences:
        score = len((content_words(sentence) - title) & left) / max(1, len(left))
        score += 0.3 * any(title_overlap(other.title, sentence) == 1 for other in others)
        expected.append(score + 0.5 * (is_extractive(answer) and contains(sentence, answer or "")))
    assert likelihoods(example, passage, PASSAGES.__getitem__) == expected
    shares = [len((content_words(each) - title) & left) / max(1, len(left)) for each in passage.sentences]
    assert word_overlaps(example, passage) == shares


def test_equal_questions_with_other_passages_are_kept_apart() -> None:
    """As in two collections."""
    both = [Example("q", "What of her?", ("orlova", "vardal")), Example("r", "What of her?", ("blank",))]
    scorer = likelihood_scorer(both, PASSAGES.__getitem__)
    found = list(scorer(Query("What of her?"), PASSAGES["orlova"]))
    assert found == likelihoods(both[0], PASSAGES["orlova"], PASSAGES.__getitem__)
