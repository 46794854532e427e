"""Seconds of a claim by stage: what each hop costs, and where the time goes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from baleen.pipeline import conclude
from baleen.system import Baleen
from baleen.types import Record, Trace

HOPS = (1, 2, 4)
WARM_UP = 2


@dataclass(frozen=True, slots=True)
class VerifyRow(Record):
    """One number of hops: seconds and tokens a claim, by stage, and the words of context after the last hop.

    `batched` is the seconds a claim when all go through together; the others are of one claim at a time.
    """

    hops: int
    claims: int
    seconds: float
    batched: float
    stages: Mapping[str, float]
    shares: Mapping[str, float]
    tokens: Mapping[str, float]
    words: float
    facts: float


def verify_rows(system: Baleen, claims: Sequence[str], hops: Iterable[int] = HOPS, **options: Any) -> list[VerifyRow]:
    """Verify every claim, one at a time and then all together, at each number of hops."""
    return [_row(system, claims, number, options) for number in hops]


def _row(system: Baleen, claims: Sequence[str], hops: int, options: Mapping[str, Any]) -> VerifyRow:
    for claim in claims[:WARM_UP]:
        _verify(system, [claim], hops, options)
    spent, traces = [], []
    for claim in claims:
        start = time.perf_counter()
        traces += _verify(system, [claim], hops, options)
        spent.append(time.perf_counter() - start)
    start = time.perf_counter()
    _verify(system, claims, hops, options)
    batched = (time.perf_counter() - start) / len(claims)
    stages, tokens = _mean(map(_seconds, traces)), _mean(map(_tokens, traces))
    total = sum(stages.values())
    return VerifyRow(
        hops,
        len(claims),
        median(spent),
        batched,
        stages,
        {stage: seconds / total for stage, seconds in stages.items()},
        tokens,
        sum(trace.hops[-1].words for trace in traces) / len(traces),
        sum(len(trace.facts) for trace in traces) / len(traces),
    )


def _verify(system: Baleen, claims: Sequence[str], hops: int, options: Mapping[str, Any]) -> list[Trace]:
    """To the verdict, where the model has a verifier."""
    reader = system.reader("verifier", optional=True)
    *_, traces = system.hops(claims, hops=hops, **options)
    return conclude(traces, reader) if reader is not None else traces


def _seconds(trace: Trace) -> Mapping[str, float]:
    stages: Counter[str] = Counter()
    for hop in trace.hops:
        stages.update(hop.seconds)
        stages.update(hop.condensed.seconds)
    stages.update(trace.seconds)
    return stages


def _tokens(trace: Trace) -> Mapping[str, float]:
    stages: Counter[str] = Counter()
    for hop in trace.hops:
        stages.update(hop.tokens)
        stages.update(hop.condensed.tokens)
    stages.update(trace.tokens)
    return stages


def _mean(counted: Iterable[Mapping[str, float]]) -> dict[str, float]:
    every = list(counted)
    stages = dict.fromkeys(stage for each in every for stage in each)
    return {stage: sum(each.get(stage, 0.0) for each in every) / len(every) for stage in stages}


def verify_table(rows: Sequence[VerifyRow]) -> str:
    """The rows as Markdown."""
    stages = list(dict.fromkeys(stage for row in rows for stage in row.stages))
    head = [
        "hops",
        "s/claim",
        "s/claim, batched",
        *(f"{stage} ms (share)" for stage in stages),
        "tokens",
        "facts",
        "words",
    ]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        shown = [f"{1000 * row.stages.get(s, 0):.0f} ({row.shares.get(s, 0):.0%})" for s in stages]
        told = [f"{sum(row.tokens.values()):,.0f}", f"{row.facts:.1f}", f"{row.words:.0f}"]
        lines.append([str(row.hops), f"{row.seconds:.2f}", f"{row.batched:.2f}", *shown, *told])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
