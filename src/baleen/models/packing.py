"""Attention within each of many texts that stand end to end in one row of tokens, and none between them.

    with within(backbone, Texts.of([7, 3, 9])):
        backbone(input_ids=row, position_ids=positions)             row, positions (1, 19)

A GPU's kernels for texts of unequal length do the work of the texts alone: there is no padding, and no mask as large as
the row squared.  Backbones take part whose attention goes through transformers' interface; can_pack in layouts.py and
reading_layouts.py tries each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from baleen.models.cpu_attention import NOT_PLAIN
from baleen.models.tokens import move_tensors

_NAME = "baleen_within_texts"
_HALF = (torch.bfloat16, torch.float16)
_ALIGNED = 8  # numbers of which a head's width must be a multiple for the kernels


@dataclass(frozen=True, eq=False)
class PackedTexts:
    """Where n texts stand in a row: text i from `edges[i]` to `edges[i + 1]` (n + 1,) int32; `longest` has most tokens.

    Where not every token is attended to, `seen` (S,) int64 are those that are, and text i's stand in it from
    `seen_edges[i]` to `seen_edges[i + 1]`.
    """

    edges: Tensor
    longest: int
    seen: Tensor | None = None
    seen_edges: Tensor | None = None

    @classmethod
    def of(cls, lengths: Sequence[int], seen: npt.NDArray[np.bool_] | None = None) -> Self:
        """Of texts that have these lengths; `seen` has a flag for every token of the row, None if all are seen."""
        edges = np.fromiter(accumulate(lengths, initial=0), np.int32, len(lengths) + 1)
        longest = max(lengths)
        if seen is None or seen.all():
            return cls(torch.from_numpy(edges), longest)
        counts = np.add.reduceat(seen, edges[:-1], dtype=np.int32)
        seen_edges = np.concatenate([np.zeros(1, np.int32), np.cumsum(counts, dtype=np.int32)])
        return cls(
            torch.from_numpy(edges), longest, torch.from_numpy(np.flatnonzero(seen)), torch.from_numpy(seen_edges)
        )

    def to(self, device: torch.device) -> Self:
        return dataclasses.replace(self, **move_tensors(self, device))


_current: ContextVar[PackedTexts] = ContextVar("texts of the row that is being read")


@contextmanager
def attending_within(backbone: nn.Module, texts: PackedTexts) -> Iterator[None]:
    """Whatever rows `backbone` reads here are made of these texts."""
    config: Any = backbone.config
    before, token = config._attn_implementation, _current.set(texts)
    config._attn_implementation = _NAME
    try:
        yield
    finally:
        config._attn_implementation = before
        _current.reset(token)


def _attend(
    _: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    __: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """As transformers calls it: (1, heads, T, d) each -> (1, T, heads, d)."""
    unknown = [name for name in NOT_PLAIN if others.get(name) is not None]
    if unknown:
        raise ValueError(f"attention with {', '.join(unknown)} is not done here")
    texts = _current.get()
    queries, keys, values = (each.transpose(1, 2).squeeze(0) for each in (query, key, value))  # (T, heads, d)
    if texts.seen is not None:
        keys, values = keys.index_select(0, texts.seen), values.index_select(0, texts.seen)
    found = _way(queries)(queries, keys, values, texts, dropout, scaling)
    return found.unsqueeze(0), None


AttentionInterface.register(_NAME, _attend)


def _way(queries: Tensor) -> Any:
    if not queries.is_cuda or queries.shape[-1] % _ALIGNED:
        return _one_by_one
    return _flash if queries.dtype in _HALF else _efficient


def _flash(q: Tensor, k: Tensor, v: Tensor, texts: PackedTexts, dropout: float, scaling: float | None) -> Tensor:
    longest, seen_edges = texts.longest, _seen_edges(texts)
    found: tuple[Tensor, ...] = torch.ops.aten._flash_attention_forward(
        q, k, v, texts.edges, seen_edges, longest, longest, dropout, False, False, scale=scaling
    )
    return found[0]


def _efficient(q: Tensor, k: Tensor, v: Tensor, texts: PackedTexts, dropout: float, scaling: float | None) -> Tensor:
    longest, rows = texts.longest, [each.unsqueeze(0) for each in (q, k, v)]
    found: tuple[Tensor, ...] = torch.ops.aten._efficient_attention_forward(
        *rows, None, texts.edges, _seen_edges(texts), longest, longest, dropout, 0, True, scale=scaling
    )
    return found[0].squeeze(0)


def _seen_edges(texts: PackedTexts) -> Tensor:
    return texts.edges if texts.seen_edges is None else texts.seen_edges


def _one_by_one(q: Tensor, k: Tensor, v: Tensor, texts: PackedTexts, dropout: float, scaling: float | None) -> Tensor:
    lengths, seen = (edges.diff().tolist() for edges in (texts.edges, _seen_edges(texts)))
    queries, keys, values = (
        torch.split(each.transpose(0, 1), sizes, dim=1) for each, sizes in ((q, lengths), (k, seen), (v, seen))
    )
    parts = [
        scaled_dot_product_attention(query, key, value, dropout_p=dropout, scale=scaling)
        for query, key, value in zip(queries, keys, values, strict=True)
    ]
    return torch.cat(parts, dim=1).transpose(0, 1)
