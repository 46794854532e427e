"""Attention by products: the same as torch's own, whatever is padded, however many texts go at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import BertConfig, BertModel

from baleen import cpu_attention
from baleen.cpu_attention import FUSED, attend, use_products


def heads(texts: int, length: int, dtype: torch.dtype = torch.float32, count: int = 3) -> list[Tensor]:
    """Query, key and value as a backbone has them: heads beside each other in memory, not texts."""
    chance = torch.Generator().manual_seed(texts * 1000 + length)
    shape = (texts, length, count, 8)
    return [torch.randn(shape, generator=chance).to(dtype).transpose(1, 2) for _ in range(3)]


def lengths_seen(lengths: list[int], width: int) -> Tensor:
    """(B, 1, T, T): every token sees the first `lengths[i]` of its text."""
    return (torch.arange(width) < torch.tensor(lengths)[:, None])[:, None, None, :].expand(-1, 1, width, -1)


def bert(**changes: Any) -> BertModel:
    torch.manual_seed(5)
    config = BertConfig(
        vocab_size=50, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=32, **changes
    )
    return BertModel(config, add_pooling_layer=False).eval()


@pytest.mark.parametrize("texts", [1, 2, 5])
@pytest.mark.parametrize("length", [1, 7, 33])
def test_it_is_what_torch_computes(texts: int, length: int) -> None:
    query, key, value = heads(texts, length)
    expected = scaled_dot_product_attention(query, key, value).transpose(1, 2)
    torch.testing.assert_close(attend(query, key, value, None, 8**-0.5), expected)


def test_what_is_not_seen_does_not_count() -> None:
    query, key, value = heads(4, 9)
    seen = lengths_seen([9, 1, 4, 8], 9)
    expected = scaled_dot_product_attention(query, key, value, attn_mask=seen).transpose(1, 2)
    torch.testing.assert_close(attend(query, key, value, seen, 8**-0.5), expected)


def test_a_padded_text_comes_out_as_it_does_alone() -> None:
    query, key, value = heads(3, 12)
    together = attend(query, key, value, lengths_seen([12, 5, 7], 12), 0.3)
    alone = attend(*(each[1:2, :, :5] for each in (query, key, value)), None, 0.3)
    torch.testing.assert_close(together[1:2, :5], alone)


@pytest.mark.parametrize("scratch", [1, 3 * 11 * 11 * 4 * 2, 1 << 30])
def test_how_many_go_at_once_makes_no_difference(scratch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    query, key, value = heads(5, 11)
    seen = lengths_seen([11, 3, 11, 6, 1], 11)
    expected = scaled_dot_product_attention(query, key, value, attn_mask=seen).transpose(1, 2)
    monkeypatch.setattr(cpu_attention, "_SCRATCH", scratch)
    torch.testing.assert_close(attend(query, key, value, seen, 8**-0.5), expected)


def test_bfloat16_is_as_near_as_bfloat16_can_be() -> None:
    query, key, value = heads(4, 40, torch.bfloat16)
    exact = scaled_dot_product_attention(*(each.float() for each in (query, key, value))).transpose(1, 2)
    found = attend(query, key, value, None, 8**-0.5)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), exact, atol=0.03, rtol=0)


def test_a_backbone_reads_as_before() -> None:
    model, ids = bert(), torch.arange(2 * 10).view(2, 10)
    seen = torch.ones(2, 10, dtype=torch.long)
    seen[1, 6:] = 0
    with torch.inference_mode():
        before = model(input_ids=ids, attention_mask=seen).last_hidden_state
        use_products(model)
        after = model(input_ids=ids, attention_mask=seen).last_hidden_state
    assert model.config._attn_implementation != FUSED
    torch.testing.assert_close(after[0], before[0])
    torch.testing.assert_close(after[1, :6], before[1, :6])


def test_what_is_learnt_goes_through_torchs_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, changed = bert(), bert()
    use_products(changed)
    monkeypatch.setattr(cpu_attention, "attend", lambda *_: pytest.fail("products have no place in training"))
    ids = torch.arange(12).view(2, 6)
    found = []
    for model in (plain, changed):
        model.train()
        torch.manual_seed(1)
        model(input_ids=ids).last_hidden_state.square().sum().backward()
        found.append(model.embeddings.word_embeddings.weight.grad)
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("implementation", ["eager", None])
def test_a_backbone_that_attends_otherwise_is_left_alone(implementation: str | None) -> None:
    backbone = SimpleNamespace(config=SimpleNamespace(_attn_implementation=implementation))
    use_products(backbone)
    assert backbone.config._attn_implementation == implementation
    use_products(torch.nn.Linear(2, 2))  # no backbone of transformers at all
