from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baleen import types
from baleen.types import Answer, Fact, Hit, Hop, Passage, Query, Ranking, Record, Trace, Verdict

FACT = Fact("p1", 2, "A title", "A sentence – with a dash.", 0.25, 1)
QUERY = Query("Is it so?", (FACT, Fact("p2", 0, "", "")))
RANKING = Ranking((Hit("p1", 2.5), Hit("p2", -0.125)))
HOP = Hop(QUERY, RANKING, (FACT,), {"retrieve": 0.5, "condense": 0.25})

RECORDS: dict[str, Record] = {
    "passage": Passage("p1", "A title", "One. Two.", ((0, 4), (5, 9)), {"year": 1811, "tags": ["a", None], "deep": {}}),
    "passage with nothing in it": Passage("", "", ""),
    "fact": FACT,
    "fact of defaults": Fact("p", 0, "t", "s"),
    "query": QUERY,
    "query without facts": Query("Is it so?"),
    "hit": Hit("p1", 2.5),
    "ranking": RANKING,
    "empty ranking": Ranking(),
    "verdict": Verdict("SUPPORTED", 0.75),
    "answer": Answer("Ivo Brandt", 1.5),
    "hop": HOP,
    "trace that ends in a verdict": Trace(QUERY, (HOP, HOP), (FACT,), Verdict("SUPPORTED", 0.75)),
    "trace that ends in an answer": Trace(QUERY, (HOP,), (FACT,), Answer("Ivo Brandt", 1.5)),
    "trace that ends in nothing": Trace(QUERY, (HOP,), (FACT,), None),
    "trace without hops": Trace(Query("Is it so?")),
}

WORDS = st.text(st.sampled_from("aé🐋.  \n"), max_size=6)


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS.keys())
def test_a_record_goes_to_json_and_back_without_loss(record: Record) -> None:
    assert type(record).from_json(json.loads(json.dumps(record.to_json()))) == record


def test_every_record_is_among_those_tested() -> None:
    records = {kind for kind in vars(types).values() if isinstance(kind, type) and issubclass(kind, Record)}
    assert {type(record) for record in RECORDS.values()} == records - {Record}


def test_keys_missing_from_json_take_their_defaults() -> None:
    assert Passage.from_json({"pid": "p", "title": "t", "text": "x"}) == Passage("p", "t", "x")
    assert Trace.from_json({"query": {"text": "q"}}) == Trace(Query("q"))


def test_records_are_frozen() -> None:
    with pytest.raises(AttributeError):
        FACT.score = 1.0  # type: ignore[misc]


def test_sentences_are_what_the_spans_cut_out() -> None:
    passage = Passage("p", "t", "One. Two.  Three.", ((0, 4), (5, 9), (9, 9), (11, 17)))
    assert passage.sentences == ("One.", "Two.", "", "Three.")
    assert Passage("p", "t", "One.").sentences == ()


@pytest.mark.parametrize(
    ("given_sentences", "text", "sentences"),
    [
        (["One.", "Two."], "One. Two.", ("One.", "Two.")),
        (["One.", " Two."], "One. Two.", ("One.", "Two.")),
        (["One. ", "Two."], "One. Two.", ("One.", "Two.")),
        (["One.\n", "Two."], "One.\nTwo.", ("One.", "Two.")),
        (["  One.", "Two. "], "  One. Two. ", ("One.", "Two.")),
        (["One.", "", "Two."], "One. Two.", ("One.", "", "Two.")),
        (["", "One.", ""], "One.", ("", "One.", "")),
        (["One.", " ", "Two."], "One. Two.", ("One.", "", "Two.")),
        (["", ""], "", ("", "")),
        ([], "", ()),
    ],
)
def test_sentences_are_joined_by_one_space_unless_one_is_there(
    given_sentences: list[str], text: str, sentences: tuple[str, ...]
) -> None:
    passage = Passage.from_sentences("p", "t", given_sentences)
    assert passage.text == text
    assert passage.sentences == sentences


@given(st.lists(WORDS, max_size=6))
def test_every_sentence_keeps_its_number_and_loses_only_the_space_around_it(sentences: list[str]) -> None:
    passage = Passage.from_sentences("p", "t", sentences)
    assert passage.sentences == tuple(sentence.strip() for sentence in sentences)
    edges = [edge for span in passage.spans for edge in span]
    assert edges == sorted(edges), "spans follow each other without overlap"
    assert not edges or edges[-1] <= len(passage.text)


@given(st.lists(WORDS, max_size=6))
def test_joining_adds_nothing_but_single_spaces_between_words(sentences: list[str]) -> None:
    text = Passage.from_sentences("p", "t", sentences).text
    assert "".join(text.split()) == "".join("".join(sentences).split())
    if not any("  " in sentence or sentence != sentence.strip() for sentence in sentences):
        assert "  " not in text
        assert text == text.strip()


def test_metadata_is_empty_unless_given() -> None:
    assert Passage.from_sentences("p", "t", ["One."]).metadata == {}
    assert Passage.from_sentences("p", "t", ["One."], {"year": 1811}).metadata == {"year": 1811}


def test_a_ranking_reads_like_a_sequence_of_hits() -> None:
    assert RANKING.pids == ("p1", "p2")
    assert len(RANKING) == 2
    assert list(RANKING) == [RANKING[0], RANKING[1]] == list(RANKING.hits)
