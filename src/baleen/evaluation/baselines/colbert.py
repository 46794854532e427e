"""Late interaction as ColBERT has it, in a single hop: the best match of every query vector is summed, without focus."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from baleen.bench.exact import blocks, score
from baleen.config import to_mapping
from baleen.encoder import Encoder
from baleen.errors import QueryError
from baleen.evaluation.baselines.baseline import ranking_of
from baleen.retriever import Retriever
from baleen.types import Passage, Query, Ranking
from baleen.vectors import PassageVectors

NO_FOCUS = (None, None)


class ColBERT:
    """Exact search over the token vectors of a corpus, which are held in memory."""

    def __init__(self, passages: Iterable[Passage], encoder: Encoder) -> None:
        self.settings = {"exact": True, **_settings(encoder)}
        self._encoder, self._pids = encoder, list[str]()
        self._parts: list[PassageVectors] = []
        for chunk, vectors in encoder.encode_passages(passages):
            self._pids += [passage.pid for passage in chunk]
            self._parts.append(vectors)
        if not self._pids:
            raise QueryError("there is no passage to rank")

    def rank(self, texts: Sequence[str], k: int) -> list[Ranking]:
        queries = self._encoder.encode_queries([Query(text) for text in texts])
        with torch.inference_mode():
            parts = [torch.stack([score(query, block, NO_FOCUS) for query in queries]) for block in blocks(self._parts)]
            best = torch.cat(parts, dim=1).topk(min(k, len(self._pids)), dim=1)  # (queries, k) of (queries, passages)
        return [ranking_of(self._pids, *pair) for pair in zip(best.indices.tolist(), best.values.tolist(), strict=True)]


class IndexedColBERT:
    """The same score over an index, of the likely passages or, if `exact`, of every one."""

    def __init__(self, retriever: Retriever, exact: bool = False) -> None:
        self.settings = {"exact": exact, **_settings(retriever.encoder)}
        self._retriever, self._exact = retriever, exact

    def rank(self, texts: Sequence[str], k: int) -> list[Ranking]:
        return self._retriever.search_many(list(texts), k, focus=NO_FOCUS, exact=self._exact)


def _settings(encoder: Encoder) -> dict[str, Any]:
    return {"model": encoder.fingerprint[:16], "encoder": to_mapping(encoder.config)}
