"""Line protocol between `benchmarks/peers.py` and one engine in its own environment.

    build           -> {"seconds": ..., "bytes": ...}       build the index and measure its folder
    search 7        -> {"seconds": ..., "ids": [...]}       rows of the best passages for query 7

The data folder has the vectors of all passages end to end (float16) with the number of each, and likewise the queries
(float32).  Standard output is for the protocol only: output of an engine goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True)
class Settings:
    data: Path
    index: Path
    bits: int
    k: int
    threads: int


class Engine(Protocol):
    def build(self, vectors: Any, lengths: Any) -> None: ...
    def search(self, query: Any) -> list[int]: ...


def settings() -> Settings:
    data, index, *numbers = sys.argv[1:]
    return Settings(Path(data), Path(index), *map(int, numbers))


def serve(engine: Engine, given: Settings) -> None:
    """Answer commands until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    queries = np.split(np.load(given.data / "queries.npy"), np.load(given.data / "query_lengths.npy").cumsum()[:-1])
    for line in sys.stdin:
        verb, *numbers = line.split()
        answer = _build(engine, given) if verb == "build" else _search(engine, queries[int(numbers[0])])
        answers.write(json.dumps(answer) + "\n")


def _build(engine: Engine, given: Settings) -> dict[str, Any]:
    vectors, lengths = np.load(given.data / "vectors.npy"), np.load(given.data / "lengths.npy")
    start = time.perf_counter()
    engine.build(vectors, lengths)
    seconds = time.perf_counter() - start
    files = [path for path in given.index.rglob("*") if path.is_file()]
    return {"seconds": seconds, "bytes": sum(path.stat().st_size for path in files)}


def _search(engine: Engine, query: Any) -> dict[str, Any]:
    start = time.perf_counter()
    ids = engine.search(query)
    return {"seconds": time.perf_counter() - start, "ids": ids}
