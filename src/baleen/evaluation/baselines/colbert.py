"""ColBERT's late interaction, which sums the best match of every query vector: in one hop, and as ColBERT-Hop.

ColBERT-Hop takes hops without focus, and reranks in place of condensing.  It is the paper's strongest baseline (row F of
its ablation).  Its retriever should be trained without focus, as `experiments/ablation.py` does; others run, but lose
accuracy.
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
    """Search of an index; `exact` scores all its passages."""

    def __init__(self, retriever: Retriever, exact: bool = False) -> None:
        self.settings = {"exact": exact, **_settings(retriever.encoder)}
        self._retriever, self._exact = retriever, exact

    def rank(self, texts: Sequence[str], k: int) -> list[Ranking]:
        return self._retriever.search_many(list(texts), k, focus=NO_FOCUS, exact=self._exact)


class ColBERT(IndexedColBERT):
    """Exact search over a corpus, in a temporary index of 16-bit vectors without compression."""

    def __init__(self, passages: Iterable[Passage], encoder: Encoder) -> None:
        folder, device = mkdtemp(prefix="baleen-colbert-"), str(encoder.device)
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        root = Path(folder) / "index"
        try:
            Index.build(root, passages, encoder, bits=16, device=device)
        except CorpusError:
            raise QueryError("there is no passage to rank") from None
        super().__init__(Retriever(encoder, Index.open(root, device=device)), exact=True)


def _settings(encoder: Encoder) -> dict[str, Any]:
    return {"model": encoder.fingerprint[:16], "encoder": to_mapping(encoder.config)}


NAME = "colbert-hop"
OPTIONS: dict[str, Any] = {"pipeline": "rerank", "untrained": False, "ranked_by": "hops", "mention_boost": 0.0}


def colbert_hop(system: Baleen) -> Baleen:
    """The same model and index, without focus."""
    encoder = system.retriever.encoder.with_settings(query_focus=None, facts_focus=None)
    return Baleen(system.model, Retriever(encoder, system.retriever.index), system.config)
