"""Many queries at once: how long a query takes when searches are batched, as on a GPU."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from baleen.errors import QueryError
from baleen.retriever import Retriever
from baleen.types import Query

QUESTION_KEYS = ("question", "claim", "text", "query")


def read_questions(path: Path, limit: int) -> list[str]:
    """The questions or claims of a JSON list or a JSONL file, over again where there are fewer than `limit`."""
    content = path.read_text("utf-8")
    rows = (
        json.loads(content) if content.lstrip().startswith("[") else [json.loads(line) for line in content.splitlines()]
    )
    texts = [next(str(row[key]) for key in QUESTION_KEYS if key in row) for row in rows]
    if not texts:
        raise QueryError(f"{path}: no questions in it")
    return [texts[i % len(texts)] for i in range(limit)]


def batched(retriever: Retriever, questions: list[str], k: int) -> dict[str, Any]:
    """Milliseconds a query, encoding and searching apart; the first search, which loads the index, is left out."""
    start = time.perf_counter()
    retriever.search_many(questions[:64], k)
    warm = time.perf_counter() - start
    start = time.perf_counter()
    vectors = retriever.encoder.encode_queries([Query(question) for question in questions])
    encoded = time.perf_counter()
    retriever.index.search_many(vectors, k, focus=retriever.encoder.focus)
    end = time.perf_counter()
    return {
        "device": str(retriever.encoder.device),
        "queries": len(questions),
        "passages": len(retriever.index),
        "k": k,
        "warm_up_seconds": round(warm, 2),
        "encode_ms_per_query": round(1000 * (encoded - start) / len(questions), 3),
        "search_ms_per_query": round(1000 * (end - encoded) / len(questions), 3),
    }
