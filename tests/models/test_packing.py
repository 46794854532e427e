"""Attention within packed texts equals one text at a time, and a mask over the whole row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from transformers import BertConfig, BertModel, ModernBertConfig, ModernBertModel

from baleen.models.packing import PackedTexts, attending_within

pytestmark = pytest.mark.usefixtures("one_thread")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 40}


def backbone(**changes: Any) -> BertModel:
    torch.manual_seed(0)
    config = BertConfig(vocab_size=50, max_position_embeddings=64, **{**SIZES, **changes})
    return BertModel(config, add_pooling_layer=False).eval()


def row_of(lengths: Sequence[int]) -> tuple[Tensor, Tensor]:
    ids = torch.arange(sum(lengths)) * 7 % 50
    positions = torch.cat([torch.arange(length) for length in lengths])
    return ids.unsqueeze(0), positions.unsqueeze(0)


def packed(model: BertModel, lengths: Sequence[int], texts: PackedTexts) -> Tensor:
    ids, positions = (each.to(model.device) for each in row_of(lengths))
    with attending_within(model, texts.to(model.device)):
        found: Tensor = model(input_ids=ids, position_ids=positions).last_hidden_state
    return found[0]


@given(lengths=st.lists(st.integers(1, 12), min_size=1, max_size=6))
def test_every_text_is_read_as_if_it_stood_alone(lengths: list[int]) -> None:
    model, (ids, _) = backbone(), row_of(lengths)
    with torch.no_grad():
        found = packed(model, lengths, PackedTexts.of(lengths))
        alone = [model(input_ids=part).last_hidden_state[0] for part in ids.split(lengths, dim=1)]
    torch.testing.assert_close(found, torch.cat(alone), atol=1e-5, rtol=0)


def test_masked_tokens_are_not_attended_to() -> None:
    lengths = [5, 3, 4]
    seen = np.array([1, 1, 0, 1, 0, 1, 1, 1, 0, 0, 1, 1], bool)
    model, (ids, positions) = backbone(), row_of(lengths)
    texts = PackedTexts.of(lengths, seen)
    number = torch.repeat_interleave(torch.tensor(lengths))
    allowed = (number.unsqueeze(1) == number) & torch.from_numpy(seen)
    with torch.no_grad():
        masked = model(input_ids=ids, position_ids=positions, attention_mask=allowed[None, None]).last_hidden_state[0]
        found = packed(model, lengths, texts)
    torch.testing.assert_close(found, masked, atol=1e-5, rtol=0)
    assert texts.visible is not None
    assert texts.visible.tolist() == np.flatnonzero(seen).tolist()


def test_a_mask_of_all_tokens_is_dropped() -> None:
    texts = PackedTexts.of([2, 3], np.ones(5, bool))
    assert texts.visible is None
    assert texts.visible_edges is None
    assert (texts.edges.tolist(), texts.longest) == ([0, 2, 5], 3)


def test_afterwards_the_backbone_attends_as_before() -> None:
    model = backbone()
    before = model.config._attn_implementation
    with pytest.raises(IndexError), attending_within(model, PackedTexts.of([1])):
        model(input_ids=torch.full((1, 1), 99))  # no such token
    assert model.config._attn_implementation == before


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("device", DEVICES)
def test_gradients_are_those_of_texts_alone(device: str, dtype: torch.dtype) -> None:
    """bfloat16 and float32 use two different kernels on a GPU."""
    lengths, model = [9, 1, 30, 17], backbone().to(device)
    ids = row_of(lengths)[0].to(device)

    def gradients(read: Callable[[], Tensor]) -> dict[str, Tensor]:
        model.zero_grad()
        with torch.autocast(device, dtype, enabled=dtype != torch.float32):
            read().float().square().sum().backward()
        return {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}

    wanted = gradients(lambda: torch.cat([model(input_ids=part)[0][0] for part in ids.split(lengths, dim=1)]))
    found = gradients(lambda: packed(model, lengths, PackedTexts.of(lengths)))
    assert found.keys() == wanted.keys()
    for name, gradient in found.items():
        most = (0.05 if dtype == torch.bfloat16 else 1e-4) * float(wanted[name].norm()) + 1e-3
        assert float((gradient - wanted[name]).norm()) <= most, name


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_kernels_ignore_masked_tokens(dtype: torch.dtype) -> None:
    lengths, model = [9, 1, 30, 17], backbone()
    texts = PackedTexts.of(lengths, np.arange(57) % 5 != 3)
    with torch.no_grad():
        here = packed(model, lengths, texts)
        with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
            there = packed(model.cuda(), lengths, texts)
    torch.testing.assert_close(there.float().cpu(), here, atol=0.1 if dtype == torch.bfloat16 else 1e-3, rtol=0)


def test_attention_that_is_not_plain_is_refused() -> None:
    config = ModernBertConfig(
        vocab_size=50,
        local_attention=16,
        global_attn_every_n_layers=2,
        pad_token_id=0,
        cls_token_id=1,
        sep_token_id=2,
        **SIZES,
    )
    torch.manual_seed(0)
    model, (ids, positions) = ModernBertModel(config).eval(), row_of([4, 40])
    with pytest.raises(ValueError, match="packed texts do not support attention with sliding_window"), torch.no_grad():
        within_texts(model, ids, positions)


def within_texts(model: Any, ids: Tensor, positions: Tensor) -> None:
    with attending_within(model, PackedTexts.of([4, 40])):
        model(input_ids=ids, position_ids=positions)


@pytest.mark.gpu
def test_dropout_reaches_the_attention() -> None:
    model = backbone(attention_probs_dropout_prob=0.5, hidden_dropout_prob=0.0).cuda().train()
    lengths = [20, 11]
    with torch.autocast("cuda", torch.bfloat16):
        torch.manual_seed(1)
        one, other = (packed(model, lengths, PackedTexts.of(lengths)) for _ in range(2))
        torch.manual_seed(1)
        again = packed(model, lengths, PackedTexts.of(lengths))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
