"""Query -> ranking: an encoder over an index.

retriever = Retriever.load("model folder or name", "wiki.index")
ranking = retriever.search("Which mission used the Berkut spacesuit?", k=10)
retriever.passage(ranking[0].pid).sentences
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self, TypedDict, Unpack

from baleen.core.config import override
from baleen.core.errors import QueryError
from baleen.core.machine import StageTimer
from baleen.core.types import Condensed, Hop, Passage, Query, Ranking, reject_string, valid_unicode
from baleen.index.index import Index
from baleen.index.protocol import DEFAULT_OPTIONS, Focus, Searchable, SearchOptions, Where, check_encoder
from baleen.models.device import Precision, resolve_device
from baleen.models.encoder import Encoder


class CommonSearchOptions(TypedDict, total=False):
    """The fields of `SearchOptions` that hold for all queries, as keyword arguments."""

    boost: float
    allow: Collection[str] | None
    where: Where
    focus: Focus | None
    exact: bool
    probes: int | None
    candidates: int | None
    refined: int | None


class BatchSearchOptions(CommonSearchOptions, total=False):
    """The fields of `SearchOptions` as keyword arguments."""

    exclude: Sequence[Collection[str]]
    boosted: Sequence[Collection[str]]


@dataclass(frozen=True)
class Retrieval:
    """A ranking, the query as the encoder read it, and seconds and tokens by stage.

    `mentioned` has the boosted passages of the ranking, each with the id of the passage that mentions its title.
    """

    ranking: Ranking
    encoded_query: str
    seconds: Mapping[str, float]
    tokens: Mapping[str, int]
    mentioned: Mapping[str, str] = field(default_factory=dict)

    def hop(self, query: Query, excluded: tuple[str, ...], passages: Sequence[Passage], condensed: Condensed) -> Hop:
        """The hop that retrieved these passages for a query and condensed them."""
        return Hop(
            query=query,
            encoded_query=self.encoded_query,
            excluded=excluded,
            ranking=self.ranking,
            titles={passage.pid: passage.title for passage in passages},
            condensed=condensed,
            seconds=self.seconds,
            tokens=self.tokens,
            mentioned=self.mentioned,
        )


class Retriever:
    """An encoder over an index of its vectors; an index of another encoder is refused."""

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
        """Load a model by folder or name, and open its index; both default to the embedded ones.

        `device` is where both compute, `precision` the arithmetic of the model; None is the best for the device.
        """
        from baleen.hops.demo import default_model

        opened = open_index(index, device, threads)
        encoder = Encoder.load(model if model is not None else default_model(), device=device, precision=precision)
        return cls(encoder, opened if opened is not None else open_demo_index(encoder, threads))

    def pinned(self) -> Self:
        """This retriever over the present state of its index, for all hops of a run: later changes are not seen."""
        pinned = copy(self)
        pinned.index = self.index.snapshot if isinstance(self.index, Index) else self.index
        return pinned

    def search(
        self,
        query: Query | str,
        k: int = 10,
        *,
        exclude: Collection[str] = (),
        boosted: Collection[str] = (),
        **options: Unpack[CommonSearchOptions],
    ) -> Ranking:
        """The k best passages for a query and its facts."""
        return self.search_many([query], k, exclude=[exclude], boosted=[boosted], **options)[0]

    def search_many(
        self, queries: Sequence[Query | str], k: int = 10, **options: Unpack[BatchSearchOptions]
    ) -> list[Ranking]:
        """Search many queries, encoded in batches and, on a GPU, searched in batches."""
        request = override(DEFAULT_OPTIONS, **options)
        asked = [Query(query) if isinstance(query, str) else query for query in reject_string(queries, "queries")]
        return [found.ranking for found in self.retrieve(asked, k, request)]

    def retrieve(
        self, queries: Sequence[Query], k: int = 10, options: SearchOptions = DEFAULT_OPTIONS
    ) -> list[Retrieval]:
        """Rankings with the queries as the encoder read them, seconds and tokens."""
        request = replace(options, focus=options.focus or self.encoder.focus)
        _check(queries, request)
        watch = StageTimer(len(queries))
        with watch("encode"):
            rows = self.encoder.inputs.query_ids(queries)
            vectors = self.encoder.encode_query_ids(rows)
        with watch("search"):
            rankings = self.index.search(vectors, k, request)
        return [
            Retrieval(ranking, self.encoder.inputs.decode_query(row), watch.seconds, {"encode": len(row)})
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


def open_index(index: str | Path | None, device: str | None, threads: int | None) -> Index | None:
    """Open an index before a model is loaded, so that a wrong folder is reported first."""
    return None if index is None else Index.open(index, device=str(resolve_device(device)), threads=threads)


def open_demo_index(encoder: Encoder, threads: int | None) -> Index:
    """Open the index of the demonstration corpus for an encoder."""
    from baleen.hops.demo import default_index

    return Index.open(default_index(encoder), device=str(encoder.device), threads=threads)


def _check(queries: Sequence[Query], options: SearchOptions) -> None:
    """Refuse text and ids that are not valid Unicode, and ids for another number of queries; unknown ids are allowed."""
    for query in queries:
        query.checked()
    options.check(len(queries))
    for pid in options.pids:
        valid_unicode(pid)
