"""Attention by matrix products equals torch's own, with and without padding, for any batch size."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import BertConfig, BertModel

from baleen.models import cpu_attention
from baleen.models.cpu_attention import attend, use_matrix_products
from baleen.models.cross_encoder import CrossEncoder
from fakes import bert_folder, tiny_encoder


def heads(texts: int, length: int, dtype: torch.dtype = torch.float32, count: int = 3) -> list[Tensor]:
    """Query, key and value in the memory layout of a backbone: texts, tokens, heads."""
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
def test_attend_equals_torch(texts: int, length: int) -> None:
    query, key, value = heads(texts, length)
    expected = scaled_dot_product_attention(query, key, value).transpose(1, 2)
    torch.testing.assert_close(attend(query, key, value, None, 8**-0.5), expected)


def test_masked_tokens_do_not_count() -> None:
    query, key, value = heads(4, 9)
    seen = lengths_seen([9, 1, 4, 8], 9)
    expected = scaled_dot_product_attention(query, key, value, attn_mask=seen).transpose(1, 2)
    torch.testing.assert_close(attend(query, key, value, seen, 8**-0.5), expected)


def test_padding_does_not_change_a_text() -> None:
    query, key, value = heads(3, 12)
    together = attend(query, key, value, lengths_seen([12, 5, 7], 12), 0.3)
    alone = attend(*(each[1:2, :, :5] for each in (query, key, value)), None, 0.3)
    torch.testing.assert_close(together[1:2, :5], alone)


@pytest.mark.parametrize("scratch", [1, 3 * 11 * 11 * 4 * 2, 1 << 30])
def test_batching_does_not_change_the_result(scratch: int, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize("padded", [False, True])
def test_a_backbone_gives_the_same_vectors(padded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model, ids = bert(), torch.arange(2 * 10).view(2, 10)
    seen = torch.ones(2, 10, dtype=torch.long)
    seen[1, 6:] = 0 if padded else 1
    calls = spy(monkeypatch)
    with torch.inference_mode():
        before = model(input_ids=ids, attention_mask=seen).last_hidden_state
        assert not calls
        use_matrix_products(model)
        after = model(input_ids=ids, attention_mask=seen).last_hidden_state
    assert len(calls) == 2, "once for each layer"
    assert calls[0] is padded
    torch.testing.assert_close(after[seen == 1], before[seen == 1])


def spy(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Record for every call of `attend`, in float32 too, whether it has a mask."""
    calls: list[bool] = []
    monkeypatch.setattr(cpu_attention, "_FASTER", (torch.float32, torch.bfloat16))

    def noted(query: Tensor, key: Tensor, value: Tensor, seen: Tensor | None, scale: float) -> Tensor:
        calls.append(seen is not None)
        return attend(query, key, value, seen, scale)

    monkeypatch.setattr(cpu_attention, "attend", noted)
    return calls


def forward(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, **others: Any) -> Tensor:
    module = torch.nn.Module()
    module.is_causal = others.pop("causal", False)
    return cpu_attention._forward(module, query, key, value, mask, **others)[0]


OTHER: dict[str, Any] = {
    "causal, said by the module": {"causal": True},
    "causal, said by the call": {"is_causal": True},
    "with a bias in place of a mask": {"mask": torch.zeros(2, 1, 9, 9)},
    "with one mask for all texts": {"mask": torch.ones(1, 1, 9, 9, dtype=torch.bool)},
    "with dropout": {"dropout": 0.5},
    "with a softcap": {"softcap": 3.0},
}


@torch.no_grad()
@pytest.mark.parametrize("kind", OTHER)
def test_other_kinds_of_attention_are_left_to_torch(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, asked = spy(monkeypatch), dict(OTHER[kind])
    left = {"softcap": None, **asked}
    monkeypatch.setattr(cpu_attention, "sdpa_attention_forward", lambda *_, **given: (given["softcap"], None))
    assert forward(*heads(2, 9), **left) is left["softcap"]
    assert not calls


@torch.no_grad()
def test_a_causal_text_does_not_see_what_comes_after() -> None:
    query, key, value = heads(2, 9)
    expected = scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2)
    torch.testing.assert_close(forward(query, key, value, causal=True), expected)


@torch.no_grad()
def test_types_that_differ_are_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rotary positions under autocast give float32 queries and keys with bfloat16 values."""
    calls, (query, key, value) = spy(monkeypatch), heads(2, 9)
    with torch.autocast("cpu", torch.bfloat16):
        found = forward(query, key, value.bfloat16())
    expected = scaled_dot_product_attention(query, key, value).transpose(1, 2)
    torch.testing.assert_close(found.float(), expected, atol=0.03, rtol=0)
    assert not calls


@torch.no_grad()
def test_float32_is_left_to_torch_which_is_as_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[bool] = []
    monkeypatch.setattr(cpu_attention, "attend", lambda *_: calls.append(True))
    forward(*heads(2, 9))
    assert not calls
    forward(*heads(2, 9, torch.bfloat16))
    assert calls


@torch.no_grad()
def test_a_text_too_long_for_the_cache_is_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = spy(monkeypatch)
    monkeypatch.setattr(cpu_attention, "_LARGEST", 3 * 9 * 9 * 4)
    forward(*heads(2, 9))
    assert len(calls) == 1
    forward(*heads(2, 10))
    forward(*heads(0, 9))
    assert len(calls) == 2, "of no text there is nothing to hold"


def test_no_similarity_outweighs_a_mask() -> None:
    query, key, value = heads(1, 6)
    seen = lengths_seen([3], 6)
    expected = attend(*(each[:, :, :3] for each in (query, key, value)), None, 1e6)
    torch.testing.assert_close(attend(query, key, value, seen, 1e6)[:, :3], expected)


def test_cpu_models_use_matrix_products_and_save_unchanged(tmp_path: Path) -> None:
    encoder = tiny_encoder(tmp_path)
    assert encoder.model.backbone.config._attn_implementation == cpu_attention._NAME
    encoder.save(tmp_path / "saved")
    assert "attn" not in (tmp_path / "saved" / "backbone.json").read_text()
    reading = CrossEncoder.from_backbone(bert_folder(tmp_path / "cross"))
    assert reading.model.backbone.config._attn_implementation == cpu_attention._NAME


def test_training_uses_the_fused_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, changed = bert(), bert()
    use_matrix_products(changed)
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
    use_matrix_products(backbone)
    assert backbone.config._attn_implementation == implementation
    use_matrix_products(torch.nn.Linear(2, 2))  # no backbone of transformers at all
