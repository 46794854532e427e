"""Results as JSON and as Markdown, always with the machine that they were measured on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baleen.config import to_mapping
from baleen.machine import PACKAGES

if TYPE_CHECKING:
    from baleen.bench.workload import BenchConfig

Row = Mapping[str, Any]
Columns = Mapping[str, Callable[[Row], str]]

PATHS = ("corpus", "checkpoint", "questions")


def settings(config: BenchConfig) -> dict[str, Any]:
    """The settings that figures depend on; of files only the names, which say enough on another machine too."""
    values = {key: value for key, value in to_mapping(config).items() if key != "work_dir"}
    return values | {key: Path(values[key]).name for key in PATHS if values[key] is not None}


def markdown(result: Mapping[str, Any]) -> str:
    """What `run_all` returned, as Markdown: the machine, then a table for each bench."""
    parts = [machine_line(result["machine"])]
    if "search" in result:
        parts.append(table(SEARCH, result["search"]))
    if "growth" in result:
        parts += [table(GROWTH, result["growth"]), growth_line(result["growth"])]
    if "sweep" in result:
        parts.append(table(SWEEP, result["sweep"]))
    if "assign" in result:
        parts.append(table(ASSIGN, result["assign"]))
    return "\n\n".join(parts) + "\n"


def machine_line(found: Row) -> str:
    versions = ", ".join(f"{name} {found[name]}" for name in ("python", *PACKAGES))
    return f"{found['date']}, {found['cpu']}, {found['cores']} cores, {found['memory_gb']} GB; {versions}"


def growth_line(rows: Sequence[Row]) -> str:
    """How much the largest corpus costs, in terms of the smallest."""
    small, large = (pick(rows, key=lambda row: row["passages"]) for pick in (min, max))
    larger, slower = large["passages"] / small["passages"], large["p50_ms"] / small["p50_ms"]
    return f"{larger:,.1f} times as many passages take {slower:.2f} times as long (p50)."


def table(columns: Columns, rows: Sequence[Row]) -> str:
    """A Markdown table with one line for each row."""
    lines = [columns.keys(), ["---"] * len(columns), *([cell(row) for cell in columns.values()] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def number(key: str, form: str = ",.1f") -> Callable[[Row], str]:
    """A cell with the value of `key` so formatted, or a dash where it is None."""
    return lambda row: "-" if row[key] is None else format(row[key], form)


def _speedup(row: Row) -> str:
    return "-" if row["exact_p50_ms"] is None else f"{row['exact_p50_ms'] / row['p50_ms']:.1f}"


def _latency(row: Row) -> str:
    return f"{row['p50_ms']:.1f} / {row['p95_ms']:.1f}"


def _rates(row: Row) -> str:
    rates = (row["prune_rate"], row["refine_rate"])
    return " / ".join("-" if rate is None else f"{rate / 1000:,.0f}" for rate in rates)


def _memory(row: Row) -> str:
    return f"{row['before_mb']:,.0f} / {row['after_mb']:,.0f} ({row['mapped_mb']:,.0f})"


_DATASET: Columns = {"dataset": lambda row: str(row["dataset"]), "bits": number("bits", "d")}

SEARCH: Columns = {
    **_DATASET,
    "passages": number("passages", ",d"),
    "vectors": number("vectors", ",d"),
    "cells": number("cells", ",d"),
    "build s": number("build_s"),
    "open ms": number("open_ms"),
    "bytes/vector": number("bytes_per_vector"),
    "recall@k": number("recall", ".3f"),
    "p50 / p95 ms": _latency,
    "exact p50 ms": number("exact_p50_ms"),
    "times faster": _speedup,
    "prune / refine, thousand passages/s/core": _rates,
    "resident MB before / after (mapped since)": _memory,
}

GROWTH: Columns = {
    **_DATASET,
    "passages": number("passages", ",d"),
    "cells": number("cells", ",d"),
    "build s": number("build_s"),
    "open ms": number("open_ms"),
    "bytes/vector": number("bytes_per_vector"),
    "p50 / p95 ms": _latency,
    "resident MB before / after (mapped since)": _memory,
}

SWEEP: Columns = {
    **_DATASET,
    "probes": number("probes", "d"),
    "candidates": number("candidates", ",d"),
    "refined": number("refined", ",d"),
    "recall@k": number("recall", ".3f"),
    "p50 / p95 ms": _latency,
}

ASSIGN: Columns = {
    **_DATASET,
    "cells": number("cells", ",d"),
    "way": lambda row: str(row["way"]),
    "processor us a vector": number("cpu_us"),
    "get their nearest cell": number("share", ".2%"),
    "squared error more": number("error", ".2%"),
    "recall@k": number("recall", ".3f"),
}
