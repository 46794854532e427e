"""Late interaction as ColBERT has it, in a single hop: the best match of every query vector is summed, without focus."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from baleen.config import to_mapping
from baleen.encoder import Encoder
from baleen.errors import CorpusError, QueryError
from baleen.index import Index
from baleen.retriever import Retriever
from baleen.types import Passage, Ranking

NO_FOCUS = (None, None)


class IndexedColBERT:
    """The same score over an index, of the likely passages or, if `exact`, of every one."""

    def __init__(self, retriever: Retriever, exact: bool = False) -> None:
        self.settings = {"exact": exact, **_settings(retriever.encoder)}
        self._retriever, self._exact = retriever, exact

    def rank(self, texts: Sequence[str], k: int) -> list[Ranking]:
        return self._retriever.search_many(list(texts), k, focus=NO_FOCUS, exact=self._exact)


class ColBERT(IndexedColBERT):
    """Exact search over a corpus, whose vectors lie in a temporary index at 16 bits, without compression."""

    def __init__(self, passages: Iterable[Passage], encoder: Encoder) -> None:
        folder = mkdtemp(prefix="baleen-colbert-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        try:
            index = Index.build(Path(folder) / "index", passages, encoder, bits=16)
        except CorpusError:
            raise QueryError("there is no passage to rank") from None
        super().__init__(Retriever(encoder, index), exact=True)


def _settings(encoder: Encoder) -> dict[str, Any]:
    return {"model": encoder.fingerprint[:16], "encoder": to_mapping(encoder.config)}
