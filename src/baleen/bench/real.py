"""Token vectors of a real corpus and its questions, encoded once, so that all is measured on the same vectors."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from baleen import corpus
from baleen.errors import CorpusError
from baleen.index.segment import Batch
from baleen.types import Passage, Query
from baleen.vectors import PassageVectors, QueryVectors

CHUNK = 1000
QUESTION_KEYS = ("question", "claim", "text")


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
        texts = read_questions(questions) if questions else _sentences(passages)
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


def read_questions(path: str | Path) -> list[str]:
    """The questions of a JSONL file, or of a JSON file that is a list: objects with `question`, `claim` or `text`."""
    content = Path(path).read_text("utf-8")
    try:
        lines = [line for line in content.splitlines() if line.strip()]
        records = json.loads(content) if content.lstrip().startswith("[") else [json.loads(line) for line in lines]
    except json.JSONDecodeError as error:
        raise CorpusError(f"{path}: not JSON ({error}); expected a list of objects, or one object a line") from None
    return [_question(record, path) for record in records]


def _question(record: Any, path: str | Path) -> str:
    for key in QUESTION_KEYS:
        if isinstance(record, dict) and isinstance(record.get(key), str) and record[key].strip():
            return str(record[key])
    raise CorpusError(f"{path}: an entry without a question; expected an object with {' or '.join(QUESTION_KEYS)}")


def _sentences(passages: Iterable[Passage]) -> list[str]:
    return [sentence for passage in passages for sentence in passage.sentences if sentence.strip()]
