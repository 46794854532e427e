"""Passages to evaluate over: corpus files in memory, or an index."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol, Self

import numpy as np

from baleen.core.errors import QueryError
from baleen.core.progress import track
from baleen.core.types import Passage
from baleen.data.corpus import read_passages
from baleen.data.gold import Catalogue
from baleen.index.index import Index


class Collection(Protocol):
    """Passages by id; `fingerprint` is a digest of all of them."""

    fingerprint: str

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Passage]: ...

    def passage(self, pid: str) -> Passage: ...


class Corpus:
    """Passages in memory."""

    def __init__(self, passages: Iterable[Passage]) -> None:
        digest = hashlib.blake2b(digest_size=8)
        self._passages: dict[str, Passage] = {}
        for passage in passages:
            digest.update(json.dumps([passage.pid, passage.title, passage.sentences], ensure_ascii=False).encode())
            self._passages[passage.pid] = passage
        self.fingerprint = digest.hexdigest()

    @classmethod
    def read(cls, paths: Iterable[Path]) -> Self:
        return cls(track(read_passages(paths), "reading", unit="passages"))

    def __len__(self) -> int:
        return len(self._passages)

    def __iter__(self) -> Iterator[Passage]:
        return iter(self._passages.values())

    def passage(self, pid: str) -> Passage:
        try:
            return self._passages[pid]
        except KeyError:
            raise QueryError(f"no passage of the corpus has the id '{pid}'; expected a run over this corpus") from None


class IndexedCorpus:
    """The passages of an index that are not deleted, read on demand."""

    def __init__(self, index: Index) -> None:
        self.index = index
        manifest = json.dumps(index.manifest.to_json(), sort_keys=True)
        self.fingerprint = hashlib.blake2b(manifest.encode(), digest_size=8).hexdigest()

    def __len__(self) -> int:
        return len(self.index)

    def __iter__(self) -> Iterator[Passage]:
        for segment in self.index.segments:  # row by row: faster than by id
            yield from map(segment.store.passage, np.flatnonzero(segment.alive).tolist())

    def passage(self, pid: str) -> Passage:
        return self.index.passage(pid)


def catalogue(collection: Collection) -> Catalogue:
    return Catalogue.of(track(collection, "cataloguing", total=len(collection), unit="passages"))
