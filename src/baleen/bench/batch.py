"""Many queries at once: how long a query takes when searches are batched, as on a GPU."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from baleen.bench.exact import recall
from baleen.index import SearchConfig
from baleen.retriever import Retriever
from baleen.types import Query, Ranking


def batched(
    retriever: Retriever, questions: list[str], *, count: int, k: int, config: SearchConfig, exact: int
) -> dict[str, Any]:
    """Milliseconds a query, encoding and searching apart; the first search, which loads the index, is left out.

    Questions come round again where there are fewer than `count`.  The first `exact` of them are also put to an exact
    search of the same index, to tell how many of its best 10 and best k the batched search finds.
    """
    asked = [Query(questions[i % len(questions)]) for i in range(count)]
    index, focus = retriever.index, retriever.encoder.focus
    start = time.perf_counter()
    retriever.search_many(asked[:64], k, config=config)
    warm = time.perf_counter()
    vectors = retriever.encoder.encode_queries(asked)
    encoded = time.perf_counter()
    found = index.search_many(vectors, k, focus=focus, config=config)
    end = time.perf_counter()
    best = index.search_many(vectors[:exact], k, focus=focus, exact=True)
    return {
        "device": str(retriever.encoder.device),
        "queries": count,
        "passages": len(index),
        "k": k,
        **config.for_depth(k)._asdict(),
        "warm_up_seconds": round(warm - start, 2),
        "encode_ms_per_query": round(1000 * (encoded - warm) / count, 3),
        "search_ms_per_query": round(1000 * (end - encoded) / count, 3),
        **{f"recall_at_{depth}": _recall(found, best, depth) for depth in sorted({min(10, k), k}) if best},
    }


def _recall(found: Sequence[Ranking], best: Sequence[Ranking], depth: int) -> float:
    pairs = zip(found, best, strict=False)
    return round(recall([a.pids[:depth] for a, _ in pairs], [ranking.pids[:depth] for ranking in best]), 4)
