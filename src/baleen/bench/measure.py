"""One open index under the clock: time to open, latency, memory, and the speed of the kernels.

`probe` runs in a process of its own, so that neither the memory nor the threads of whatever built the index count.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from baleen.index import Index, SearchConfig
from baleen.index.search import Found, Lanes, Searcher
from baleen.vectors import QueryVectors

Array = npt.NDArray[Any]

OPENINGS = 9
WARM_UP = 10  # searches before the clock starts: kernels are loaded, scratch memory is there
EXACT_QUERIES = 3
KERNEL_PASSAGES = 4096
KERNEL_ROUNDS = 5


@dataclass(frozen=True)
class Memory:
    """Of this process, in MB: all that is resident, and the part of it that is mapped files, which can be let go."""

    resident: float
    mapped: float

    @classmethod
    def now(cls) -> Memory:
        fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return cls(*(int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "RssFile")))


@dataclass(frozen=True)
class Timed:
    """What each search found, and how many milliseconds it took."""

    pids: list[tuple[str, ...]]
    milliseconds: list[float]

    @property
    def p50(self) -> float:
        return float(np.percentile(self.milliseconds, 50))

    @property
    def p95(self) -> float:
        return float(np.percentile(self.milliseconds, 95))


@dataclass(frozen=True)
class Probe:
    """What `probe` measured.  `exact_ms` is None where nobody asked; `refine_rate` where there is nothing to refine."""

    open_ms: float
    before: Memory
    after: Memory
    searches: Timed
    exact_ms: float | None
    prune_rate: float
    refine_rate: float | None


def probe_apart(*arguments: Any) -> Probe:
    """`probe` in a fresh process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(probe, *arguments).result()


def probe(
    root: Path, queries: Sequence[QueryVectors], k: int, config: SearchConfig, threads: int | None, exact: bool
) -> Probe:
    """Open the index and search it, one query at a time; what warms up does not count where queries are many."""
    before = Memory.now()
    index = Index.open(root, threads=threads)
    warm, measured = split_warm_up(queries)
    timed(index, warm, k, config=config)
    searches = timed(index, measured, k, config=config)
    after = Memory.now()
    exact_ms = timed(index, measured[:EXACT_QUERIES], k, exact=True).p50 if exact else None
    prune_rate, refine_rate = kernel_rates(index, queries[0])
    open_ms = statistics.median(_opening(root) for _ in range(OPENINGS))
    return Probe(open_ms, before, after, searches, exact_ms, prune_rate, refine_rate)


def split_warm_up(queries: Sequence[QueryVectors]) -> tuple[Sequence[QueryVectors], Sequence[QueryVectors]]:
    """The queries to warm up with, and those to measure: all of them when they are few."""
    few = len(queries) <= 2 * WARM_UP
    return queries[:WARM_UP], queries if few else queries[WARM_UP:]


def timed(index: Index, queries: Sequence[QueryVectors], k: int, **options: Any) -> Timed:
    pids, milliseconds = [], []
    for query in queries:
        start = time.perf_counter()
        ranking = index.search(query, k, **options)
        milliseconds.append(1000 * (time.perf_counter() - start))
        pids.append(ranking.pids)
    return Timed(pids, milliseconds)


def kernel_rates(index: Index, query: QueryVectors) -> tuple[float, float | None]:
    """Passages a second that one thread prunes, and that it refines (None at 16 bits, which have nothing to refine).

    Both go over the same random passages, KERNEL_PASSAGES of them, with the query's tables made beforehand.
    """
    searcher = Searcher(index.codec, index.segments, threads=1)
    lanes = Lanes.of(query, index.codec, index.focus)
    entries, lane_offsets, inverse_step = searcher.tables(lanes)
    scores, score_bytes, _ = searcher.cell_scores(lanes, inverse_step)
    found = _some_passages(index)
    prune_rate = _rate(len(found), lambda: searcher.prune(lanes, score_bytes, found))
    if not index.codec.subspaces:
        return prune_rate, None
    return prune_rate, _rate(len(found), lambda: searcher.refine(lanes, scores, entries, lane_offsets, found))


def _some_passages(index: Index) -> Found:
    """Random passages of the first segment, again and again where it has too few."""
    rows = np.random.default_rng(0).permutation(len(index.segments[0]))
    rows = np.resize(rows, KERNEL_PASSAGES).astype(np.int64)
    return Found(np.zeros(len(rows), np.int64), rows, np.zeros(len(rows), np.float32))


def _rate(count: int, run: Callable[[], object]) -> float:
    """How many a second: the median of several runs, after one that does not count."""
    run()
    return count / statistics.median(_seconds(run) for _ in range(KERNEL_ROUNDS))


def _opening(root: Path) -> float:
    return 1000 * _seconds(lambda: Index.open(root))


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
