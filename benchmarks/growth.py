"""Latency and memory of a small index and a large one.

    python benchmarks/growth.py --bits 2            # 20,000 and 1,000,000 passages: 20 GB of disk while it runs

All indexes are built before the first is measured, so that conditions are equal.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from common import (
    INDEX_COLUMNS,
    MEMORY_COLUMNS,
    Columns,
    Row,
    index_parser,
    latency,
    main_guard,
    measure,
    positive,
    print_result,
)
from workload import synthetic


def main(arguments: Sequence[str] | None = None) -> None:
    parser = index_parser(__doc__)
    parser.add_argument("--size", type=positive, nargs="+", default=[20_000, 1_000_000], help="synthetic passages")
    parser.add_argument("--bits", type=int, default=2, help="bits per dimension (default 2)")
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        temporary = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="baleen-bench-")))
        folder = options.work_dir or temporary
        works = [stack.enter_context(synthetic(size, options.queries, folder)) for size in sorted(options.size)]
        for work in works:
            work.built(options.bits, options.device)
        rows = [measure(work, options.bits, exact=False, threads=options.threads) for work in works]
    print_result("growth", options, rows, COLUMNS, growth_line(rows))


def growth_line(rows: Sequence[Row]) -> str:
    """Compare the largest corpus with the smallest."""
    small, large = rows[0], rows[-1]
    larger, slower = large["passages"] / small["passages"], large["p50_ms"] / small["p50_ms"]
    return f"{larger:,.1f} times as many passages take {slower:.2f} times as long (p50)."


COLUMNS: Columns = {**INDEX_COLUMNS, "p50 / p95 ms": latency, **MEMORY_COLUMNS}


if __name__ == "__main__":
    main_guard(main)
