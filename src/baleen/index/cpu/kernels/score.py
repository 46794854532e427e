"""Kernels that score passages: by centroids, by centroids and residuals, and by float32 vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from baleen.index.codec.residuals import decode_passage, layer_count
from baleen.index.cpu.simd import LANES, add_token, best_bytes, count_at_least, count_bytes_at_least, dot_rows

Array = npt.NDArray[Any]

PREFETCH_DISTANCE = 2  # tokens between a centroid's scores being prefetched and being used


@njit(nogil=True, cache=True)
def focused_sum(matches: Array, lanes: int, keep: int) -> Any:
    """The sum of the `keep` largest of the first `lanes` int16 matches, by binary search for the threshold.

    `matches` is padded to whole blocks with values below every real one.
    """
    total = np.int64(0)
    if keep >= lanes:
        for lane in range(lanes):
            total += matches[lane]
        return total
    low, high = np.int64(matches[0]), np.int64(matches[0])
    for lane in range(lanes):
        low, high = min(low, np.int64(matches[lane])), max(high, np.int64(matches[lane]))
    while low < high:  # the largest threshold that at least `keep` values reach
        middle = (low + high + 1) >> 1
        if count_at_least(matches.ctypes.data, len(matches) // (LANES // 2), np.int16(middle)) >= keep:
            low = middle
        else:
            high = middle - 1
    above = 0
    for lane in range(lanes):
        if matches[lane] > low:
            total += matches[lane]
            above += 1
    return total + (keep - above) * low


@njit(nogil=True, cache=True)
def focused_byte_sum(matches: Array, lanes: int, keep: int) -> Any:
    """`focused_sum` of uint8 matches, padded to whole blocks with zeros."""
    total = np.int64(0)
    if keep >= lanes:
        for lane in range(lanes):
            total += matches[lane]
        return total
    low, high = np.int64(0), np.int64(255)
    while low < high:  # the largest threshold that at least `keep` values reach
        middle = (low + high + 1) >> 1
        if count_bytes_at_least(matches.ctypes.data, len(matches) // LANES, np.uint8(middle)) >= keep:
            low = middle
        else:
            high = middle - 1
    above = np.int64(0)
    for lane in range(lanes):
        over = np.int64(matches[lane] > low)
        total += over * matches[lane]
        above += over
    return total + (keep - above) * low


@njit(nogil=True, cache=True)
def _claim_and_facts_sum(matches: Array, lanes: tuple[int, int], keep: tuple[int, int]) -> Any:
    """The focused sum over the claim's lanes plus that over the facts', which start a new block."""
    split = (lanes[0] + LANES - 1) // LANES * LANES
    total = focused_sum(matches[:split], lanes[0], keep[0])
    if lanes[1]:
        total += focused_sum(matches[split:], lanes[1], keep[1])
    return total


@njit(nogil=True, cache=True)
def score_by_centroids(
    score_bytes: Array, codes: Array, offsets: Array, rows: Array, lanes: tuple[int, int], keep: tuple[int, int],
    out: Array, start: int, stop: int,
) -> None:  # fmt: skip
    """out[i] = the focused score of passage rows[i], every token taken for its centroid, for i in start:stop."""
    blocks, cells = score_bytes.shape[0], score_bytes.shape[1]
    split = (lanes[0] + LANES - 1) // LANES * LANES
    matches = np.empty(blocks * LANES, np.uint8)
    for i in range(start, stop):
        first = offsets[rows[i]]
        tokens = offsets[rows[i] + 1] - first
        for block in range(blocks):
            best_bytes(
                score_bytes.ctypes.data + block * cells * LANES,
                codes.ctypes.data + 2 * first,
                tokens,
                matches.ctypes.data + block * LANES,
            )
        out[i] = focused_byte_sum(matches[:split], lanes[0], keep[0])
        if lanes[1]:
            out[i] += focused_byte_sum(matches[split:], lanes[1], keep[1])


@njit(nogil=True, cache=True)
def score_by_residuals(
    scores: Array, entries: Array, lane_offsets: Array, subspaces: int, codes: Array, offsets: Array, residuals: Array,
    residual_offsets: Array, rows: Array, lanes: tuple[int, int], keep: tuple[int, int], out: Array, start: int,
    stop: int,
) -> None:  # fmt: skip
    """out[i] = the focused score of passage rows[i] from its cells and residuals, for i in start:stop.

    `entries` is (blocks, layers * subspaces, 256, 64), `lane_offsets` (blocks, layers + 1, 64).
    """
    blocks = scores.shape[0]
    matches = np.empty(blocks * LANES, np.int16)
    longest = 0
    for i in range(start, stop):
        longest = max(longest, offsets[rows[i] + 1] - offsets[rows[i]])
    restored = np.zeros((longest + 1, LANES), np.int16)
    for i in range(start, stop):
        row_codes = codes[offsets[rows[i]] : offsets[rows[i] + 1]]
        stream = residuals[residual_offsets[rows[i]] :]
        for block in range(blocks):
            best = matches[block * LANES : (block + 1) * LANES]
            _best_matches(
                scores[block], entries[block], lane_offsets[block], subspaces, row_codes, stream, restored, best
            )
        out[i] = _claim_and_facts_sum(matches, lanes, keep)


@njit(nogil=True, cache=True)
def _best_matches(
    scores: Array, entries: Array, lane_offsets: Array, subspaces: int, codes: Array, stream: Array, restored: Array,
    best: Array,
) -> None:  # fmt: skip
    """best[lane] = the best match of each lane of a block among the vectors of a passage.

    restored[t] receives the score of the t-th vector's residual; restored[0] = 0 is that of no reference.
    """
    n, row = len(codes), LANES * 2  # bytes of a row of scores
    references, position = (n + 1) // 2, (n + 1) // 2 + 2 * n
    best[:] = -(2**15)
    for t in range(n):
        layers = layer_count(stream, t)
        size = layers * subspaces
        add_token(
            entries.ctypes.data + (len(entries) - size) * 256 * LANES,
            stream.ctypes.data + position,
            size // 2,
            restored.ctypes.data + stream[references + 2 * t] * row,
            restored.ctypes.data + stream[references + 2 * t + 1] * row,
            lane_offsets.ctypes.data + layers * row,
            restored.ctypes.data + (t + 1) * row,
            scores.ctypes.data + codes[t] * row,
            scores.ctypes.data + codes[min(t + PREFETCH_DISTANCE, n - 1)] * row,
            best.ctypes.data,
        )
        position += size


@njit(nogil=True, cache=True)
def decode_rows(
    centroids: Array, codebooks: Array, codes: Array, offsets: Array, residuals: Array, residual_offsets: Array,
    rows: Array, out: Array,
) -> None:  # fmt: skip
    """Decode some passages, end to end, to float32: centroids[codes[t]] + the restored residuals."""
    first = 0
    for row in rows:
        length = offsets[row + 1] - offsets[row]
        vectors = out[first : first + length]
        decode_passage(codebooks, residuals[residual_offsets[row] :], vectors)
        for t in range(length):
            vectors[t] += centroids[codes[offsets[row] + t]]
        first += length


@njit(nogil=True, cache=True)
def score_vectors(vectors: Array, lengths: Array, queries: Array, out: Array) -> None:
    """out[i, block, lane] = the best match of each lane among the lengths[i] vectors of passage i, float32.

    `vectors` ends with four spare rows, since rows are read four at a time; their content has no effect.
    """
    dim, blocks = queries.shape[1], queries.shape[0]
    products = np.empty((4, LANES), np.float32)
    first = 0
    for i in range(len(lengths)):
        for block in range(blocks):
            best = out[i, block]
            best[:] = -np.inf
            for t in range(0, lengths[i], 4):
                rows = vectors.ctypes.data + (first + t) * dim * 4
                dot_rows(rows, queries.ctypes.data + block * dim * LANES * 4, dim, products.ctypes.data)
                for r in range(min(4, lengths[i] - t)):
                    for lane in range(LANES):
                        best[lane] = max(best[lane], products[r, lane])
        first += lengths[i]
