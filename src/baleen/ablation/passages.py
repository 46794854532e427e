"""The passages of a collection, told from any others: an index or results over others are of no use to an ablation."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from baleen.evaluation.collection import Indexed
from baleen.index import Index
from baleen.types import Passage


@dataclass(frozen=True)
class Passages:
    """A collection's passages: how many there are, and a digest that tells them from any others."""

    count: int
    digest: str


class PassageDigest:
    """Of ids, titles and sentences in their order, so that neither a file's name nor its compression counts."""

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=16)

    def noting(self, passages: Iterable[Passage]) -> Iterator[Passage]:
        """The passages as they come, noted on their way."""
        for passage in passages:
            told = json.dumps([passage.pid, passage.title, passage.sentences], ensure_ascii=False)
            self._digest.update(told.encode())
            yield passage

    @property
    def told(self) -> str:
        return self._digest.hexdigest()


def digest_of(index: Index) -> str:
    """What the manifest says, or that of the passages themselves where it says nothing: `baleen index` leaves it out."""
    told = index.manifest.settings.get("corpus")
    if told is not None:
        return str(told)
    digest = PassageDigest()
    deque(digest.noting(Indexed(index)), maxlen=0)
    return digest.told
