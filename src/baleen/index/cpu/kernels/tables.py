"""Kernels that prepare a query: its lanes, its lookup tables, and the scores of all cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from baleen.index.cpu.simd import LANES, dot_rows

Array = npt.NDArray[Any]

NO_VECTOR = -20_000  # score of a lane without a vector: below any real score, and far from overflow
ZERO_BYTE = 51  # byte of a score of 0: a fifth of the range is for negative scores, which are rarely the best


@njit(nogil=True, cache=True)
def map_lanes(axes: Array, vectors: Array, out: Array) -> None:
    """out[d, lane] = axes[d] . vectors[:, lane]; the number of axes is a multiple of 4."""
    dim = vectors.shape[0]
    for d in range(0, len(axes), 4):
        dot_rows(axes.ctypes.data + d * dim * 4, vectors.ctypes.data, dim, out.ctypes.data + d * LANES * 4)


@njit(nogil=True, cache=True)
def lookup_floats(codebooks: Array, queries: Array, table: Array) -> None:
    """table[layer * subspaces + s, code, lane] = codebooks[layer, s, code] . queries[dimensions of s, lane]."""
    layers, subspaces, codes, width = codebooks.shape
    for layer in range(layers):
        for s in range(subspaces):
            for code in range(codes):
                row = table[layer * subspaces + s, code]
                for lane in range(LANES):
                    row[lane] = np.float32(0)
                for w in range(width):
                    weight = codebooks[layer, s, code, w]
                    lanes = queries[s * width + w]
                    for lane in range(LANES):
                        row[lane] += weight * lanes[lane]


@njit(nogil=True, cache=True)
def lookup_range(table: Array, lowest: Array) -> Any:
    """Fill lowest[s, lane] with the smallest entry over all codes; return the widest range of any (s, lane)."""
    widest = np.float32(0)
    highest = np.empty(LANES, np.float32)
    for s in range(table.shape[0]):
        low = lowest[s]
        for lane in range(LANES):
            low[lane] = table[s, 0, lane]
            highest[lane] = table[s, 0, lane]
        for code in range(1, table.shape[1]):
            row = table[s, code]
            for lane in range(LANES):
                low[lane] = min(low[lane], row[lane])
                highest[lane] = max(highest[lane], row[lane])
        for lane in range(LANES):
            widest = max(widest, highest[lane] - low[lane])
    return widest


@njit(nogil=True, cache=True)
def lookup_bytes(table: Array, lowest: Array, inverse_step: float, entries: Array, offsets: Array) -> None:
    """Quantize the table to bytes above the lowest entry of each (row, lane).

    offsets[n, lane] = the sum of the lowest entries of the last n layers.  Byte 2j of a row belongs to lane j and byte
    2j + 1 to lane 32 + j, as `add_token` reads them.
    """
    half, layers = LANES // 2, len(offsets) - 1
    scale = np.float32(inverse_step)
    for s in range(table.shape[0]):
        low = lowest[s]
        for code in range(table.shape[1]):
            row, out = table[s, code], entries[s, code]
            for j in range(half):
                out[2 * j] = np.uint8((row[j] - low[j]) * scale + np.float32(0.5))
                out[2 * j + 1] = np.uint8((row[half + j] - low[half + j]) * scale + np.float32(0.5))
    total = np.zeros(LANES, np.float32)
    offsets[0] = 0
    for count in range(1, layers + 1):
        subspaces = table.shape[0] // layers
        for s in range((layers - count) * subspaces, (layers - count + 1) * subspaces):
            for lane in range(LANES):
                total[lane] += lowest[s, lane]
        for lane in range(LANES):
            offsets[count, lane] = np.int16(np.rint(total[lane] * scale))


@njit(nogil=True, cache=True)
def cell_scores(
    centroids: Array,
    queries: Array,
    lanes: int,
    inverse_steps: tuple[float, float],
    scores: Array,
    score_bytes: Array,
    block_best: Array,
    start: int,
    stop: int,
) -> None:
    """Score the cells of blocks start:stop, 64 cells each: scores[cell, lane], and block_best[block, lane].

    score_bytes[cell, lane] are the same scores in coarser steps, counted from ZERO_BYTE; 0 for a lane without a vector.
    """
    cells, dim = scores.shape[0], queries.shape[0]
    scale, byte_scale = np.float32(inverse_steps[0]), np.float32(inverse_steps[1])
    products = np.empty((4, LANES), np.float32)
    for block in range(start, stop):
        best = block_best[block]
        for lane in range(LANES):
            best[lane] = NO_VECTOR
        for cell in range(block * LANES, min((block + 1) * LANES, cells), 4):
            dot_rows(centroids.ctypes.data + cell * dim * 4, queries.ctypes.data, dim, products.ctypes.data)
            for r in range(min(4, cells - cell)):
                row, byte_row, product = scores[cell + r], score_bytes[cell + r], products[r]
                for lane in range(LANES):
                    value = np.int16(np.floor(product[lane] * scale + np.float32(0.5)))
                    row[lane] = value
                    best[lane] = max(best[lane], value)
                for lane in range(LANES):
                    byte = product[lane] * byte_scale + np.float32(ZERO_BYTE + 0.5)
                    byte_row[lane] = np.uint8(min(max(byte, np.float32(0)), np.float32(255)))
                for lane in range(lanes, LANES):
                    row[lane], byte_row[lane] = NO_VECTOR, 0
