"""`Index`: an index directory that is open, to be searched and changed.

    index = Index.build("wiki.index", corpus.read(["wiki.jsonl"]), encoder)
    index = Index.open("wiki.index")
    rankings = index.search(encoder.encode_queries([Query("...")]), k=10, options=SearchOptions(exact=True))
    index.add(more, encoder); index.delete(["12", "15"]); index.compact()

A change is visible to this object at once and to other processes when they open the index again; until then they use
the state that they opened.  A search during a change answers from one committed state, the old or the new one.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from baleen.core.errors import IndexCorruptError, IndexLockedError, QueryError
from baleen.core.progress import progress
from baleen.core.types import Passage, Ranking, reject_string
from baleen.core.vectors import QueryVectors
from baleen.index import format
from baleen.index.codec.codec import Codec
from baleen.index.format import Manifest, SegmentEntry
from baleen.index.protocol import DEFAULT_OPTIONS, Focus, PassageEncoder, SearchOptions, Titled, check_encoder
from baleen.index.segment import Segment
from baleen.index.snapshot import Rows, Snapshot
from baleen.index.writer import build, merge_segments, write_segment

log = logging.getLogger(__name__)

Array = npt.NDArray[Any]
PartOf = Callable[[str], str | None]  # the document of a passage, by its pid

MAX_SEGMENTS = 16  # each maps about sixteen files


class Addition(NamedTuple):
    """Passages added, of those the ones that replaced the same id, and other passages of their documents deleted."""

    added: int
    replaced: int
    outdated: int


class Index:
    """An open index directory; `open` or `build` make one.

    Searches and reads may run in several threads, also beside a change: each takes the current snapshot once.  Changes
    take the directory's lock; a second one at the same time is an IndexLockedError.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.root, self.device, self.threads = snapshot.root, snapshot.device, snapshot.threads
        self._snapshot = snapshot  # replaced as a whole, so that a reader sees the old one or the new one

    def __str__(self) -> str:
        return str(self.root)

    @property
    def snapshot(self) -> Snapshot:
        """The current state, which no later change touches; use it when several calls must see the same passages."""
        return self._snapshot

    @property
    def manifest(self) -> Manifest:
        """The manifest of the current state."""
        return self._snapshot.manifest

    @property
    def codec(self) -> Codec:
        """The codec of the current state."""
        return self._snapshot.codec

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments of the current state."""
        return self._snapshot.segments

    # Making and changing

    @classmethod
    def build(
        cls,
        root: Path | str,
        passages: Iterable[Passage],
        encoder: PassageEncoder,
        *,
        bits: int | None = None,
        cells: int | None = None,
        codec: Codec | None = None,
        seed: int = 0,
        overwrite: bool = False,
        device: str = "cpu",
        threads: int | None = None,
        total: int | None = None,
        corpus: str | None = None,
    ) -> Self:
        """Encode passages and write a new index.

        The codec is fitted to a sample of the vectors, with `bits` a dimension (2) and `cells` (by the number of
        vectors).  A `codec` of another index is used as it is: indexes with one codec give a passage the same score, so
        shards of a corpus answer as one index does.

        `device` is where cells are fitted and found, residuals are always the CPU's; the index returned searches on the
        CPU.  `total` is the number of passages for the progress bar; `corpus`, such as a hash of the input files, is
        kept in the manifest's settings.  A failure leaves nothing behind, and with `overwrite` the old index stays
        until the new one is complete.
        """
        root = Path(root)
        manifest = build(
            root, passages, encoder, bits=bits, cells=cells, codec=codec, seed=seed, overwrite=overwrite, device=device,
            total=total, corpus=corpus,
        )  # fmt: skip
        return cls(Snapshot.open(root, manifest, threads=threads))

    @classmethod
    def open(cls, root: Path | str, *, device: str = "cpu", threads: int | None = None) -> Self:
        """Map an index into memory; takes milliseconds at any size.

        With a GPU as `device` the first search copies the index into its memory.
        """
        root = Path(root)
        manifest = format.read_manifest(root)
        while True:
            try:
                return cls(Snapshot.open(root, manifest, device=device, threads=threads))
            except IndexCorruptError:
                # Another process may have committed since, and removed the files of the state that was read.
                newest = format.read_manifest(root)
                if newest == manifest:
                    raise
                manifest = newest

    def add(
        self, passages: Iterable[Passage], encoder: PassageEncoder, *, device: str = "cpu", total: int | None = None
    ) -> int:
        """Add passages, in place of those with the same ids; return how many were added."""
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
        """Add passages and, in the same change, delete what else is here of their documents.

        `part_of` gives the document of a passage by its id, or None if it belongs to none.
        """
        with self._change() as generation:
            snapshot = self._snapshot
            self.check_encoder(encoder.fingerprint)
            entry = write_segment(self.root, generation, passages, encoder, snapshot.codec, device=device, total=total)
            if entry is None:
                return Addition(0, 0, 0)
            added = Segment(self.root, entry)
            replaced = snapshot.rows_of(_pids(added))
            outdated = snapshot.rows_of(_outdated(snapshot, added, part_of) if part_of else ())
            gone = [[*own, *others] for own, others in zip(replaced, outdated, strict=True)]
            self._commit(generation, (*_with_tombstones(snapshot, generation, gone), entry))
        if len(self.segments) > MAX_SEGMENTS:
            self._merge_small()
        return Addition(entry.passages, sum(map(len, replaced)), sum(map(len, outdated)))

    def delete(self, pids: Iterable[str], *, missing_ok: bool = False) -> int:
        """Delete passages for good; unless `missing_ok`, an unknown id is an error and nothing is deleted."""
        wanted = list(dict.fromkeys(reject_string(pids, "ids")))
        with self._change() as generation:
            snapshot = self._snapshot
            absent = [pid for pid in wanted if pid not in snapshot]
            if absent and not missing_ok:
                raise QueryError(
                    f"{self.root}: no passage has the id '{absent[0]}' (unknown ids: {len(absent)}); nothing was deleted"
                )
            rows = snapshot.rows_of(wanted)
            if any(rows):
                self._commit(generation, _with_tombstones(snapshot, generation, rows))
        return sum(map(len, rows))

    def compact(self) -> int:
        """Merge all segments into one without the deleted passages; return the bytes freed."""
        before = self.bytes
        with self._change() as generation:
            snapshot = self._snapshot
            if len(snapshot.segments) == 1 and not snapshot.manifest.segments[0].deleted:
                return 0
            self._commit(generation, self._merged(generation, snapshot.segments))
        return before - self.bytes

    def _merge_small(self) -> None:
        """Merge the segments before the largest one, and those after it, to keep the number of files small.

        The addition is committed by now, so a merge that fails is left to the next addition.
        """
        try:
            with self._change() as generation:
                segments = self._snapshot.segments
                place = max(range(len(segments)), key=lambda number: len(segments[number]))
                before = self._merged(generation, segments[:place], "segment-before")
                after = self._merged(generation, segments[place + 1 :])
                self._commit(generation, (*before, segments[place].entry, *after))
        except (IndexLockedError, OSError) as error:
            log.warning("%s: small segments stay as they are until the next addition (%s)", self.root, error)

    def _merged(self, generation: int, segments: Sequence[Segment], name: str = "segment") -> tuple[SegmentEntry, ...]:
        """The entry of one segment with the passages of these, in their order; nothing if all are deleted."""
        if not any(segment.entry.deleted < len(segment) for segment in segments):
            return ()
        if len(segments) == 1 and not segments[0].entry.deleted:
            return (segments[0].entry,)
        return (merge_segments(self.root, f"{format.generation_name(generation)}/{name}", segments),)

    def verify(self) -> int:
        """Check every file of the newest state against its checksum; return the number of files.

        The state of this object stays as it is.
        """
        while True:
            manifest = format.read_manifest(self.root)
            try:
                return self._verify(manifest)
            except IndexCorruptError:
                if format.read_manifest(self.root) == manifest:
                    raise

    def _verify(self, manifest: Manifest) -> int:
        """Check the size and the hash of every file of a state."""
        files = list(manifest.files())
        with progress("checking", total=sum(file.bytes for file in files), unit="bytes") as bar:
            for file in files:
                format.open_array(self.root, file)
                if format.file_sha256(self.root / file.path) != file.sha256:
                    raise IndexCorruptError(f"{self.root / file.path}: its content was altered; restore it or rebuild")
                bar.advance(file.bytes)
        return len(files)

    @contextmanager
    def _change(self) -> Iterator[int]:
        """Hold the lock, on the newest state, and yield the next generation; sweep what was not committed."""
        with format.write_lock(self.root):
            newest = format.read_manifest(self.root)
            if newest != self.manifest:
                self._snapshot = self._snapshot.successor(newest)
            try:
                yield format.next_generation(self.root, newest.generation)
            finally:
                format.sweep(self.root)

    def _commit(self, generation: int, entries: tuple[SegmentEntry, ...]) -> None:
        format.sync_generation(self.root, generation)
        manifest = dataclasses.replace(self.manifest, generation=generation, segments=entries)
        format.commit(self.root, manifest)
        self._snapshot = self._snapshot.successor(manifest)

    # Reading: every call answers from one snapshot

    def __len__(self) -> int:
        """Number of passages, without deleted ones."""
        return len(self._snapshot)

    def __contains__(self, pid: str) -> bool:
        return pid in self._snapshot

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the encoder that made the vectors."""
        return self._snapshot.fingerprint

    @property
    def digest(self) -> str:
        """Hash of the current content."""
        return self._snapshot.digest

    @property
    def focus(self) -> Focus:
        """The focus of the encoder that made the vectors."""
        return self._snapshot.focus

    @property
    def bytes(self) -> int:
        """Size of all files of the index."""
        return sum(file.bytes for file in self.manifest.files()) + (self.root / format.MANIFEST).stat().st_size

    def info(self) -> dict[str, Any]:
        """Counts and sizes, as JSON holds them."""
        snapshot, size = self._snapshot, self.bytes
        manifest = snapshot.manifest
        stored = sum(entry.vectors for entry in manifest.segments)
        return {
            "path": str(self.root),
            "format_version": manifest.format_version,
            "generation": manifest.generation,
            "encoder": manifest.encoder,
            "dim": manifest.dim,
            "bits": manifest.bits,
            "cells": snapshot.codec.cells,
            "focus": dict(manifest.focus),
            "passages": len(snapshot),
            "deleted": sum(entry.deleted for entry in manifest.segments),
            "segments": len(snapshot.segments),
            "vectors": stored,
            "fitted_on": manifest.fitted_on,
            "bytes": size,
            "bytes_per_vector": round(size / max(1, stored), 2),
        }

    def check_encoder(self, fingerprint: str) -> None:
        """Refuse an encoder other than the one that made the vectors."""
        check_encoder(self, fingerprint)

    def pids(self) -> Iterator[str]:
        """Ids of the passages in the order of their addition; a replacement counts as added when it came."""
        return self._snapshot.pids()

    def passage(self, pid: str) -> Passage:
        """One passage as it was indexed; an unknown id is a QueryError."""
        return self._snapshot.passage(pid)

    def passages(self, pids: Sequence[str]) -> list[Passage | None]:
        """Passages as they were indexed, None for an unknown id."""
        return self._snapshot.passages(pids)

    def titled(self, names: Sequence[str]) -> list[Titled]:
        """The passages with each of these titles, in the form that `baleen.data.titles` gives them."""
        return self._snapshot.titled(names)

    def vectors(self, pid: str) -> Array:
        """A passage's vectors as the codec restores them: (length, dim) float32."""
        return self._snapshot.vectors(pid)

    def search(
        self, queries: Sequence[QueryVectors], k: int = 10, options: SearchOptions = DEFAULT_OPTIONS
    ) -> list[Ranking]:
        """The k passages with the highest focused score for each query, equal scores by id; in batches on a GPU."""
        return self._snapshot.search(queries, k, options)


def _pids(segment: Segment) -> Iterator[str]:
    """Ids of all rows."""
    return (segment.store.pid(row) for row in range(len(segment)))


def _outdated(snapshot: Snapshot, added: Segment, part_of: PartOf) -> Iterator[str]:
    """Passages of the documents that were added which were not themselves added."""
    new = {pid: document for pid in _pids(added) if (document := part_of(pid)) is not None}
    documents = set(new.values())
    return (pid for pid in snapshot.pids() if part_of(pid) in documents and pid not in new) if documents else iter(())


def _with_tombstones(snapshot: Snapshot, generation: int, rows: Rows) -> tuple[SegmentEntry, ...]:
    """The segments' entries with more rows deleted; a segment without any passage left is dropped."""
    entries = []
    for number, (segment, dead) in enumerate(zip(snapshot.segments, rows, strict=True)):
        entry = segment.entry
        if dead:
            tombstones = np.union1d(segment.tombstones, dead).astype(np.uint32)
            path = f"{format.generation_name(generation)}/tombstones-{number}.bin"
            file = format.write_array(snapshot.root, path, tombstones)
            entry = dataclasses.replace(entry, deleted=len(tombstones), tombstones=file)
        if entry.deleted < entry.passages:
            entries.append(entry)
    return tuple(entries)
