"""Inputs of the benchmarks: synthetic or real token vectors, their indexes, and the exact answers.

Processes that measure memory import this module, so it imports torch only for exact answers.
"""

from __future__ import annotations

import hashlib
import json
import random
import tempfile
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from baleen.core.parallel import available_cores, chunks
from baleen.core.types import Passage, Query
from baleen.core.vectors import PassageVectors, QueryVectors
from baleen.data import corpus
from baleen.data.claims import read_claims
from baleen.index.index import Index
from baleen.index.protocol import Batch, PassageEncoder

if TYPE_CHECKING:
    from torch import Tensor

Array = npt.NDArray[Any]
Focus = tuple[int | None, int | None]
Item = TypeVar("Item")
Made = TypeVar("Made")

WARM_UP = 10  # searches before the clock starts, which load kernels and allocate scratch memory
CHUNK = 1000  # passages generated at once
TYPES = 2048
TOPIC_SIZE = 20  # passages that share a topic, on average
TYPE_WEIGHT, TOPIC_WEIGHT, NOISE_WEIGHT = 0.8, 0.35, 0.45
RANK_OFFSET = 2.7  # Mandelbrot's, for English: the r-th most frequent word has frequency 1 / (r + 2.7)
QUERY_NOISE = 0.6
BLOCK = 256  # passages scored at once, so that similarities to a query stay in the cache

_CENTRES, _CHUNKS, _QUERIES = range(3)  # separate streams of random numbers


class Dataset(PassageEncoder, Protocol):
    """Passages and their vectors in one order; also the encoder that returns those vectors."""

    @property
    def name(self) -> str: ...
    def __len__(self) -> int: ...
    def pid(self, row: int) -> str: ...
    def passages(self) -> Iterator[Passage]: ...
    def stream(self) -> Iterator[PassageVectors]: ...


class SyntheticCorpus:
    """Synthetic token vectors, generated on the fly, for a corpus of any size.

    A vector is the normalised sum of a *type* (a word, with the skew of word frequencies), a *topic* (of about 20
    passages) and noise.  With the weights above, k-means leaves .31 to .33 of the energy to the residuals, as with real
    token vectors.  Unlike those, the vectors share no common direction.
    """

    def __init__(self, passages: int, length: int = 80, dim: int = 128, seed: int = 0) -> None:
        self.size, self.length, self.dim, self.seed = passages, length, dim, seed
        self._kept: tuple[int, Array] | None = None

    def __len__(self) -> int:
        return self.size

    @property
    def name(self) -> str:
        return f"synthetic-{self.size}"

    @property
    def focus(self) -> tuple[int | None, int | None]:
        return 32, 8

    @property
    def fingerprint(self) -> str:
        weights = (TYPES, TOPIC_SIZE, TYPE_WEIGHT, TOPIC_WEIGHT, NOISE_WEIGHT, RANK_OFFSET, CHUNK)
        parts = ("synthetic", self.size, self.length, self.dim, self.seed, *weights)
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def pid(self, row: int) -> str:
        return str(row)

    def passages(self) -> Iterator[Passage]:
        return (Passage(str(row), f"Passage {row}", "Made up.", ((0, 8),)) for row in range(self.size))

    def encode_passages(self, passages: Iterable[Passage]) -> Iterator[Batch]:
        """Return the vectors of passages from `passages`, chunk by chunk."""
        groups = ((number, list(group)) for number, group in groupby(passages, key=lambda p: int(p.pid) // CHUNK))
        for batch, vectors in _ahead(groups, lambda group: (group[1], self.chunk(group[0]))):
            yield batch, self._flat(vectors[[int(passage.pid) % CHUNK for passage in batch]])

    def stream(self) -> Iterator[PassageVectors]:
        """Yield every vector in order, a chunk at a time."""
        return map(self._flat, _ahead(range(-(-self.size // CHUNK)), self.chunk))

    def _flat(self, vectors: Array) -> PassageVectors:
        return PassageVectors(vectors.reshape(-1, self.dim), np.full(len(vectors), self.length, np.int32))

    def chunk(self, number: int) -> Array:
        """Vectors from passage CHUNK * number on, in any order of calls: (passages, length, dim) float16."""
        count = min(CHUNK, self.size - number * CHUNK)
        random = _random(self.seed, _CHUNKS, number)
        topics = self._topics[random.integers(len(self._topics), size=count)]  # (passages, dim)
        types = np.searchsorted(self._type_shares, random.random((count, self.length)))
        vectors = random.standard_normal((count, self.length, self.dim), dtype=np.float32)
        vectors *= NOISE_WEIGHT / np.sqrt(self.dim, dtype=np.float32)  # of about unit length, then weighted
        vectors += self._types[types]
        vectors += topics[:, None]
        vectors /= np.sqrt(np.einsum("pld,pld->pl", vectors, vectors))[..., None]
        return vectors.astype(np.float16)

    def queries(self, count: int, vectors: int = 64, *, facts: int = 0, seed: int = 0) -> list[QueryVectors]:
        """Return queries that are noisy samples of one passage's vectors; their facts are of the next passage."""
        random = _random(self.seed, _QUERIES, seed)
        targets = np.sort(random.integers(self.size, size=count)).tolist()
        return [
            QueryVectors(self._echo(random, target, vectors), self._echo(random, (target + 1) % self.size, facts))
            for target in targets
        ]

    def _echo(self, random: np.random.Generator, row: int, count: int) -> npt.NDArray[np.float32]:
        if count == 0:
            return np.empty((0, self.dim), np.float32)
        drawn = self._passage(row)[random.integers(self.length, size=count)].astype(np.float32)
        noise = random.standard_normal(drawn.shape, dtype=np.float32)
        return _unit(drawn + QUERY_NOISE * _unit(noise))

    def _passage(self, row: int) -> Array:
        number = row // CHUNK
        if self._kept is None or self._kept[0] != number:  # queries come in the order of their passages
            self._kept = (number, self.chunk(number))
        passage: Array = self._kept[1][row % CHUNK]
        return passage

    @cached_property
    def _types(self) -> Array:
        """(TYPES, dim), weighted."""
        random = _random(self.seed, _CENTRES, 0)
        return TYPE_WEIGHT * _unit(random.standard_normal((TYPES, self.dim), dtype=np.float32))

    @cached_property
    def _topics(self) -> Array:
        """(topics, dim), weighted: about 25 MB for a million passages."""
        count = max(1, self.size // TOPIC_SIZE)
        random = _random(self.seed, _CENTRES, 1)
        return TOPIC_WEIGHT * _unit(random.standard_normal((count, self.dim), dtype=np.float32))

    @cached_property
    def _type_shares(self) -> Array:
        """(TYPES,): cumulative share of all tokens."""
        frequencies = 1 / (np.arange(1, TYPES + 1) + RANK_OFFSET)
        shares: Array = np.cumsum(frequencies) / frequencies.sum()
        shares[-1] = 1  # despite rounding: a draw is below 1
        return shares


def _ahead(items: Iterable[Item], make: Callable[[Item], Made]) -> Iterator[Made]:
    """Map `make` over the items in order in threads, which random number generation does not block."""
    workers = min(8, available_cores())
    waiting: deque[Future[Made]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for item in items:
            waiting.append(pool.submit(make, item))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _random(*key: int) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(key))


def _unit(vectors: Array) -> npt.NDArray[np.float32]:
    unit: npt.NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return unit


class RealVectors:
    """Passages with given vectors, so that all engines are measured on the same ones; an encoder for an index."""

    def __init__(
        self,
        name: str,
        passages: Sequence[Passage],
        vectors: PassageVectors,
        queries: Sequence[QueryVectors],
        *,
        fingerprint: str,
        focus: Focus,
    ) -> None:
        self.name, self.fingerprint, self.focus, self.dim = name, fingerprint, focus, vectors.dim
        self._passages, self._vectors, self._queries = passages, vectors, queries
        self._rows = {passage.pid: row for row, passage in enumerate(passages)}

    @classmethod
    def encode(
        cls,
        path: str | Path,
        checkpoint: str | Path,
        questions: str | Path | None = None,
        *,
        queries: int = 100,
        limit: int | None = None,
    ) -> RealVectors:
        """Encode the first `limit` passages of a collection and `queries` questions from a file (or its sentences)."""
        from baleen.models.encoder import Encoder

        encoder = Encoder.load(checkpoint)
        passages = list(islice(corpus.read_passages(path), limit))
        sentences = (sentence for passage in passages for sentence in passage.sentences if sentence.strip())
        texts = [claim.text for claim in read_claims(Path(questions))] if questions else list(sentences)
        drawn = random.Random(0).sample(texts, min(queries, len(texts)))
        parts = [vectors for _, vectors in encoder.encode_passages(passages)]
        vectors = PassageVectors(
            np.concatenate([part.vectors for part in parts]), np.concatenate([part.lengths for part in parts])
        )
        asked = encoder.encode_queries([Query(text) for text in drawn])
        name = Path(path).name.partition(".")[0]
        return cls(name, passages, vectors, asked, fingerprint=encoder.fingerprint, focus=encoder.focus)

    @property
    def digest(self) -> str:
        """A digest of the vectors."""
        return hashlib.sha256(np.ascontiguousarray(self._vectors.vectors).data).hexdigest()

    def __len__(self) -> int:
        return len(self._passages)

    def pid(self, row: int) -> str:
        return self._passages[row].pid

    def passages(self) -> Iterator[Passage]:
        return iter(self._passages)

    def queries(self, count: int) -> list[QueryVectors]:
        """The first `count` questions, or all if there are fewer."""
        return list(self._queries[:count])

    def stream(self) -> Iterator[PassageVectors]:
        yield self._vectors

    def encode_passages(self, passages: Iterable[Passage]) -> Iterator[Batch]:
        for batch in chunks(passages, CHUNK):
            yield batch, PassageVectors.of([self._vectors[self._rows[passage.pid]] for passage in batch])


# Exact answers


def exact_top(vectors: Iterable[PassageVectors], queries: Sequence[QueryVectors], k: int, focus: Focus) -> Array:
    """Rows of the passages with the highest focused scores, best first: (queries, at most k) int64.

    Passages are streamed and scored for all queries at once, so memory does not grow with the corpus.
    """
    import torch

    with torch.inference_mode():
        best = torch.empty((len(queries), 0))
        rows = torch.empty((len(queries), 0), dtype=torch.int64)
        first = 0
        for block in blocks(vectors):
            scores = torch.stack([score(query, block, focus) for query in queries])  # (queries, passages)
            numbers = torch.arange(first, first + len(block)).expand(len(queries), -1)
            best, rows = torch.cat([best, scores], dim=1), torch.cat([rows, numbers], dim=1)
            best, order = best.topk(min(k, best.shape[1]), dim=1)
            rows = rows.gather(1, order)
            first += len(block)
        return rows.numpy()


def score(query: QueryVectors, block: Tensor, focus: Focus) -> Tensor:
    """Focused scores of one query with passages (p, m, d) of a block: (p,)."""
    import torch

    from baleen.index.scoring import focused_score

    claim, facts = (torch.from_numpy(part)[None] for part in (query.query, query.facts))
    return focused_score(claim, None, facts, None, block, None, query_focus=focus[0], facts_focus=focus[1])[0]


def blocks(vectors: Iterable[PassageVectors]) -> Iterator[Tensor]:
    """Yield passages as (p, m, d) float32, p up to BLOCK; a shorter one repeats its last vector (same maxima)."""
    import torch

    for part in vectors:
        for first in range(0, len(part), BLOCK):
            lengths = part.lengths[first : first + BLOCK]
            places = np.minimum(np.arange(lengths.max(initial=0)), lengths[:, None] - 1)
            rows = part.offsets[first : first + len(lengths), None] + places
            yield torch.from_numpy(part.vectors[rows].astype(np.float32))


def recall(found: Sequence[Collection[str]], expected: Sequence[Collection[str]]) -> float:
    """Mean share of the expected items that were found, over queries."""
    shares = [len({*have} & {*want}) / len(want) for have, want in zip(found, expected, strict=True)]
    return sum(shares) / len(shares)


# Workloads


@dataclass(frozen=True, eq=False)
class Workload:
    """A dataset, its queries, and the folder of its indexes and exact answers."""

    data: Dataset
    queries: Sequence[QueryVectors]
    folder: Path

    @property
    def measured(self) -> Sequence[QueryVectors]:
        return split_warm_up(self.queries)[1]

    def built(self, bits: int, device: str = "cpu") -> tuple[Index, float]:
        """Build the index, or open the one that exists; return it with the seconds that building took."""
        root, note = self.folder / f"{bits}-bits.index", self.folder / f"{bits}-bits.json"
        if not note.exists():
            warm_up()
            encoder = _Clocked(self.data)
            start = time.perf_counter()
            Index.build(root, self.data.passages(), encoder, bits=bits, overwrite=True, device=device)
            note.write_text(json.dumps({"build_s": time.perf_counter() - start - encoder.seconds}))
        return Index.open(root), float(json.loads(note.read_text())["build_s"])

    def expected(self, k: int) -> list[tuple[str, ...]]:
        """Ids of the exact best passages of each measured query; kept beside the indexes."""
        parts = [part.tobytes() for query in self.measured for part in (query.query, query.facts)]
        file = self.folder / f"exact-{k}-{hashlib.sha256(b''.join(parts)).hexdigest()[:16]}.npy"
        if not file.exists():
            np.save(file, exact_top(self.data.stream(), self.measured, k, self.data.focus))
        return [tuple(map(self.data.pid, rows)) for rows in np.load(file).tolist()]


class _Clocked:
    """A dataset as an encoder that counts the seconds spent on making its vectors."""

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


@contextmanager
def synthetic(size: int, queries: int, work_dir: Path | None = None) -> Iterator[Workload]:
    """A synthetic workload; its indexes are kept in `work_dir`, or temporary."""
    data = SyntheticCorpus(size)
    with _folder(work_dir, data.fingerprint) as folder:
        yield Workload(data, data.queries(queries + WARM_UP), folder)


@contextmanager
def real(data: RealVectors, work_dir: Path | None = None) -> Iterator[Workload]:
    """A workload of encoded passages and all their questions."""
    with _folder(work_dir, data.fingerprint + data.digest) as folder:
        yield Workload(data, data.queries(len(data)), folder)


@contextmanager
def _folder(work_dir: Path | None, key: str) -> Iterator[Path]:
    if work_dir is None:
        with tempfile.TemporaryDirectory(prefix="baleen-bench-") as temporary:
            yield Path(temporary)
    else:
        folder = work_dir / hashlib.sha256(key.encode()).hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
        yield folder


def split_warm_up(queries: Sequence[QueryVectors]) -> tuple[Sequence[QueryVectors], Sequence[QueryVectors]]:
    """Split queries into those that warm up and those that are measured: all of them when they are few."""
    few = len(queries) <= 2 * WARM_UP
    return queries[:WARM_UP], queries if few else queries[WARM_UP:]


@cache
def warm_up() -> None:
    """Build a small index: the first build on a machine compiles kernels, which later ones load from disk."""
    data = SyntheticCorpus(64, 8)
    with tempfile.TemporaryDirectory(prefix="baleen-bench-") as folder:
        Index.build(Path(folder) / "small.index", data.passages(), data)
