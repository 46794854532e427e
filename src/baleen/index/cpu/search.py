"""Search on the CPU, in stages that score fewer passages with more precision.

    1. cell scores      every centroid against every query and fact vector
    2. gather           the nearest cells of each query vector; each passage in them collects evidence
    3. prune            the `candidates` passages with the most evidence, by the focused score over their centroids
    4. refine           the best `refined` of those, by the focused score over centroids and residual bytes
    5. score            the best 2 k + 32 of those, by the focused score over decoded float32 vectors

Stages 1 to 4 count in int16 steps, stage 5 in float32, so scores equal those of `scoring.py` on the decoded vectors.
With `exact`, every passage goes straight to stage 5.  If at most `refined` passages are allowed, all go straight to
stage 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from baleen.core.vectors import QueryVectors
from baleen.index.codec.codec import Codec
from baleen.index.cpu.kernels.gather import (
    gather_evidence,
    probe_cells,
    probed_lists,
    seek_rows,
    select_largest,
)
from baleen.index.cpu.kernels.score import score_by_centroids, score_by_residuals, score_vectors
from baleen.index.cpu.memory import Scratch, aligned
from baleen.index.cpu.simd import LANES
from baleen.index.cpu.tables import Lanes, QueryTables, query_tables
from baleen.index.cpu.workers import Workers
from baleen.index.protocol import Focus, SearchOptions
from baleen.index.segment import Segment

Array = npt.NDArray[Any]

EXACT_BATCH = 512  # passages decoded at once
TOTAL_PROBES, MIN_PROBES, MAX_PROBES = 1024, 16, 64  # cells: per claim, and per vector of it
MIN_CHUNK, MAX_CHUNK = 4096, 65_536  # passages whose evidence is gathered together

ScoreRows = Callable[[Segment, Array, Array, int, int], None]  # segment, rows, out, start, stop


class Limits(NamedTuple):
    """How much of an index a search looks at.

    The vectors of a claim probe about 1,024 cells together, each vector 16 to 64: short queries probe more per vector.
    With 16 cells for each of about 20 vectors, 0.6% of the best ten of 10,553 real passages lay in cells that
    were not probed.

    The defaults follow measurements (`experiments/benchmarks.md`).  On 354,282 real passages, 4,096 refined of 16,384
    candidates find 99% of the best ten and 95% of the best hundred of an exact search.  On 100,000 synthetic passages,
    whose centroids are less informative, twice the candidates find a quarter more in almost the same time.
    """

    probes: int | None
    candidates: int
    refined: int

    @classmethod
    def of(cls, options: SearchOptions, k: int) -> Limits:
        """Limits for a search of k passages, never too small to return k."""
        refined = max(4096, 40 * k) if options.refined is None else options.refined
        candidates = max(32_768, 4 * refined) if options.candidates is None else options.candidates
        return cls(options.probes, max(candidates, 2 * k), max(min(refined, candidates), 2 * k))

    def probes_of(self, vectors: int) -> int:
        """Number of cells that each vector of a claim of this many vectors probes."""
        return min(MAX_PROBES, max(MIN_PROBES, TOTAL_PROBES // max(1, vectors))) if self.probes is None else self.probes


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Rows of segments with their scores, in no particular order."""

    segments: Array
    rows: Array
    scores: Array

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, positions: Array) -> ScoredRows:
        """The rows at some positions."""
        return ScoredRows(self.segments[positions], self.rows[positions], self.scores[positions])

    def with_boosted(self, others: ScoredRows, boost: float) -> ScoredRows:
        """Add `others`, with `boost` added to their scores; they replace the same rows."""
        columns = zip(
            (self.segments, self.rows, self.scores), (others.segments, others.rows, others.scores + boost), strict=True
        )
        kept = np.flatnonzero(~np.isin(self._keys, others._keys))
        return ScoredRows(*(np.concatenate([ours[kept], theirs]) for ours, theirs in columns))

    @property
    def _keys(self) -> Array:
        """One number per row: segment and row."""
        return self.segments.astype(np.int64) << 32 | self.rows.astype(np.int64)

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[int]]) -> ScoredRows:
        """Rows of each segment, all with score 0."""
        return cls.join([(np.array(part, np.int64), np.zeros(len(part), np.float32)) for part in rows])

    @classmethod
    def join(cls, parts: Sequence[tuple[Array, Array]]) -> ScoredRows:
        """Join the (rows, scores) of each segment."""
        if not parts:
            return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
        numbers = [np.full(len(rows), number, np.int64) for number, (rows, _) in enumerate(parts)]
        return cls(*(np.concatenate(column) for column in (numbers, *zip(*parts, strict=True))))


class Searcher:
    """Search of segments that share one codec.  Safe to use from several threads."""

    def __init__(self, codec: Codec, segments: Sequence[Segment], threads: int | None = None) -> None:
        self.codec, self.segments = codec, segments
        self._workers, self._scratch = Workers(threads), Scratch()

    def find(
        self,
        queries: Sequence[QueryVectors],
        k: int,
        limits: Limits | None,
        focus: Focus,
        allowed: list[list[Array]],
    ) -> list[ScoredRows]:
        """At least the k best allowed passages of each query; without limits, score all of them."""
        return [
            self._find(Lanes.of(query, self.codec, focus), k, limits, rows)
            for query, rows in zip(queries, allowed, strict=True)
        ]

    def score_rows(
        self, queries: Sequence[QueryVectors], focus: Focus, wanted: Sequence[ScoredRows]
    ) -> list[ScoredRows]:
        """Score given rows for each query, as a search would."""
        return [
            self.score(Lanes.of(query, self.codec, focus), own) if len(own) else own
            for query, own in zip(queries, wanted, strict=True)
        ]

    def _find(self, lanes: Lanes, k: int, limits: Limits | None, allowed: list[Array]) -> ScoredRows:
        """`find` for one query; fall back to all allowed passages if the probed cells hold fewer than k."""
        count = sum(int(mask.sum()) for mask in allowed)
        if limits is None or count <= _rescore_count(k):
            return self.score(lanes, _all_rows(allowed))
        found = self.search(lanes, k, limits, allowed, refine_all=count <= limits.refined)
        complete = len(found) >= min(k, count)  # else the probed cells held too few passages
        return found if complete else self.score(lanes, _all_rows(allowed))

    def search(self, lanes: Lanes, k: int, limits: Limits, allowed: Sequence[Array], *, refine_all: bool) -> ScoredRows:
        """At least the k best allowed passages, possibly with others that score lower.

        `refine_all` skips the stages that select candidates, for few allowed passages.
        """
        if refine_all and self.codec.bits == 16:
            return self.score(lanes, _all_rows(allowed))
        tables = self.tables(lanes)
        if refine_all:
            found = _all_rows(allowed)
        else:
            found = self.gather(lanes, tables, limits, allowed)
            found = self.prune(lanes, tables, found)
            found = found.take(select_largest(found.scores, limits.refined))
        if self.codec.bits != 16:
            found = self.refine(lanes, tables, found)
            found = found.take(select_largest(found.scores, _rescore_count(k)))
        return self.score(lanes, found)

    def score(self, lanes: Lanes, found: ScoredRows) -> ScoredRows:
        """Focused score in float32 over decoded vectors; a passage's score does not depend on the others."""

        def score(segment: Segment, rows: Array, out: Array, start: int, stop: int) -> None:
            for first in range(start, stop, EXACT_BATCH):
                part = slice(first, min(first + EXACT_BATCH, stop))
                vectors, lengths = decode_rows(self.codec, segment, rows[part])
                matches = np.empty((len(lengths), lanes.blocks, LANES), np.float32)
                score_vectors(vectors, lengths, lanes.queries, matches)
                out[part] = lanes.focused(matches)

        return self._by_segment(found, score, np.float32, min_size=8)

    def tables(self, lanes: Lanes) -> QueryTables:
        """The lookup tables of a query."""
        return query_tables(self.codec, lanes, self._workers, self._scratch)

    def gather(self, lanes: Lanes, tables: QueryTables, limits: Limits, allowed: Sequence[Array]) -> ScoredRows:
        """The passages with the most evidence in the cells that the claim's vectors probe; facts do not probe."""
        scores, block_best = tables.cells.steps, tables.cells.block_best
        probes = min(limits.probes_of(lanes.lanes[0]), self.codec.cells)
        cells = np.empty((lanes.lanes[0], probes), np.int32)
        self._workers.share(
            len(cells), lambda start, stop: probe_cells(scores, block_best, cells, start, stop), min_size=8
        )
        parts = [
            self._evidence(segment, probed_lists(segment.cells, segment.cell_offsets, scores, cells), mask)
            for segment, mask in zip(self.segments, allowed, strict=True)
        ]
        found = ScoredRows.join(parts)
        return found.take(select_largest(found.scores, limits.candidates))

    def _evidence(self, segment: Segment, lists: tuple[Array, Array, Array], allowed: Array) -> tuple[Array, Array]:
        """The passages in the probed lists with their evidence; the same for any number of threads."""
        (starts, ends, gains), size = lists, _chunk_size(len(segment))
        chunks = range(0, len(segment), size)
        rows = self._scratch.rows.shaped(len(segment))
        evidence = self._scratch.evidence.shaped(len(segment))
        counts = [0] * len(chunks)

        def run(start: int, stop: int) -> None:
            tally = self._scratch.tally.shaped(size, 2)
            positions = seek_rows(segment.postings, starts, ends, start * size)
            for number in range(start, stop):
                part = slice(number * size, min((number + 1) * size, len(segment)))
                counts[number] = gather_evidence(
                    segment.postings, positions, ends, gains, allowed, part.start, part.stop, tally,
                    rows[part], evidence[part],
                )  # fmt: skip

        self._workers.share(len(chunks), run)
        filled = [slice(first, first + count) for first, count in zip(chunks, counts, strict=True)]
        return np.concatenate([rows[part] for part in filled]), np.concatenate([evidence[part] for part in filled])

    def prune(self, lanes: Lanes, tables: QueryTables, found: ScoredRows) -> ScoredRows:
        """Score passages over their centroids."""
        score_bytes = tables.cells.bytes

        def score(segment: Segment, rows: Array, out: Array, start: int, stop: int) -> None:
            score_by_centroids(
                score_bytes, segment.codes, segment.offsets, rows, lanes.lanes, lanes.keep, out, start, stop
            )

        return self._by_segment(found, score)

    def refine(self, lanes: Lanes, tables: QueryTables, found: ScoredRows) -> ScoredRows:
        """Score passages over their centroids and residual bytes."""
        scores, lookup = tables.cells.steps, tables.lookup

        def score(segment: Segment, rows: Array, out: Array, start: int, stop: int) -> None:
            score_by_residuals(
                scores, lookup.entries, lookup.lane_offsets, self.codec.subspaces, segment.codes, segment.offsets,
                segment.residuals, segment.residual_offsets, rows, lanes.lanes, lanes.keep, out, start, stop,
            )  # fmt: skip

        return self._by_segment(found, score)

    def _by_segment(
        self, found: ScoredRows, score: ScoreRows, kind: npt.DTypeLike = np.int32, min_size: int = 64
    ) -> ScoredRows:
        """Score the rows found in each segment, in ascending order, shared between threads."""
        parts = []
        for number, segment in enumerate(self.segments):
            rows = np.sort(found.rows[found.segments == number])
            out = np.empty(len(rows), kind)
            self._workers.share(len(rows), partial(score, segment, rows, out), min_size=min_size)
            parts.append((rows, out))
        return ScoredRows.join(parts)


def _all_rows(allowed: Sequence[Array]) -> ScoredRows:
    """All allowed passages, with score 0."""
    rows = [np.flatnonzero(mask) for mask in allowed]
    return ScoredRows.join([(part, np.zeros(len(part), np.float32)) for part in rows])


def _rescore_count(k: int) -> int:
    """Number of passages to score in float32 so that the k best are among them."""
    return 2 * k + 32


def _chunk_size(passages: int) -> int:
    """Passages whose evidence is gathered together: a quarter of all, within what the cache holds."""
    return min(MAX_CHUNK, max(MIN_CHUNK, -(-passages // 4)))


def decode_rows(codec: Codec, segment: Segment, rows: Array) -> tuple[Array, Array]:
    """Decode passages: their vectors end to end, in the mapped space, and their lengths.

    Four rows of zeros follow, which `score_vectors` may read.
    """
    lengths = segment.offsets[rows + 1] - segment.offsets[rows]
    vectors = aligned((int(lengths.sum()) + 4, codec.width), np.float32)
    vectors[-4:] = 0
    if segment.vectors is None:
        codec.decode_rows(segment.encoded, rows, vectors)
        return vectors, lengths
    ends = np.cumsum(lengths)
    for row, end, length in zip(rows.tolist(), ends.tolist(), lengths.tolist(), strict=True):
        vectors[end - length : end, : codec.dim] = segment.vectors[segment.span(row)]
    vectors[:, codec.dim :] = 0
    return vectors, lengths
