from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from baleen.core.errors import CheckpointError, ConfigError
from baleen.core.types import WHOLE_PASSAGE, Fact, Passage, Query
from baleen.models.markup import fact_text, passage_text
from baleen.models.pairs import CrossConfig, CrossInput, CrossInputs
from fakes import CORPUS
from hop_fakes import TOKENIZER, TOKENS, cross_inputs

UNHURRIED = settings(max_examples=60, deadline=None)
INPUTS = cross_inputs()
PIECES = [
    "a",
    "whale",
    "Harbour",
    "1811",
    "sings,",
    "[MASK]",
    "[SEP]",
    "[CLS]",
    "#",
    "|",
    "鲸鱼",
    "الحوت",
    "🐋",
    "q" * 9,
]
SHORT = st.lists(st.sampled_from(PIECES), max_size=6).map(" ".join)
LONG = st.builds(lambda piece, count: " ".join([piece] * count), st.sampled_from(PIECES), st.integers(30, 300))
TEXTS = SHORT | SHORT | LONG | st.sampled_from(["", " ", "\u200b"])
FACTS = st.builds(Fact, st.just("p"), st.just(0), SHORT, TEXTS, st.floats(-5, 5), st.integers(1, 4))
QUERIES = st.builds(Query, TEXTS, st.lists(FACTS, max_size=5).map(tuple))
PASSAGES = st.builds(Passage.from_sentences, st.just("p"), TEXTS, st.lists(TEXTS, max_size=8))
CONFIGS = st.builds(
    lambda query, right: CrossConfig(length=query + right, query_length=query), st.integers(8, 64), st.integers(16, 64)
)


def tokens(text: str) -> list[int]:
    return list(INPUTS.tokenizer.encode(text, add_special_tokens=False).ids)


def token(name: str) -> int:
    return int(INPUTS.tokenizer.token_to_id(name))


def shown(row: CrossInput) -> str:
    return " ".join(INPUTS.tokenizer.id_to_token(number) for number in row.ids)


def with_config(config: CrossConfig) -> CrossInputs:
    return CrossInputs(TOKENIZER, TOKENS, config)


def left_side(row: CrossInput) -> list[int]:
    return list(row.ids[1 : row.right - 1])


def assert_well_formed(row: CrossInput, config: CrossConfig) -> None:
    assert len(row) <= config.length
    assert len(left_side(row)) <= config.query_length
    separator = token("[SEP]")
    assert [place for place, number in enumerate(row.ids) if number == separator] == [row.right - 1, len(row) - 1]
    assert row.ids[0] == token("[CLS]")
    assert row.ids.count(token("[CLS]")) == 1
    assert len(row.places) == len(row.keys)


def assert_marked(rows: Sequence[CrossInput], texts: dict[int, str], config: CrossConfig) -> None:
    """Assert that every text follows a marker once, whole or, if it is too long alone, cut."""
    marker = token("[MASK]")
    for row in rows:
        assert_well_formed(row, config)
        assert row.places
        assert [place for place, number in enumerate(row.ids) if number == marker] == row.places
        ends = [*row.places[1:], len(row) - 1]
        for key, place, end in zip(row.keys, row.places, ends, strict=True):
            found, expected = list(row.ids[place + 1 : end]), tokens(texts[key])
            assert found == expected[: len(found)]
            alone = len(row.keys) == 1 and len(row) == config.length
            assert len(found) == len(expected) or (alone and len(found) >= 8)
    assert [key for row in rows for key in row.keys] == list(texts)


def assert_keeps_the_claim(row: CrossInput, query: Query, config: CrossConfig) -> None:
    claim = tokens(query.text)
    kept = claim[: config.query_length // 2]
    assert left_side(row)[: len(kept)] == kept


def laid_by_definition(
    inputs: CrossInputs, query: Query, passage: Passage
) -> list[tuple[list[int], list[int], list[int]]]:
    """A slow reference: ids, places and keys of every window, sentence by sentence."""
    left = inputs._query(query)
    room = inputs.config.length - 3 - len(left)
    title = tokens(passage.title)[: room // 4]
    windows: list[list[tuple[int, list[int]]]] = []
    for sid, text in enumerate(passage.sentences):
        cut = tokens(text)[: room - len(title) - 1]
        full = not windows or sum(len(ids) + 1 for _, ids in windows[-1]) + len(cut) + 1 > room - len(title)
        if text.strip():
            windows += [[]] if full else []
            windows[-1].append((sid, cut))
    rows = []
    for window in windows:
        ids, places = [token("[CLS]"), *left, token("[SEP]"), *title], []
        for _, cut in window:
            places.append(len(ids))
            ids += [token("[MASK]"), *cut]
        rows.append(([*ids, token("[SEP]")], places, [sid for sid, _ in window]))
    return rows


@UNHURRIED
@given(QUERIES, st.lists(PASSAGES, max_size=3), CONFIGS)
def test_sentence_layout_equals_a_slow_reference(query: Query, passages: list[Passage], config: CrossConfig) -> None:
    for learnt in (False, True):
        inputs = with_config(config)
        if learnt:
            inputs.cache_queries([query])
            inputs.cache_passages(passages, sentences=True)
        for passage, rows in zip(passages, inputs.sentences_of(query, passages), strict=True):
            laid = [(list(row.ids), row.places, row.keys) for row in rows]
            assert laid == laid_by_definition(inputs, query, passage)
            assert all(row.right == len(inputs._query(query)) + 2 for row in rows)
            assert inputs.sentences(query, passage) == rows


@UNHURRIED
@given(QUERIES, PASSAGES, CONFIGS)
def test_markers_and_sentences_never_slip(query: Query, passage: Passage, config: CrossConfig) -> None:
    rows = with_config(config).sentences(query, passage)
    texts = {sid: text for sid, text in enumerate(passage.sentences) if text.strip()}
    assert_marked(rows, texts, config)
    for row in rows:
        assert_keeps_the_claim(row, query, config)
        title = list(row.ids[row.right : row.places[0]])
        assert title == tokens(passage.title)[: len(title)]
        assert passage.title.strip("\u200b ") == "" or title, "every window stands under the title"


@UNHURRIED
@given(QUERIES, CONFIGS)
def test_markers_and_facts_never_slip(query: Query, config: CrossConfig) -> None:
    rows = with_config(config).facts(query.text, query.facts)
    assert_marked(rows, dict(enumerate(map(fact_text, query.facts))), config)
    for row in rows:
        assert left_side(row) == tokens(query.text)[: config.query_length]


@UNHURRIED
@given(QUERIES, PASSAGES, CONFIGS)
def test_a_passage_is_read_to_its_end_in_windows_under_its_title(
    query: Query, passage: Passage, config: CrossConfig
) -> None:
    rows = with_config(config).passage(query, passage)
    text, title = tokens(passage_text(passage.title, passage.text)), tokens(passage_text(passage.title, ""))
    rights = [row.ids[row.right : -1] for row in rows]
    read = list(rights[0])
    repeated = min(len(title), (config.length - rows[0].right - 1) // 4)
    for right in rights[1:]:
        assert right[:repeated] == title[:repeated]
        read += right[repeated:]
    assert read == text
    for row in rows:
        assert_well_formed(row, config)
        assert_keeps_the_claim(row, query, config)
        assert (row.places, row.keys) == ([0], [0])


@UNHURRIED
@given(QUERIES, CONFIGS)
def test_evidence_words_span_exactly_their_tokens(query: Query, config: CrossConfig) -> None:
    row, words = with_config(config).evidence(query)
    assert_well_formed(row, config)
    assert (row.places[0], row.keys[0]) == (0, -1)
    assert row.keys[1:] == list(range(len(words)))
    for place, word in zip(row.places[1:], words, strict=True):
        name = str(INPUTS.tokenizer.id_to_token(row.ids[place]))
        cut = fact_text(query.facts[word.fact])[word.start : word.end]
        assert name == "[UNK]" or name.removeprefix("##") == cut.lower()
        assert cut.strip()
    between = [number for place, number in enumerate(row.ids[:-1]) if place >= row.right and place not in row.places]
    assert set(between) <= {token("#")}, "every token is a word of a fact or stands between two"


@UNHURRIED
@given(QUERIES, CONFIGS)
def test_evidence_leaves_out_the_facts_that_score_lowest(query: Query, config: CrossConfig) -> None:
    row, words = with_config(config).evidence(query)
    sizes = [len(tokens(fact_text(fact))) for fact in query.facts]
    read = list(dict.fromkeys(word.fact for word in words))
    assert read == sorted(read)
    whole = all(sum(word.fact == number for word in words) == sizes[number] for number in read)
    assert whole or len(read) == 1
    if read:
        best = max(fact.score for fact, size in zip(query.facts, sizes, strict=True))
        assert any(query.facts[number].score == best for number in read) or min(sizes) == 0
    room = config.length - 3 - len(left_side(row))
    if sum(sizes) + max(0, len(sizes) - 1) <= room:
        assert len(words) == sum(sizes), "what fits to the last token is read"


def test_each_stage_reads_its_own_layout() -> None:
    query = Query("a b", (Fact("p", 0, "c", "d"), Fact("p", 1, "", "e")))
    passage = Passage.from_sentences("p", "f", ["g h", "", "i"])
    (sentences,) = INPUTS.sentences(query, passage)
    assert shown(sentences) == "[CLS] a b # c | d # e [SEP] f [MASK] g h [MASK] i [SEP]"
    assert (sentences.places, sentences.keys) == ([11, 14], [0, 2])
    (facts,) = INPUTS.facts(query.text, query.facts)
    assert shown(facts) == "[CLS] a b [SEP] [MASK] c | d [MASK] e [SEP]"
    (whole,) = INPUTS.passage(query, passage)
    assert shown(whole) == "[CLS] a b # c | d # e [SEP] f | g h i [SEP]"
    assert shown(INPUTS.sentence(query, "f", "g h")) == "[CLS] a b # c | d # e [SEP] f | g h [SEP]"
    evidence, words = INPUTS.evidence(query)
    assert shown(evidence) == "[CLS] a b [SEP] c | d # e [SEP]"
    assert evidence.places == [0, 4, 5, 6, 8]
    assert [word.fact for word in words] == [0, 0, 0, 1]
    assert evidence.at_cls().places == evidence.at_cls().keys == [0]
    assert evidence.at_cls().ids == evidence.ids


def test_a_claim_of_5000_words_leaves_room_for_facts_and_passage() -> None:
    query = Query("whale " * 5000, (Fact("p", 0, "c", "d"),))
    (row,) = INPUTS.sentences(query, CORPUS[0])
    assert_well_formed(row, INPUTS.config)
    assert len(left_side(row)) == 256
    assert left_side(row)[-4:] == [token(name) for name in "#c|d"]
    assert row.keys == [0, 1]
    (facts,) = INPUTS.facts(query.text, query.facts)
    assert len(left_side(facts)) == 256
    assert INPUTS.evidence(query)[1]


def test_an_empty_passage_has_one_window_without_markers() -> None:
    empty = Passage("p", "", "")
    assert INPUTS.sentences(Query("a"), empty) == []
    assert INPUTS.sentences(Query("a"), Passage.from_sentences("p", "t", ["", " "])) == []
    assert [shown(row) for row in INPUTS.passage(Query("a"), empty)] == ["[CLS] a [SEP] [SEP]"]
    assert INPUTS.facts("a", []) == []
    row, words = INPUTS.evidence(Query("a"))
    assert (shown(row), row.places, words) == ("[CLS] a [SEP] [SEP]", [0], [])


def test_a_passage_of_2000_sentences_is_read_whole() -> None:
    passage = Passage.from_sentences("p", "t", [f"whale {number}" for number in range(2000)])
    rows = INPUTS.sentences(Query("a"), passage)
    assert_marked(rows, dict(enumerate(passage.sentences)), INPUTS.config)


def test_oldest_facts_are_dropped_and_the_claim_keeps_half() -> None:
    facts = tuple(Fact("p", hop, "", "abcd"[hop] * 3, 0.0, hop) for hop in range(4))  # three tokens each
    inputs = cross_inputs(length=64, query_length=16)

    def left(claim: str, count: int = 4) -> str:
        row = inputs.passage(Query(claim, facts[:count]), CORPUS[0])[0]
        return "".join(INPUTS.tokenizer.id_to_token(number).removeprefix("##") for number in left_side(row))

    assert left("x") == "x#bbb#ccc#ddd", "the oldest is left out, not cut"
    assert left("x " * 20) == "x" * 8 + "#ccc#ddd"
    assert left("x " * 20, 1) == "x" * 12 + "#aaa", "a claim has the room that facts do not take"
    assert left("x " * 20, 0) == "x" * 16


def test_a_fact_that_is_longer_than_its_room_is_cut() -> None:
    whole = Fact("p", WHOLE_PASSAGE, "c", "whale " * 600)
    query = Query("a b", (whole,))
    (row,) = INPUTS.passage(query, CORPUS[0])
    assert len(left_side(row)) == 256
    (row,) = INPUTS.facts(query.text, query.facts)
    assert len(row) == 512
    row, words = INPUTS.evidence(query)
    assert len(row) == 512
    assert len(words) == 512 - 5


def test_evidence_that_fits_to_the_last_token_is_read_whole() -> None:
    inputs = cross_inputs(length=24, query_length=8)
    for right, read in ((19, {0, 1}), (20, {1})):  # 24 less [CLS], two [SEP] and a claim of two tokens
        query = Query("a b", (Fact("p", 0, "", "c " * 9, 1.0), Fact("p", 1, "", "d " * (right - 10), 2.0)))
        row, words = inputs.evidence(query)
        assert {word.fact for word in words} == read
        assert len(row) == (24 if len(read) == 2 else 24 - 9)


def test_text_that_spells_a_special_token_is_text() -> None:
    (row,) = INPUTS.sentences(Query("[SEP] [CLS]"), Passage.from_sentences("p", "[MASK]", ["[MASK] [SEP]", "b"]))
    assert_marked([row], {0: "[MASK] [SEP]", 1: "b"}, INPUTS.config)


def test_a_batch_is_padded_and_knows_sides_rows_and_places() -> None:
    rows = [
        *INPUTS.sentences(Query("a"), Passage.from_sentences("p", "t", ["b", "c d"])),
        INPUTS.sentence(Query("a"), "", "b"),
    ]
    batch = INPUTS.batch(rows)
    pad = token("[PAD]")
    assert batch.ids.tolist() == [list(rows[0].ids), [*rows[1].ids, *[pad] * 5]]
    assert batch.types.tolist() == [[0] * 3 + [1] * 7, [0] * 3 + [1] * 2 + [0] * 5]
    assert batch.attention.tolist() == [[True] * 10, [True] * 5 + [False] * 5]
    assert batch.rows.tolist() == [0, 0, 1]
    assert batch.places.tolist() == [4, 6, 0]
    assert batch.ids.dtype == batch.types.dtype == batch.rows.dtype == batch.places.dtype == torch.int64
    assert batch.attention.dtype == torch.bool
    assert batch.ids[batch.rows, batch.places].tolist() == [token("[MASK]"), token("[MASK]"), token("[CLS]")]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"query_length": 7}, "query_length = 7, expected at least 8"),
        ({"length": 271}, "set it to at least 272"),
        ({"marker": "[M]"}, r"no token '\[M\]'"),
    ],
)
def test_settings_that_cannot_hold_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        cross_inputs(**settings)


def test_a_tokenizer_must_be_one() -> None:
    with pytest.raises(CheckpointError, match="does not describe a tokenizer"):
        CrossInputs("{}", TOKENS, CrossConfig())
