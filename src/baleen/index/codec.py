"""The codec of an index: how a vector becomes a cell number and a few bytes, and how those become a vector again.

    x  --map-->  x F  --nearest centroid-->  cell (uint16)  --what is left, split into subspaces-->  one byte each

The map F stretches the directions that vectors share, where an error would shift all of a query's matches together, and
turns the axes so that each byte has its share of the work.  Queries go through its inverse, transposed, B: (q B) . (x F)
is q . x again.

Centroids are kept as int8 with a scale each; residuals are taken against those, so nothing is lost by it.  A byte stands
for 8 / bits dimensions and names one of 256 codewords of its subspace: 1, 2 or 4 bits a dimension.  With 16 bits there
are no residuals: the float16 vectors themselves are kept, and cells serve only to find them.

This module holds the arrays and the way back (numpy and numba alone); `fitting.py` makes a codec and encodes with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from baleen.index import kernels

Array = npt.NDArray[Any]
Bits = int  # one of BITS
BITS = (1, 2, 4, 16)

MAX_CELLS = 2**16  # a cell number is a uint16
CODEWORDS = 256
PADDING = 16  # dimensions are padded to a multiple of this, so that every width divides them


def cell_count(vectors: int) -> int:
    """2^floor(log2(16 sqrt(n))), but at least four vectors to a cell and no more cells than a uint16 numbers."""
    wanted = min(16 * math.sqrt(vectors), vectors / 4, MAX_CELLS)
    return 2 ** int(math.log2(wanted)) if wanted >= 2 else 1


def padded(dim: int) -> int:
    return -(-dim // PADDING) * PADDING


@dataclass(frozen=True, eq=False)
class Codec:
    """forward and backward (dim, padded) float32, forward @ backward.T = 1; centroids (cells, padded) int8 with scales
    (cells,) float32; codebooks (subspaces, 256, width) float32, with no subspaces at 16 bits."""

    bits: Bits
    forward: Array
    backward: Array
    centroids: Array
    scales: Array
    codebooks: Array

    @property
    def dim(self) -> int:
        return int(self.forward.shape[0])

    @property
    def width(self) -> int:
        """Dimensions of the mapped space: dim, padded."""
        return int(self.forward.shape[1])

    @property
    def cells(self) -> int:
        return len(self.scales)

    @property
    def subspaces(self) -> int:
        return len(self.codebooks)

    @property
    def arrays(self) -> dict[str, Array]:
        """What is stored, by name."""
        return {
            "forward": self.forward,
            "backward": self.backward,
            "centroids": self.centroids,
            "scales": self.scales,
            "codebooks": self.codebooks,
        }

    @cached_property
    def float_centroids(self) -> Array:
        """(cells + up to 3 spare rows, padded) float32, aligned: what kernels read, made at the first search."""
        rows = -(-self.cells // 4) * 4
        out = kernels.aligned((rows, self.width), np.float32)
        out[self.cells :] = 0
        np.multiply(self.centroids, self.scales[:, None], out=out[: self.cells])
        return out

    @cached_property
    def largest_centroid(self) -> float:
        """The norm of the longest centroid, which bounds every cell score."""
        return float(np.sqrt((self.float_centroids**2).sum(axis=1).max()))

    @cached_property
    def query_axes(self) -> Array:
        """(padded, dim) float32, row after row: `backward` as `kernels.map_lanes` reads it."""
        return np.ascontiguousarray(self.backward.T, np.float32)

    def map_queries(self, vectors: Array) -> Array:
        """(n, dim) -> (n, padded) float32, to be compared with mapped passage vectors."""
        return np.asarray(vectors, np.float32) @ self.backward

    def decode(self, codes: Array, residuals: Array) -> Array:
        """(n,) uint16 and (n, subspaces) uint8 -> (n, padded) float32 in the mapped space."""
        out = kernels.aligned((len(codes), self.width), np.float32)
        kernels.decode(self.float_centroids, self.codebooks, codes, residuals, out)
        return out

    def restore(self, mapped: Array) -> Array:
        """Back from the mapped space: (n, padded) -> (n, dim)."""
        return mapped @ self.backward.T
