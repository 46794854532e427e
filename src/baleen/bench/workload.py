"""What is measured: a dataset, the queries that are put to it, its indexes, and the exact answers.

A dataset is `SyntheticCorpus` or `RealVectors`.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np

from baleen.bench.exact import exact_top
from baleen.bench.measure import WARM_UP, split_warm_up
from baleen.bench.real import RealVectors
from baleen.bench.synthetic import SyntheticCorpus
from baleen.config import override
from baleen.errors import ConfigError
from baleen.index import Index, PassageEncoder, SearchConfig
from baleen.index.segment import Batch
from baleen.types import Passage
from baleen.vectors import PassageVectors, QueryVectors


@dataclass(frozen=True)
class BenchConfig:
    """What to measure on, and how.

    `corpus` with `checkpoint` measures on a real collection as well, up to `limit` passages of it, with `questions`
    drawn from a file or else sentences of its own.  `probes`, `candidates` and `refined` override a search's defaults.
    A corpus with no more passages than a search refines is searched exactly, and says nothing about approximation.
    Indexes are built on `device` and searched on the CPU.  `work_dir` keeps indexes and exact answers, and takes those that are there.
    """

    sizes: tuple[int, ...] = (20_000, 100_000)
    bits: tuple[int, ...] = (2, 4)
    queries: int = 100
    vectors: int = 64
    facts: int = 0
    k: int = 10
    threads: int | None = None
    device: str = "cpu"
    probes: int | None = None
    candidates: int | None = None
    refined: int | None = None
    seed: int = 0
    exact: bool = True
    growth_sizes: tuple[int, ...] = (20_000, 1_000_000)
    corpus: str | None = None
    checkpoint: str | None = None
    questions: str | None = None
    limit: int | None = None
    work_dir: str | None = None

    def __post_init__(self) -> None:
        if (self.corpus is None) != (self.checkpoint is None):
            raise ConfigError("a corpus is measured with a checkpoint: give both, or neither")
        for name in ("queries", "vectors", "k"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} = {getattr(self, name)} should be at least 1")

    @property
    def search(self) -> SearchConfig:
        return override(SearchConfig(), probes=self.probes, candidates=self.candidates, refined=self.refined)


class Dataset(PassageEncoder, Protocol):
    """Passages and their vectors, in one order: an encoder that has its corpus with it."""

    @property
    def name(self) -> str: ...
    def __len__(self) -> int: ...
    def pid(self, row: int) -> str: ...
    def passages(self) -> Iterator[Passage]: ...
    def stream(self) -> Iterator[PassageVectors]: ...


@dataclass(frozen=True, eq=False)
class Workload:
    """A dataset, what is asked of it, and where its indexes lie."""

    data: Dataset
    queries: Sequence[QueryVectors]
    folder: Path


def workloads(config: BenchConfig) -> Iterator[Workload]:
    """One at a time, largest last; without a `work_dir` the indexes of each are gone when the next one comes."""
    count = config.queries + WARM_UP
    for size in sorted(config.sizes):
        data = SyntheticCorpus(size, seed=config.seed)
        queries = data.queries(count, config.vectors, facts=config.facts, seed=config.seed)
        with _folder(config, data.fingerprint) as folder:
            yield Workload(data, queries, folder)
    if config.corpus is not None and config.checkpoint is not None:
        files = (config.corpus, config.checkpoint, config.questions)
        real = RealVectors.encode(*files, queries=count, limit=config.limit, seed=config.seed)
        with _folder(config, real.fingerprint, real.digest) as folder:
            yield Workload(real, real.queries(count), folder)


@contextmanager
def _folder(config: BenchConfig, *key: str) -> Iterator[Path]:
    """Where the indexes of a dataset lie: kept in the work folder, or temporary."""
    if config.work_dir is None:
        with tempfile.TemporaryDirectory(prefix="baleen-bench-") as temporary:
            yield Path(temporary)
    else:
        folder = Path(config.work_dir) / hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
        yield folder


def built(work: Workload, bits: int, config: BenchConfig) -> tuple[Index, float]:
    """The index of a workload and the seconds that its building took, now or when it was built."""
    root, note = work.folder / f"{bits}-bits.index", work.folder / f"{bits}-bits.json"
    if note.exists():
        return Index.open(root), float(json.loads(note.read_text())["build_s"])
    warm_up()
    encoder = _Clocked(work.data)
    start = time.perf_counter()
    index = Index.build(
        root, work.data.passages(), encoder, bits=bits, seed=config.seed, overwrite=True, device=config.device
    )
    build_s = time.perf_counter() - start - encoder.seconds
    note.write_text(json.dumps({"build_s": build_s}))
    return index, build_s


@cache
def warm_up() -> None:
    """Build a small index and forget it: a machine's first build compiles kernels, which later ones find on disk."""
    data = SyntheticCorpus(64, 8)
    with tempfile.TemporaryDirectory(prefix="baleen-bench-") as folder:
        Index.build(Path(folder) / "small.index", data.passages(), data)


class _Clocked:
    """Stands in for a dataset and counts the seconds that its vectors take to come."""

    def __init__(self, data: Dataset) -> None:
        self.dim, self.fingerprint, self.focus = data.dim, data.fingerprint, data.focus
        self._data, self.seconds = data, 0.0

    def encode_passages(self, passages: Iterable[Passage]) -> Iterator[Batch]:
        batches = self._data.encode_passages(passages)
        while True:
            start = time.perf_counter()
            batch = next(batches, None)
            self.seconds += time.perf_counter() - start
            if batch is None:
                return
            yield batch


def expectations(work: Workload, k: int) -> list[tuple[str, ...]]:
    """The exact best passages of each query that is measured, by id; kept beside the indexes."""
    _, queries = split_warm_up(work.queries)
    digest = hashlib.sha256(b"".join(part.tobytes() for query in queries for part in (query.query, query.facts)))
    file = work.folder / f"exact-{k}-{digest.hexdigest()[:16]}.npy"
    if not file.exists():
        np.save(file, exact_top(work.data.stream(), queries, k, work.data.focus))
    return [tuple(map(work.data.pid, rows)) for rows in np.load(file).tolist()]
