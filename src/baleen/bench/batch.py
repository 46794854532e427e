"""Many queries at once: how long a query takes when searches are batched, as on a GPU."""

from __future__ import annotations

import time
from typing import Any

from baleen.retriever import Retriever
from baleen.types import Query


def batched(retriever: Retriever, questions: list[str], count: int, k: int) -> dict[str, Any]:
    """Milliseconds a query, encoding and searching apart; the first search, which loads the index, is left out.

    Questions come round again where there are fewer than `count`.
    """
    asked = [Query(questions[i % len(questions)]) for i in range(count)]
    start = time.perf_counter()
    retriever.search_many(asked[:64], k)
    warm = time.perf_counter()
    vectors = retriever.encoder.encode_queries(asked)
    encoded = time.perf_counter()
    retriever.index.search_many(vectors, k, focus=retriever.encoder.focus)
    end = time.perf_counter()
    return {
        "device": str(retriever.encoder.device),
        "queries": count,
        "passages": len(retriever.index),
        "k": k,
        "warm_up_seconds": round(warm - start, 2),
        "encode_ms_per_query": round(1000 * (encoded - warm) / count, 3),
        "search_ms_per_query": round(1000 * (end - encoded) / count, 3),
    }
