"""Seconds per claim and tokens by stage, for several numbers of hops.

python benchmarks/verify.py --limit 6 -k 25
python benchmarks/verify.py --model baleen-small --index wiki.index --file claims.jsonl --hops 1 2 4 --json
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from baleen.core.machine import machine_info
from baleen.core.markdown import markdown_table
from baleen.core.types import Trace
from baleen.data.claims import read_claims
from baleen.hops.demo import demo_claims
from baleen.system import Baleen
from common import main_guard, positive

WARM_UP = 2
Stages = Mapping[str, float]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, help="index folder (default: the demonstration corpus)")
    parser.add_argument("--model", help="folder or name of a model (default: the embedded one)")
    parser.add_argument("--file", type=Path, help="JSONL with claims (default: the demonstration claims)")
    parser.add_argument("--limit", type=positive, help="number of claims (default: all)")
    parser.add_argument("--hops", type=positive, nargs="+", default=[1, 2, 4], help="numbers of hops (default 1 2 4)")
    parser.add_argument("-k", type=positive, help="passages per hop (default: the model's)")
    parser.add_argument("--pipeline", default="condense", help="condense (default), rerank or hybrid")
    parser.add_argument("--threads", type=positive, help="CPU threads of a search (default: all cores)")
    parser.add_argument("--device", help="cpu or cuda (default: the best available)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    options = parser.parse_args(arguments)
    claims = read_claims(options.file) if options.file else ()
    texts = [claim.text for claim in claims] or [claim["text"] for claim in demo_claims()]
    system = Baleen.load(options.model, options.index, device=options.device, threads=options.threads)
    asked = texts[: options.limit]
    rows = [measured(system, asked, hops, k=options.k, pipeline=options.pipeline) for hops in options.hops]
    found = {"machine": machine_info(), "device": str(system.retriever.encoder.device), "verify": rows}
    print(json.dumps(found) if options.json else verify_table(rows))


def measured(system: Baleen, claims: Sequence[str], hops: int, **settings: Any) -> dict[str, Any]:
    """Verify every claim alone, and then all in one batch (`batched`), after a few that are not measured.

    `stages` and `tokens` are means per claim; `words` is the context after the last hop.
    """
    for claim in claims[:WARM_UP]:
        verify(system, [claim], hops, settings)
    spent, traces = [], []
    for claim in claims:
        start = time.perf_counter()
        traces += verify(system, [claim], hops, settings)
        spent.append(time.perf_counter() - start)
    start = time.perf_counter()
    verify(system, claims, hops, settings)
    batched = (time.perf_counter() - start) / len(claims)
    stages, tokens = mean(map(stage_seconds, traces)), mean(map(stage_tokens, traces))
    all_stages = sum(stages.values())
    return {
        "hops": hops,
        "claims": len(claims),
        "seconds": median(spent),
        "batched": batched,
        "stages": stages,
        "shares": {stage: seconds / all_stages for stage, seconds in stages.items()},
        "tokens": tokens,
        "words": sum(trace.hops[-1].words for trace in traces) / len(traces),
        "facts": sum(len(trace.facts) for trace in traces) / len(traces),
    }


def verify(system: Baleen, claims: Sequence[str], hops: int, settings: Mapping[str, Any]) -> list[Trace]:
    """Run the hops, and the verifier if the model has one."""
    run = system.stream_many if "verifier" in system.model else system.hops
    *_, traces = run(claims, hops=hops, **settings)
    return traces


def stage_seconds(trace: Trace) -> Stages:
    return total([*(part for hop in trace.hops for part in (hop.seconds, hop.condensed.seconds)), trace.seconds])


def stage_tokens(trace: Trace) -> Stages:
    return total([*(part for hop in trace.hops for part in (hop.tokens, hop.condensed.tokens)), trace.tokens])


def total(parts: Iterable[Stages]) -> Stages:
    stages: dict[str, float] = {}
    for part in parts:
        for stage, value in part.items():
            stages[stage] = stages.get(stage, 0) + value
    return stages


def mean(counted: Iterable[Stages]) -> dict[str, float]:
    every = list(counted)
    stages = dict.fromkeys(stage for each in every for stage in each)
    return {stage: sum(each.get(stage, 0.0) for each in every) / len(every) for stage in stages}


def verify_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as Markdown."""
    stages = list(dict.fromkeys(stage for row in rows for stage in row["stages"]))
    timings = [f"{stage} ms (share)" for stage in stages]
    lines = [
        [
            str(row["hops"]),
            f"{row['seconds']:.2f}",
            f"{row['batched']:.2f}",
            *(f"{1000 * row['stages'].get(stage, 0):.0f} ({row['shares'].get(stage, 0):.0%})" for stage in stages),
            f"{sum(row['tokens'].values()):,.0f}",
            f"{row['facts']:.1f}",
            f"{row['words']:.0f}",
        ]
        for row in rows
    ]
    return markdown_table(["hops", "s/claim", "s/claim, batched", *timings, "tokens", "facts", "words"], lines)


if __name__ == "__main__":
    main_guard(main)
