"""Search on the CPU, in stages that score ever fewer passages ever more precisely.

    1. cell scores      every centroid against every query and fact vector
    2. gather           the cells nearest to each query vector; each passage in them collects evidence
    3. prune            the `candidates` with the most evidence, by the focused score over their centroids
    4. refine           the best `refined` of those, by the focused score over centroids and residual bytes
    5. score            the best few of those, by the focused score over decoded float32 vectors; the best k are returned

Stages 1 to 4 count in int16 steps, stage 5 in float32, so scores are those of `scoring.py` on the decoded vectors.
With `exact` every passage goes straight to stage 5; where there are no more than `refined`, all go straight to stage 4.
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
from baleen.index.cpu import kernels
from baleen.index.cpu.simd import LANES
from baleen.index.cpu.tables import Lanes, QueryTables, query_tables
from baleen.index.cpu.workers import Scratch, Workers
from baleen.index.protocol import Focus, SearchOptions
from baleen.index.segment import Segment

Array = npt.NDArray[Any]

EXACT_BATCH = 512  # passages that are decoded at once
PROBED, LEAST_PROBES, MOST_PROBES = 1024, 16, 64  # cells: of all of a claim's vectors together, and of each
SHORTEST_STRETCH, LONGEST_STRETCH = 4096, 65_536  # passages whose evidence is gathered at once

ScoreRows = Callable[[Segment, Array, Array, int, int], None]  # segment, rows, out, start, stop


class Limits(NamedTuple):
    """How much of an index a search looks at.

    All vectors of a query together probe about 1,024 cells, each 16 at least and 64 at most, so that a short query looks
    farther: with 16 cells for each of some 20 vectors, six in a thousand of the best ten of 10,553 real passages lay in
    cells that nobody probed.

    The defaults follow measurements (`experiments/benchmarks.md`): with 4,096 refined of 16,384 candidates, 99% of the best ten
    and 95% of the best hundred that an exact search of an index of 354,282 real passages finds; over 100,000 synthetic
    ones, whose centroids say less, twice the candidates find a quarter more of them in almost the same time.
    """

    probes: int | None
    candidates: int
    refined: int

    @classmethod
    def of(cls, options: SearchOptions, k: int) -> Limits:
        """Numbers for a search of k passages, never fewer than it has to return."""
        refined = max(4096, 40 * k) if options.refined is None else options.refined
        candidates = max(32_768, 4 * refined) if options.candidates is None else options.candidates
        return cls(options.probes, max(candidates, 2 * k), max(min(refined, candidates), 2 * k))

    def probes_of(self, vectors: int) -> int:
        """The cells that each of a claim's vectors looks into."""
        return min(MOST_PROBES, max(LEAST_PROBES, PROBED // max(1, vectors))) if self.probes is None else self.probes


@dataclass(frozen=True, eq=False)
class Found:
    """Rows of segments with their scores, in no particular order."""

    segments: Array
    rows: Array
    scores: Array

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, positions: Array) -> Found:
        """The rows at some positions."""
        return Found(self.segments[positions], self.rows[positions], self.scores[positions])

    def with_boosted(self, others: Found, boost: float) -> Found:
        """Add others, with `boost` on their scores; they replace the same rows here."""
        columns = zip(
            (self.segments, self.rows, self.scores), (others.segments, others.rows, others.scores + boost), strict=True
        )
        left = np.flatnonzero(~np.isin(self._keys, others._keys))
        return Found(*(np.concatenate([ours[left], theirs]) for ours, theirs in columns))

    @property
    def _keys(self) -> Array:
        return self.segments.astype(np.int64) << 32 | self.rows.astype(np.int64)

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[int]]) -> Found:
        """Rows of each segment, all with score 0."""
        return cls.join([(np.array(part, np.int64), np.zeros(len(part), np.float32)) for part in rows])

    @classmethod
    def join(cls, parts: Sequence[tuple[Array, Array]]) -> Found:
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
    ) -> list[Found]:
        """At least the k best allowed passages of each query; without limits, score all of them."""
        return [
            self._find(Lanes.of(query, self.codec, focus), k, limits, rows)
            for query, rows in zip(queries, allowed, strict=True)
        ]

    def score_rows(self, queries: Sequence[QueryVectors], focus: Focus, wanted: Sequence[Found]) -> list[Found]:
        """Score given rows for each query, as a search would."""
        return [
            self.score(Lanes.of(query, self.codec, focus), own) if len(own) else own
            for query, own in zip(queries, wanted, strict=True)
        ]

    def _find(self, lanes: Lanes, k: int, limits: Limits | None, allowed: list[Array]) -> Found:
        count = sum(int(mask.sum()) for mask in allowed)
        if limits is None or count <= _rescored(k):
            return self.score(lanes, _every_row(allowed))
        found = self.search(lanes, k, limits, allowed, few=count <= limits.refined)
        enough = len(found) >= min(k, count)  # else the probed cells did not hold as many passages
        return found if enough else self.score(lanes, _every_row(allowed))

    def search(self, lanes: Lanes, k: int, limits: Limits, allowed: Sequence[Array], *, few: bool) -> Found:
        """At least the k best allowed passages, and maybe some that score lower; refine all of them if they are `few`."""
        if few and self.codec.bits == 16:
            return self.score(lanes, _every_row(allowed))
        tables = self.tables(lanes)
        if few:
            found = _every_row(allowed)
        else:
            found = self.gather(lanes, tables, limits, allowed)
            found = self.prune(lanes, tables, found)
            found = found.take(kernels.select_largest(found.scores, limits.refined))
        if self.codec.bits != 16:
            found = self.refine(lanes, tables, found)
            found = found.take(kernels.select_largest(found.scores, _rescored(k)))
        return self.score(lanes, found)

    def score(self, lanes: Lanes, found: Found) -> Found:
        """Focused score in float32 over decoded vectors; its bits do not depend on the other passages."""

        def score(segment: Segment, rows: Array, out: Array, start: int, stop: int) -> None:
            for first in range(start, stop, EXACT_BATCH):
                part = slice(first, min(first + EXACT_BATCH, stop))
                vectors, lengths = decode_rows(self.codec, segment, rows[part])
                matches = np.empty((len(lengths), lanes.blocks, LANES), np.float32)
                kernels.score_vectors(vectors, lengths, lanes.queries, matches)
                out[part] = lanes.focused(matches)

        return self._by_segment(found, score, np.float32, smallest=8)

    def tables(self, lanes: Lanes) -> QueryTables:
        """The lookup tables of a query."""
        return query_tables(self.codec, lanes, self._workers, self._scratch)

    def gather(self, lanes: Lanes, tables: QueryTables, limits: Limits, allowed: Sequence[Array]) -> Found:
        """The passages with the most evidence in the cells that the claim's vectors probe; facts do not probe."""
        scores, block_best = tables.cells.steps, tables.cells.block_best
        probes = min(limits.probes_of(lanes.lanes[0]), self.codec.cells)
        cells = np.empty((lanes.lanes[0], probes), np.int32)
        self._workers.share(
            len(cells), lambda start, stop: kernels.probe_cells(scores, block_best, cells, start, stop), smallest=8
        )
        parts = [
            self._evidence(segment, kernels.probed_lists(segment.cells, segment.cell_offsets, scores, cells), mask)
            for segment, mask in zip(self.segments, allowed, strict=True)
        ]
        found = Found.join(parts)
        return found.take(kernels.select_largest(found.scores, limits.candidates))

    def _evidence(self, segment: Segment, lists: tuple[Array, Array, Array], allowed: Array) -> tuple[Array, Array]:
        """The passages in the probed lists with their evidence, the same for any number of threads."""
        (starts, ends, gains), stretch = lists, _stretch_length(len(segment))
        stretches = range(0, len(segment), stretch)
        rows = self._scratch.rows.shaped(len(segment))
        evidence = self._scratch.evidence.shaped(len(segment))
        counts = [0] * len(stretches)

        def run(start: int, stop: int) -> None:
            tally = self._scratch.tally.shaped(stretch, 2)
            places = kernels.skip_rows(segment.postings, starts, ends, start * stretch)
            for number in range(start, stop):
                part = slice(number * stretch, min((number + 1) * stretch, len(segment)))
                counts[number] = kernels.gather(
                    segment.postings, places, ends, gains, allowed, part.start, part.stop, tally,
                    rows[part], evidence[part],
                )  # fmt: skip

        self._workers.share(len(stretches), run)
        filled = [slice(first, first + count) for first, count in zip(stretches, counts, strict=True)]
        return np.concatenate([rows[part] for part in filled]), np.concatenate([evidence[part] for part in filled])

    def prune(self, lanes: Lanes, tables: QueryTables, found: Found) -> Found:
        """Score passages over their centroids."""
        score_bytes = tables.cells.bytes

        def score(segment: Segment, rows: Array, out: Array, start: int, stop: int) -> None:
            kernels.prune(score_bytes, segment.codes, segment.offsets, rows, lanes.lanes, lanes.keep, out, start, stop)

        return self._by_segment(found, score)

    def refine(self, lanes: Lanes, tables: QueryTables, found: Found) -> Found:
        """Score passages over their centroids and residual bytes."""
        scores, lookup = tables.cells.steps, tables.lookup

        def score(segment: Segment, rows: Array, out: Array, start: int, stop: int) -> None:
            kernels.refine(
                scores, lookup.entries, lookup.lane_offsets, self.codec.subspaces, segment.codes, segment.offsets, segment.residuals,
                segment.residual_offsets, rows, lanes.lanes, lanes.keep, out, start, stop,
            )  # fmt: skip

        return self._by_segment(found, score)

    def _by_segment(self, found: Found, score: ScoreRows, kind: npt.DTypeLike = np.int32, smallest: int = 64) -> Found:
        """Score the rows found in each segment, in ascending order, shared between threads."""
        parts = []
        for number, segment in enumerate(self.segments):
            rows = np.sort(found.rows[found.segments == number])
            out = np.empty(len(rows), kind)
            self._workers.share(len(rows), partial(score, segment, rows, out), smallest=smallest)
            parts.append((rows, out))
        return Found.join(parts)


def _every_row(allowed: Sequence[Array]) -> Found:
    """All allowed passages, with score 0."""
    rows = [np.flatnonzero(mask) for mask in allowed]
    return Found.join([(part, np.zeros(len(part), np.float32)) for part in rows])


def _rescored(k: int) -> int:
    """Passages to score again in float32, so that the k best are among them."""
    return 2 * k + 32


def _stretch_length(passages: int) -> int:
    """Passages whose evidence is gathered at once: a fourth of all, as far as the cache holds them."""
    return min(LONGEST_STRETCH, max(SHORTEST_STRETCH, -(-passages // 4)))


def decode_rows(codec: Codec, segment: Segment, rows: Array) -> tuple[Array, Array]:
    """Decode passages: their vectors end to end, in the mapped space, and their lengths.

    Four spare rows of zeros follow, which `score_vectors` may read.
    """
    lengths = segment.offsets[rows + 1] - segment.offsets[rows]
    vectors = kernels.aligned((int(lengths.sum()) + 4, codec.width), np.float32)
    vectors[-4:] = 0
    if segment.vectors is None:
        codec.decode_rows(segment.encoded, rows, vectors)
        return vectors, lengths
    ends = np.cumsum(lengths)
    for row, end, length in zip(rows.tolist(), ends.tolist(), lengths.tolist(), strict=True):
        vectors[end - length : end, : codec.dim] = segment.vectors[segment.span(row)]
    vectors[:, codec.dim :] = 0
    return vectors, lengths
