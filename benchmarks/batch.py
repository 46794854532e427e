"""Milliseconds per query for large batches of queries, as on a GPU.

    python benchmarks/batch.py dev.json --index wiki.index --model baleen-small --exact 60 --json

The first search, which loads the index, is not measured.  --exact N also searches the first N queries exactly, for the
recall of the batched search at 10 and at k.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from baleen.core.markdown import markdown_table
from baleen.core.types import Query, Ranking
from baleen.data.claims import read_claims
from baleen.hops.retriever import Retriever
from baleen.index.cpu.search import Limits
from baleen.index.protocol import SearchOptions
from common import main_guard, positive
from workload import recall


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", type=Path, help="JSON list or JSONL with 'question', 'claim' or 'text'")
    parser.add_argument("--index", type=Path, help="index folder (default: the demonstration corpus)")
    parser.add_argument("--model", help="folder or name of a model (default: the embedded one)")
    parser.add_argument("--count", type=positive, default=1000, help="number of queries; questions repeat if fewer")
    parser.add_argument("-k", type=positive, default=100, help="passages per query (default 100)")
    parser.add_argument("--probes", type=positive, help="cells probed per query vector")
    parser.add_argument("--candidates", type=positive, help="passages scored by centroids")
    parser.add_argument("--refined", type=positive, help="passages scored by residuals")
    parser.add_argument("--exact", type=int, default=0, help="queries to search exactly as well, for recall")
    parser.add_argument("--threads", type=positive, help="CPU threads of a search (default: all cores)")
    parser.add_argument("--device", help="cpu or cuda (default: the best available)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    options = parser.parse_args(arguments)
    texts = [claim.text for claim in read_claims(options.questions)]
    config = SearchOptions(probes=options.probes, candidates=options.candidates, refined=options.refined)
    retriever = Retriever.load(options.model, options.index, device=options.device, threads=options.threads)
    found = batched(retriever, texts, count=options.count, k=options.k, config=config, exact=options.exact)
    rows = [
        [key.replace("_", " "), f"{value:,}" if isinstance(value, int) else str(value)] for key, value in found.items()
    ]
    print(json.dumps(found) if options.json else markdown_table(["", ""], rows))


def batched(
    retriever: Retriever, questions: list[str], *, count: int, k: int, config: SearchOptions, exact: int
) -> dict[str, Any]:
    """Measure encoding and searching apart; the first `exact` queries are compared with an exact search."""
    asked = [Query(questions[i % len(questions)]) for i in range(count)]
    index, focus = retriever.index, retriever.encoder.focus
    start = time.perf_counter()
    retriever.search_many(asked[:64], k, **config.to_json())
    warm = time.perf_counter()
    vectors = retriever.encoder.encode_queries(asked)
    encoded = time.perf_counter()
    found = index.search(vectors, k, replace(config, focus=focus))
    end = time.perf_counter()
    best = index.search(vectors[:exact], k, SearchOptions(focus=focus, exact=True))
    return {
        "device": str(retriever.encoder.device),
        "queries": count,
        "passages": len(index),
        "k": k,
        **Limits.of(config, k)._asdict(),
        "warm_up_seconds": round(warm - start, 2),
        "encode_ms_per_query": round(1000 * (encoded - warm) / count, 3),
        "search_ms_per_query": round(1000 * (end - encoded) / count, 3),
        **{f"recall_at_{depth}": recall_at(depth, found, best) for depth in sorted({min(10, k), k}) if best},
    }


def recall_at(depth: int, found: Sequence[Ranking], best: Sequence[Ranking]) -> float:
    return round(recall(*([each.pids[:depth] for each in part[: len(best)]] for part in (found, best))), 4)


if __name__ == "__main__":
    main_guard(main)
