"""Query -> Ranking: an encoder and an index that it made, put together.

retriever = Retriever.load("model folder or name", "wiki.index")
ranking = retriever.search("Which mission used the Berkut spacesuit?", k=10)
retriever.passage(ranking[0].pid).sentences
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from baleen.core.errors import QueryError
from baleen.core.machine import StageTimer
from baleen.core.types import Passage, Query, Ranking, reject_string, valid_unicode
from baleen.index.index import Index
from baleen.index.protocol import Searchable, SearchOptions, check_encoder
from baleen.models.device import Precision
from baleen.models.encoder import Encoder


@dataclass(frozen=True)
class Retrieval:
    """A ranking, the query as the encoder read it (`encoded_query`), and what that cost, by stage.

    `mentioned` has the passages of the ranking that were favoured for being named, with what names each (`follower.py`).
    """

    ranking: Ranking
    encoded_query: str
    seconds: Mapping[str, float]
    tokens: Mapping[str, int]
    mentioned: Mapping[str, str] = field(default_factory=dict)


class Retriever:
    """Refuses an index that another encoder made; takes the focus of its own encoder."""

    def __init__(self, encoder: Encoder, index: Searchable) -> None:
        check_encoder(index, encoder.fingerprint)
        self.encoder, self.index = encoder, index

    @classmethod
    def load(
        cls,
        model: str | Path | None = None,
        index: str | Path | None = None,
        *,
        device: str | None = None,
        threads: int | None = None,
        precision: Precision | None = None,
    ) -> Self:
        """A model by folder or name, and an index that it made; without either, the embedded default's.

        `device` is where both compute, `precision` the arithmetic of the model: None for the device's best.
        """
        from baleen.hops.demo import default_index, default_model

        if index is not None:
            Index.open(index)  # a wrong folder should be told before a model is loaded
        encoder = Encoder.load(model if model is not None else default_model(), device=device, precision=precision)
        folder = index if index is not None else default_index(encoder)
        return cls(encoder, Index.open(folder, device=str(encoder.device), threads=threads))

    def search(self, query: Query | str, k: int = 10, *, exclude: Collection[str] = (), **options: Any) -> Ranking:
        """The k best passages for a query and its facts; `options` are those of `SearchOptions`."""
        return self.search_many([query], k, exclude=[exclude], **options)[0]

    def search_many(self, queries: Sequence[Query | str], k: int = 10, **options: Any) -> list[Ranking]:
        """Search many queries, encoded in batches and, on a GPU, searched in batches."""
        asked = [Query(query) if isinstance(query, str) else query for query in reject_string(queries, "queries")]
        return [found.ranking for found in self.retrieve(asked, k, **options)]

    def retrieve(self, queries: Sequence[Query], k: int = 10, **options: Any) -> list[Retrieval]:
        """`search_many`, with the text that the encoder read, seconds and tokens; a misspelt option is a TypeError."""
        request = SearchOptions(**options)
        request = replace(request, focus=request.focus or self.encoder.focus)
        _check(queries, request)
        watch = StageTimer(len(queries))
        with watch("encode"):
            rows = self.encoder.inputs.query_ids(queries)
            vectors = self.encoder.encode_query_ids(rows)
        with watch("search"):
            rankings = self.index.search(vectors, k, request)
        return [
            Retrieval(ranking, self.encoder.inputs.shown(row), watch.seconds, {"encode": len(row)})
            for ranking, row in zip(rankings, rows, strict=True)
        ]

    def passage(self, pid: str) -> Passage:
        """One passage; an unknown id is a QueryError."""
        return self.passages([pid])[0]

    def passages(self, pids: Sequence[str]) -> list[Passage]:
        """Passages, read in one call; an unknown id is a QueryError."""
        found = self.index.passages(pids)
        passages = [passage for passage in found if passage is not None]
        if len(passages) < len(found):
            raise QueryError(f"{self.index}: no passage has the id '{pids[found.index(None)]}'")
        return passages


def _check(queries: Sequence[Query], options: SearchOptions) -> None:
    """Refuse text and ids that are not valid Unicode, and ids for another number of queries; unknown ids are allowed."""
    for query in queries:
        query.checked()
    options.check(len(queries))
    for pid in options.pids:
        valid_unicode(pid)
