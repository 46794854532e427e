"""Token vectors made up on the fly: a corpus of any size that is never held in memory.

A token vector is the sum of a *type* (what word it is; types are as skewed as words are), a *topic* (what its passage
is about; some twenty passages share one) and noise, normalised.  The weights are such that k-means with as many
centroids as an index has leaves .31 to .33 of the energy to the residuals, as it does with real token vectors.  Types
are as many at any size, topics grow with the corpus.  Unlike real vectors, these share no common direction.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from baleen.cores import cores
from baleen.index.segment import Batch
from baleen.types import Passage
from baleen.vectors import PassageVectors, QueryVectors

Array = npt.NDArray[Any]
Item = TypeVar("Item")
Made = TypeVar("Made")

CHUNK = 1000  # passages that are made at once
TYPES = 2048
TOPIC_SIZE = 20  # passages that share a topic, on average
TYPE_WEIGHT, TOPIC_WEIGHT, NOISE_WEIGHT = 0.8, 0.35, 0.45
RANK_OFFSET = 2.7  # Mandelbrot's, for English: the r-th most frequent word has frequency 1 / (r + 2.7)
QUERY_NOISE = 0.6
FOCUS = (32, 8)

_CENTRES, _CHUNKS, _QUERIES = range(3)  # streams of random numbers that must not meet


class SyntheticCorpus:
    """`passages` passages of `length` vectors each, the same for the same seed; an index takes it for an encoder."""

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
        return FOCUS

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
        """The vectors of passages that `passages` made, chunk by chunk."""
        groups = ((number, list(group)) for number, group in groupby(passages, key=lambda p: int(p.pid) // CHUNK))
        for batch, vectors in _ahead(groups, lambda group: (group[1], self.chunk(group[0]))):
            yield batch, self._flat(vectors[[int(passage.pid) % CHUNK for passage in batch]])

    def stream(self) -> Iterator[PassageVectors]:
        """Every vector in order, a chunk at a time."""
        return map(self._flat, _ahead(range(-(-self.size // CHUNK)), self.chunk))

    def _flat(self, vectors: Array) -> PassageVectors:
        return PassageVectors(vectors.reshape(-1, self.dim), np.full(len(vectors), self.length, np.int32))

    def chunk(self, number: int) -> Array:
        """The vectors of passages CHUNK * number on: (passages, length, dim) float16, whatever was made before."""
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
        """Queries that each echo one passage: its vectors, drawn anew, with noise.  Facts echo the passage after it."""
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
        """(topics, dim), weighted: some 25 MB for a million passages."""
        count = max(1, self.size // TOPIC_SIZE)
        random = _random(self.seed, _CENTRES, 1)
        return TOPIC_WEIGHT * _unit(random.standard_normal((count, self.dim), dtype=np.float32))

    @cached_property
    def _type_shares(self) -> Array:
        """(TYPES,): how much of all tokens the types up to each make up."""
        frequencies = 1 / (np.arange(1, TYPES + 1) + RANK_OFFSET)
        shares: Array = np.cumsum(frequencies) / frequencies.sum()
        shares[-1] = 1  # whatever rounding has left: a draw is below 1
        return shares


def _ahead(items: Iterable[Item], make: Callable[[Item], Made]) -> Iterator[Made]:
    """What `make` makes of each item, in order, made in threads a few items ahead: random numbers need no lock."""
    workers = min(8, cores())
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
