"""The codec of an index: vectors to cell numbers and residual bytes, and back.

    x  --map-->  x F  --nearest centroid-->  cell (uint16)  --residual code-->  a stream of bytes per passage

The map F stretches the directions that vectors share, where an error would shift all matches of a query alike, and
rotates the axes so that all bytes of a layer carry about the same variance.  Queries are mapped by its inverse
transpose B, so that (q B) . (x F) = q . x.

Centroids are int8 with one scale each; residuals are computed against these rounded centroids.  The residual code
(`residuals.py`) takes 1, 2 or 4 bits a dimension on average, and more for vectors unlike the others of their passage.
With 16 bits there are no residuals: the index stores float16 vectors, and cells only serve to find them.

This module holds the arrays and decodes (numpy and numba only); `fitting.py` fits a codec and encodes with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from baleen.index.codec import residuals
from baleen.index.cpu.kernels.score import decode_rows
from baleen.index.cpu.memory import aligned

Array = npt.NDArray[Any]
Bits = int  # one of BITS
BITS = (1, 2, 4, 16)

MAX_CELLS = 2**16  # a cell number is a uint16
PADDING = 16  # dimensions are padded to a multiple of this, so the number of subspaces is even


def cell_count(vectors: int) -> int:
    """Default number of cells: 2^floor(log2(16 sqrt(n))), at most 2^16, with at least four vectors to a cell."""
    wanted = min(16 * math.sqrt(vectors), vectors / 4, MAX_CELLS)
    return 2 ** int(math.log2(wanted)) if wanted >= 2 else 1


def padded_dim(dim: int) -> int:
    """`dim` rounded up to a multiple of PADDING."""
    return -(-dim // PADDING) * PADDING


@dataclass(frozen=True, eq=False)
class Encoded:
    """Encoded passages, end to end: `codes` (t,) uint16, `residuals` uint8, and the start of each passage in both."""

    codes: Array
    offsets: Array  # (n + 1,) int64, in vectors
    residuals: Array
    residual_offsets: Array  # (n + 1,) int64, in bytes


@dataclass(frozen=True, eq=False)
class Codec:
    """The arrays of a codec.

    forward, backward   (dim, width) float32, with forward @ backward.T = 1
    centroids           (cells, width) int8
    scales              (cells,) float32
    codebooks           (layers, subspaces, 256, 8) float16; no layers at 16 bits
    thresholds          (layers,) float32
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
        """Bytes of one layer of one vector."""
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
        """(cells + up to 3 zero rows, width) float32, aligned for the kernels; computed on first use."""
        rows = -(-self.cells // 4) * 4
        out = aligned((rows, self.width), np.float32)
        out[self.cells :] = 0
        np.multiply(self.centroids, self.scales[:, None], out=out[: self.cells])
        return out

    @cached_property
    def float_codebooks(self) -> Array:
        """(layers, subspaces, 256, 8) float32 for the kernels; computed on first use."""
        return np.ascontiguousarray(self.codebooks, np.float32)

    @cached_property
    def largest_centroid(self) -> float:
        """Largest norm of a centroid, which bounds every cell score."""
        return float(np.sqrt((self.float_centroids**2).sum(axis=1).max()))

    @cached_property
    def query_axes(self) -> Array:
        """(width, dim) float32: `backward` transposed, as `map_lanes` reads it."""
        return np.ascontiguousarray(self.backward.T, np.float32)

    def map_queries(self, vectors: Array) -> Array:
        """Map query vectors (n, dim) -> (n, width) float32, for products with mapped passage vectors."""
        return np.asarray(vectors, np.float32) @ self.backward

    def decode(self, encoded: Encoded) -> Array:
        """Decode all passages: (t, width) float32 in the mapped space; not at 16 bits."""
        out = aligned((len(encoded.codes), self.width), np.float32)
        self.decode_rows(encoded, np.arange(len(encoded.offsets) - 1), out)
        return out

    def decode_rows(self, encoded: Encoded, rows: Array, out: Array) -> None:
        """Decode some passages into `out`, end to end."""
        decode_rows(
            self.float_centroids, self.float_codebooks, encoded.codes, encoded.offsets, encoded.residuals,
            encoded.residual_offsets, rows, out,
        )  # fmt: skip

    def restore(self, mapped: Array) -> Array:
        """Map vectors back: (n, width) -> (n, dim)."""
        return mapped @ self.backward.T


class UnpackedStreams(NamedTuple):
    """Residual streams, taken apart by vector."""

    layers: Array  # (t,) uint8: number of layers
    references: Array  # (t, 2) uint8
    positions: Array  # (t,) int64: start of the vector's codewords in the streams
    max_depth: int  # longest chain of references


def unpack_streams(offsets: Array, streams: Array, starts: Array, subspaces: int) -> UnpackedStreams:
    """Parse the streams of passages, whose vectors start at `offsets` and whose bytes start at `starts`."""
    count = int(offsets[-1])
    layers, references, positions = np.empty(count, np.uint8), np.empty((count, 2), np.uint8), np.empty(count, np.int64)
    max_depth = residuals.unpack(offsets, streams, starts, subspaces, layers, references, positions)
    return UnpackedStreams(layers, references, positions, max_depth)
