"""`Snapshot`: one committed state of an index, which never changes.

A search takes the snapshot that is current when it starts and uses nothing else, so a change beside it cannot mix two
states.  The files of a snapshot stay mapped, and so readable, after a later change has removed them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from baleen.core.errors import QueryError
from baleen.core.types import Hit, Passage, Ranking
from baleen.core.vectors import QueryVectors
from baleen.data.titles import MAX_SAME_TITLE
from baleen.index import format
from baleen.index.codec.codec import Codec
from baleen.index.cpu.search import Limits, ScoredRows, Searcher, decode_rows
from baleen.index.filters import allowed_rows, exclude_rows
from baleen.index.format import Manifest, SegmentEntry
from baleen.index.protocol import DEFAULT_OPTIONS, Focus, SearchOptions, Titled, rank
from baleen.index.segment import Segment

if TYPE_CHECKING:
    from baleen.index.gpu import DeviceSearcher


Array = npt.NDArray[Any]
Rows = list[list[int]]  # rows of each segment


class Snapshot:
    """An open state of an index: its codec and its segments, mapped.  Safe to use from several threads."""

    def __init__(
        self,
        root: Path,
        manifest: Manifest,
        codec: Codec,
        segments: Sequence[Segment],
        *,
        device: str = "cpu",
        threads: int | None = None,
    ) -> None:
        self.root, self.manifest, self.codec, self.segments = root, manifest, codec, tuple(segments)
        self.device, self.threads = device, threads
        self._searcher: Searcher | DeviceSearcher | None = None
        self._lock = Lock()

    @classmethod
    def open(cls, root: Path, manifest: Manifest, *, device: str = "cpu", threads: int | None = None) -> Self:
        """Map every file of a state, or fail where one is missing or has another size."""
        segments = [Segment(root, entry) for entry in manifest.segments]
        return cls(root, manifest, _codec(root, manifest), segments, device=device, threads=threads)

    def successor(self, manifest: Manifest) -> Snapshot:
        """Open a later state of the same index; unchanged parts are shared, with their tables and caches."""
        same = manifest.codec == self.manifest.codec and manifest.bits == self.manifest.bits
        codec = self.codec if same else _codec(self.root, manifest)
        segments = [self._segment(entry) or Segment(self.root, entry) for entry in manifest.segments]
        return Snapshot(self.root, manifest, codec, segments, device=self.device, threads=self.threads)

    def _segment(self, entry: SegmentEntry) -> Segment | None:
        """The open segment of an entry, if it has not changed."""
        return next((segment for segment in self.segments if segment.entry == entry), None)

    def __str__(self) -> str:
        return str(self.root)

    def __len__(self) -> int:
        """Number of passages, without deleted ones."""
        return sum(entry.passages - entry.deleted for entry in self.manifest.segments)

    def __contains__(self, pid: str) -> bool:
        return self._find(pid) is not None

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the encoder that made the vectors."""
        return self.manifest.encoder

    @property
    def digest(self) -> str:
        """Hash of the manifest, which holds a hash of every file."""
        content = json.dumps(self.manifest.to_json(), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    @property
    def focus(self) -> Focus:
        """The focus of the encoder that made the vectors."""
        return self.manifest.focus["query"], self.manifest.focus["facts"]

    def pids(self) -> Iterator[str]:
        """Ids of the passages in the order of their addition; a replacement counts as added when it came."""
        for segment in self.segments:
            yield from (segment.store.pid(row) for row in np.flatnonzero(segment.alive).tolist())

    def passage(self, pid: str) -> Passage:
        """One passage as it was indexed; an unknown id is a QueryError."""
        segment, row = self._place(pid)
        return segment.store.passage(row)

    def passages(self, pids: Sequence[str]) -> list[Passage | None]:
        """Passages as they were indexed, None for an unknown id."""
        places = map(self._find, pids)
        return [None if place is None else self.segments[place[0]].store.passage(place[1]) for place in places]

    def titled(self, names: Sequence[str]) -> list[Titled]:
        """The passages with each of these titles, in the form that `baleen.data.titles` gives them."""
        found: list[list[str]] = [[] for _ in names]
        for segment in self.segments:
            for number, rows in segment.store.rows_titled(names):
                alive = islice(filter(segment.is_alive, rows), MAX_SAME_TITLE + 1)  # thousands may share a title
                found[number] += map(segment.store.pid, alive)
        return [Titled.of(pids) for pids in found]

    def vectors(self, pid: str) -> Array:
        """A passage's vectors as the codec restores them: (length, dim) float32."""
        segment, row = self._place(pid)
        mapped, lengths = decode_rows(self.codec, segment, np.array([row]))
        return self.codec.restore(mapped[: lengths[0]])

    def search(
        self, queries: Sequence[QueryVectors], k: int = 10, options: SearchOptions = DEFAULT_OPTIONS
    ) -> list[Ranking]:
        """The k passages with the highest focused score for each query, equal scores by id; in batches on a GPU."""
        for query in queries:
            self._check(query, k)
        options.check(len(queries))
        allowed = self._allowed(len(queries), options)
        focus = options.focus or self.focus
        limits = None if options.exact else Limits.of(options, k)
        searcher = self.searcher
        found = searcher.find(queries, k, limits, focus, allowed)
        if options.boost and options.boosted:
            wanted = [self._among(pids, own) for pids, own in zip(options.boosted, allowed, strict=True)]
            raised = searcher.score_rows(queries, focus, wanted)
            found = [each.with_boosted(own, options.boost) for each, own in zip(found, raised, strict=True)]
        return [self.ranking(each, k) for each in found]

    @property
    def searcher(self) -> Searcher | DeviceSearcher:
        """The search code for this device, with its tables; made at the first search."""
        with self._lock:
            if self._searcher is None:
                self._searcher = self._make_searcher()
            return self._searcher

    def _make_searcher(self) -> Searcher | DeviceSearcher:
        if self.device == "cpu":
            return Searcher(self.codec, self.segments, self.threads)
        from baleen.index.gpu import DeviceSearcher

        return DeviceSearcher(self.codec, self.segments, self.device)

    def ranking(self, found: ScoredRows, k: int) -> Ranking:
        """The k best of some scored rows."""
        scores = found.scores
        if len(found) > k:  # keep all ties with the k-th; ids decide between them
            edge = np.partition(scores, len(scores) - k)[len(scores) - k]
            found = found.take(np.flatnonzero(scores >= edge))
        places = zip(found.segments.tolist(), found.rows.tolist(), found.scores.tolist(), strict=True)
        return rank((Hit(self.segments[number].store.pid(row), score) for number, row, score in places), k)

    def rows_of(self, pids: Iterable[str]) -> Rows:
        """For each segment, the rows of these ids; unknown ids are left out."""
        rows: Rows = [[] for _ in self.segments]
        for pid in pids:
            place = self._find(pid)
            if place is not None:
                rows[place[0]].append(place[1])
        return rows

    def _allowed(self, queries: int, options: SearchOptions) -> list[list[Array]]:
        """For each query the mask of every segment's rows that it may return."""
        named = None if options.allow is None else self.rows_of(options.allow)
        masks = allowed_rows(self.segments, named, options.where)
        return [exclude_rows(masks, self.rows_of(own)) if own else masks for own in options.exclude or [()] * queries]

    def _among(self, pids: Collection[str], masks: Sequence[Array]) -> ScoredRows:
        """The rows of some passages, as far as the masks allow them."""
        rows = self.rows_of(dict.fromkeys(pids))
        return ScoredRows.of_rows([[row for row in own if mask[row]] for own, mask in zip(rows, masks, strict=True)])

    def _check(self, query: QueryVectors, k: int) -> None:
        """Refuse a query without vectors or with other dimensions, and k < 1."""
        if k < 1:
            raise QueryError(f"k = {k} should be at least 1")
        if query.dim != self.manifest.dim:
            raise QueryError(f"query vectors of {query.dim} dimensions, but {self.root} holds {self.manifest.dim}")
        if not len(query.query):
            raise QueryError("the query has no vectors")

    def _place(self, pid: str) -> tuple[Segment, int]:
        """Segment and row of a passage; an unknown id is a QueryError."""
        place = self._find(pid)
        if place is None:
            raise QueryError(f"{self.root}: no passage has the id '{pid}'")
        return self.segments[place[0]], place[1]

    def _find(self, pid: str) -> tuple[int, int] | None:
        """Number of the segment, and row, of a passage."""
        for number, segment in enumerate(self.segments):
            row = segment.find(pid)
            if row is not None:
                return number, row
        return None


def _codec(root: Path, manifest: Manifest) -> Codec:
    """Map the arrays of the codec."""
    arrays = {role: format.open_array(root, entry) for role, entry in manifest.codec.items()}
    return Codec(bits=manifest.bits, **arrays)
