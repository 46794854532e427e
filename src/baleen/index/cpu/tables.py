"""A query as the kernels take it, and its lookup tables: what it scores with every centroid and every codeword.

Scores are counted in int16 steps.  The step is chosen for each query, so that neither a cell score nor what a residual
restores leaves the range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from baleen.core.vectors import QueryVectors
from baleen.index.codec.codec import Codec
from baleen.index.cpu import kernels
from baleen.index.cpu.simd import LANES
from baleen.index.cpu.workers import Scratch, Workers
from baleen.index.protocol import Focus

Array = npt.NDArray[Any]

# Steps that the largest cell score takes up, and all entries of a table together, at most.  An int16 then holds a cell
# score and what a residual restores: where vectors are as long as the centroids that is some three times the former,
# and where they are longer, the codewords are too, and so is the step.
CELL_RANGE, RESIDUAL_RANGE = 9_000, 20_000
TABLE_MAX = 127  # of one entry of a lookup table: two of them fit a byte


@dataclass(frozen=True, eq=False)
class Lanes:
    """A query as the kernels take it: (blocks, padded dim, 64) float32; the facts start at a block of their own."""

    queries: Array
    lanes: tuple[int, int]
    keep: tuple[int, int]

    @classmethod
    def of(cls, vectors: QueryVectors, codec: Codec, focus: Focus) -> Lanes:
        """Map a query into the codec's space and lay it out."""
        # A product of numpy's would wake a pool of threads: more than 10 ms where other work is on the machine.
        parts = (vectors.query, vectors.facts)
        lanes = (len(vectors.query), len(vectors.facts))
        pieces = [part[start : start + LANES] for part in parts for start in range(0, len(part), LANES)]
        queries = kernels.aligned((len(pieces), codec.width, LANES), np.float32)
        given = np.zeros((codec.dim, LANES), np.float32)
        for piece, block in zip(pieces, queries, strict=True):
            given[:, : len(piece)] = piece.T
            given[:, len(piece) :] = 0
            kernels.map_lanes(codec.query_axes, given, block)
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
        """(n, blocks, 64) float32 best matches -> (n,) focused scores, the same in any batch."""
        flat = matches.reshape(len(matches), -1)
        split = -(-self.lanes[0] // LANES) * LANES
        claim = _top_sum(flat[:, : self.lanes[0]], self.keep[0])
        return claim + _top_sum(flat[:, split : split + self.lanes[1]], self.keep[1])


def _top_sum(matches: Array, keep: int) -> Array:
    if keep == 0:
        return np.zeros(len(matches), np.float32)
    best = -np.sort(-matches, axis=1)[:, :keep]  # sorted, so that equal matches sum to equal scores
    total: Array = best.sum(axis=1, dtype=np.float64).astype(np.float32)
    return total


class Lookup(NamedTuple):
    """What a query scores with every codeword, as bytes."""

    entries: Array  # (blocks, layers x subspaces, 256, 64) uint8
    lane_offsets: Array  # (blocks, layers + 1, 64) int16: what the bytes leave out of each lane, by number of layers
    inverse_step: float  # steps in a score of 1


class CellScores(NamedTuple):
    """What a query scores with every centroid."""

    steps: Array  # (blocks, cells, 64) int16
    bytes: Array  # (blocks, cells, 64) uint8: the same, coarser
    block_best: Array  # (blocks, cells / 64, 64) int16: the best of every 64 cells


class QueryTables(NamedTuple):
    """All tables of one query, in this thread's scratch memory: valid until its next search."""

    lookup: Lookup
    cells: CellScores


def query_tables(codec: Codec, lanes: Lanes, workers: Workers, scratch: Scratch) -> QueryTables:
    """Fill the tables of a query, shared between threads."""
    largest = _largest_score(codec, lanes)
    lookup = _lookup(codec, lanes, largest / CELL_RANGE, workers, scratch)
    return QueryTables(lookup, _cell_scores(codec, lanes, largest, lookup.inverse_step, workers, scratch))


def _largest_score(codec: Codec, lanes: Lanes) -> float:
    """Upper bound of a cell score with any lane."""
    longest = float(np.sqrt((lanes.queries**2).sum(axis=1).max(initial=0)))
    return codec.largest_centroid * longest or 1.0


def _lookup(codec: Codec, lanes: Lanes, least_step: float, workers: Workers, scratch: Scratch) -> Lookup:
    blocks, rows = lanes.blocks, codec.layers * codec.subspaces
    entries = scratch.entries.shaped(blocks, rows, 256, LANES)
    lane_offsets = np.zeros((blocks, codec.layers + 1, LANES), np.int16)
    if not rows:
        return Lookup(entries, lane_offsets, 1 / least_step)
    floats = scratch.floats.shaped(blocks, rows, 256, LANES)
    lowest = np.empty((blocks, rows, LANES), np.float32)
    widest = np.zeros(blocks)

    def fill(start: int, stop: int) -> None:
        for block in range(start, stop):
            kernels.lookup_floats(codec.float_codebooks, lanes.queries[block], floats[block])
            widest[block] = kernels.lookup_range(floats[block], lowest[block])

    workers.share(blocks, fill)
    inverse_step = 1 / max(least_step, float(widest.max()) / min(TABLE_MAX, RESIDUAL_RANGE // rows))

    def quantize(start: int, stop: int) -> None:
        for block in range(start, stop):
            kernels.lookup_bytes(floats[block], lowest[block], inverse_step, entries[block], lane_offsets[block])

    workers.share(blocks, quantize)
    return Lookup(entries, lane_offsets, inverse_step)


def _cell_scores(
    codec: Codec, lanes: Lanes, largest: float, inverse_step: float, workers: Workers, scratch: Scratch
) -> CellScores:
    parts = -(-codec.cells // LANES)
    steps = scratch.scores.shaped(lanes.blocks, codec.cells, LANES)
    in_bytes = scratch.score_bytes.shaped(lanes.blocks, codec.cells, LANES)
    best = scratch.block_best.shaped(lanes.blocks, parts, LANES)
    inverse_steps = (inverse_step, (255 - kernels.BYTE_ZERO) / largest)

    def run(start: int, stop: int) -> None:
        for block in range(lanes.blocks):
            kernels.cell_scores(
                codec.float_centroids, lanes.queries[block], lanes.in_block(block), inverse_steps,
                steps[block], in_bytes[block], best[block], start, stop,
            )  # fmt: skip

    workers.share(parts, run, smallest=4)
    return CellScores(steps, in_bytes, best)
