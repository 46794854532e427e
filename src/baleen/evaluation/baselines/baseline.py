"""The protocol of baselines, and opening one by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, get_args

from baleen.core.errors import ConfigError
from baleen.core.progress import track
from baleen.core.types import Hit, Ranking
from baleen.evaluation.collection import Collection, IndexedCorpus


class Baseline(Protocol):
    """`settings` are everything that its rankings depend on except the passages."""

    settings: dict[str, Any]

    def rank(self, texts: Sequence[str], k: int) -> list[Ranking]:
        """Rank up to k passages for each text."""
        ...


def ranking_of(pids: Sequence[str], rows: Sequence[int], scores: Sequence[float]) -> Ranking:
    """Sort rows of `pids` by score, then by pid."""
    hits = [Hit(pids[row], score) for row, score in zip(rows, scores, strict=True)]
    return Ranking(tuple(sorted(hits, key=lambda hit: (-hit.score, hit.pid))))


Name = Literal["bm25", "dense", "colbert", "rerank"]
NAMES = get_args(Name)


@dataclass(frozen=True)
class BaselineConfig:
    """Settings of a baseline.

    `model` is a Hugging Face encoder for "dense", a retriever for "colbert" and a reranker for "rerank", which reranks
    the results of the baseline `first` with `first_model`.  `instruction` is put before the questions of "dense".
    `exact` makes "colbert" score all passages of an index.
    """

    name: Name = "bm25"
    model: str | None = None
    first: Name = "bm25"
    first_model: str | None = None
    instruction: str = ""
    exact: bool = False
    device: str | None = None

    def __post_init__(self) -> None:
        for setting in ("name", "first"):
            if getattr(self, setting) not in NAMES:
                raise ConfigError(f"{setting} = {getattr(self, setting)!r}; expected one of {', '.join(NAMES)}")
        if self.first == "rerank":
            raise ConfigError("first = 'rerank', which needs a first baseline itself; expected bm25, dense or colbert")
        if self.name == "dense" and self.model is None:
            raise ConfigError("the baseline dense needs a model: a Hugging Face encoder's folder or name")


def open_baseline(config: BaselineConfig, collection: Collection) -> Baseline:
    """Load a baseline and index or encode the passages; its libraries are imported only here."""
    if config.name == "bm25":
        from baleen.evaluation.baselines.bm25 import BM25

        return BM25(collection)
    if config.name == "dense":
        from baleen.evaluation.baselines.dense import Dense, SingleVectorEncoder

        assert config.model is not None
        encoder = SingleVectorEncoder(config.model, config.device)
        return Dense(track(collection, "encoding", unit="passages"), encoder, config.instruction)
    return _open_colbert(config, collection) if config.name == "colbert" else _open_rerank(config, collection)


def _open_colbert(config: BaselineConfig, collection: Collection) -> Baseline:
    from baleen.evaluation.baselines.colbert import ColBERT, IndexedColBERT
    from baleen.hops.demo import default_model
    from baleen.hops.retriever import Retriever
    from baleen.models.encoder import Encoder

    encoder = Encoder.load(config.model or default_model(), device=config.device)
    if isinstance(collection, IndexedCorpus):
        return IndexedColBERT(Retriever(encoder, collection.index), config.exact)
    return ColBERT(track(collection, "encoding", unit="passages"), encoder)


def _open_rerank(config: BaselineConfig, collection: Collection) -> Baseline:
    from baleen.evaluation.baselines.rerank import Reranked
    from baleen.hops.demo import default_model
    from baleen.models.checkpoint import resolve_folder
    from baleen.models.folder import component_folder

    first = open_baseline(replace(config, name=config.first, model=config.first_model), collection)
    folder = component_folder(resolve_folder(config.model or default_model()), "reranker")
    return Reranked.load(folder, first, collection.passage, config.device)
