"""Late interaction as ColBERT has it, in a single hop: the best match of every query vector is summed, without focus."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from baleen.config import to_mapping
from baleen.encoder import Encoder
from baleen.errors import QueryError
from baleen.retriever import Retriever
from baleen.training.mining import Haystack, TokenisedCorpus
from baleen.types import Passage, Query, Ranking

NO_FOCUS = (None, None)


class ColBERT:
    """Exact search over the token vectors of a corpus, which are held in the memory of the encoder's device."""

    def __init__(self, passages: Iterable[Passage], encoder: Encoder) -> None:
        self.settings = {"exact": True, **_settings(encoder)}
        corpus = TokenisedCorpus.of(encoder.inputs, passages)
        if not len(corpus):
            raise QueryError("there is no passage to rank")
        query_focus, facts_focus = NO_FOCUS
        self._haystack = Haystack(encoder.with_settings(query_focus=query_focus, facts_focus=facts_focus), corpus)

    def rank(self, texts: Sequence[str], k: int) -> list[Ranking]:
        return self._haystack.rank([Query(text) for text in texts], k)


class IndexedColBERT:
    """The same score over an index, of the likely passages or, if `exact`, of every one."""

    def __init__(self, retriever: Retriever, exact: bool = False) -> None:
        self.settings = {"exact": exact, **_settings(retriever.encoder)}
        self._retriever, self._exact = retriever, exact

    def rank(self, texts: Sequence[str], k: int) -> list[Ranking]:
        return self._retriever.search_many(list(texts), k, focus=NO_FOCUS, exact=self._exact)


def _settings(encoder: Encoder) -> dict[str, Any]:
    return {"model": encoder.fingerprint[:16], "encoder": to_mapping(encoder.config)}
