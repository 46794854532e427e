from __future__ import annotations

import dataclasses
import string
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from baleen.core.config import from_mapping, to_mapping
from baleen.core.errors import CheckpointError, ConfigError
from baleen.core.types import Fact, Passage, Query
from baleen.models.markup import fact_text
from baleen.models.tokens import EncoderConfig, RetrieverInputs, SpecialTokens, latest_facts_within
from fakes import BERT_TOKENS, CORPUS, QUERIES, bert_folder

UNHURRIED = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])

TOKENS = SpecialTokens("[CLS]", "[SEP]", "[PAD]", "[MASK]")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> str:
    return (bert_folder(tmp_path_factory.mktemp("bert")) / "tokenizer.json").read_text()


def tokens_of(inputs: RetrieverInputs, ids: list[int]) -> list[str]:
    return [str(inputs.tokenizer.id_to_token(number)) for number in ids]


def test_a_query_is_padded_with_masks_to_its_length(tokenizer: str) -> None:
    inputs = RetrieverInputs(tokenizer, TOKENS, EncoderConfig(query_length=8))
    (row,) = inputs.query_ids([Query("a b")])
    assert tokens_of(inputs, row.claim) == ["[CLS]", "[unused0]", "a", "b", "[SEP]", "[MASK]", "[MASK]", "[MASK]"]
    assert row.claim_length == 5
    assert row.facts == []


def test_a_long_claim_is_cut_and_keeps_its_separator(tokenizer: str) -> None:
    inputs = RetrieverInputs(tokenizer, TOKENS, EncoderConfig(query_length=6))
    (row,) = inputs.query_ids([Query("a b c d e f g")])
    assert tokens_of(inputs, row.claim) == ["[CLS]", "[unused0]", "a", "b", "c", "[SEP]"]


def test_masks_are_out_of_attention_unless_asked_for(tokenizer: str) -> None:
    for attend in (False, True):
        inputs = RetrieverInputs(tokenizer, TOKENS, EncoderConfig(query_length=8, attend_to_masks=attend))
        batch = inputs.query_batch(inputs.query_ids([Query("a b", QUERIES[1].facts), Query("a")]))
        assert batch.attention[0, :8].tolist() == [True] * 5 + [attend] * 3
        assert batch.attention[0, 8:].all()
        assert not batch.attention[1, 8:].any()


def test_without_masks_a_claim_is_as_long_as_it_is(tokenizer: str) -> None:
    inputs = RetrieverInputs(tokenizer, TOKENS, EncoderConfig(query_length=8, mask_padding=False))
    batch = inputs.query_batch(inputs.query_ids([Query("a b", QUERIES[1].facts[:1]), Query("a")]))
    assert batch.claim_lengths.tolist() == [5, 4]
    assert batch.claim_width == 5
    assert batch.attention[1].sum() == 4


def test_each_fact_ends_with_a_separator(tokenizer: str) -> None:
    inputs = RetrieverInputs(tokenizer, TOKENS, EncoderConfig())
    (row,) = inputs.query_ids([QUERIES[1]])
    inputs.tokenizer.encode_special_tokens = False  # so that the separators of the string become tokens
    text = " [SEP] ".join(map(fact_text, QUERIES[1].facts)) + " [SEP]"
    assert row.facts == inputs.tokenizer.encode(text, add_special_tokens=False).ids


def fact(text: str, hop: int = 0, score: float = 0.0) -> Fact:
    return Fact(f"{text} of {hop}", 0, "", text, score, hop)


def facts_read(tokenizer: str, limit: int, *facts: Fact) -> str:
    inputs = RetrieverInputs(tokenizer, TOKENS, EncoderConfig(facts_length=limit))
    (row,) = inputs.query_ids([Query("q", facts)])
    assert len(row.facts) <= limit
    return " ".join(tokens_of(inputs, row.facts))


def test_oldest_facts_are_dropped_whole(tokenizer: str) -> None:
    facts = fact("a b c", 1), fact("d e", 2), fact("f g", 3)
    whole = "a b c [SEP] d e [SEP] f g [SEP]"
    for limit in range(3, 14):
        expected = whole if limit >= 10 else whole[12:] if limit >= 6 else whole[22:]
        assert facts_read(tokenizer, limit, *facts) == expected


def test_within_a_hop_lower_scores_give_way_to_higher(tokenizer: str) -> None:
    facts = fact("a", 1, 9.0), fact("b", 2, 3.0), fact("c", 2, 1.0), fact("d", 2, 2.0)
    assert facts_read(tokenizer, 8, *facts) == "a [SEP] b [SEP] c [SEP] d [SEP]"
    assert facts_read(tokenizer, 6, *facts) == "b [SEP] c [SEP] d [SEP]"
    assert facts_read(tokenizer, 4, *facts) == "b [SEP] d [SEP]"
    assert facts_read(tokenizer, 2, *facts) == "b [SEP]"


def test_among_equal_facts_the_last_stay(tokenizer: str) -> None:
    assert facts_read(tokenizer, 4, fact("a"), fact("b"), fact("c")) == "b [SEP] c [SEP]"


@pytest.mark.parametrize("limit", [0, 1, 2, 3])
def test_the_newest_fact_is_cut_only_if_too_long_alone(tokenizer: str, limit: int) -> None:
    expected = {0: "", 1: "", 2: "d [SEP]", 3: "d e [SEP]"}[limit]
    assert facts_read(tokenizer, limit, fact("a", 1), fact("d e f g", 2)) == expected


@given(
    st.lists(st.builds(fact, st.sampled_from(["a", "b c", "d e f"]), st.integers(1, 3), st.floats(-1, 1)), max_size=6),
    st.integers(0, 25),
    st.integers(1, 3),
)
def test_kept_facts_rank_above_dropped_ones(facts: list[Fact], room: int, separator: int) -> None:
    ids = [[number] * len(each.text.split()) for number, each in enumerate(facts)]
    kept = latest_facts_within(facts, ids, room, separator)
    assert sum(len(each) + separator for each in kept) <= room
    stay = {each[0] for each in kept}
    assert [each[0] for each in kept] == sorted(stay), "in their order"
    gone = [(each.hop, each.score) for number, each in enumerate(facts) if number not in stay]
    assert all((facts[number].hop, facts[number].score) >= other for number in stay for other in gone)


def test_decode_query_omits_mask_padding(tokenizer: str) -> None:
    inputs = RetrieverInputs(tokenizer, TOKENS, EncoderConfig(query_length=8, facts_length=6))
    (row,) = inputs.query_ids([Query("a b", (fact("c", 1), fact("d [MASK]", 2)))])
    assert inputs.decode_query(row) == "[CLS] [unused0] a b [SEP] d [ m ##a ##s [SEP]"


def test_a_passages_tokens_are_those_whose_vectors_are_kept(tokenizer: str) -> None:
    inputs = RetrieverInputs(tokenizer, TOKENS, EncoderConfig(passage_length=8))
    passage = Passage("0", "a", "b, c. d e")
    assert inputs.passage_tokens(passage) == ["[CLS]", "[unused1]", "a", "b", "c", "[SEP]"]
    assert inputs.passage_tokens(Passage("1", "", "")) == ["[CLS]", "[unused1]", "[SEP]"]


def test_a_passage_has_title_text_and_a_limit(tokenizer: str) -> None:
    inputs = RetrieverInputs(tokenizer, TOKENS, EncoderConfig(passage_length=7))
    (ids,) = inputs.passage_ids([Passage("0", "a", "b c d e f")])
    assert tokens_of(inputs, ids) == ["[CLS]", "[unused1]", "a", "|", "b", "c", "[SEP]"]


def test_punctuation_is_dropped_and_special_tokens_kept(tokenizer: str) -> None:
    passage = Passage("0", "", "a, b. " + string.punctuation)
    inputs = RetrieverInputs(tokenizer, TOKENS, EncoderConfig())
    rows = inputs.passage_ids([passage, Passage("1", "", "a")])
    batch = inputs.passage_batch(rows)
    kept = batch.ids[0][batch.keep[0]].tolist()
    assert tokens_of(inputs, kept) == ["[CLS]", "[unused1]", "a", "b", "[SEP]"]
    assert batch.keep[1].sum() == 4
    everything = RetrieverInputs(tokenizer, TOKENS, EncoderConfig(drop_punctuation=False)).passage_batch(rows)
    assert torch.equal(everything.keep, everything.attention)


@UNHURRIED
@given(text=st.lists(st.sampled_from(["a", " ", *BERT_TOKENS.values(), "[unused0]", "|"])).map("".join))
def test_no_text_becomes_a_special_token(tokenizer: str, text: str) -> None:
    inputs = RetrieverInputs(tokenizer, TOKENS, EncoderConfig())
    unknown = BERT_TOKENS["unk"]
    special = {*BERT_TOKENS.values(), "[unused0]"} - {unknown}
    assert special.isdisjoint(tokens_of(inputs, inputs.tokenize([text])[0]))


def test_batches_are_as_wide_as_their_longest_row(tokenizer: str) -> None:
    inputs = RetrieverInputs(tokenizer, TOKENS, EncoderConfig())
    rows = inputs.passage_ids(CORPUS)
    batch = inputs.passage_batch(rows)
    assert batch.ids.shape == (8, max(map(len, rows)))
    assert batch.ids.dtype == torch.int64
    assert batch.attention.sum(1).tolist() == [len(row) for row in rows]


def test_masks_need_a_mask_token(tokenizer: str) -> None:
    with pytest.raises(ConfigError, match="set mask_padding to false"):
        RetrieverInputs(tokenizer, dataclasses.replace(TOKENS, mask=None), EncoderConfig())
    RetrieverInputs(tokenizer, dataclasses.replace(TOKENS, mask=None), EncoderConfig(mask_padding=False))


def test_markers_must_exist_and_a_tokenizer_must_be_one(tokenizer: str) -> None:
    with pytest.raises(ConfigError, match=r"no token '\[Q\]'"):
        RetrieverInputs(tokenizer, TOKENS, EncoderConfig(query_marker="[Q]"))
    with pytest.raises(CheckpointError, match="does not describe a tokenizer"):
        RetrieverInputs("{}", TOKENS, EncoderConfig())


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
