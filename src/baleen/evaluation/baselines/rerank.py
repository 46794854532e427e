"""Reranking of another baseline's results by a cross-encoder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from baleen.core.types import Lookup, Query, Ranking
from baleen.evaluation.baselines.baseline import Baseline
from baleen.hops.reranker import Reranker
from baleen.models.cross_encoder import CrossEncoder


class Reranked:
    """The top k of `first`, reordered by a cross-encoder's scores."""

    def __init__(self, first: Baseline, reranker: Reranker, passage: Lookup, settings: dict[str, Any]) -> None:
        self.settings = settings
        self._first, self._reranker, self._passage = first, reranker, passage

    @classmethod
    def load(cls, folder: Path, first: Baseline, passage: Lookup, device: str | None = None) -> Reranked:
        """Load the reranker in a checkpoint's folder; its config.json contains the hash of its weights."""
        digest = hashlib.blake2b((folder / "config.json").read_bytes(), digest_size=8).hexdigest()
        cross_encoder = CrossEncoder.load(folder, device=device)
        cross_encoder.outputs("reranker")  # refuses a checkpoint without one
        return cls(first, Reranker(cross_encoder), passage, {"model": digest, "first": dict(first.settings)})

    def rank(self, texts: Sequence[str], k: int) -> list[Ranking]:
        found = self._first.rank(texts, k)
        passages = [[self._passage(pid) for pid in ranking.pids] for ranking in found]
        return self._reranker.rank([Query(text) for text in texts], passages)
