from __future__ import annotations

import dataclasses
import string
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from baleen.config import from_mapping, to_mapping
from baleen.errors import CheckpointError, ConfigError
from baleen.markup import fact_text
from baleen.tokenization import EncoderConfig, InputMaker, SpecialTokens
from baleen.types import Passage, Query
from fakes import BERT_TOKENS, CORPUS, QUERIES, bert_folder

UNHURRIED = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])

TOKENS = SpecialTokens("[CLS]", "[SEP]", "[PAD]", "[MASK]")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> str:
    return (bert_folder(tmp_path_factory.mktemp("bert")) / "tokenizer.json").read_text()


def tokens_of(inputs: InputMaker, ids: list[int]) -> list[str]:
    return [str(inputs.tokenizer.id_to_token(number)) for number in ids]


def test_a_query_is_padded_with_masks_to_its_length(tokenizer: str) -> None:
    inputs = InputMaker(tokenizer, TOKENS, EncoderConfig(query_length=8))
    (row,) = inputs.query_ids([Query("a b")])
    assert tokens_of(inputs, row.claim) == ["[CLS]", "[unused0]", "a", "b", "[SEP]", "[MASK]", "[MASK]", "[MASK]"]
    assert row.real == 5
    assert row.facts == []


def test_a_long_claim_is_cut_and_keeps_its_separator(tokenizer: str) -> None:
    inputs = InputMaker(tokenizer, TOKENS, EncoderConfig(query_length=6))
    (row,) = inputs.query_ids([Query("a b c d e f g")])
    assert tokens_of(inputs, row.claim) == ["[CLS]", "[unused0]", "a", "b", "c", "[SEP]"]


def test_masks_are_out_of_attention_unless_asked_for(tokenizer: str) -> None:
    for attend in (False, True):
        inputs = InputMaker(tokenizer, TOKENS, EncoderConfig(query_length=8, attend_to_masks=attend))
        batch = inputs.query_batch(inputs.query_ids([Query("a b", QUERIES[1].facts), Query("a")]))
        assert batch.attention[0, :8].tolist() == [True] * 5 + [attend] * 3
        assert batch.attention[0, 8:].all()
        assert not batch.attention[1, 8:].any()


def test_without_masks_a_claim_is_as_long_as_it_is(tokenizer: str) -> None:
    inputs = InputMaker(tokenizer, TOKENS, EncoderConfig(query_length=8, mask_padding=False))
    batch = inputs.query_batch(inputs.query_ids([Query("a b", QUERIES[1].facts[:1]), Query("a")]))
    assert batch.claim_lengths.tolist() == [5, 4]
    assert batch.claim_width == 5
    assert batch.attention[1].sum() == 4


def test_facts_follow_as_their_text_with_a_separator_at_the_end(tokenizer: str) -> None:
    inputs = InputMaker(tokenizer, TOKENS, EncoderConfig())
    (row,) = inputs.query_ids([QUERIES[1]])
    inputs.tokenizer.encode_special_tokens = False  # so that the separators of the string become tokens
    text = " [SEP] ".join(map(fact_text, QUERIES[1].facts)) + " [SEP]"
    assert row.facts == inputs.tokenizer.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("limit", [0, 1, 2, 9])
def test_facts_are_cut_and_keep_the_last_separator(tokenizer: str, limit: int) -> None:
    inputs = InputMaker(tokenizer, TOKENS, EncoderConfig(facts_length=limit))
    (row,) = inputs.query_ids([QUERIES[1]])
    assert len(row.facts) == limit
    assert limit == 0 or tokens_of(inputs, row.facts)[-1] == "[SEP]"


def test_a_passage_has_title_text_and_a_limit(tokenizer: str) -> None:
    inputs = InputMaker(tokenizer, TOKENS, EncoderConfig(passage_length=7))
    (ids,) = inputs.passage_ids([Passage("0", "a", "b c d e f")])
    assert tokens_of(inputs, ids) == ["[CLS]", "[unused1]", "a", "|", "b", "c", "[SEP]"]


def test_punctuation_is_dropped_from_passages_and_special_tokens_stay(tokenizer: str) -> None:
    passage = Passage("0", "", "a, b. " + string.punctuation)
    inputs = InputMaker(tokenizer, TOKENS, EncoderConfig())
    rows = inputs.passage_ids([passage, Passage("1", "", "a")])
    batch = inputs.passage_batch(rows)
    kept = batch.ids[0][batch.keep[0]].tolist()
    assert tokens_of(inputs, kept) == ["[CLS]", "[unused1]", "a", "b", "[SEP]"]
    assert batch.keep[1].sum() == 4
    everything = InputMaker(tokenizer, TOKENS, EncoderConfig(drop_punctuation=False)).passage_batch(rows)
    assert torch.equal(everything.keep, everything.attention)


@UNHURRIED
@given(text=st.lists(st.sampled_from(["a", " ", *BERT_TOKENS.values(), "[unused0]", "|"])).map("".join))
def test_no_text_becomes_a_special_token(tokenizer: str, text: str) -> None:
    inputs = InputMaker(tokenizer, TOKENS, EncoderConfig())
    unknown = BERT_TOKENS["unk"]
    special = {*BERT_TOKENS.values(), "[unused0]"} - {unknown}
    assert special.isdisjoint(tokens_of(inputs, inputs.tokenize([text])[0]))


def test_batches_are_as_wide_as_their_longest_row(tokenizer: str) -> None:
    inputs = InputMaker(tokenizer, TOKENS, EncoderConfig())
    rows = inputs.passage_ids(CORPUS)
    batch = inputs.passage_batch(rows)
    assert batch.ids.shape == (8, max(map(len, rows)))
    assert batch.ids.dtype == torch.int64
    assert batch.attention.sum(1).tolist() == [len(row) for row in rows]


def test_masks_need_a_mask_token(tokenizer: str) -> None:
    with pytest.raises(ConfigError, match="set mask_padding to false"):
        InputMaker(tokenizer, dataclasses.replace(TOKENS, mask=None), EncoderConfig())
    InputMaker(tokenizer, dataclasses.replace(TOKENS, mask=None), EncoderConfig(mask_padding=False))


def test_markers_must_exist_and_a_tokenizer_must_be_one(tokenizer: str) -> None:
    with pytest.raises(ConfigError, match=r"no token '\[Q\]'"):
        InputMaker(tokenizer, TOKENS, EncoderConfig(query_marker="[Q]"))
    with pytest.raises(CheckpointError, match="does not describe a tokenizer"):
        InputMaker("{}", TOKENS, EncoderConfig())


@pytest.mark.parametrize(
    "settings",
    [
        {"dim": 0},
        {"query_length": 3},
        {"facts_length": -1},
        {"passage_length": 0},
        {"query_focus": 0},
        {"query_marker": ""},
    ],
)
def test_settings_that_cannot_hold_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        EncoderConfig(**settings)


def test_settings_go_through_json() -> None:
    config = EncoderConfig(query_focus=None, facts_focus=3)
    assert from_mapping(EncoderConfig, to_mapping(config)) == config
    with pytest.raises(ConfigError, match="did you mean 'query_focus'"):
        from_mapping(EncoderConfig, {"query_focuss": 3})
