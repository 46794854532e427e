"""Shared by the benchmarks of an index: options, measuring one index in a fresh process, tables."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from baleen.core.errors import BaleenError
from baleen.core.machine import PACKAGES, machine_info
from baleen.core.markdown import markdown_table
from baleen.core.vectors import QueryVectors
from baleen.index.cpu.search import Limits, ScoredRows, Searcher
from baleen.index.cpu.tables import Lanes
from baleen.index.index import Index
from baleen.index.protocol import DEFAULT_OPTIONS, SearchOptions
from workload import Workload, recall, split_warm_up

Row = Mapping[str, Any]
Columns = Mapping[str, Callable[[Row], str]]

K = 10
OPENINGS = 9
EXACT_QUERIES = 3
KERNEL_PASSAGES = 4096
KERNEL_ROUNDS = 5


def positive(text: str) -> int:
    """Parse a number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is below 1")
    return number


def index_parser(about: str | None) -> argparse.ArgumentParser:
    """A parser with the options of every benchmark that builds indexes."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=positive, default=100, help="number of queries to time (default 100)")
    parser.add_argument("--work-dir", type=Path, help="keep indexes and exact answers here, and reuse them")
    parser.add_argument("--threads", type=positive, help="CPU threads of a search (default: all cores)")
    parser.add_argument("--device", default="cpu", help="device that builds indexes: cpu (default) or cuda")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    return parser


def print_result(name: str, options: argparse.Namespace, rows: Sequence[Row], columns: Columns, *notes: str) -> None:
    """Print the machine and the rows of benchmark `name`, as JSON with the settings or as Markdown."""
    found = machine_info()
    if options.json:
        hidden = ("json", "work_dir")
        settings = {key: _portable(key, value) for key, value in vars(options).items() if key not in hidden}
        print(json.dumps({"machine": found, "settings": settings, name: rows}))
    else:
        print("\n\n".join([machine_line(found), rows_table(columns, rows), *notes]))


def _portable(key: str, value: Any) -> Any:
    """Keep only the name of a file, whose folder means nothing on another machine."""
    return Path(value).name if value is not None and (key == "model" or isinstance(value, Path)) else value


def machine_line(found: Row) -> str:
    versions = ", ".join(f"{name} {found[name]}" for name in ("python", *PACKAGES))
    return f"{found['date']}, {found['cpu']}, {found['cores']} cores, {found['memory_gb']} GB; {versions}"


def rows_table(columns: Columns, rows: Iterable[Row]) -> str:
    """A Markdown table with one line for each row."""
    return markdown_table(list(columns), ([cell(row) for cell in columns.values()] for row in rows))


def number(key: str, form: str = ",.1f") -> Callable[[Row], str]:
    """A cell with the value of `key` in a format, or a dash for None."""
    return lambda row: "-" if row[key] is None else format(row[key], form)


def latency(row: Row) -> str:
    return f"{row['p50_ms']:.1f} / {row['p95_ms']:.1f}"


def memory(row: Row) -> str:
    return f"{row['before_mb']:,.0f} / {row['after_mb']:,.0f} ({row['mapped_mb']:,.0f})"


INDEX_COLUMNS: Columns = {
    "dataset": lambda row: str(row["dataset"]),
    "bits": number("bits", "d"),
    "passages": number("passages", ",d"),
    "vectors": number("vectors", ",d"),
    "cells": number("cells", ",d"),
    "build s": number("build_s"),
    "open ms": number("open_ms"),
    "bytes/vector": number("bytes_per_vector"),
}
MEMORY_COLUMNS: Columns = {"resident MB before / after (mapped since)": memory}


# Measuring


@dataclass(frozen=True)
class Timed:
    """The ids that each search found, and its milliseconds."""

    pids: list[tuple[str, ...]]
    milliseconds: list[float]


def measure(
    work: Workload,
    bits: int,
    *,
    config: SearchOptions = DEFAULT_OPTIONS,
    exact: bool = True,
    threads: int | None = None,
    device: str = "cpu",
) -> dict[str, Any]:
    """Measure one index of a workload in a fresh process; with `exact`, against the exact answers.

    `build_s` excludes making the vectors.  `bytes_per_vector` counts all files.  Rates are passages per second and
    core.  Memory is in MB, before opening and after all queries; `mapped_mb` is the growth of mapped files between.
    """
    index, build_s = work.built(bits, device)
    limits = Limits.of(config, K)
    stored = int(index.info()["vectors"])
    size = sum(path.stat().st_size for path in index.root.rglob("*") if path.is_file())
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:  # without the memory of building
        found, searches = pool.submit(probe, index.root, work.queries, config, threads, exact).result()
    return {
        "dataset": work.data.name,
        "passages": len(index),
        "vectors": stored,
        "bits": bits,
        "cells": index.codec.cells,
        "build_s": build_s,
        "bytes_per_vector": size / stored,
        "k": K,
        "probes": limits.probes_of(len(work.queries[0].query)),
        "candidates": limits.candidates,
        "refined": limits.refined,
        "recall": recall(searches.pids, work.expected(K)) if exact else None,
        **found,
    }


def probe(
    root: Path, queries: Sequence[QueryVectors], config: SearchOptions, threads: int | None, exact: bool
) -> tuple[dict[str, float | None], Timed]:
    """Open the index and search it, one query at a time."""
    before, mapped_before = memory_now()
    index = Index.open(root, threads=threads)
    warm, measured = split_warm_up(queries)
    timed(index, warm, config)
    searches = timed(index, measured, config)
    after, mapped_after = memory_now()
    p50, p95 = np.percentile(searches.milliseconds, [50, 95])
    prune_rate, refine_rate = kernel_rates(index, queries[0])
    exact_ms = timed(index, measured[:EXACT_QUERIES], SearchOptions(exact=True)).milliseconds if exact else []
    return {
        "open_ms": 1000 * statistics.median(seconds(lambda: Index.open(root)) for _ in range(OPENINGS)),
        "p50_ms": float(p50),
        "p95_ms": float(p95),
        "exact_p50_ms": statistics.median(exact_ms) if exact_ms else None,
        "prune_rate": prune_rate,
        "refine_rate": refine_rate,
        "before_mb": before,
        "after_mb": after,
        "mapped_mb": mapped_after - mapped_before,
    }, searches


def memory_now() -> tuple[float, float]:
    """Resident memory of this process in MB, and its share of mapped files, which the system can reclaim."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    resident, mapped = (int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "RssFile"))
    return resident, mapped


def timed(index: Index, queries: Sequence[QueryVectors], options: SearchOptions = DEFAULT_OPTIONS) -> Timed:
    pids, milliseconds = [], []
    for query in queries:
        start = time.perf_counter()
        (ranking,) = index.search([query], K, options)
        milliseconds.append(1000 * (time.perf_counter() - start))
        pids.append(ranking.pids)
    return Timed(pids, milliseconds)


def kernel_rates(index: Index, query: QueryVectors) -> tuple[float, float | None]:
    """Passages per second that one thread prunes and refines (None at 16 bits, which need no refinement).

    Both kernels run over the same random passages; making the query's tables is not measured.
    """
    searcher = Searcher(index.codec, index.segments, threads=1)
    lanes = Lanes.of(query, index.codec, index.focus)
    tables = searcher.tables(lanes)
    rows = np.resize(np.random.default_rng(0).permutation(len(index.segments[0])), KERNEL_PASSAGES).astype(np.int64)
    found = ScoredRows(np.zeros(len(rows), np.int64), rows, np.zeros(len(rows), np.float32))
    prune_rate = _rate(lambda: searcher.prune(lanes, tables, found))
    if not index.codec.subspaces:
        return prune_rate, None
    return prune_rate, _rate(lambda: searcher.refine(lanes, tables, found))


def _rate(run: Callable[[], object]) -> float:
    run()
    return KERNEL_PASSAGES / statistics.median(seconds(run) for _ in range(KERNEL_ROUNDS))


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main_guard(main: Callable[[], None]) -> None:
    """Run a script; a BaleenError is one line on standard error and its exit code."""
    try:
        main()
    except BaleenError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
