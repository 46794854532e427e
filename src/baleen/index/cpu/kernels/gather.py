"""Kernels that find candidates: the best cells of each lane, and the passages in their inverted lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from baleen.index.cpu.kernels.tables import NO_VECTOR
from baleen.index.cpu.simd import LANES

Array = npt.NDArray[Any]


@njit(nogil=True, cache=True)
def probe_cells(scores: Array, block_best: Array, cells: Array, start: int, stop: int) -> None:
    """Fill cells[lane] with the best cells of the lanes start:stop, best first, ties by number."""
    blocks, probes = block_best.shape[1], cells.shape[1]
    bests = np.empty(blocks, np.int16)
    keys = np.empty(1024, np.int64)
    for lane in range(start, stop):
        lane_scores, lane_best, column = scores[lane // LANES], block_best[lane // LANES], lane % LANES
        for block in range(blocks):
            bests[block] = lane_best[block, column]
        # One of the best `probes` cells lies in a block whose best score is among the best `probes` of all blocks.
        limit = np.int16(NO_VECTOR)
        if probes < blocks:
            limit = np.partition(bests, blocks - probes)[blocks - probes]
        found = 0
        for block in range(blocks):
            if bests[block] >= limit:
                for cell in range(block * LANES, min((block + 1) * LANES, lane_scores.shape[0])):
                    if lane_scores[cell, column] >= limit:
                        if found == len(keys):
                            keys = np.concatenate((keys, np.empty(found, np.int64)))
                        keys[found] = (np.int64(-lane_scores[cell, column]) << 32) + cell
                        found += 1
        order = np.sort(keys[:found])
        for i in range(probes):
            cells[lane, i] = order[i] & 0xFFFFFFFF


@njit(nogil=True, cache=True)
def probed_lists(
    segment_cells: Array, segment_offsets: Array, scores: Array, cells: Array
) -> tuple[Array, Array, Array]:
    """The start, the end and the gain of the inverted list of each (lane, probe).

    The gain is the score of the cell less that of the worst cell that the lane probes, plus 1.
    """
    starts, ends = np.zeros(cells.shape, np.int64), np.zeros(cells.shape, np.int64)
    gains = np.zeros(cells.shape, np.int32)
    for lane in range(cells.shape[0]):
        lane_scores, column = scores[lane // LANES], lane % LANES
        floor = np.int32(lane_scores[cells[lane, -1], column]) - 1
        for probe in range(cells.shape[1]):
            cell = cells[lane, probe]
            position = np.searchsorted(segment_cells, cell)
            if position < len(segment_cells) and segment_cells[position] == cell:
                starts[lane, probe], ends[lane, probe] = segment_offsets[position], segment_offsets[position + 1]
                gains[lane, probe] = np.int32(lane_scores[cell, column]) - floor
    return starts, ends, gains


@njit(nogil=True, cache=True)
def seek_rows(postings: Array, starts: Array, ends: Array, first: int) -> Array:
    """Position of the first posting >= `first` in each list."""
    positions = starts.copy()
    for lane in range(positions.shape[0] if first > 0 else 0):
        for probe in range(positions.shape[1]):
            low, high = starts[lane, probe], ends[lane, probe]
            while low < high:
                middle = (low + high) >> 1
                if postings[middle] < first:
                    low = middle + 1
                else:
                    high = middle
            positions[lane, probe] = low
    return positions


@njit(nogil=True, cache=True)
def gather_evidence(
    postings: Array, positions: Array, ends: Array, gains: Array, allowed: Array, first: int, stop: int, tally: Array,
    rows: Array, evidence: Array,
) -> int:  # fmt: skip
    """Collect the evidence of the passages first:stop: the sum over lanes of the largest gain of their lists.

    positions   where each list continues; moved on to the rows from `stop` on
    tally       (stop - first, 2) int32 scratch, small enough to stay in the cache
    rows, evidence   filled with the allowed passages that have evidence; their number is returned
    """
    count = 0
    tally[: stop - first] = 0  # columns: last lane that counted the row, plus 1; evidence
    for lane in range(positions.shape[0]):
        for probe in range(positions.shape[1]):
            gain, position, end = gains[lane, probe], positions[lane, probe], ends[lane, probe]
            while position < end:
                row = np.int64(postings[position])
                if row >= stop:
                    break
                position += 1
                last = tally[row - first, 0]
                if last == 0 and allowed[row]:
                    rows[count] = row
                    count += 1
                if last != lane + 1 and (last > 0 or allowed[row]):
                    tally[row - first, 0] = lane + 1
                    tally[row - first, 1] += gain
            positions[lane, probe] = position
    for i in range(count):
        evidence[i] = tally[rows[i] - first, 1]
    return count


@njit(nogil=True, cache=True)
def select_largest(values: Array, limit: int) -> Array:
    """Positions of the `limit` largest int32 values, ascending; of equal values the earlier ones."""
    n = len(values)
    if n <= limit:
        return np.arange(n)
    edge = np.partition(values, n - limit)[n - limit] if n < 4096 else _nth_largest(values, limit)
    above = 0
    for i in range(n):
        above += values[i] > edge
    ties = limit - above
    chosen, count = np.empty(limit, np.int64), 0
    for i in range(n):
        if values[i] > edge or (values[i] == edge and ties > 0):
            ties -= values[i] == edge
            chosen[count] = i
            count += 1
    return chosen


@njit(nogil=True, cache=True)
def _nth_largest(values: Array, limit: int) -> Any:
    """The `limit`-th largest value, by a histogram and a partition within one of its bins."""
    low, high = np.int64(values.min()), np.int64(values.max())
    width = (high - low) // 4096 + 1
    counts = np.zeros(4097, np.int64)
    for value in values:
        counts[(value - low) // width] += 1
    bucket, above = 4096, np.int64(0)
    while above + counts[bucket] < limit:
        above += counts[bucket]
        bucket -= 1
    inside, count = np.empty(counts[bucket], np.int64), 0
    for value in values:
        if (value - low) // width == bucket:
            inside[count] = value
            count += 1
    rank = len(inside) - (limit - above)
    return np.int64(np.partition(inside, rank)[rank])
