"""`Index`: an index directory that is open, to be searched and changed.

    index = Index.build("wiki.index", corpus.read(["wiki.jsonl"]), encoder)
    index = Index.open("wiki.index")
    ranking = index.search(encoder.encode_queries([Query("...")])[0], k=10)
    index.add(more, encoder); index.delete(["12", "15"]); index.compact()

A change is visible to this object at once and to other processes when they open the index again; until then they go on
with the state that they opened.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from baleen.core.config import override
from baleen.core.errors import EncoderMismatchError, IndexCorruptError, IndexLockedError, QueryError
from baleen.core.progress import progress
from baleen.core.types import Hit, Passage, Ranking, reject_string
from baleen.core.vectors import QueryVectors
from baleen.data.titles import MAX_SAME_TITLE
from baleen.index import format
from baleen.index.codec.codec import Codec
from baleen.index.cpu.search import Found, SearchConfig, Searcher, decode_rows
from baleen.index.filters import Where, allowed_rows, without
from baleen.index.format import Manifest, SegmentEntry
from baleen.index.segment import PassageEncoder, Segment, merge

if TYPE_CHECKING:
    from baleen.index.gpu import DeviceSearcher


log = logging.getLogger(__name__)

Array = npt.NDArray[Any]
PartOf = Callable[[str], str | None]  # the document of a passage, by its pid

MOST_SEGMENTS = 16  # each keeps some sixteen files mapped


class Addition(NamedTuple):
    """How many passages came, how many of them for one of the same id, and how many others of their documents went."""

    added: int
    replaced: int
    outdated: int


class Index:
    """One committed state of an index directory; `open` or `build` make one."""

    def __init__(self, root: Path, manifest: Manifest, *, device: str = "cpu", threads: int | None = None) -> None:
        self.root, self.device, self.threads = root, device, threads
        self._load(manifest)

    def _load(self, manifest: Manifest) -> None:
        """All of a state or, where a file cannot be opened, none of it: half of one would be written back."""
        arrays = {role: format.open_array(self.root, entry) for role, entry in manifest.codec.items()}
        codec = Codec(bits=manifest.bits, **arrays)
        segments = [Segment(self.root, entry) for entry in manifest.segments]
        self.manifest, self.codec, self.segments = manifest, codec, segments
        self.__dict__.pop("_searcher", None)

    @cached_property
    def _searcher(self) -> Searcher | DeviceSearcher:
        if self.device == "cpu":
            return Searcher(self.codec, self.segments, self.threads)
        from baleen.index.gpu import DeviceSearcher

        return DeviceSearcher(self.codec, self.segments, self.device)

    # Making and changing

    @classmethod
    def build(
        cls,
        root: Path | str,
        passages: Iterable[Passage],
        encoder: PassageEncoder,
        *,
        bits: int = 2,
        cells: int | None = None,
        seed: int = 0,
        overwrite: bool = False,
        device: str = "cpu",
        threads: int | None = None,
        total: int | None = None,
        corpus: str | None = None,
    ) -> Self:
        """Encode passages and write a new index; the codec is fitted to a sample of their vectors.

        `device` is where cells are fitted and found, residuals are always the CPU's; the index that comes back searches
        on the CPU, as `open` does unless told otherwise.  `total` only tells the progress bar how many passages to
        expect; `corpus`, such as a hash of what the passages were read from, is kept in the manifest's settings.
        Nothing is left behind when it fails, and with `overwrite` the index that was there stays until the new one is
        whole.
        """
        from baleen.index.writer import build

        root = Path(root)
        manifest = build(
            root, passages, encoder, bits=bits, cells=cells, seed=seed, overwrite=overwrite, device=device, total=total,
            corpus=corpus,
        )  # fmt: skip
        return cls(root, manifest, threads=threads)

    @classmethod
    def open(cls, root: Path | str, *, device: str = "cpu", threads: int | None = None) -> Self:
        """Map an index into memory; takes milliseconds at any size.

        With a GPU as `device` the first search copies the index into its memory.
        """
        root = Path(root)
        manifest = format.read_manifest(root)
        while True:
            try:
                return cls(root, manifest, device=device, threads=threads)
            except IndexCorruptError:
                # Another process may have committed since, and removed the files of the state that was read.
                newest = format.read_manifest(root)
                if newest == manifest:
                    raise
                manifest = newest

    def add(
        self, passages: Iterable[Passage], encoder: PassageEncoder, *, device: str = "cpu", total: int | None = None
    ) -> int:
        """Add passages; one whose id is here already takes its place.  Returns how many were added."""
        return self.update(passages, encoder, device=device, total=total).added

    def update(
        self,
        passages: Iterable[Passage],
        encoder: PassageEncoder,
        *,
        part_of: PartOf | None = None,
        device: str = "cpu",
        total: int | None = None,
    ) -> Addition:
        """`add`, and in the same change what else was here of the documents that passages come of is deleted.

        `part_of` tells of which document a passage is, by its id, or None where it is of none.
        """
        from baleen.index.writer import write_segment

        with self._change() as generation:
            self.check_encoder(encoder.fingerprint)
            entry = write_segment(self.root, generation, passages, encoder, self.codec, device, total)
            if entry is None:
                return Addition(0, 0, 0)
            added = Segment(self.root, entry)
            replaced = self._rows_of(_pids(added))
            outdated = self._rows_of(self._outdated(added, part_of) if part_of else ())
            gone = [[*own, *others] for own, others in zip(replaced, outdated, strict=True)]
            self._commit(generation, (*self._with_tombstones(generation, gone), entry))
        if len(self.segments) > MOST_SEGMENTS:
            self._merge_small()
        return Addition(entry.passages, sum(map(len, replaced)), sum(map(len, outdated)))

    def _outdated(self, added: Segment, part_of: PartOf) -> Iterator[str]:
        came = {pid: document for pid in _pids(added) if (document := part_of(pid)) is not None}
        documents = set(came.values())
        return (pid for pid in self.pids() if part_of(pid) in documents and pid not in came) if documents else iter(())

    def delete(self, pids: Iterable[str], *, missing_ok: bool = False) -> int:
        """Delete passages for good; unless `missing_ok`, an id that is not here is an error and nothing is deleted."""
        wanted = list(dict.fromkeys(reject_string(pids, "ids")))
        with self._change() as generation:
            absent = [pid for pid in wanted if pid not in self]
            if absent and not missing_ok:
                raise QueryError(
                    f"{self.root}: no passage has the id '{absent[0]}' ({len(absent)} such); nothing was deleted"
                )
            rows = self._rows_of(wanted)
            if any(rows):
                self._commit(generation, self._with_tombstones(generation, rows))
        return sum(map(len, rows))

    def compact(self) -> int:
        """Merge all segments into one without the deleted passages; returns how many bytes were given back."""
        before = self.bytes
        with self._change() as generation:
            if len(self.segments) == 1 and not self.manifest.segments[0].deleted:
                return 0
            self._commit(generation, self._merged(generation, self.segments))
        return before - self.bytes

    def _merge_small(self) -> None:
        """Merge the segments before the largest and those after it, so that many additions do not make many files.

        What was added is there by now, so that a merge that fails is for another time.
        """
        try:
            with self._change() as generation:
                place = max(range(len(self.segments)), key=lambda number: len(self.segments[number]))
                before = self._merged(generation, self.segments[:place], "segment-before")
                after = self._merged(generation, self.segments[place + 1 :])
                self._commit(generation, (*before, self.segments[place].entry, *after))
        except (IndexLockedError, OSError) as error:
            log.warning("%s: small segments stay as they are until the next addition (%s)", self.root, error)

    def _merged(self, generation: int, segments: list[Segment], name: str = "segment") -> tuple[SegmentEntry, ...]:
        """The entry of one segment with the living passages of these, in their order; none if none lives."""
        if not any(segment.entry.deleted < len(segment) for segment in segments):
            return ()
        if len(segments) == 1 and not segments[0].entry.deleted:
            return (segments[0].entry,)
        return (merge(self.root, f"{format.generation_name(generation)}/{name}", segments),)

    def verify(self) -> int:
        """Check every file of the newest state against its checksum; returns how many there are."""
        while True:
            self._load(format.read_manifest(self.root))
            try:
                return self._verify()
            except IndexCorruptError:
                if format.read_manifest(self.root) == self.manifest:
                    raise

    def _verify(self) -> int:
        files = list(self.manifest.files())
        with progress("checking", total=sum(file.bytes for file in files), unit="bytes") as bar:
            for file in files:
                format.open_array(self.root, file)
                if format.file_sha256(self.root / file.path) != file.sha256:
                    raise IndexCorruptError(f"{self.root / file.path}: its content was altered; restore it or rebuild")
                bar.advance(file.bytes)
        return len(files)

    # Asking

    def __len__(self) -> int:
        """Living passages."""
        return sum(entry.passages - entry.deleted for entry in self.manifest.segments)

    def __contains__(self, pid: str) -> bool:
        return self._find(pid) is not None

    @property
    def bytes(self) -> int:
        """Of every file that belongs to the index."""
        return sum(file.bytes for file in self.manifest.files()) + (self.root / format.MANIFEST).stat().st_size

    @property
    def focus(self) -> tuple[int | None, int | None]:
        return self.manifest.focus["query"], self.manifest.focus["facts"]

    def info(self) -> dict[str, Any]:
        """Counts and sizes, as JSON holds them."""
        stored = sum(entry.vectors for entry in self.manifest.segments)
        return {
            "path": str(self.root),
            "format_version": self.manifest.format_version,
            "generation": self.manifest.generation,
            "encoder": self.manifest.encoder,
            "dim": self.manifest.dim,
            "bits": self.manifest.bits,
            "cells": self.codec.cells,
            "focus": dict(self.manifest.focus),
            "passages": len(self),
            "deleted": sum(entry.deleted for entry in self.manifest.segments),
            "segments": len(self.segments),
            "vectors": stored,
            "fitted_on": self.manifest.fitted_on,
            "bytes": self.bytes,
            "bytes_per_vector": round(self.bytes / max(1, stored), 2),
        }

    def check_encoder(self, fingerprint: str) -> None:
        if fingerprint != self.manifest.encoder:
            raise EncoderMismatchError(
                f"{self.root}: made by encoder {self.manifest.encoder[:12]}, but {fingerprint[:12]} asks; their "
                "vectors do not compare: use the encoder that built the index, or rebuild it with this one"
            )

    def pids(self) -> Iterator[str]:
        """Ids of the living passages, in the order in which they were added; a replacement is added when it comes."""
        for segment in self.segments:
            yield from (segment.store.pid(row) for row in np.flatnonzero(segment.alive).tolist())

    def passage(self, pid: str) -> Passage:
        """The passage as it was indexed."""
        place = self._find(pid)
        if place is None:
            raise QueryError(f"{self.root}: no passage has the id '{pid}'")
        return self.segments[place[0]].store.passage(place[1])

    def bearers(self, names: Sequence[str]) -> list[tuple[str, ...]]:
        """For each name (`baleen.data.titles`) the ids of the passages that bear it; none where more than MOST_BEARERS do."""
        found: list[list[str]] = [[] for _ in names]
        for segment in self.segments:
            for number, rows in segment.store.rows_named(names):
                alive = islice(filter(segment.is_alive, rows), MAX_SAME_TITLE + 1)  # thousands may share a title
                found[number] += map(segment.store.pid, alive)
        return [tuple(pids) if len(pids) <= MAX_SAME_TITLE else () for pids in found]

    def vectors(self, pid: str) -> Array:
        """A passage's vectors as the codec restores them: (length, dim) float32."""
        place = self._find(pid)
        if place is None:
            raise QueryError(f"{self.root}: no passage has the id '{pid}'")
        segment = self.segments[place[0]]
        mapped, lengths = decode_rows(self.codec, segment, np.array([place[1]]))
        return self.codec.restore(mapped[: lengths[0]])

    def search(
        self,
        vectors: QueryVectors,
        k: int = 10,
        *,
        config: SearchConfig | None = None,
        probes: int | None = None,
        candidates: int | None = None,
        focus: tuple[int | None, int | None] | None = None,
        exclude: Collection[str] = (),
        allow: Collection[str] | None = None,
        where: Where | None = None,
        exact: bool = False,
    ) -> Ranking:
        """The k passages with the highest focused score, best first, equal scores by id.

        `exclude` and `allow` name passages by id; `where` maps metadata keys to a value, a collection of values or a
        predicate.  `exact` scores every passage instead of the likely ones.
        """
        return self.search_many(
            [vectors], k, config=config, probes=probes, candidates=candidates, focus=focus,
            exclude=[exclude], allow=allow, where=where, exact=exact,
        )[0]  # fmt: skip

    def search_many(
        self,
        vectors: Sequence[QueryVectors],
        k: int = 10,
        *,
        config: SearchConfig | None = None,
        probes: int | None = None,
        candidates: int | None = None,
        focus: tuple[int | None, int | None] | None = None,
        exclude: Sequence[Collection[str]] = (),
        allow: Collection[str] | None = None,
        where: Where | None = None,
        exact: bool = False,
        favoured: Sequence[Collection[str]] = (),
        bonus: float = 0.0,
    ) -> list[Ranking]:
        """`search` for many queries, in batches on a GPU; `exclude` has a collection of ids for each query, or none.

        So has `favoured`: with a `bonus` these passages are scored wherever they are, and it is added to their scores.
        """
        for query in vectors:
            self._check_query(query, k)
        _check_ids(exclude, favoured, allow, len(vectors))
        limits = override(config or SearchConfig(), probes=probes, candidates=candidates).for_depth(k)
        masks = allowed_rows(self.segments, None if allow is None else self._rows_of(allow), where)
        allowed = [without(masks, self._rows_of(each)) if each else masks for each in exclude or [()] * len(vectors)]
        focus = focus or self.focus
        found = self._searcher.find(vectors, k, None if exact else limits, focus, allowed)
        if bonus:
            asked = favoured or [()] * len(vectors)
            wanted = [self._allowed(pids, own) for pids, own in zip(asked, allowed, strict=True)]
            raised = self._searcher.score_some(vectors, focus, wanted)
            found = [each.with_raised(own, bonus) for each, own in zip(found, raised, strict=True)]
        return [self._rank(each, k) for each in found]

    def _allowed(self, pids: Collection[str], masks: Sequence[Array]) -> Found:
        rows = self._rows_of(dict.fromkeys(pids))
        return Found.of_rows([[row for row in own if mask[row]] for own, mask in zip(rows, masks, strict=True)])

    def _check_query(self, vectors: QueryVectors, k: int) -> None:
        if k < 1:
            raise QueryError(f"k = {k} should be at least 1")
        if vectors.dim != self.manifest.dim:
            raise QueryError(f"query vectors of {vectors.dim} dimensions, but {self.root} holds {self.manifest.dim}")
        if not len(vectors.query):
            raise QueryError("the query has no vectors")

    def _rank(self, found: Found, k: int) -> Ranking:
        scores = found.scores
        if len(found) > k:  # whatever ties with the k-th stays until ids have decided
            edge = np.partition(scores, len(scores) - k)[len(scores) - k]
            found = found.take(np.flatnonzero(scores >= edge))
        places = zip(found.segments.tolist(), found.rows.tolist(), found.scores.tolist(), strict=True)
        hits = [Hit(self.segments[number].store.pid(row), score) for number, row, score in places]
        return Ranking(tuple(sorted(hits, key=lambda hit: (-hit.score, hit.pid))[:k]))

    # Helpers

    def _find(self, pid: str) -> tuple[int, int] | None:
        for number, segment in enumerate(self.segments):
            row = segment.find(pid)
            if row is not None:
                return number, row
        return None

    def _rows_of(self, pids: Iterable[str]) -> list[list[int]]:
        """For each segment, the rows of those ids that are alive in it."""
        rows: list[list[int]] = [[] for _ in self.segments]
        for pid in pids:
            place = self._find(pid)
            if place is not None:
                rows[place[0]].append(place[1])
        return rows

    @contextmanager
    def _change(self) -> Iterator[int]:
        """Hold the lock, on the newest state; what did not get committed is swept away."""
        with format.writing(self.root):
            newest = format.read_manifest(self.root)
            if newest != self.manifest:
                self._load(newest)
            try:
                yield format.next_generation(self.root, newest.generation)
            finally:
                format.sweep(self.root)

    def _commit(self, generation: int, entries: tuple[SegmentEntry, ...]) -> None:
        format.sync_generation(self.root, generation)
        manifest = dataclasses.replace(self.manifest, generation=generation, segments=entries)
        format.commit(self.root, manifest)
        self._load(manifest)

    def _with_tombstones(self, generation: int, rows: list[list[int]]) -> tuple[SegmentEntry, ...]:
        """The segments' entries with more rows deleted; a segment that has none left alive is dropped."""
        entries = []
        for number, (segment, dead) in enumerate(zip(self.segments, rows, strict=True)):
            entry = segment.entry
            if dead:
                tombstones = np.union1d(segment.tombstones, dead).astype(np.uint32)
                file = format.write_array(
                    self.root, f"{format.generation_name(generation)}/tombstones-{number}.bin", tombstones
                )
                entry = dataclasses.replace(entry, deleted=len(tombstones), tombstones=file)
            if entry.deleted < entry.passages:
                entries.append(entry)
        return tuple(entries)


def _pids(segment: Segment) -> Iterator[str]:
    """Of all its rows."""
    return (segment.store.pid(row) for row in range(len(segment)))


def _check_ids(
    exclude: Sequence[Collection[str]],
    favoured: Sequence[Collection[str]],
    allow: Collection[str] | None,
    queries: int,
) -> None:
    for name, given in (("exclude", exclude), ("favoured", favoured)):
        if len(given) not in (0, queries):
            raise QueryError(f"{name} has ids for {len(given)} queries; expected them for each of {queries}, or none")
    for pids in (*exclude, *favoured, () if allow is None else allow):
        reject_string(pids, "ids")
