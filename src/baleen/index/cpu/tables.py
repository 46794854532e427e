"""A query as the kernels take it, and its lookup tables: its products with every centroid and every codeword.

Scores are counted in int16 steps.  The step is chosen for each query, so that neither a cell score nor the score of a
restored residual overflows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from baleen.core.vectors import QueryVectors
from baleen.index.codec.codec import Codec
from baleen.index.cpu.kernels.tables import (
    ZERO_BYTE,
    cell_scores,
    lookup_bytes,
    lookup_floats,
    lookup_range,
    map_lanes,
)
from baleen.index.cpu.memory import Scratch, aligned
from baleen.index.cpu.simd import LANES
from baleen.index.cpu.workers import Workers
from baleen.index.protocol import Focus

Array = npt.NDArray[Any]

# Most steps in a cell score, and in the sum of a table's entries.  An int16 then holds a cell score plus the score of a
# restored residual, which is about three times as large if vectors are as long as centroids.  If they are longer,
# so are the codewords, and with them the step.
CELL_RANGE, RESIDUAL_RANGE = 9_000, 20_000
TABLE_MAX = 127  # largest entry of a lookup table: two of them fit a byte


@dataclass(frozen=True, eq=False)
class Lanes:
    """A query for the kernels: (blocks, width, 64) float32; the facts start a new block."""

    queries: Array
    lanes: tuple[int, int]
    keep: tuple[int, int]

    @classmethod
    def of(cls, vectors: QueryVectors, codec: Codec, focus: Focus) -> Lanes:
        """Map a query into the codec's space and lay it out."""
        # Not a numpy product: it would wake a thread pool, which takes over 10 ms on a busy machine.
        parts = (vectors.query, vectors.facts)
        lanes = (len(vectors.query), len(vectors.facts))
        pieces = [part[start : start + LANES] for part in parts for start in range(0, len(part), LANES)]
        queries = aligned((len(pieces), codec.width, LANES), np.float32)
        columns = np.zeros((codec.dim, LANES), np.float32)
        for piece, block in zip(pieces, queries, strict=True):
            columns[:, : len(piece)] = piece.T
            columns[:, len(piece) :] = 0
            map_lanes(codec.query_axes, columns, block)
        keep = tuple(count if limit is None else min(limit, count) for limit, count in zip(focus, lanes, strict=True))
        return cls(queries, lanes, (keep[0], keep[1]))

    @property
    def blocks(self) -> int:
        """Number of blocks of 64 lanes."""
        return len(self.queries)

    def in_block(self, block: int) -> int:
        """Number of lanes of a block that hold a vector."""
        claim_blocks = -(-self.lanes[0] // LANES)
        lanes, at = (self.lanes[0], block) if block < claim_blocks else (self.lanes[1], block - claim_blocks)
        return min(LANES, lanes - at * LANES)

    def focused(self, matches: Array) -> Array:
        """(n, blocks, 64) float32 best matches -> (n,) focused scores; bit-equal in any batch."""
        flat = matches.reshape(len(matches), -1)
        split = -(-self.lanes[0] // LANES) * LANES
        claim = _sum_of_largest(flat[:, : self.lanes[0]], self.keep[0])
        return claim + _sum_of_largest(flat[:, split : split + self.lanes[1]], self.keep[1])


def _sum_of_largest(matches: Array, keep: int) -> Array:
    """Sum of the `keep` largest matches of each row, (n, lanes) -> (n,) float32."""
    if keep == 0:
        return np.zeros(len(matches), np.float32)
    best = -np.sort(-matches, axis=1)[:, :keep]  # sorted, so that equal matches sum to equal scores
    total: Array = best.sum(axis=1, dtype=np.float64).astype(np.float32)
    return total


class Lookup(NamedTuple):
    """The scores of a query with every codeword, as bytes."""

    entries: Array  # (blocks, layers x subspaces, 256, 64) uint8
    lane_offsets: Array  # (blocks, layers + 1, 64) int16: sum of the subtracted lowest entries, by number of layers
    inverse_step: float  # steps per unit of score


class CellScores(NamedTuple):
    """The scores of a query with every centroid."""

    steps: Array  # (blocks, cells, 64) int16
    bytes: Array  # (blocks, cells, 64) uint8: the same, coarser
    block_best: Array  # (blocks, cells / 64, 64) int16: the best of every 64 cells


class QueryTables(NamedTuple):
    """All tables of one query, in the scratch memory of this thread: valid until its next search."""

    lookup: Lookup
    cells: CellScores


def query_tables(codec: Codec, lanes: Lanes, workers: Workers, scratch: Scratch) -> QueryTables:
    """Fill the tables of a query, shared between threads."""
    largest = _largest_score(codec, lanes)
    lookup = _lookup(codec, lanes, largest / CELL_RANGE, workers, scratch)
    return QueryTables(
        lookup, _cell_scores(codec, lanes, workers, scratch, largest=largest, inverse_step=lookup.inverse_step)
    )


def _largest_score(codec: Codec, lanes: Lanes) -> float:
    """Upper bound of the score of any cell with any lane."""
    longest = float(np.sqrt((lanes.queries**2).sum(axis=1).max(initial=0)))
    return codec.largest_centroid * longest or 1.0


def _lookup(codec: Codec, lanes: Lanes, min_step: float, workers: Workers, scratch: Scratch) -> Lookup:
    """Fill the lookup tables, with steps of at least `min_step`."""
    blocks, rows = lanes.blocks, codec.layers * codec.subspaces
    entries = scratch.entries.shaped(blocks, rows, 256, LANES)
    lane_offsets = np.zeros((blocks, codec.layers + 1, LANES), np.int16)
    if not rows:
        return Lookup(entries, lane_offsets, 1 / min_step)
    floats = scratch.floats.shaped(blocks, rows, 256, LANES)
    lowest = np.empty((blocks, rows, LANES), np.float32)
    widest = np.zeros(blocks)

    def fill(start: int, stop: int) -> None:
        for block in range(start, stop):
            lookup_floats(codec.float_codebooks, lanes.queries[block], floats[block])
            widest[block] = lookup_range(floats[block], lowest[block])

    workers.share(blocks, fill)
    inverse_step = 1 / max(min_step, float(widest.max()) / min(TABLE_MAX, RESIDUAL_RANGE // rows))

    def quantize(start: int, stop: int) -> None:
        for block in range(start, stop):
            lookup_bytes(floats[block], lowest[block], inverse_step, entries[block], lane_offsets[block])

    workers.share(blocks, quantize)
    return Lookup(entries, lane_offsets, inverse_step)


def _cell_scores(
    codec: Codec, lanes: Lanes, workers: Workers, scratch: Scratch, *, largest: float, inverse_step: float
) -> CellScores:
    """Score every cell, in steps and in bytes."""
    parts = -(-codec.cells // LANES)
    steps = scratch.scores.shaped(lanes.blocks, codec.cells, LANES)
    score_bytes = scratch.score_bytes.shaped(lanes.blocks, codec.cells, LANES)
    best = scratch.block_best.shaped(lanes.blocks, parts, LANES)
    inverse_steps = (inverse_step, (255 - ZERO_BYTE) / largest)

    def run(start: int, stop: int) -> None:
        for block in range(lanes.blocks):
            cell_scores(
                codec.float_centroids, lanes.queries[block], lanes.in_block(block), inverse_steps,
                steps[block], score_bytes[block], best[block], start, stop,
            )  # fmt: skip

    workers.share(parts, run, min_size=4)
    return CellScores(steps, score_bytes, best)
