"""Token vectors of a real corpus and its questions, encoded once, so that all is measured on the same vectors."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from baleen import corpus
from baleen.claims import read_claims
from baleen.index.segment import Batch
from baleen.types import Passage, Query
from baleen.vectors import PassageVectors, QueryVectors

CHUNK = 1000


class RealVectors:
    """Passages with vectors that are there already; an index takes it for an encoder."""

    def __init__(
        self,
        name: str,
        passages: Sequence[Passage],
        vectors: PassageVectors,
        queries: Sequence[QueryVectors],
        *,
        fingerprint: str,
        focus: tuple[int | None, int | None],
    ) -> None:
        self.name, self.fingerprint, self.focus = name, fingerprint, focus
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
        seed: int = 0,
    ) -> RealVectors:
        """Encode the first `limit` passages of a collection, and `queries` questions drawn from a file.

        Without a file of questions, sentences of the collection stand in for them.
        """
        from baleen.encoder import Encoder

        encoder = Encoder.load(checkpoint)
        passages = list(islice(corpus.read(path), limit))
        texts = [claim.text for claim in read_claims(Path(questions))] if questions else _sentences(passages)
        drawn = random.Random(seed).sample(texts, min(queries, len(texts)))
        parts = [vectors for _, vectors in encoder.encode_passages(passages)]
        return cls(
            Path(path).name.partition(".")[0],
            passages,
            PassageVectors(
                np.concatenate([part.vectors for part in parts]), np.concatenate([p.lengths for p in parts])
            ),
            encoder.encode_queries([Query(text) for text in drawn]),
            fingerprint=encoder.fingerprint,
            focus=encoder.focus,
        )

    @property
    def dim(self) -> int:
        return self._vectors.dim

    @property
    def digest(self) -> str:
        """Of the vectors, and so of all that exact answers depend on but the queries."""
        return hashlib.sha256(np.ascontiguousarray(self._vectors.vectors).data).hexdigest()

    def __len__(self) -> int:
        return len(self._passages)

    def pid(self, row: int) -> str:
        return self._passages[row].pid

    def passages(self) -> Iterator[Passage]:
        return iter(self._passages)

    def queries(self, count: int) -> list[QueryVectors]:
        """The first `count` questions, or as many as there are."""
        return list(self._queries[:count])

    def stream(self) -> Iterator[PassageVectors]:
        yield self._vectors

    def encode_passages(self, passages: Iterable[Passage]) -> Iterator[Batch]:
        source = iter(passages)
        while batch := list(islice(source, CHUNK)):
            yield batch, PassageVectors.of([self._vectors[self._rows[passage.pid]] for passage in batch])


def _sentences(passages: Iterable[Passage]) -> list[str]:
    return [sentence for passage in passages for sentence in passage.sentences if sentence.strip()]
