"""Searching an index on the CPU: from probed cells to the focused score, ever fewer passages, ever more precisely.

    1. cell scores      every centroid against every query and fact vector
    2. gather           the cells nearest to each query vector; each passage in them collects evidence
    3. prune            the `candidates` with the most evidence, by the focused score over their centroids
    4. refine           the best `refined` of those, by the focused score over centroids and residual bytes
    5. score            the best few of those, by the focused score over decoded float32 vectors; the best k are returned

Stages 1 to 4 count in int16 steps, stage 5 in float32, so scores are those of `scoring.py` on the decoded vectors.
With `exact` every passage goes straight to stage 5; where there are no more than `refined`, all go straight to stage 4.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from baleen.core.errors import ConfigError
from baleen.core.parallel import available_cores
from baleen.core.vectors import QueryVectors
from baleen.index.codec.codec import Codec
from baleen.index.cpu import kernels
from baleen.index.cpu.simd import LANES
from baleen.index.segment import Segment

Array = npt.NDArray[Any]
Focus = tuple[int | None, int | None]  # how many of the claim's and of the facts' matches count; None: all

# Steps that the largest cell score takes up, and all entries of a table together, at most.  An int16 then holds a cell
# score and what a residual restores: where vectors are as long as the centroids that is some three times the former,
# and where they are longer, the codewords are too, and so is the step.
CELL_RANGE, RESIDUAL_RANGE = 9_000, 20_000
TABLE_MAX = 127  # of one entry of a lookup table: two of them fit a byte
EXACT_BATCH = 512  # passages that are decoded at once
PROBED, LEAST_PROBES, MOST_PROBES = 1024, 16, 64  # cells: of all of a claim's vectors together, and of each
SHORTEST_STRETCH, LONGEST_STRETCH = 4096, 65_536  # passages whose evidence is gathered at once
PIECES = 4  # that each thread's share of the work is cut into: who is held up by other work on the machine does fewer

ScoreRows = Callable[[Segment, Array, Array, int, int], None]  # segment, rows, out, start, stop


@dataclass(frozen=True)
class SearchConfig:
    """How much of the index a search looks at; what is None goes by the query and by how many passages are wanted.

    All vectors of a query together look into about 1,024 cells, each into 16 at least and 64 at most, so a short query
    looks farther: of the best ten of 10,553 real passages, for questions of some 20 vectors, 16 cells each leave six in a thousand in cells that nobody probes.

    The defaults follow what was measured (`experiments/benchmarks.md`): with 4,096 refined of 16,384 candidates, 99% of the best
    ten and 95% of the best hundred that an exact search of an index of 354,282 real passages finds; over 100,000 synthetic
    ones, where centroids tell less, twice the candidates find a quarter more of them in almost the same time.
    """

    probes: int | None = None
    candidates: int | None = None
    refined: int | None = None

    def __post_init__(self) -> None:
        for name in ("probes", "candidates", "refined"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} = {value} should be at least 1")

    def for_depth(self, k: int) -> Limits:
        """Numbers for a search of k passages, never fewer than it has to return."""
        refined = max(4096, 40 * k) if self.refined is None else self.refined
        candidates = max(32_768, 4 * refined) if self.candidates is None else self.candidates
        return Limits(self.probes, max(candidates, 2 * k), max(min(refined, candidates), 2 * k))


class Limits(NamedTuple):
    probes: int | None
    candidates: int
    refined: int

    def probes_of(self, vectors: int) -> int:
        """The cells that each of a claim's vectors looks into."""
        return min(MOST_PROBES, max(LEAST_PROBES, PROBED // max(1, vectors))) if self.probes is None else self.probes


@dataclass(frozen=True, eq=False)
class Lanes:
    """A query laid out for the kernels: (blocks, padded dim, 64) float32; the facts start at a block of their own."""

    queries: Array
    lanes: tuple[int, int]
    keep: tuple[int, int]

    @classmethod
    def of(cls, vectors: QueryVectors, codec: Codec, focus: Focus) -> Lanes:
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
        return len(self.queries)

    def in_block(self, block: int) -> int:
        """How many real lanes a block has."""
        claim_blocks = -(-self.lanes[0] // LANES)
        lanes, at = (self.lanes[0], block) if block < claim_blocks else (self.lanes[1], block - claim_blocks)
        return min(LANES, lanes - at * LANES)

    def focused(self, matches: Array) -> Array:
        """(n, blocks, 64) float32 best matches -> (n,) focused scores, summed in one order whatever the batch."""
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


@dataclass(frozen=True, eq=False)
class Found:
    """Rows of segments with their scores, not in any order."""

    segments: Array
    rows: Array
    scores: Array

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, positions: Array) -> Found:
        return Found(self.segments[positions], self.rows[positions], self.scores[positions])

    def with_raised(self, others: Found, bonus: float) -> Found:
        """With others, which may be among these, and whose scores are raised."""
        columns = zip(
            (self.segments, self.rows, self.scores), (others.segments, others.rows, others.scores + bonus), strict=True
        )
        left = np.flatnonzero(~np.isin(self._keys, others._keys))
        return Found(*(np.concatenate([ours[left], theirs]) for ours, theirs in columns))

    @property
    def _keys(self) -> Array:
        return self.segments.astype(np.int64) << 32 | self.rows.astype(np.int64)

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[int]]) -> Found:
        """Rows of each segment, without a score."""
        return cls.join([(np.array(part, np.int64), np.zeros(len(part), np.float32)) for part in rows])

    @classmethod
    def join(cls, parts: Sequence[tuple[Array, Array]]) -> Found:
        """From (rows, scores) of each segment."""
        if not parts:
            return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
        numbers = [np.full(len(rows), number, np.int64) for number, (rows, _) in enumerate(parts)]
        return cls(*(np.concatenate(column) for column in (numbers, *zip(*parts, strict=True))))


class Searcher:
    """Searches segments that share one codec.  Safe to call from several threads."""

    def __init__(self, codec: Codec, segments: Sequence[Segment], threads: int | None = None) -> None:
        self.codec, self.segments = codec, segments
        self.threads = threads or available_cores()
        helpers = self.threads - 1  # beside the thread that searches
        self._pool = ThreadPoolExecutor(helpers, thread_name_prefix="baleen-search") if helpers else None
        self._local = threading.local()

    def find(
        self,
        queries: Sequence[QueryVectors],
        k: int,
        limits: Limits | None,
        focus: Focus,
        allowed: list[list[Array]],
    ) -> list[Found]:
        """For each query the k best passages allowed to it, at least; without limits, all of them are scored."""
        return [
            self._find(Lanes.of(query, self.codec, focus), k, limits, rows)
            for query, rows in zip(queries, allowed, strict=True)
        ]

    def score_some(self, queries: Sequence[QueryVectors], focus: Focus, wanted: Sequence[Found]) -> list[Found]:
        """The passages that are wanted for each query, with the scores that a search would give them."""
        return [
            self.score(Lanes.of(query, self.codec, focus), own) if len(own) else own
            for query, own in zip(queries, wanted, strict=True)
        ]

    def _find(self, lanes: Lanes, k: int, limits: Limits | None, allowed: list[Array]) -> Found:
        count = sum(int(mask.sum()) for mask in allowed)
        if limits is None or count <= _enough(k):
            return self.score(lanes, _all_of(allowed))
        found = self.search(lanes, k, limits, allowed, few=count <= limits.refined)
        enough = len(found) >= min(k, count)  # else the probed cells did not hold as many passages
        return found if enough else self.score(lanes, _all_of(allowed))

    def search(self, lanes: Lanes, k: int, limits: Limits, allowed: Sequence[Array], *, few: bool) -> Found:
        """The k best allowed passages, at least; a few that scored lower may follow.  `few` are all refined."""
        if few and self.codec.bits == 16:
            return self.score(lanes, _all_of(allowed))
        entries, lane_offsets, inverse_step = self.tables(lanes)
        scores, score_bytes, block_best = self.cell_scores(lanes, inverse_step)
        if few:
            found = _all_of(allowed)
        else:
            found = self.gather(lanes, scores, block_best, limits, allowed)
            found = self.prune(lanes, score_bytes, found)
            found = found.take(kernels.select_largest(found.scores, limits.refined))
        if self.codec.bits != 16:
            found = self.refine(lanes, scores, entries, lane_offsets, found)
            found = found.take(kernels.select_largest(found.scores, _enough(k)))
        return self.score(lanes, found)

    def score(self, lanes: Lanes, found: Found) -> Found:
        """The focused score in float32 over decoded vectors: the same bits for the same passage in any company."""

        def score(segment: Segment, rows: Array, out: Array, start: int, stop: int) -> None:
            for first in range(start, stop, EXACT_BATCH):
                part = slice(first, min(first + EXACT_BATCH, stop))
                vectors, lengths = decode_rows(self.codec, segment, rows[part])
                matches = np.empty((len(lengths), lanes.blocks, LANES), np.float32)
                kernels.score_vectors(vectors, lengths, lanes.queries, matches)
                out[part] = lanes.focused(matches)

        return self._by_segment(found, score, np.float32, smallest=8)

    def tables(self, lanes: Lanes) -> tuple[Array, Array, float]:
        """Lookup tables of bytes, what they leave out of each lane by number of layers, and how many steps make 1."""
        codec, blocks, rows = self.codec, lanes.blocks, self.codec.layers * self.codec.subspaces
        least = self._largest_score(lanes) / CELL_RANGE
        entries = self._scratch("entries", (blocks, rows, 256, LANES), np.uint8)
        lane_offsets = np.zeros((blocks, codec.layers + 1, LANES), np.int16)
        if not rows:
            return entries, lane_offsets, 1 / least
        floats = self._scratch("floats", (blocks, rows, 256, LANES), np.float32)
        lowest = np.empty((blocks, rows, LANES), np.float32)
        widest = np.zeros(blocks)

        def fill(start: int, stop: int) -> None:
            for block in range(start, stop):
                kernels.lookup_floats(codec.float_codebooks, lanes.queries[block], floats[block])
                widest[block] = kernels.lookup_range(floats[block], lowest[block])

        self._share(blocks, fill)
        inverse_step = 1 / max(least, float(widest.max()) / min(TABLE_MAX, RESIDUAL_RANGE // rows))

        def quantise(start: int, stop: int) -> None:
            for block in range(start, stop):
                kernels.lookup_bytes(floats[block], lowest[block], inverse_step, entries[block], lane_offsets[block])

        self._share(blocks, quantise)
        return entries, lane_offsets, inverse_step

    def _largest_score(self, lanes: Lanes) -> float:
        """No cell scores more with any lane."""
        longest = float(np.sqrt((lanes.queries**2).sum(axis=1).max(initial=0)))
        return self.codec.largest_centroid * longest or 1.0

    def cell_scores(self, lanes: Lanes, inverse_step: float) -> tuple[Array, Array, Array]:
        """(blocks, cells, 64) int16, the same as bytes, and (blocks, cells / 64, 64) the best of every 64 cells."""
        codec = self.codec
        parts = -(-codec.cells // LANES)
        scores = self._scratch("scores", (lanes.blocks, codec.cells, LANES), np.int16)
        score_bytes = self._scratch("score_bytes", (lanes.blocks, codec.cells, LANES), np.uint8)
        best = self._scratch("block_best", (lanes.blocks, parts, LANES), np.int16)
        inverse_steps = (inverse_step, (255 - kernels.BYTE_ZERO) / self._largest_score(lanes))

        def run(start: int, stop: int) -> None:
            for block in range(lanes.blocks):
                kernels.cell_scores(
                    codec.float_centroids, lanes.queries[block], lanes.in_block(block), inverse_steps,
                    scores[block], score_bytes[block], best[block], start, stop,
                )  # fmt: skip

        self._share(parts, run, smallest=4)
        return scores, score_bytes, best

    def gather(self, lanes: Lanes, scores: Array, block_best: Array, limits: Limits, allowed: Sequence[Array]) -> Found:
        """The passages with the most evidence in the cells that the claim's vectors probe; facts do not probe."""
        probes = min(limits.probes_of(lanes.lanes[0]), self.codec.cells)
        cells = np.empty((lanes.lanes[0], probes), np.int32)
        self._share(
            len(cells), lambda start, stop: kernels.probe_cells(scores, block_best, cells, start, stop), smallest=8
        )
        parts = [
            self._evidence(segment, kernels.probed_lists(segment.cells, segment.cell_offsets, scores, cells), mask)
            for segment, mask in zip(self.segments, allowed, strict=True)
        ]
        found = Found.join(parts)
        return found.take(kernels.select_largest(found.scores, limits.candidates))

    def _evidence(self, segment: Segment, lists: tuple[Array, Array, Array], allowed: Array) -> tuple[Array, Array]:
        """The passages in the lists, and the evidence for each; stretch by stretch, the same for any number of threads."""
        (starts, ends, gains), stretch = lists, _stretch(len(segment))
        stretches = range(0, len(segment), stretch)
        rows = self._scratch("rows", (len(segment),), np.int64)
        evidence = self._scratch("evidence", (len(segment),), np.int32)
        counts = [0] * len(stretches)

        def run(start: int, stop: int) -> None:
            tally = self._scratch("tally", (stretch, 2), np.int32)
            places = kernels.skip_rows(segment.postings, starts, ends, start * stretch)
            for number in range(start, stop):
                part = slice(number * stretch, min((number + 1) * stretch, len(segment)))
                counts[number] = kernels.gather(
                    segment.postings, places, ends, gains, allowed, part.start, part.stop, tally,
                    rows[part], evidence[part],
                )  # fmt: skip

        self._share(len(stretches), run)
        filled = [slice(first, first + count) for first, count in zip(stretches, counts, strict=True)]
        return np.concatenate([rows[part] for part in filled]), np.concatenate([evidence[part] for part in filled])

    def prune(self, lanes: Lanes, score_bytes: Array, found: Found) -> Found:
        def score(segment: Segment, rows: Array, out: Array, start: int, stop: int) -> None:
            kernels.prune(score_bytes, segment.codes, segment.offsets, rows, lanes.lanes, lanes.keep, out, start, stop)

        return self._by_segment(found, score)

    def refine(self, lanes: Lanes, scores: Array, entries: Array, lane_offsets: Array, found: Found) -> Found:
        def score(segment: Segment, rows: Array, out: Array, start: int, stop: int) -> None:
            kernels.refine(
                scores, entries, lane_offsets, self.codec.subspaces, segment.codes, segment.offsets, segment.residuals,
                segment.residual_offsets, rows, lanes.lanes, lanes.keep, out, start, stop,
            )  # fmt: skip

        return self._by_segment(found, score)

    def _by_segment(self, found: Found, score: ScoreRows, kind: npt.DTypeLike = np.int32, smallest: int = 64) -> Found:
        """Score the rows found in each segment, in ascending order, shared between threads."""
        parts = []
        for number, segment in enumerate(self.segments):
            rows = np.sort(found.rows[found.segments == number])
            out = np.empty(len(rows), kind)
            self._share(len(rows), partial(score, segment, rows, out), smallest=smallest)
            parts.append((rows, out))
        return Found.join(parts)

    def _share(self, count: int, run: Callable[[int, int], None], smallest: int = 1) -> None:
        """Run over 0:count in even pieces, none smaller than `smallest`; each thread takes the next one until none is left."""
        pieces = min(PIECES * self.threads, max(1, count // smallest))
        if pieces == 1 or self._pool is None:
            run(0, count)
            return
        edges = [count * piece // pieces for piece in range(pieces + 1)]
        left = iter(list(pairwise(edges)))  # a list's iterator hands out each item once, whichever thread asks

        def work() -> None:
            for start, stop in left:
                run(start, stop)

        helpers = [self._pool.submit(work) for _ in range(min(self.threads, pieces) - 1)]
        work()
        for helper in helpers:
            if not helper.cancel():  # one that has not started has nothing left to do
                helper.result()

    def _scratch(self, name: str, shape: tuple[int, ...], kind: npt.DTypeLike) -> Array:
        """An array of this thread's own that is kept from search to search: fresh memory costs more than its use."""
        kept = self._local.__dict__
        size = int(np.prod(shape, dtype=np.int64))
        if name not in kept or len(kept[name]) < size:
            kept[name] = kernels.aligned((size,), kind)
        array: Array = kept[name][:size]
        return array.reshape(shape)


def _all_of(allowed: Sequence[Array]) -> Found:
    """Every allowed passage, without a score."""
    rows = [np.flatnonzero(mask) for mask in allowed]
    return Found.join([(part, np.zeros(len(part), np.float32)) for part in rows])


def _enough(k: int) -> int:
    """How many of the best by scores in steps are scored again in float32, for the k best to be among them."""
    return 2 * k + 32


def _stretch(passages: int) -> int:
    """How many passages' evidence is gathered at once: a fourth of them, within what the cache holds."""
    return min(LONGEST_STRETCH, max(SHORTEST_STRETCH, -(-passages // 4)))


def decode_rows(codec: Codec, segment: Segment, rows: Array) -> tuple[Array, Array]:
    """The vectors of some passages as the codec restores them, in the mapped space, end to end, and their lengths.

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
