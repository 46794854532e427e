"""The codec of an index: vectors to cell numbers and residual bytes, and back.

    x  --map-->  x F  --nearest centroid-->  cell (uint16)  --what is left-->  a stream of bytes for the whole passage

The map F stretches the directions that vectors share, where an error would shift all of a query's matches together, and
turns the axes so that each byte has its share of the work.  Queries go through its inverse, transposed, B: (q B) . (x F)
is q . x again.

Centroids are kept as int8 with a scale each; residuals are taken against those, so nothing is lost by it.  What they leave
is told by references from vector to vector and in layers of codewords, `residuals.py` says how; 1, 2 or 4 bits a dimension
are what that takes on average, more where a vector is like no other of its passage.  With 16 bits there are no residuals:
the float16 vectors themselves are kept, and cells serve only to find them.

This module holds the arrays and the way back (numpy and numba alone); `fitting.py` makes a codec and encodes with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from baleen.index.codec import residuals
from baleen.index.cpu import kernels

Array = npt.NDArray[Any]
Bits = int  # one of BITS
BITS = (1, 2, 4, 16)

MAX_CELLS = 2**16  # a cell number is a uint16
PADDING = 16  # dimensions are padded to a multiple of this: an even number of subspaces


def cell_count(vectors: int) -> int:
    """2^floor(log2(16 sqrt(n))), but at least four vectors to a cell and no more cells than a uint16 numbers."""
    wanted = min(16 * math.sqrt(vectors), vectors / 4, MAX_CELLS)
    return 2 ** int(math.log2(wanted)) if wanted >= 2 else 1


def padded(dim: int) -> int:
    """`dim` rounded up to a whole number of subspace pairs."""
    return -(-dim // PADDING) * PADDING


@dataclass(frozen=True, eq=False)
class Encoded:
    """Encoded passages: `codes` (t,) uint16 and `residuals` uint8, end to end, with the start of each passage."""

    codes: Array
    offsets: Array  # (n + 1,) int64, in vectors
    residuals: Array
    residual_offsets: Array  # (n + 1,) int64, in bytes


@dataclass(frozen=True, eq=False)
class Codec:
    """The arrays of a codec.

    forward and backward (dim, padded) float32, forward @ backward.T = 1; centroids (cells, padded) int8 with scales
    (cells,) float32; codebooks (layers, subspaces, 256, 8) float16 and thresholds (layers,) float32, with no layers at
    16 bits.
    """

    bits: Bits
    forward: Array
    backward: Array
    centroids: Array
    scales: Array
    codebooks: Array
    thresholds: Array

    @property
    def dim(self) -> int:
        """Dimensions of the encoder's vectors."""
        return int(self.forward.shape[0])

    @property
    def width(self) -> int:
        """Dimensions of the mapped space: dim, padded."""
        return int(self.forward.shape[1])

    @property
    def cells(self) -> int:
        """Number of centroids."""
        return len(self.scales)

    @property
    def layers(self) -> int:
        """Number of codebook layers."""
        return len(self.codebooks)

    @property
    def subspaces(self) -> int:
        """Bytes that a layer takes."""
        return int(self.codebooks.shape[1])

    @property
    def arrays(self) -> dict[str, Array]:
        """The stored arrays by name."""
        return {
            "forward": self.forward,
            "backward": self.backward,
            "centroids": self.centroids,
            "scales": self.scales,
            "codebooks": self.codebooks,
            "thresholds": self.thresholds,
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
    def float_codebooks(self) -> Array:
        """(layers, subspaces, 256, 8) float32: what kernels read, made at the first search."""
        return np.ascontiguousarray(self.codebooks, np.float32)

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

    def decode(self, encoded: Encoded) -> Array:
        """All vectors of encoded passages: (t, padded) float32 in the mapped space; not at 16 bits."""
        out = kernels.aligned((len(encoded.codes), self.width), np.float32)
        self.decode_rows(encoded, np.arange(len(encoded.offsets) - 1), out)
        return out

    def decode_rows(self, encoded: Encoded, rows: Array, out: Array) -> None:
        """Decode some passages into `out`, end to end."""
        kernels.decode_rows(
            self.float_centroids, self.float_codebooks, encoded.codes, encoded.offsets, encoded.residuals,
            encoded.residual_offsets, rows, out,
        )  # fmt: skip

    def restore(self, mapped: Array) -> Array:
        """Map vectors back: (n, padded) -> (n, dim)."""
        return mapped @ self.backward.T


def unpacked(offsets: Array, streams: Array, starts: Array, subspaces: int) -> tuple[Array, Array, Array, int]:
    """Of every vector its layers (t,) and references (t, 2), uint8, and where its bytes start; and how deep they refer."""
    count = int(offsets[-1])
    layers, references, places = np.empty(count, np.uint8), np.empty((count, 2), np.uint8), np.empty(count, np.int64)
    deepest = residuals.unpack(offsets, streams, starts, subspaces, layers, references, places)
    return layers, references, places, deepest
