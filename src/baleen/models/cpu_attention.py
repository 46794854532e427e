"""Attention on a CPU by two matrix products over a few texts at a time, whose similarities fit the cache.

    use_matrix_products(backbone)       switch `backbone` to this attention, once, for inference

torch's fused kernel is made for long texts and wide heads.  For texts of some hundred tokens and heads of 32 numbers,
plain products are faster in bfloat16, and no faster in float32.  The cost: similarities are rounded
before their softmax, which the fused kernel computes in float32.

It works for backbones whose attention goes through transformers' interface.  Training, attention that is not plain
self-attention, and texts too long for the cache use the fused kernel.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

FUSED = "sdpa"  # transformers' name for torch's fused kernel
_NAME = "baleen_products"
_SCRATCH = 1 << 21  # bytes of similarities at once
_LARGEST = 1 << 24  # bytes of one text's similarities; beyond it the fused kernel is faster
_FASTER = (torch.bfloat16,)
# Options of attention that products do not support.
NOT_PLAIN = ("sliding_window", "softcap", "s_aux", "position_bias", "cache")


def use_matrix_products(backbone: Any) -> None:
    """Replace the fused kernel of `backbone`, which is on a CPU, if it uses that kernel."""
    config = getattr(backbone, "config", None)
    if getattr(config, "_attn_implementation", None) == FUSED:
        backbone.config._attn_implementation = _NAME


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """(B, heads, T, d) each, `mask` (B, 1, T, T) bool of what each token sees (None: all) -> (B, T, heads, d)."""
    texts, heads, length, width = query.shape
    together = max(1, min(texts, _SCRATCH // (heads * length * length * query.element_size())))
    bias = None if mask is None else _bias(mask, query.dtype)
    scores = query.new_empty(together * heads, length, length)
    weights, found = torch.empty_like(scores), torch.empty_like(query, memory_format=torch.contiguous_format)
    for start in range(0, texts, together):
        part = slice(start, start + together)
        queries, keys, values = (each[part].reshape(-1, length, width) for each in (query, key, value))
        similar, shares = (each[: len(queries)] for each in (scores, weights))
        torch.baddbmm(similar, queries, keys.transpose(1, 2), beta=0, alpha=scale, out=similar)
        if bias is not None:
            similar.view(-1, heads, length, length).add_(bias[part])
        torch.softmax(similar, -1, out=shares)
        torch.bmm(shares, values, out=found[part].view(-1, length, width))
    return found.transpose(1, 2)


def _bias(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """A bias for similarities: so low for masked tokens that no similarity outweighs it."""
    if mask.stride(2) == 0:  # the same for all tokens of a text
        mask = mask[:, :, :1]
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, torch.finfo(dtype).min / 2)


def _forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """The attention function for transformers."""
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    maskable = (attention_mask is None and not causal) or _is_mask_of(attention_mask, query)
    if maskable and not dropout and _is_plain(query, key, value, others):
        return attend(query, key, value, attention_mask, query.shape[-1] ** -0.5 if scaling is None else scaling), None
    fused, _ = sdpa_attention_forward(
        module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, is_causal=is_causal, **others
    )
    return fused, None


def _is_mask_of(mask: Tensor | None, query: Tensor) -> bool:
    texts, _, length, _ = query.shape
    return mask is not None and mask.dtype == torch.bool and mask.shape == (texts, 1, length, length)


def _is_plain(query: Tensor, key: Tensor, value: Tensor, others: dict[str, Any]) -> bool:
    """Whether this is plain self-attention in a supported type, for inference, of texts that fit the cache."""
    alike = query.shape == key.shape == value.shape and query.dtype == key.dtype == value.dtype
    similarities = query.shape[1] * query.shape[2] ** 2 * query.element_size()
    return (
        alike
        and query.dtype in _FASTER
        and query.device.type == "cpu"
        and not torch.is_grad_enabled()
        and 0 < similarities <= _LARGEST
        and all(others.get(name) is None for name in NOT_PLAIN)
    )


AttentionInterface.register(_NAME, _forward)
AttentionMaskInterface.register(_NAME, sdpa_mask)
