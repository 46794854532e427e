"""BM25 by bm25s: no English stop words, no stemming, Lucene's variant with k1 = 1.5 and b = 0.75."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from baleen.core.errors import MissingExtraError, QueryError
from baleen.core.types import Passage, Ranking
from baleen.evaluation.baselines.baseline import ranking_of
from baleen.models.markup import passage_text

K1 = 1.5
B = 0.75
METHOD = "lucene"
STOP_WORDS = "en"


class BM25:
    """A word index of `title | text` in memory."""

    def __init__(self, passages: Iterable[Passage]) -> None:
        self._bm25s = _import_bm25s()
        self.settings: dict[str, Any] = {"k1": K1, "b": B, "method": METHOD, "stopwords": STOP_WORDS}
        pids, texts = [], []
        for passage in passages:
            pids.append(passage.pid)
            texts.append(passage_text(passage.title, passage.text))
        if not pids:
            raise QueryError("there is no passage to rank")
        self._pids = pids
        self._index = self._bm25s.BM25(k1=K1, b=B, method=METHOD)
        self._index.index(self._tokens(texts), show_progress=False)

    def rank(self, texts: Sequence[str], k: int) -> list[Ranking]:
        """Rank up to k passages; those that share no word with a text are left out."""
        tokens = self._tokens(list(texts))
        rows, scores = self._index.retrieve(tokens, k=min(k, len(self._pids)), show_progress=False)
        return [
            ranking_of(self._pids, own[values > 0].tolist(), values[values > 0].tolist())
            for own, values in zip(rows, scores, strict=True)
        ]

    def _tokens(self, texts: list[str]) -> Any:
        return self._bm25s.tokenize(texts, stopwords=STOP_WORDS, show_progress=False)


def _import_bm25s() -> Any:
    try:
        import bm25s
    except ImportError:
        raise MissingExtraError.of("bm25s", "eval", "the baseline bm25") from None
    logging.getLogger("bm25s").setLevel(logging.WARNING)  # importing it turns on its debug messages
    return bm25s
