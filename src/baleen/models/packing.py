"""Attention within each of many texts that are packed into one row of tokens, without padding.

    with attending_within(backbone, PackedTexts.of([7, 3, 9])):
        backbone(input_ids=row, position_ids=positions)             row, positions (1, 19)

A GPU's kernels for texts of unequal length need neither padding nor a mask as large as the row squared.  It works for
backbones whose attention goes through transformers' interface; training/packing.py tries each backbone.
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
_HALF_PRECISION = (torch.bfloat16, torch.float16)
_WIDTH_MULTIPLE = 8  # of a head's width, as the kernels require


@dataclass(frozen=True, eq=False)
class PackedTexts:
    """The places of n texts in a row: text i from `edges[i]` to `edges[i + 1]`, (n + 1,) int32; `longest` in tokens.

    If some tokens are masked, `visible` (S,) int64 are the indices of the others, and those of text i are
    `visible[visible_edges[i] : visible_edges[i + 1]]`.
    """

    edges: Tensor
    longest: int
    visible: Tensor | None = None
    visible_edges: Tensor | None = None

    @classmethod
    def of(cls, lengths: Sequence[int], visible: npt.NDArray[np.bool_] | None = None) -> Self:
        """Pack texts of these lengths; `visible` is a flag for every token of the row (None: all are visible)."""
        edges = np.fromiter(accumulate(lengths, initial=0), np.int32, len(lengths) + 1)
        longest = max(lengths)
        if visible is None or visible.all():
            return cls(torch.from_numpy(edges), longest)
        counts = np.add.reduceat(visible, edges[:-1], dtype=np.int32)
        visible_edges = np.concatenate([np.zeros(1, np.int32), np.cumsum(counts, dtype=np.int32)])
        indices = np.flatnonzero(visible)
        return cls(torch.from_numpy(edges), longest, torch.from_numpy(indices), torch.from_numpy(visible_edges))

    def to(self, device: torch.device) -> Self:
        return dataclasses.replace(self, **move_tensors(self, device))


_current: ContextVar[PackedTexts] = ContextVar("texts of the current row")


@contextmanager
def attending_within(backbone: nn.Module, texts: PackedTexts) -> Iterator[None]:
    """Have `backbone` attend within `texts`, which make up every row that it reads here; for one thread at a time."""
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
    """The attention function for transformers: (1, heads, T, d) each -> (1, T, heads, d)."""
    unknown = [name for name in NOT_PLAIN if others.get(name) is not None]
    if unknown:
        raise ValueError(f"packed texts do not support attention with {', '.join(unknown)}")
    texts = _current.get()
    queries, keys, values = (each.transpose(1, 2).squeeze(0) for each in (query, key, value))  # (T, heads, d)
    if texts.visible is not None:
        keys, values = keys.index_select(0, texts.visible), values.index_select(0, texts.visible)
    found = _kernel_for(queries)(queries, keys, values, texts, dropout, scaling)
    return found.unsqueeze(0), None


AttentionInterface.register(_NAME, _attend)


def _kernel_for(queries: Tensor) -> Any:
    if not queries.is_cuda or queries.shape[-1] % _WIDTH_MULTIPLE:
        return _one_by_one
    return _flash if queries.dtype in _HALF_PRECISION else _efficient


def _flash(q: Tensor, k: Tensor, v: Tensor, texts: PackedTexts, dropout: float, scaling: float | None) -> Tensor:
    longest, visible_edges = texts.longest, _visible_edges(texts)
    found: tuple[Tensor, ...] = torch.ops.aten._flash_attention_forward(
        q, k, v, texts.edges, visible_edges, longest, longest, dropout, False, False, scale=scaling
    )
    return found[0]


def _efficient(q: Tensor, k: Tensor, v: Tensor, texts: PackedTexts, dropout: float, scaling: float | None) -> Tensor:
    longest, rows = texts.longest, [each.unsqueeze(0) for each in (q, k, v)]
    found: tuple[Tensor, ...] = torch.ops.aten._efficient_attention_forward(
        *rows, None, texts.edges, _visible_edges(texts), longest, longest, dropout, 0, True, scale=scaling
    )
    return found[0].squeeze(0)


def _visible_edges(texts: PackedTexts) -> Tensor:
    return texts.edges if texts.visible_edges is None else texts.visible_edges


def _one_by_one(q: Tensor, k: Tensor, v: Tensor, texts: PackedTexts, dropout: float, scaling: float | None) -> Tensor:
    lengths, visible = (edges.diff().tolist() for edges in (texts.edges, _visible_edges(texts)))
    queries, keys, values = (
        torch.split(each.transpose(0, 1), sizes, dim=1) for each, sizes in ((q, lengths), (k, visible), (v, visible))
    )
    parts = [
        scaled_dot_product_attention(query, key, value, dropout_p=dropout, scale=scaling)
        for query, key, value in zip(queries, keys, values, strict=True)
    ]
    return torch.cat(parts, dim=1).transpose(0, 1)
