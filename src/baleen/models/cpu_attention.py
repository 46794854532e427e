"""Attention on a CPU, by two matrix products over some texts at a time, whose similarities stay in its cache.

    use_products(backbone)              from now on this is how `backbone` attends, as long as nothing is learnt

torch's fused kernel is made for long texts and wide heads.  The texts that are read here have some hundreds of tokens and
heads of 32 numbers, on which plain products are faster in bfloat16, and no faster in float32 (docs/benchmarks.md).  What
it costs: similarities are rounded before their softmax, which the fused kernel sums up in float32.

Backbones take part whose attention goes through transformers' interface; whatever is not plain attention of texts to all of
themselves, or is too long for the cache, is left to the fused kernel.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

FUSED = "sdpa"  # as transformers calls torch's own
_NAME = "baleen_products"
_SCRATCH = 1 << 21  # bytes of similarities at once
_LARGEST = 1 << 24  # bytes of one text's similarities, beyond which the fused kernel is the better one
_FASTER = (torch.bfloat16,)
NOT_PLAIN = ("sliding_window", "softcap", "s_aux", "position_bias", "cache")  # of which products know nothing


def use_products(backbone: Any) -> None:
    """Have `backbone`, which is on a CPU, attend by products where it would by torch's fused kernel."""
    config = getattr(backbone, "config", None)
    if getattr(config, "_attn_implementation", None) == FUSED:
        backbone.config._attn_implementation = _NAME


def attend(query: Tensor, key: Tensor, value: Tensor, seen: Tensor | None, scale: float) -> Tensor:
    """(B, heads, T, d) each, and what each token sees, (B, 1, T, T) bool, None: all -> (B, T, heads, d)."""
    texts, heads, length, width = query.shape
    together = max(1, min(texts, _SCRATCH // (heads * length * length * query.element_size())))
    bias = None if seen is None else _bias(seen, query.dtype)
    similar = query.new_empty(together * heads, length, length)
    weights, found = torch.empty_like(similar), torch.empty_like(query, memory_format=torch.contiguous_format)
    for start in range(0, texts, together):
        part = slice(start, start + together)
        queries, keys, values = (each[part].reshape(-1, length, width) for each in (query, key, value))
        scores, chances = (each[: len(queries)] for each in (similar, weights))
        torch.baddbmm(scores, queries, keys.transpose(1, 2), beta=0, alpha=scale, out=scores)
        if bias is not None:
            scores.view(-1, heads, length, length).add_(bias[part])
        torch.softmax(scores, -1, out=chances)
        torch.bmm(chances, values, out=found[part].view(-1, length, width))
    return found.transpose(1, 2)


def _bias(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """What is added to similarities: next to nothing can outweigh it where a token is not seen."""
    if seen.stride(2) == 0:  # all tokens of a text see the same
        seen = seen[:, :, :1]
    return torch.zeros_like(seen, dtype=dtype).masked_fill_(~seen, torch.finfo(dtype).min / 2)


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
    """As transformers calls it."""
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    whole = (attention_mask is None and not causal) or _is_mask_of(attention_mask, query)
    if whole and not dropout and _is_plain(query, key, value, others):
        return attend(query, key, value, attention_mask, query.shape[-1] ** -0.5 if scaling is None else scaling), None
    fused, _ = sdpa_attention_forward(
        module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, is_causal=is_causal, **others
    )
    return fused, None


def _is_mask_of(seen: Tensor | None, query: Tensor) -> bool:
    texts, _, length, _ = query.shape
    return seen is not None and seen.dtype == torch.bool and seen.shape == (texts, 1, length, length)


def _is_plain(query: Tensor, key: Tensor, value: Tensor, others: dict[str, Any]) -> bool:
    """Whether texts attend to themselves, nothing is learnt, and the similarities of one are not too many."""
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
