"""The inner loops of a search on the CPU, compiled by numba; each works on a range of rows so that threads can share them.

Scores inside the kernels are int16 multiples of one step per search (`search.py` chooses it).  Query vectors stand in
*lanes*, 64 to a block, the claim's blocks first and the facts' after them; a lane without a vector scores `EMPTY`, which
no sum ever reaches.  `scoring.py` is the reference for all of this.  Where centroids alone are told apart, a score is a
byte: the scores of all cells are then half as large, and it is the way to memory that takes the time.

    map_lanes           query vectors                         -> lanes in the codec's space
    lookup_*            codebooks x query                     -> what each byte of a layer adds to each lane
    cell_scores         centroids x query                     -> a score for each (cell, lane)
    probe_cells         the best cells of each lane
    probed_lists        where their inverted lists are, and what each is worth
    gather              those lists                           -> evidence for each passage
    select_largest      the best of many, without sorting
    prune               passages, by their cells alone        -> focused scores
    refine              passages, by cells and residuals      -> focused scores
    decode_rows         cells and residuals                   -> float32 vectors
    score_vectors       decoded vectors, in float32           -> each lane's best match, exactly
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from baleen.index.codec.residuals import decode_passage, layers_of
from baleen.index.cpu.simd import LANES, add_token, best_bytes, count_at_least, count_bytes_at_least, dot_rows

Array = npt.NDArray[Any]

EMPTY = -20_000  # the score of a lane without a vector: below any real one, and far from overflow
AHEAD = 2  # vectors before its own at which a vector's centroid scores are asked for
BYTE_ZERO = 51  # the byte of a score of 0: a fifth of the bytes is for scores below it, which are hardly ever the best


def aligned(shape: tuple[int, ...], kind: npt.DTypeLike) -> Array:
    """An uninitialised array that starts at a multiple of 64 bytes, so that no row of lanes straddles a cache line."""
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(kind).reshape(shape)


@njit(nogil=True, cache=True)
def map_lanes(axes: Array, vectors: Array, out: Array) -> None:
    """out[d, lane] = axes[d] . vectors[:, lane]; the number of axes is a multiple of 4."""
    dim = vectors.shape[0]
    for d in range(0, len(axes), 4):
        dot_rows(axes.ctypes.data + d * dim * 4, vectors.ctypes.data, dim, out.ctypes.data + d * LANES * 4)


@njit(nogil=True, cache=True)
def lookup_floats(codebooks: Array, queries: Array, table: Array) -> None:
    """table[layer * subspaces + s, code, lane] = codebooks[layer, s, code] . queries[s's dimensions, lane]."""
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
    """Fill lowest[s, lane] with the smallest entry over the codes; return the widest range of any (s, lane)."""
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
    """Quantise to bytes counted from each (row, lane)'s lowest entry; offsets[n, lane] has those of the last n layers.

    Byte 2j of a row belongs to lane j and byte 2j + 1 to lane 32 + j, as `add_token` wants them.
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
    """scores[cell, lane] for the cells of blocks start:stop, 64 cells each, and the best of each block for each lane.

    score_bytes[cell, lane] are the same in steps of their own, counted from BYTE_ZERO; a lane without a vector has 0.
    """
    cells, dim = scores.shape[0], queries.shape[0]
    scale, byte_scale = np.float32(inverse_steps[0]), np.float32(inverse_steps[1])
    products = np.empty((4, LANES), np.float32)
    for block in range(start, stop):
        best = block_best[block]
        for lane in range(LANES):
            best[lane] = EMPTY
        for cell in range(block * LANES, min((block + 1) * LANES, cells), 4):
            dot_rows(centroids.ctypes.data + cell * dim * 4, queries.ctypes.data, dim, products.ctypes.data)
            for r in range(min(4, cells - cell)):
                row, byte_row, product = scores[cell + r], score_bytes[cell + r], products[r]
                for lane in range(LANES):
                    value = np.int16(np.floor(product[lane] * scale + np.float32(0.5)))
                    row[lane] = value
                    best[lane] = max(best[lane], value)
                for lane in range(LANES):
                    counted = product[lane] * byte_scale + np.float32(BYTE_ZERO + 0.5)
                    byte_row[lane] = np.uint8(min(max(counted, np.float32(0)), np.float32(255)))
                for lane in range(lanes, LANES):
                    row[lane], byte_row[lane] = EMPTY, 0


@njit(nogil=True, cache=True)
def probe_cells(scores: Array, block_best: Array, cells: Array, start: int, stop: int) -> None:
    """Fill cells[lane] with the best cells of the lane, best first, ties by number, for the lanes start:stop."""
    blocks, probes = block_best.shape[1], cells.shape[1]
    bests = np.empty(blocks, np.int16)
    keys = np.empty(1024, np.int64)
    for lane in range(start, stop):
        lane_scores, lane_best, at = scores[lane // LANES], block_best[lane // LANES], lane % LANES
        for block in range(blocks):
            bests[block] = lane_best[block, at]
        # A cell among the best `probes` stands in a block whose own best is among the best `probes` of all blocks.
        limit = np.int16(EMPTY)
        if probes < blocks:
            limit = np.partition(bests, blocks - probes)[blocks - probes]
        found = 0
        for block in range(blocks):
            if bests[block] >= limit:
                for cell in range(block * LANES, min((block + 1) * LANES, lane_scores.shape[0])):
                    if lane_scores[cell, at] >= limit:
                        if found == len(keys):
                            keys = np.concatenate((keys, np.empty(found, np.int64)))
                        keys[found] = (np.int64(-lane_scores[cell, at]) << 32) + cell
                        found += 1
        order = np.sort(keys[:found])
        for i in range(probes):
            cells[lane, i] = order[i] & 0xFFFFFFFF


@njit(nogil=True, cache=True)
def probed_lists(
    segment_cells: Array, segment_offsets: Array, scores: Array, cells: Array
) -> tuple[Array, Array, Array]:
    """Of every (lane, probe): where the cell's list starts and ends, and what it is worth to a passage.

    That is the cell's score over the worst cell that the lane probed, and 1 for that one.
    """
    starts, ends = np.zeros(cells.shape, np.int64), np.zeros(cells.shape, np.int64)
    gains = np.zeros(cells.shape, np.int32)
    for lane in range(cells.shape[0]):
        lane_scores, at = scores[lane // LANES], lane % LANES
        floor = np.int32(lane_scores[cells[lane, -1], at]) - 1
        for probe in range(cells.shape[1]):
            cell = cells[lane, probe]
            place = np.searchsorted(segment_cells, cell)
            if place < len(segment_cells) and segment_cells[place] == cell:
                starts[lane, probe], ends[lane, probe] = segment_offsets[place], segment_offsets[place + 1]
                gains[lane, probe] = np.int32(lane_scores[cell, at]) - floor
    return starts, ends, gains


@njit(nogil=True, cache=True)
def skip_rows(postings: Array, starts: Array, ends: Array, first: int) -> Array:
    """Where each list's rows from `first` on start."""
    places = starts.copy()
    for lane in range(places.shape[0] if first > 0 else 0):
        for probe in range(places.shape[1]):
            low, high = starts[lane, probe], ends[lane, probe]
            while low < high:
                middle = (low + high) >> 1
                if postings[middle] < first:
                    low = middle + 1
                else:
                    high = middle
            places[lane, probe] = low
    return places


@njit(nogil=True, cache=True)
def gather(
    postings: Array, places: Array, ends: Array, gains: Array, allowed: Array, first: int, stop: int, tally: Array,
    rows: Array, evidence: Array,
) -> int:  # fmt: skip
    """Collect evidence for the passages first:stop in the probed lists: the sum over lanes of the best list's gain.

    `places` says where each list's rows from `first` on start, and is moved on to those from `stop` on.  `tally` has two
    int32 for each of these passages: they are few, so that it stays in the cache.  Fills `rows` and `evidence` with the
    passages that have some and returns how many.
    """
    count = 0
    tally[: stop - first] = 0  # (the last lane that counted the row, plus 1; evidence)
    for lane in range(places.shape[0]):
        for probe in range(places.shape[1]):
            gain, place, end = gains[lane, probe], places[lane, probe], ends[lane, probe]
            while place < end:
                row = np.int64(postings[place])
                if row >= stop:
                    break
                place += 1
                last = tally[row - first, 0]
                if last == 0 and allowed[row]:
                    rows[count] = row
                    count += 1
                if last != lane + 1 and (last > 0 or allowed[row]):
                    tally[row - first, 0] = lane + 1
                    tally[row - first, 1] += gain
            places[lane, probe] = place
    for i in range(count):
        evidence[i] = tally[rows[i] - first, 1]
    return count


@njit(nogil=True, cache=True)
def select_largest(values: Array, limit: int) -> Array:
    """Positions of the `limit` largest int32 values, in ascending order; ties at the edge go to the earlier position."""
    n = len(values)
    if n <= limit:
        return np.arange(n)
    edge = np.partition(values, n - limit)[n - limit] if n < 4096 else _edge(values, limit)
    above = 0
    for i in range(n):
        above += values[i] > edge
    level = limit - above
    chosen, count = np.empty(limit, np.int64), 0
    for i in range(n):
        if values[i] > edge or (values[i] == edge and level > 0):
            level -= values[i] == edge
            chosen[count] = i
            count += 1
    return chosen


@njit(nogil=True, cache=True)
def _edge(values: Array, limit: int) -> Any:
    """The `limit`-th largest value: a histogram finds its neighbourhood, a partition finishes there."""
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
    at = len(inside) - (limit - above)
    return np.int64(np.partition(inside, at)[at])


@njit(nogil=True, cache=True)
def focused_sum(matches: Array, lanes: int, keep: int) -> Any:
    """The sum of the `keep` largest of int16 matches, whose first `lanes` are real; a threshold is searched, not sorted.

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
def _both_sums(matches: Array, lanes: tuple[int, int], keep: tuple[int, int]) -> Any:
    """The focused sum over the claim's lanes plus that over the facts' lanes, which start at a block of their own."""
    split = (lanes[0] + LANES - 1) // LANES * LANES
    total = focused_sum(matches[:split], lanes[0], keep[0])
    if lanes[1]:
        total += focused_sum(matches[split:], lanes[1], keep[1])
    return total


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
def prune(
    score_bytes: Array, codes: Array, offsets: Array, rows: Array, lanes: tuple[int, int], keep: tuple[int, int],
    out: Array, start: int, stop: int,
) -> None:  # fmt: skip
    """out[i] = the focused score of passage rows[i] with every token taken for its centroid, for i in start:stop."""
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
def refine(
    scores: Array, entries: Array, lane_offsets: Array, subspaces: int, codes: Array, offsets: Array, residuals: Array,
    residual_offsets: Array, rows: Array, lanes: tuple[int, int], keep: tuple[int, int], out: Array, start: int, stop: int,
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
            _match_block(
                scores[block], entries[block], lane_offsets[block], subspaces, row_codes, stream, restored, best
            )
        out[i] = _both_sums(matches, lanes, keep)


@njit(nogil=True, cache=True)
def _match_block(
    scores: Array, entries: Array, lane_offsets: Array, subspaces: int, codes: Array, stream: Array, restored: Array,
    best: Array,
) -> None:  # fmt: skip
    """best[lane] = the best match of each lane of a block among a passage's vectors.

    restored[t] gets what the residual of the t-th vector scores; nothing, number 0, scores 0.
    """
    n, row = len(codes), LANES * 2  # bytes of a row of scores
    references, place = (n + 1) // 2, (n + 1) // 2 + 2 * n
    best[:] = -(2**15)
    for t in range(n):
        layers = layers_of(stream, t)
        size = layers * subspaces
        add_token(
            entries.ctypes.data + (len(entries) - size) * 256 * LANES,
            stream.ctypes.data + place,
            size // 2,
            restored.ctypes.data + stream[references + 2 * t] * row,
            restored.ctypes.data + stream[references + 2 * t + 1] * row,
            lane_offsets.ctypes.data + layers * row,
            restored.ctypes.data + (t + 1) * row,
            scores.ctypes.data + codes[t] * row,
            scores.ctypes.data + codes[min(t + AHEAD, n - 1)] * row,
            best.ctypes.data,
        )
        place += size


@njit(nogil=True, cache=True)
def decode_rows(
    centroids: Array, codebooks: Array, codes: Array, offsets: Array, residuals: Array, residual_offsets: Array,
    rows: Array, out: Array,
) -> None:  # fmt: skip
    """The vectors of some passages end to end, float32: centroids[codes[t]] + what the residuals restore."""
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
    """out[i, block, lane] = the best match of each lane among the `lengths[i]` vectors of passage i, float32.

    `vectors` has four spare rows at its end, since rows are taken four at a time; what they hold is never read out.
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
