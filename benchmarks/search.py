"""Build time, size, recall and latency of an index of synthetic or real vectors.

    python benchmarks/search.py --size 20000 --queries 60
    python benchmarks/search.py --size 0 --corpus corpus.jsonl.gz --model baleen-small --questions dev.json
    python benchmarks/search.py --size 100000 --candidates 16384 32768 --refined 2048 4096      # a grid of settings

Recall is against the exact best passages of the original vectors by focused score.  Latency is of one query at a time,
without encoding.  A corpus with no more passages than a search refines is searched exactly and does not measure
approximation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import product
from pathlib import Path
from typing import Any

from baleen.index.protocol import SearchOptions
from common import (
    INDEX_COLUMNS,
    MEMORY_COLUMNS,
    Columns,
    Row,
    index_parser,
    latency,
    main_guard,
    measure,
    number,
    print_result,
)
from workload import WARM_UP, RealVectors, Workload, real, synthetic


def main(arguments: Sequence[str] | None = None) -> None:
    parser = index_parser(__doc__)
    parser.add_argument("--size", type=int, nargs="+", default=[20_000, 100_000], help="synthetic passages (0: none)")
    parser.add_argument("--bits", type=int, nargs="+", default=[2, 4], help="bits per dimension (default 2 4)")
    parser.add_argument("--corpus", type=Path, help="a collection, to measure real vectors too; needs --model")
    parser.add_argument("--model", help="folder or name of the model that encodes the collection")
    parser.add_argument("--questions", type=Path, help="questions for the collection (default: its sentences)")
    for name in SETTINGS:
        parser.add_argument(f"--{name}", type=int, nargs="+", default=[None], help=f"{name} of a search, to compare")
    options = parser.parse_args(arguments)
    if (options.corpus is None) != (options.model is None):
        parser.error("--corpus and --model go together: give both, or neither")
    values = product(*(getattr(options, name) for name in SETTINGS))
    configs = [SearchOptions(probes=probes, candidates=few, refined=fewer) for probes, few, fewer in values]
    rows = [
        measure(work, bits, config=config, threads=options.threads, device=options.device)
        for each in workloads(options)
        for work in opened(each)
        for bits in options.bits
        for config in configs
    ]
    print_result("search", options, rows, COLUMNS if len(configs) == 1 else {**COLUMNS, **GRID})


SETTINGS = ("probes", "candidates", "refined")


def workloads(options: Any) -> Iterator[AbstractContextManager[Workload]]:
    """Yield synthetic workloads by size, then the real one."""
    for size in sorted(filter(None, options.size)):
        yield synthetic(size, options.queries, options.work_dir)
    if options.corpus is not None:
        count = options.queries + WARM_UP
        yield real(
            RealVectors.encode(options.corpus, options.model, options.questions, queries=count), options.work_dir
        )


def opened(each: AbstractContextManager[Workload]) -> Iterator[Workload]:
    with each as work:
        yield work


def speedup(row: Row) -> str:
    return f"{row['exact_p50_ms'] / row['p50_ms']:.1f}"


def rates(row: Row) -> str:
    both = (row["prune_rate"], row["refine_rate"])
    return " / ".join("-" if rate is None else f"{rate / 1000:,.0f}" for rate in both)


COLUMNS: Columns = {
    **INDEX_COLUMNS,
    "recall@k": number("recall", ".3f"),
    "p50 / p95 ms": latency,
    "exact p50 ms": number("exact_p50_ms"),
    "times faster": speedup,
    "prune / refine, thousand passages/s/core": rates,
    **MEMORY_COLUMNS,
}
GRID: Columns = {name: number(name, ",d") for name in SETTINGS}


if __name__ == "__main__":
    main_guard(main)
