"""The benches of the index: how fast, how small, how faithful, at which size and with which settings.

    run         each dataset at each width: build, open, size, recall, latency, kernels, memory
    growth      latency and memory at two sizes: what a corpus 50 times larger costs
    sweep       recall and latency over a grid of search settings: what the defaults were chosen by
    assign      ways to find a vector's cell: time, error, recall (`assign.py`)

Recall is against the exact best passages over the original vectors, by
the focused score.  Latency is that of one query at a time, without its encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from baleen.bench import report
from baleen.bench.assign import assign
from baleen.bench.exact import recall
from baleen.bench.measure import Probe, probe_apart, split_warm_up, timed
from baleen.bench.workload import BenchConfig, Workload, built, expectations, workloads
from baleen.index import Index, SearchConfig
from baleen.machine import machine
from baleen.types import Record

__all__ = ["BENCHES", "BenchConfig", "BenchRow", "SweepRow", "growth", "run", "run_all", "sweep"]

PROBES = (4, 8, 16, 32)
CANDIDATES = (4096, 8192, 16_384, 32_768, 65_536)
REFINED = (512, 1024, 2048, 4096)


@dataclass(frozen=True, slots=True)
class BenchRow(Record):
    """One index measured.

    `build_s` leaves out the making of the vectors.  `bytes_per_vector` counts every file.  Rates are passages a second
    on one core.  Memory is in MB, before opening and after all queries; `mapped_mb` of what came between is mapped files.
    """

    dataset: str
    passages: int
    vectors: int
    bits: int
    cells: int
    build_s: float
    open_ms: float
    bytes_per_vector: float
    k: int
    recall: float | None
    p50_ms: float
    p95_ms: float
    exact_p50_ms: float | None
    prune_rate: float
    refine_rate: float | None
    before_mb: float
    after_mb: float
    mapped_mb: float


@dataclass(frozen=True, slots=True)
class SweepRow(Record):
    """One setting of a search on one index; the numbers are those that it came to for k passages."""

    dataset: str
    bits: int
    probes: int
    candidates: int
    refined: int
    recall: float
    p50_ms: float
    p95_ms: float


def run(config: BenchConfig) -> list[BenchRow]:
    """Every dataset at every width, each index measured in a process of its own."""
    rows = []
    for work in workloads(config):
        expected = expectations(work, config.k) if config.exact else None
        for bits in config.bits:
            index, build_s = built(work, bits, config)
            found = probe_apart(index.root, work.queries, config.k, config.search, config.threads, config.exact)
            rows.append(_row(work, index, build_s, found, config.k, expected))
    return rows


def growth(config: BenchConfig) -> list[BenchRow]:
    """The first width at `growth_sizes`, without the exact answers, which take long on a large corpus.

    All are built before the first is measured: what else a machine does is then more alike for each of them.
    """
    with TemporaryDirectory(prefix="baleen-bench-") as temporary:
        settings = replace(
            config,
            sizes=config.growth_sizes,
            bits=config.bits[:1],
            corpus=None,
            checkpoint=None,
            exact=False,
            work_dir=config.work_dir or temporary,
        )
        for work in workloads(settings):
            built(work, settings.bits[0], settings)
        return run(settings)


def sweep(
    config: BenchConfig,
    probes: Sequence[int] = PROBES,
    candidates: Sequence[int] = CANDIDATES,
    refined: Sequence[int] = REFINED,
) -> list[SweepRow]:
    """Every sensible combination of the settings, on every dataset at every width."""
    settings = [SearchConfig(*values) for values in product(probes, candidates, refined) if values[2] <= values[1]]
    rows = []
    for work in workloads(config):
        expected = expectations(work, config.k)
        for bits in config.bits:
            index = Index.open(built(work, bits, config)[0].root, threads=config.threads)
            rows += [_sweep_row(work, index, setting, config.k, expected) for setting in settings]
    return rows


BENCHES: dict[str, Callable[[BenchConfig], Sequence[Record]]] = {
    "search": run,
    "growth": growth,
    "sweep": sweep,
    "assign": assign,
}


def run_all(config: BenchConfig, benches: Iterable[str] = ("search",)) -> dict[str, Any]:
    """The machine, the settings and the rows of each bench by its name: JSON takes it, `report.markdown` draws it."""
    rows = {name: [row.to_json() for row in BENCHES[name](config)] for name in benches}
    return {"machine": machine(), "settings": report.settings(config), **rows}


def _row(
    work: Workload, index: Index, build_s: float, found: Probe, k: int, expected: Sequence[tuple[str, ...]] | None
) -> BenchRow:
    stored = int(index.info()["vectors"])
    return BenchRow(
        dataset=work.data.name,
        passages=len(index),
        vectors=stored,
        bits=index.codec.bits,
        cells=index.codec.cells,
        build_s=build_s,
        open_ms=found.open_ms,
        bytes_per_vector=_bytes(index.root) / stored,
        k=k,
        recall=None if expected is None else recall(found.searches.pids, expected),
        p50_ms=found.searches.p50,
        p95_ms=found.searches.p95,
        exact_p50_ms=found.exact_ms,
        prune_rate=found.prune_rate,
        refine_rate=found.refine_rate,
        before_mb=found.before.resident,
        after_mb=found.after.resident,
        mapped_mb=found.after.mapped - found.before.mapped,
    )


def _sweep_row(
    work: Workload, index: Index, setting: SearchConfig, k: int, expected: Sequence[tuple[str, ...]]
) -> SweepRow:
    warm, measured = split_warm_up(work.queries)
    timed(index, warm, k, config=setting)
    result, limits = timed(index, measured, k, config=setting), setting.for_depth(k)
    return SweepRow(
        dataset=work.data.name,
        bits=index.codec.bits,
        probes=limits.probes_of(len(measured[0].query)),
        candidates=limits.candidates,
        refined=limits.refined,
        recall=recall(result.pids, expected),
        p50_ms=result.p50,
        p95_ms=result.p95,
    )


def _bytes(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
