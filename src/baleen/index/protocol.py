"""The interface between retrievers and indexes, local or remote.

    Searchable          an index to search: local, remote, or several shards behind one front
    SearchOptions       one search request's options, as plain values that can travel as JSON
    Titled              passages with one title
    merge, merge_titled combine the answers of several parts into those of one index
    PassageEncoder      an encoder that fills an index

Queries arrive as vectors, so a query is encoded once for any number of shards.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol, Self

import numpy.typing as npt

from baleen.core.errors import ConfigError, EncoderMismatchError, QueryError
from baleen.core.records import Record
from baleen.core.types import Hit, Passage, Ranking, reject_string
from baleen.core.vectors import PassageVectors, QueryVectors
from baleen.data.titles import MAX_SAME_TITLE

Array = npt.NDArray[Any]
Batch = tuple[list[Passage], PassageVectors]
Focus = tuple[int | None, int | None]  # how many of the claim's and of the facts' matches count; None: all
Where = Mapping[str, Any]


def _ids(pids: Collection[str]) -> tuple[str, ...]:
    return tuple(reject_string(pids, "ids"))


def _listed(wanted: Any) -> Any:
    return list(wanted) if isinstance(wanted, (tuple, set, frozenset)) else wanted


@dataclass(frozen=True, slots=True)
class SearchOptions(Record):
    """Options of one search.  An unknown name is a TypeError, a value out of range a ConfigError or QueryError.

    exclude, boosted    a collection of passage ids for each query, or nothing at all
    boost               score added to boosted passages; they are scored even where the search does not reach them
    allow               ids of the only passages that may be returned (None: all)
    where               metadata that a passage must have: {key: value or list of values}.  A local index also takes a
                        predicate in place of a value; such options cannot travel, so `to_json` refuses them
    focus               how many matches of the claim and of the facts count (None: the index's)
    exact               score every passage instead of the likely ones
    probes              cells that each query vector looks into (None: by the query's length)
    candidates          passages scored by their centroids (None: by k)
    refined             candidates scored by their residuals as well (None: by k)
    """

    exclude: Sequence[Collection[str]] = ()
    boosted: Sequence[Collection[str]] = ()
    boost: float = 0.0
    allow: Collection[str] | None = None
    where: Where = field(default_factory=dict)
    focus: Focus | None = None
    exact: bool = False
    probes: int | None = None
    candidates: int | None = None
    refined: int | None = None

    def __post_init__(self) -> None:
        boost: Any = self.boost
        focus: Any = self.focus
        for name in ("probes", "candidates", "refined"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and value >= 1):
                raise ConfigError(f"{name} = {value!r} should be at least 1")
        if not (isinstance(boost, int | float) and math.isfinite(boost)):
            raise ConfigError(f"boost = {boost!r} should be a finite number")
        for name in ("exclude", "boosted"):
            object.__setattr__(self, name, tuple(map(_ids, reject_string(getattr(self, name), "ids"))))
        if self.allow is not None:
            object.__setattr__(self, "allow", _ids(self.allow))
        if focus is not None:
            if len(focus) != 2:
                raise ConfigError(f"focus = {focus!r} should be a pair: matches of the claim, and of the facts")
            object.__setattr__(self, "focus", tuple(focus))
        object.__setattr__(self, "where", {key: _listed(value) for key, value in (self.where or {}).items()})

    def check(self, queries: int) -> None:
        """Refuse ids for another number of queries."""
        for name, given in (("exclude", self.exclude), ("boosted", self.boosted)):
            if len(given) not in (0, queries):
                raise QueryError(
                    f"{name} has ids for {len(given)} queries; expected them for each of {queries}, or none"
                )

    @property
    def pids(self) -> Iterator[str]:
        """Every passage id that the options name."""
        return chain(*self.exclude, *self.boosted, self.allow or ())

    def to_json(self) -> dict[str, Any]:
        """The options as JSON holds them; a predicate is a QueryError."""
        for key, wanted in self.where.items():
            if callable(wanted):
                raise QueryError(
                    f"where: '{key}' is matched by a function, which only a local index can call; "
                    "give a value or a list of values"
                )
        return Record.to_json(self)


DEFAULT_OPTIONS = SearchOptions()


@dataclass(frozen=True, slots=True)
class Titled(Record):
    """The passages with one title; no ids where there are `too_many` for the title to say which is meant."""

    pids: tuple[str, ...] = ()
    too_many: bool = False

    @classmethod
    def of(cls, pids: Sequence[str]) -> Self:
        """Up to MAX_SAME_TITLE ids."""
        return cls(tuple(pids)) if len(pids) <= MAX_SAME_TITLE else cls(too_many=True)


class Searchable(Protocol):
    """Passages that can be searched: `Index`, `Snapshot`, or several of them behind one front."""

    def __len__(self) -> int:
        """Number of passages."""

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the encoder that made the vectors."""

    @property
    def digest(self) -> str:
        """Hash of the content, for results that depend on it."""

    @property
    def focus(self) -> Focus:
        """The focus of the encoder that made the vectors."""

    def search(
        self, queries: Sequence[QueryVectors], k: int = 10, options: SearchOptions = DEFAULT_OPTIONS
    ) -> list[Ranking]:
        """The k best passages for each query, by (-score, pid)."""

    def passages(self, pids: Sequence[str]) -> list[Passage | None]:
        """The passages with these ids, None for an id that is not there."""

    def titled(self, names: Sequence[str]) -> list[Titled]:
        """The passages with each of these titles, in the form that `baleen.data.titles` gives them."""

    def vectors(self, pid: str) -> Array:
        """The vectors of one passage as they are scored: (length, dim) float32."""


class PassageEncoder(Protocol):
    """An encoder that fills an index: `baleen.models.encoder.Encoder` is one."""

    @property
    def dim(self) -> int: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def focus(self) -> Focus: ...
    def encode_passages(self, passages: Iterable[Passage]) -> Iterator[Batch]: ...


def check_encoder(index: Searchable, fingerprint: str) -> None:
    """Refuse an encoder other than the one that made the index's vectors."""
    if fingerprint != index.fingerprint:
        raise EncoderMismatchError(
            f"{index}: made by encoder {index.fingerprint[:12]}, but the encoder given is {fingerprint[:12]}; "
            "use the encoder that built the index, or rebuild the index with this one"
        )


def rank(hits: Iterable[Hit], k: int) -> Ranking:
    """The k best hits; equal scores in order of their ids."""
    return Ranking(tuple(sorted(hits, key=lambda hit: (-hit.score, hit.pid))[:k]))


def merge(parts: Iterable[Ranking], k: int) -> Ranking:
    """One ranking of the k best, from a ranking of the k best of every part."""
    return rank(chain.from_iterable(parts), k)


def merge_titled(parts: Iterable[Titled]) -> Titled:
    """The passages with one title, from those of every part."""
    parts = list(parts)
    if any(part.too_many for part in parts):
        return Titled(too_many=True)
    return Titled.of([pid for part in parts for pid in part.pids])
