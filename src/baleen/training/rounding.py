"""Passage vectors as an index would give them back, so that a retriever learns under the rounding that it will meet.

An index keeps of a vector the number of its cell, and what is left in a few bits a dimension (see
`docs/index-format.md`).  Its codec is fitted on a whole corpus, which nobody can encode anew at every step; a batch has
thousands of vectors, and they are rounded by a codec of their own: cells by a few rounds of k-means, and for every
dimension the levels that suit a normal distribution of what is left.  That is what the index's codewords start from, a
little coarser than they end, and it depends on the batch and the weights alone, so that a run that goes on ends as an
undisturbed one does.

Rounding has no slope.  Its gradient is taken for that of the identity: vectors move as if what moved them had been told
about the rounded ones.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from baleen.index.fitting import gaussian_levels

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
