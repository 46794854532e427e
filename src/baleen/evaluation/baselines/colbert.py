"""Late interaction as ColBERT has it, in a single hop: the best match of every query vector is summed, without focus.

ColBERT-Hop: hops as a system takes them, with late interaction that has no focus and a reranker for a condenser.

The paper's strongest baseline: row F of its ablation.  Its retriever is one that was trained without focus, as
`experiments/ablation.py` trains it; any other model will run so too, at the cost of what it learnt to expect.
"""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from baleen.core.config import to_mapping
from baleen.core.errors import CorpusError, QueryError
from baleen.core.types import Passage, Ranking
from baleen.hops.retriever import Retriever
from baleen.index.index import Index
from baleen.models.encoder import Encoder
from baleen.system import Baleen

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


NAME = "colbert-hop"
OPTIONS: dict[str, Any] = {"pipeline": "rerank", "untrained": False, "ranked_by": "hops", "mention_boost": 0.0}


def colbert_hop(system: Baleen) -> Baleen:
    """The same model over the same index, with every query vector counted."""
    encoder = system.retriever.encoder.with_settings(query_focus=None, facts_focus=None)
    return Baleen(system.model, Retriever(encoder, system.retriever.index), system.config)
