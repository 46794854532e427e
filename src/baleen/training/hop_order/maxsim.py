"""Exact focused scores of many queries with many passages, the main cost of mining.

    lanes = Lanes.of([query.query for query in vectors], device, dtype)
    focused_scores(lanes, block.vectors, keep)              one term of the score, (Q, P)

On a GPU with Triton a fused kernel reduces the similarities (`maxsim_kernel.py`); elsewhere they are made piece by
piece, so that each piece is reduced while it is in the cache.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

log = logging.getLogger(__name__)

LOWEST = -1.01  # below every cosine, even a rounded one
HALVINGS = 20  # enough for sums within a thousandth, even if all matches of a query are equal
PIECES = {"cpu": 2**20, "gpu": 2**28}  # similarities made at once
CACHED = {"cpu": 2**16, "gpu": 2**26}  # matches reduced at once


@dataclass(frozen=True, eq=False)
class Lanes:
    """Vectors of several queries end to end (L, d): query q has the `counts[q]` from `starts[q]` on, (Q,) int32."""

    vectors: Tensor
    starts: Tensor
    counts: Tensor
    longest: int

    @classmethod
    def of(cls, queries: Sequence[npt.NDArray[Any]], device: torch.device, dtype: torch.dtype) -> Self:
        """Lanes of one array (n, d) per query; n may be 0."""
        counts = np.array([len(own) for own in queries], np.int32)
        starts = np.cumsum(counts, dtype=np.int32) - counts
        vectors = torch.from_numpy(np.concatenate(queries)).to(device, dtype)
        first, second = (torch.from_numpy(numbers).to(device) for numbers in (starts, counts))
        return cls(vectors, first, second, int(counts.max()))

    def __len__(self) -> int:
        return len(self.counts)

    def padded(self, matches: Tensor) -> tuple[Tensor, Tensor]:
        """Matches of the lanes (L, P) by query: (Q, N, P), and a mask (Q, N) bool that is False for padding."""
        columns = torch.arange(self.longest, device=matches.device)
        mask = columns < self.counts.unsqueeze(1)
        places = (self.starts.unsqueeze(1) + columns).clamp(max=len(matches) - 1)
        return matches[places], mask


@cache
def has_triton() -> bool:
    return find_spec("triton") is not None


@cache
def can_fuse(device: torch.device, dim: int) -> bool:
    """Whether the fused kernels run on `device` with vectors of `dim` and give right scores: tried once on random vectors.

    The vectors fill the largest tile, which may not fit on a device.
    """
    if device.type != "cuda" or not has_triton():
        return False
    drawn = np.random.default_rng(0).standard_normal((2, 5, 128, dim)).astype(np.float32)
    queries, passages = (drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)).astype(np.float16)
    lanes, block = Lanes.of(list(queries), device, torch.float16), torch.from_numpy(passages).to(device)
    try:
        ours, theirs = (focused_scores(lanes, block, 3, fused=fused) for fused in (True, False))
    except Exception as error:  # a missing compiler, or any other error of Triton
        log.warning("the fused kernels do not run on %s (%s): mining will be slower", device, error)
        return False
    if not torch.allclose(ours, theirs, atol=1e-2):
        log.warning("the fused kernels give wrong scores on %s and are not used: mining will be slower", device)
        return False
    return True


def kind(device: torch.device) -> str:
    """ "cpu", or "gpu" for any other device: the key of limits."""
    return "cpu" if device.type == "cpu" else "gpu"


def focused_scores(lanes: Lanes, passages: Tensor, keep: int | None, *, fused: bool | None = None) -> Tensor:
    """The sum of the `keep` largest matches of each query with each passage: (P, M, d) -> (Q, P) float32.

    None keeps all.  `fused` None uses the fused kernels if they run: on CUDA with Triton and a compiler.
    """
    if not lanes.longest:
        return torch.zeros(len(lanes), len(passages), device=passages.device)
    if can_fuse(passages.device, passages.shape[2]) if fused is None else fused:
        from baleen.training.hop_order import maxsim_kernel

        found = maxsim_kernel.best_matches(lanes.vectors, passages)
        limit = lanes.longest if keep is None else keep
        return maxsim_kernel.focused_sums(found, lanes.starts, lanes.counts, lanes.longest, limit)
    matches, mask = lanes.padded(best_matches(lanes.vectors, passages))
    step = max(1, CACHED[kind(passages.device)] // matches[0].numel())
    parts = zip(torch.split(matches, step), torch.split(mask, step), strict=True)
    return torch.cat([sum_of_largest(own.float(), real, keep) for own, real in parts])


def best_matches(vectors: Tensor, passages: Tensor) -> Tensor:
    """The best match of each vector in each passage: (L, d), (P, M, d) -> (L, P)."""
    size, tokens, dim = passages.shape
    flat = passages.reshape(-1, dim).T
    step = max(1, PIECES[kind(passages.device)] // flat.shape[1])
    return torch.cat([(part @ flat).view(-1, size, tokens).amax(dim=2) for part in torch.split(vectors, step)])


def sum_of_largest(matches: Tensor, mask: Tensor, keep: int | None) -> Tensor:
    """The sum of the `keep` largest valid similarities of each column: (Q, N, P), (Q, N) bool -> (Q, P).

    This is `scoring.focus` to a thousandth, without sorting: the sum of the k largest is the minimum over t of
    `k t + sum(max(x - t, 0))`, and t is too high if fewer than k matches are larger.
    """
    if keep is None or keep >= matches.shape[1]:
        return torch.where(mask.unsqueeze(2), matches, 0.0).sum(dim=1)
    wanted = mask.sum(dim=1, keepdim=True).float().clamp(max=keep)  # (Q, 1)
    valid = matches.masked_fill(~mask.unsqueeze(2), LOWEST)
    low = torch.full((matches.shape[0], matches.shape[2]), LOWEST, device=matches.device)  # (Q, P)
    high = torch.full_like(low, -LOWEST)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        above = (valid > middle.unsqueeze(1)).sum(dim=1) >= wanted
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return wanted * low + (valid - low.unsqueeze(1)).clamp(min=0).sum(dim=1)
