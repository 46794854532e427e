"""Attention on a CPU, by two matrix products over as many texts at a time as stay in its cache.

    use_products(backbone)              from now on this is how `backbone` attends, as long as nothing is learnt

torch's fused kernel is made for long texts and wide heads.  The texts that are read here have some hundreds of tokens and
heads of 32 numbers, and on these the products that every processor is best at take half its time in bfloat16 and three
quarters in float32 (`baleen bench attention`).  Backbones take part whose attention goes through transformers' interface;
others go on as they did.
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
_NEVER = -1e4  # added to what is not to be attended to; any type holds it, and its exponential is 0
_OTHER_KINDS = ("sliding_window", "softcap", "s_aux")


def use_products(backbone: Any) -> None:
    """Have `backbone`, which is on a CPU, attend by products where it would by torch's fused kernel."""
    config = getattr(backbone, "config", None)
    if getattr(config, "_attn_implementation", None) == FUSED:
        backbone.config._attn_implementation = _NAME


def attend(query: Tensor, key: Tensor, value: Tensor, seen: Tensor | None, scale: float) -> Tensor:
    """(B, heads, T, d) each, and what each token sees, (B, 1, T, T) bool, None: all -> (B, T, heads, d)."""
    texts, heads, length, width = query.shape
    together = min(texts, max(1, _SCRATCH // (heads * length * length * query.element_size())))
    bias = None if seen is None else torch.zeros_like(seen, dtype=query.dtype).masked_fill_(~seen, _NEVER)
    similar = query.new_empty(together * heads, length, length)
    weights, found = torch.empty_like(similar), torch.empty_like(query, memory_format=torch.contiguous_format)
    for start in range(0, texts, together):
        part = slice(start, start + together)
        queries, keys, values = (each[part].reshape(-1, length, width) for each in (query, key, value))
        scores, chances = (each[: len(queries)] for each in (similar, weights))
        torch.bmm(queries, keys.transpose(1, 2), out=scores)
        by_text = scores.view(-1, heads, length, length)
        if bias is None:
            by_text.mul_(scale)
        else:
            torch.add(bias[part], by_text, alpha=scale, out=by_text)
        torch.softmax(scores, -1, out=chances)
        torch.bmm(chances, values, out=found[part].view(-1, length, width))
    return found.transpose(1, 2)


def _forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """As transformers calls it; whatever is not plain attention of texts to themselves is left to torch."""
    plain = not (dropout or torch.is_grad_enabled()) and query.shape == key.shape == value.shape
    masked = attention_mask is None or attention_mask.dtype == torch.bool
    if not (plain and masked) or any(others.get(name) is not None for name in _OTHER_KINDS):
        fused, _ = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **others
        )
        return fused, None
    return attend(query, key, value, attention_mask, query.shape[-1] ** -0.5 if scaling is None else scaling), None


AttentionInterface.register(_NAME, _forward)
AttentionMaskInterface.register(_NAME, sdpa_mask)
