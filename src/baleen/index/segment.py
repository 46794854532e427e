"""A segment: some passages with their encoded vectors, never changed once written.

offsets         (passages + 1) int64    where each passage's vectors start
codes           (vectors) uint16        the cell of each vector
residuals       uint8                   each passage's stream of bytes, end to end (`residuals.py`); none at 16 bits
residual_offsets (passages + 1) int64   where each stream starts
vectors         (vectors, dim) float16  at 16 bits only
cells           (c) uint16              the cells that occur here, ascending
cell_offsets    (c + 1) int64           where each cell's list starts in
postings        uint16 or uint32        the passages that have a vector in the cell, ascending
and the files of `passage_store.py`
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
from numba import njit

from baleen.core.errors import CorpusError
from baleen.core.parallel import background
from baleen.core.types import Passage
from baleen.core.vectors import PassageVectors
from baleen.index.codec.codec import Encoded
from baleen.index.format import ArrayFile, ArrayWriter, SegmentEntry, file_sha256, map_file, open_array, write_array
from baleen.index.store import NAME_ROLES, ROLES, Store, StoreWriter

if TYPE_CHECKING:
    from baleen.index.codec.fitting import Quantizer


Array = npt.NDArray[Any]
Batch = tuple[list[Passage], PassageVectors]

ENCODE_CHUNK = 131_072  # vectors that are encoded at once


class PassageEncoder(Protocol):
    """What an index needs of an encoder: `baleen.models.encoder.Encoder` is one."""

    @property
    def dim(self) -> int: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def focus(self) -> tuple[int | None, int | None]: ...
    def encode_passages(self, passages: Iterable[Passage]) -> Iterator[Batch]: ...


class Segment:
    """An open segment: arrays mapped from disk, and which of its passages are alive."""

    def __init__(self, root: Path, entry: SegmentEntry) -> None:
        self.entry = entry
        arrays = {role: open_array(root, file) for role, file in entry.files.items()}
        self.store = Store({role: arrays[role] for role in (*ROLES, *NAME_ROLES) if role in arrays})
        self.offsets, self.codes = arrays["offsets"], arrays["codes"]
        self.residuals, self.residual_offsets = arrays["residuals"], arrays["residual_offsets"]
        self.vectors = arrays.get("vectors")
        self.cells, self.cell_offsets, self.postings = arrays["cells"], arrays["cell_offsets"], arrays["postings"]
        self.tombstones = open_array(root, entry.tombstones) if entry.tombstones else np.empty(0, np.uint32)

    def __len__(self) -> int:
        """Passages, deleted ones included."""
        return self.entry.passages

    @property
    def encoded(self) -> Encoded:
        return Encoded(self.codes, self.offsets, self.residuals, self.residual_offsets)

    @cached_property
    def alive(self) -> Array:
        """(passages,) bool: not deleted."""
        alive = np.ones(len(self), np.bool_)
        alive[self.tombstones] = False
        return alive

    def find(self, pid: str) -> int | None:
        """The row of the living passage with this id."""
        return next((row for row in self.store.rows(pid) if self.is_alive(row)), None)

    def is_alive(self, row: int) -> bool:
        at = int(np.searchsorted(self.tombstones, row))
        return at == len(self.tombstones) or self.tombstones[at] != row

    def span(self, row: int) -> slice:
        return slice(int(self.offsets[row]), int(self.offsets[row + 1]))


class Spool:
    """Float16 vectors on their way to be encoded: written as they come, read back mapped."""

    def __init__(self, path: Path, dim: int) -> None:
        self.path, self.dim, self.rows = path, dim, 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb")

    def append(self, vectors: Array) -> None:
        self._file.write(np.ascontiguousarray(vectors, "<f2").data)
        self.rows += len(vectors)

    def read(self) -> Array:
        self._file.flush()
        return map_file(self.path, "<f2", (self.rows, self.dim))

    def keep(self, root: Path) -> ArrayFile:
        """Make the spool a file of the index."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return ArrayFile(self.path.relative_to(root).as_posix(), "<f2", (self.rows, self.dim), file_sha256(self.path))

    def close(self) -> None:
        self._file.close()


class SegmentWriter:
    """Takes passages with their float vectors, spools the vectors to disk, then encodes them all with one codec."""

    def __init__(self, root: Path, name: str, dim: int) -> None:
        self.root, self.name, self.dim = root, name, dim
        self._store = StoreWriter(root, name)
        self._spool = Spool(root / name / "vectors.bin", dim)
        self._lengths: list[Array] = []

    @property
    def vectors(self) -> int:
        return self._spool.rows

    @property
    def passages(self) -> int:
        return sum(map(len, self._lengths))

    def append(self, passages: list[Passage], vectors: PassageVectors) -> None:
        bare = np.nonzero(vectors.lengths == 0)[0]
        if len(bare):
            raise CorpusError(f"passage '{passages[bare[0]].pid}' has no vectors: nothing in it can be searched for")
        self._store.append(passages)
        self._spool.append(vectors.vectors)
        self._lengths.append(vectors.lengths.astype(np.int64))

    def close(self) -> None:
        """Let go of the files, finished or not."""
        self._spool.close()
        self._store.close()

    def spooled(self) -> Array:
        """Everything appended so far, mapped: (vectors, dim) float16."""
        return self._spool.read()

    def finish(self, quantizer: Quantizer, advance: Callable[[int], None]) -> SegmentEntry:
        """Encode the spooled vectors and write every file; `advance` is told how many vectors each step did."""
        lengths = self.lengths()
        with closing(background(quantizer.encode_all(_chunks(self._spool.read(), lengths)))) as encoded:
            files = self._write_codes(encoded, advance)
        if quantizer.codec.bits == 16:
            files["vectors"] = self._spool.keep(self.root)
        else:
            self._spool.path.unlink()
        return seal(self.root, self.name, _starts(lengths), files | self._store.finish())

    def lengths(self) -> Array:
        """How many vectors each passage that was appended has: (passages,) int64."""
        return np.concatenate([np.zeros(0, np.int64), *self._lengths])

    def _write_codes(self, encoded: Iterable[Encoded], advance: Callable[[int], None]) -> dict[str, ArrayFile]:
        sizes = []
        with (
            ArrayWriter(self.root, f"{self.name}/codes.bin", np.uint16) as codes,
            ArrayWriter(self.root, f"{self.name}/residuals.bin", np.uint8) as residuals,
        ):
            for part in encoded:
                codes.append(part.codes)
                residuals.append(part.residuals)
                sizes.append(np.diff(part.residual_offsets))
                advance(len(part.codes))
        starts = write_array(self.root, f"{self.name}/residual_offsets.bin", _starts(np.concatenate(sizes)))
        return {"codes": codes.entry, "residuals": residuals.entry, "residual_offsets": starts}


def _chunks(vectors: Array, lengths: Array) -> Iterator[PassageVectors]:
    """Whole passages, at most ENCODE_CHUNK vectors at once unless one passage alone has more."""
    starts, first = _starts(lengths), 0
    while first < len(lengths):
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + ENCODE_CHUNK, side="right")) - 1)
        yield PassageVectors(vectors[starts[first] : starts[last]], lengths[first:last].astype(np.int32))
        first = last


def _starts(sizes: Array) -> Array:
    """(n + 1,) int64: where each of n things starts that stand end to end, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), sizes]).cumsum(dtype=np.int64)


def merge(root: Path, name: str, segments: list[Segment]) -> SegmentEntry:
    """Copy the living passages of `segments` into one new segment; encoded vectors are copied, not encoded again."""
    by_vector = [role for role in ("codes", "vectors") if getattr(segments[0], role) is not None]
    lengths, sizes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    with ExitStack() as stack:
        store = stack.enter_context(closing(StoreWriter(root, name)))
        writers = {}
        for role in (*by_vector, "residuals"):
            like = getattr(segments[0], role)
            writer = ArrayWriter(root, f"{name}/{role}.bin", like.dtype, like.shape[1:])
            writers[role] = stack.enter_context(writer)
        for segment in segments:
            for first, last in _runs(segment.alive):
                store.append([segment.store.passage(row) for row in range(first, last)])
                lengths.append(np.diff(segment.offsets[first : last + 1]))
                sizes.append(np.diff(segment.residual_offsets[first : last + 1]))
                for role in by_vector:
                    writers[role].append(getattr(segment, role)[segment.offsets[first] : segment.offsets[last]])
                streams = slice(int(segment.residual_offsets[first]), int(segment.residual_offsets[last]))
                writers["residuals"].append(segment.residuals[streams])
        files = store.finish()
    files |= {role: writer.entry for role, writer in writers.items()}
    files["residual_offsets"] = write_array(root, f"{name}/residual_offsets.bin", _starts(np.concatenate(sizes)))
    return seal(root, name, _starts(np.concatenate(lengths)), files)


def seal(root: Path, name: str, offsets: Array, files: dict[str, ArrayFile]) -> SegmentEntry:
    """Add the offsets and the inverted file to a segment whose vectors and passages are written."""
    passages = len(offsets) - 1
    codes = open_array(root, files["codes"])
    cells, cell_offsets, postings = invert(codes, offsets)
    arrays = {
        "offsets": offsets.astype(np.int64),
        "cells": cells,
        "cell_offsets": cell_offsets,
        "postings": postings.astype(np.uint16 if passages <= 2**16 else np.uint32),
    }
    files = files | {role: write_array(root, f"{name}/{role}.bin", array) for role, array in arrays.items()}
    return SegmentEntry(name, passages, len(codes), files)


def invert(codes: Array, offsets: Array) -> tuple[Array, Array, Array]:
    """From each vector's cell to each cell's passages: cells (c,), cell_offsets (c + 1,), postings."""
    counts = np.zeros(2**16, np.int64)
    _count_postings(codes, offsets, counts)
    cells = np.nonzero(counts)[0].astype(np.uint16)
    cell_offsets = np.concatenate([[0], counts[cells]]).cumsum()
    starts = np.zeros(2**16, np.int64)
    starts[cells] = cell_offsets[:-1]
    postings = np.empty(int(cell_offsets[-1]), np.uint32)
    _fill_postings(codes, offsets, starts, postings)
    return cells, cell_offsets, postings


@njit(nogil=True, cache=True)
def _count_postings(codes: Array, offsets: Array, counts: Array) -> None:
    last = np.full(len(counts), -1, np.int64)
    for passage in range(len(offsets) - 1):
        for i in range(offsets[passage], offsets[passage + 1]):
            if last[codes[i]] != passage:
                last[codes[i]] = passage
                counts[codes[i]] += 1


@njit(nogil=True, cache=True)
def _fill_postings(codes: Array, offsets: Array, starts: Array, postings: Array) -> None:
    last = np.full(len(starts), -1, np.int64)
    for passage in range(len(offsets) - 1):
        for i in range(offsets[passage], offsets[passage + 1]):
            if last[codes[i]] != passage:
                last[codes[i]] = passage
                postings[starts[codes[i]]] = passage
                starts[codes[i]] += 1


def _runs(alive: Array) -> Iterator[tuple[int, int]]:
    """Maximal runs of living rows, cut to pieces that fit in memory."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], alive.astype(np.int8), [0]])))
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        for start in range(first, last, 4096):
            yield start, min(start + 4096, last)
