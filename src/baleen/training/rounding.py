"""Passage vectors as a coarse index would give them back, so that a retriever learns to do with them.

Its codec would have to be fitted on a whole corpus, which nobody can encode anew at every step; a batch has thousands of
vectors, and they are rounded by a codec of their own: cells by a few rounds of k-means, and for every dimension the
levels that suit a normal distribution of what is left.  It depends on the batch and the weights alone, so that a run that
goes on ends as an undisturbed one does.  Each vector is rounded for itself, which an index no longer does
(`docs/index-format.md`, and `docs/training.md` for what that means).

Rounding has no slope.  Its gradient is taken for that of the identity: vectors move as if what moved them had been told
about the rounded ones.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

CELL_SIZE = 16  # vectors of a batch to a cell
CELL_ROUNDS = 3
MOST_CELLS = 2048
BITS = range(1, 9)


def rounded(vectors: Tensor, mask: Tensor, bits: int) -> Tensor:
    """Vectors (P, M, d) rounded to `bits` a dimension where `mask` (P, M) is True; gradients pass as if they were not."""
    with torch.no_grad():
        shift = torch.zeros_like(vectors)
        shift[mask] = _restored(vectors[mask], bits) - vectors[mask]
    return vectors + shift


def _restored(vectors: Tensor, bits: int) -> Tensor:
    """What a codec fitted on `vectors` (n, d) makes of them."""
    centroids = _centroids(vectors)
    nearest = centroids[_nearest(vectors, centroids)]
    left = vectors - nearest
    spread = left.square().mean(dim=0).sqrt().clamp(min=1e-12)  # (d,)
    levels = _levels(bits).to(vectors.device)
    borders = (levels[1:] + levels[:-1]) / 2
    return nearest + levels[torch.bucketize(left / spread, borders)] * spread


@cache
def _levels(bits: int) -> Tensor:
    return torch.from_numpy(gaussian_levels(2**bits)).float()


def gaussian_levels(count: int) -> npt.NDArray[np.float64]:
    """The `count` levels that quantise a standard normal with the least squared error."""
    points = torch.special.ndtri((torch.arange(65_536, dtype=torch.float64) + 0.5) / 65_536).numpy()
    levels: npt.NDArray[np.float64] = np.quantile(points, (np.arange(count) + 0.5) / count)
    for _ in range(60):
        owner = np.searchsorted((levels[1:] + levels[:-1]) / 2, points)
        levels = np.bincount(owner, weights=points, minlength=count) / np.bincount(owner, minlength=count)
    return levels


def _centroids(vectors: Tensor) -> Tensor:
    """The means of cells of like vectors: (cells, d)."""
    count = min(MOST_CELLS, max(1, len(vectors) // CELL_SIZE))
    centroids = vectors[torch.arange(count, device=vectors.device) * len(vectors) // count]
    for _ in range(CELL_ROUNDS):
        cells = _nearest(vectors, centroids)
        sums = torch.zeros_like(centroids).index_add_(0, cells, vectors)
        sizes = torch.bincount(cells, minlength=count).unsqueeze(1)
        centroids = torch.where(sizes > 0, sums / sizes.clamp(min=1), centroids)
    return centroids


def _nearest(vectors: Tensor, centroids: Tensor) -> Tensor:
    """The cell of each vector: (n,) int64."""
    return (vectors @ centroids.T - centroids.square().sum(dim=1) / 2).argmax(dim=1)
