"""Writing an index: spool the vectors of passages, fit a codec, encode, seal; and merge segments.

A segment is written in three steps.  The model encodes the passages, and their vectors go to a spool file.  A codec
turns them into cells and residuals.  Sealing adds the offsets and the inverted file.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from numba import njit

from baleen.core.errors import (
    ConfigError,
    CorpusError,
    IndexCorruptError,
    IndexExistsError,
    IndexNotFoundError,
    IndexVersionError,
)
from baleen.core.parallel import background
from baleen.core.progress import progress
from baleen.core.types import Passage
from baleen.core.vectors import PassageVectors
from baleen.index import format
from baleen.index.codec.codec import BITS, MAX_CELLS, Codec, Encoded, cell_count
from baleen.index.format import (
    ArrayFile,
    ArrayWriter,
    Manifest,
    SegmentEntry,
    file_sha256,
    map_file,
    open_array,
    write_array,
)
from baleen.index.protocol import PassageEncoder
from baleen.index.segment import Segment
from baleen.index.store import StoreWriter

if TYPE_CHECKING:
    from baleen.index.codec.fitting import Quantizer, Sample


Array = npt.NDArray[Any]

ENCODE_CHUNK = 131_072  # vectors that are encoded at once
DEFAULT_BITS = 2
SAMPLE_PER_CELL = 16  # vectors that k-means sees for each centroid


def build(
    root: Path,
    passages: Iterable[Passage],
    encoder: PassageEncoder,
    *,
    bits: int | None = None,
    cells: int | None = None,
    codec: Codec | None = None,
    seed: int = 0,
    overwrite: bool = False,
    device: str = "cpu",
    total: int | None = None,
    corpus: str | None = None,
) -> Manifest:
    """Write and commit a new index; see `Index.build`."""
    _check_codec(encoder.dim, bits, cells, codec)
    with (
        _new_generation(root, overwrite) as generation,
        _spool_passages(root, generation, passages, encoder, total) as writer,
    ):
        folder = format.generation_name(generation)
        if not writer.passages:
            raise CorpusError("no passages were given, and an index needs at least one")
        fitted_on = writer.vectors if codec is None else 0
        settings: dict[str, Any] = {"seed": seed} if codec is None else {}
        codec = codec or _fit_codec(writer, cells, bits or DEFAULT_BITS, seed, device)
        settings |= {"cells": codec.cells} | ({} if corpus is None else {"corpus": corpus})
        manifest = Manifest(
            generation=generation,
            dim=encoder.dim,
            bits=codec.bits,
            encoder=encoder.fingerprint,
            focus=dict(zip(("query", "facts"), encoder.focus, strict=True)),
            fitted_on=fitted_on,
            codec={
                role: write_array(root, f"{folder}/codec/{role}.bin", array) for role, array in codec.arrays.items()
            },
            segments=(_finish_segment(writer, codec, device),),
            settings=settings,
        )
        format.sync_generation(root, generation)
        format.commit(root, manifest)
        format.sweep(root)
    return manifest


def _check_codec(dim: int, bits: int | None, cells: int | None, codec: Codec | None) -> None:
    """Refuse settings out of range, and a codec that does not match them or the encoder."""
    if bits is not None and bits not in BITS:
        raise ConfigError(f"bits = {bits} should be one of {', '.join(map(str, BITS))}")
    if cells is not None and not 1 <= cells <= MAX_CELLS:
        raise ConfigError(f"cells = {cells} should be from 1 to {MAX_CELLS}")
    if codec is None:
        return
    if bits not in (None, codec.bits) or cells not in (None, codec.cells):
        raise ConfigError(
            f"the codec given has {codec.bits} bits and {codec.cells} cells; leave out bits and cells, or the codec"
        )
    if codec.dim != dim:
        raise ConfigError(f"the codec given is for vectors of {codec.dim} dimensions, but the encoder's have {dim}")


def _fit_codec(writer: SegmentWriter, cells: int | None, bits: int, seed: int, device: str) -> Codec:
    """Fit a codec to a sample of the spooled vectors."""
    from baleen.index.codec.fitting import fit

    count = min(cells or cell_count(writer.vectors), writer.vectors)
    return fit(_draw_sample(writer, count, seed), count, bits, seed=seed, device=device)


def write_segment(
    root: Path,
    generation: int,
    passages: Iterable[Passage],
    encoder: PassageEncoder,
    codec: Codec,
    *,
    device: str,
    total: int | None,
) -> SegmentEntry | None:
    """Write one more segment with an existing codec; None if there are no passages."""
    with _spool_passages(root, generation, passages, encoder, total) as writer:
        return _finish_segment(writer, codec, device) if writer.passages else None


def _finish_segment(writer: SegmentWriter, codec: Codec, device: str) -> SegmentEntry:
    """Encode the spooled vectors and seal the segment."""
    from baleen.index.codec.fitting import Quantizer

    with progress("encoding vectors", total=writer.vectors, unit="vectors") as bar:
        return writer.finish(Quantizer(codec, device=device), bar.advance)


@contextmanager
def _spool_passages(
    root: Path, generation: int, passages: Iterable[Passage], encoder: PassageEncoder, total: int | None
) -> Iterator[SegmentWriter]:
    """Write passages and their float vectors; the caller finishes the segment with a codec."""
    with closing(SegmentWriter(root, f"{format.generation_name(generation)}/segment", encoder.dim)) as writer:
        with (
            progress("encoding passages", total=total, unit="passages") as bar,
            closing(background(encoder.encode_passages(passages))) as batches,
        ):
            for batch, vectors in batches:
                writer.append(batch, vectors)
                bar.advance(len(batch))
        yield writer


def _draw_sample(writer: SegmentWriter, cells: int, seed: int) -> Sample:
    """Draw the training sample of a codec: single vectors for the cells, whole passages for the residuals."""
    from baleen.index.codec.fitting import CODEBOOK_SAMPLE, Sample

    vectors, lengths, rng = writer.spooled(), writer.lengths(), np.random.default_rng(seed)
    size = min(len(vectors), max(SAMPLE_PER_CELL * cells, CODEBOOK_SAMPLE))
    single = np.sort(rng.choice(len(vectors), size, replace=False))
    order = rng.permutation(len(lengths))
    enough = int(np.searchsorted(lengths[order].cumsum(), CODEBOOK_SAMPLE)) + 1
    starts = lengths.cumsum() - lengths
    passages = [vectors[starts[row] : starts[row] + lengths[row]] for row in np.sort(order[:enough])]
    return Sample(vectors[single], PassageVectors.of(passages))


def refuse_existing(root: Path, overwrite: bool) -> int:
    """Generation of the index at `root`, 0 without one; an error if it exists and may not be overwritten."""
    try:
        generation = format.read_manifest(root).generation
    except IndexNotFoundError:
        return 0
    except (IndexCorruptError, IndexVersionError):
        if not overwrite:
            raise
        return 0
    if not overwrite:
        raise IndexExistsError(
            f"{root}: there is an index here already; add to it, overwrite it, or name another folder"
        )
    return generation


@contextmanager
def _new_generation(root: Path, overwrite: bool) -> Iterator[int]:
    """Hold the lock of a new index and yield its generation; remove everything on failure."""
    fresh = not root.exists()
    with format.write_lock(root):
        generation = format.next_generation(root, refuse_existing(root, overwrite))
        try:
            yield generation
        except BaseException:
            if fresh:
                shutil.rmtree(root, ignore_errors=True)
            else:
                format.sweep(root, failed=generation)
            raise


class Spool:
    """Float16 vectors before quantization: appended to a file, read back mapped."""

    def __init__(self, path: Path, dim: int) -> None:
        self.path, self.dim, self.rows = path, dim, 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb")

    def append(self, vectors: Array) -> None:
        """Write vectors (n, dim) as float16."""
        self._file.write(np.ascontiguousarray(vectors, "<f2").data)
        self.rows += len(vectors)

    def read(self) -> Array:
        """Map all vectors so far: (rows, dim) float16."""
        self._file.flush()
        return map_file(self.path, "<f2", (self.rows, self.dim))

    def finish(self, root: Path) -> ArrayFile:
        """Sync the spool and make it a file of the index."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return ArrayFile(self.path.relative_to(root).as_posix(), "<f2", (self.rows, self.dim), file_sha256(self.path))

    def close(self) -> None:
        self._file.close()


class SegmentWriter:
    """Collects passages and spools their float vectors to disk, then encodes all of them with one codec."""

    def __init__(self, root: Path, name: str, dim: int) -> None:
        self.root, self.name, self.dim = root, name, dim
        self._store = StoreWriter(root, name)
        self._spool = Spool(root / name / "vectors.bin", dim)
        self._lengths: list[Array] = []

    @property
    def vectors(self) -> int:
        """Number of vectors appended."""
        return self._spool.rows

    @property
    def passages(self) -> int:
        """Number of passages appended."""
        return sum(map(len, self._lengths))

    def append(self, passages: list[Passage], vectors: PassageVectors) -> None:
        """Store passages and spool their vectors; refuse a passage without vectors."""
        empty = np.nonzero(vectors.lengths == 0)[0]
        if len(empty):
            raise CorpusError(f"passage '{passages[empty[0]].pid}' has no vectors: nothing in it can be searched for")
        self._store.append(passages)
        self._spool.append(vectors.vectors)
        self._lengths.append(vectors.lengths.astype(np.int64))

    def close(self) -> None:
        """Close the files, finished or not."""
        self._spool.close()
        self._store.close()

    def spooled(self) -> Array:
        """Everything appended so far, mapped: (vectors, dim) float16."""
        return self._spool.read()

    def finish(self, quantizer: Quantizer, advance: Callable[[int], None]) -> SegmentEntry:
        """Encode the spooled vectors and write every file; call `advance` with the number of vectors of each step."""
        lengths = self.lengths()
        with closing(background(quantizer.encode_all(_chunks(self._spool.read(), lengths)))) as encoded:
            files = self._write_codes(encoded, advance)
        if quantizer.codec.bits == 16:
            files["vectors"] = self._spool.finish(self.root)
        else:
            self._spool.path.unlink()
        return seal(self.root, self.name, _offsets_of(lengths), files | self._store.finish())

    def lengths(self) -> Array:
        """Vectors of each passage: (passages,) int64."""
        return np.concatenate([np.zeros(0, np.int64), *self._lengths])

    def _write_codes(self, encoded: Iterable[Encoded], advance: Callable[[int], None]) -> dict[str, ArrayFile]:
        """Write cells and residuals as they are encoded."""
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
        starts = write_array(self.root, f"{self.name}/residual_offsets.bin", _offsets_of(np.concatenate(sizes)))
        return {"codes": codes.entry, "residuals": residuals.entry, "residual_offsets": starts}


def _chunks(vectors: Array, lengths: Array) -> Iterator[PassageVectors]:
    """Whole passages, at most ENCODE_CHUNK vectors at a time unless one passage alone has more."""
    starts, first = _offsets_of(lengths), 0
    while first < len(lengths):
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + ENCODE_CHUNK, side="right")) - 1)
        yield PassageVectors(vectors[starts[first] : starts[last]], lengths[first:last].astype(np.int32))
        first = last


def _offsets_of(sizes: Array) -> Array:
    """(n + 1,) int64: start of each of n items stored end to end, and the end of the last."""
    return np.concatenate([np.zeros(1, np.int64), sizes]).cumsum(dtype=np.int64)


def merge_segments(root: Path, name: str, segments: Sequence[Segment]) -> SegmentEntry:
    """Copy the passages of `segments` that are not deleted into a new segment, without encoding them again."""
    by_vector = [role for role in ("codes", "vectors") if getattr(segments[0], role) is not None]
    lengths, sizes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    with ExitStack() as stack:
        store = stack.enter_context(closing(StoreWriter(root, name)))
        writers = {}
        for role in (*by_vector, "residuals"):
            first_array = getattr(segments[0], role)
            writer = ArrayWriter(root, f"{name}/{role}.bin", first_array.dtype, first_array.shape[1:])
            writers[role] = stack.enter_context(writer)
        for segment in segments:
            for first, last in _alive_runs(segment.alive):
                store.append([segment.store.passage(row) for row in range(first, last)])
                lengths.append(np.diff(segment.offsets[first : last + 1]))
                sizes.append(np.diff(segment.residual_offsets[first : last + 1]))
                for role in by_vector:
                    writers[role].append(getattr(segment, role)[segment.offsets[first] : segment.offsets[last]])
                streams = slice(int(segment.residual_offsets[first]), int(segment.residual_offsets[last]))
                writers["residuals"].append(segment.residuals[streams])
        files = store.finish()
    files |= {role: writer.entry for role, writer in writers.items()}
    files["residual_offsets"] = write_array(root, f"{name}/residual_offsets.bin", _offsets_of(np.concatenate(sizes)))
    return seal(root, name, _offsets_of(np.concatenate(lengths)), files)


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
    """Turn the cell of each vector into the passages of each cell: cells (c,), cell_offsets (c + 1,), postings."""
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
    """Count the passages of each cell."""
    last = np.full(len(counts), -1, np.int64)
    for passage in range(len(offsets) - 1):
        for i in range(offsets[passage], offsets[passage + 1]):
            if last[codes[i]] != passage:
                last[codes[i]] = passage
                counts[codes[i]] += 1


@njit(nogil=True, cache=True)
def _fill_postings(codes: Array, offsets: Array, starts: Array, postings: Array) -> None:
    """Write the passages of each cell, ascending; `starts` moves on to the end of each list."""
    last = np.full(len(starts), -1, np.int64)
    for passage in range(len(offsets) - 1):
        for i in range(offsets[passage], offsets[passage + 1]):
            if last[codes[i]] != passage:
                last[codes[i]] = passage
                postings[starts[codes[i]]] = passage
                starts[codes[i]] += 1


def _alive_runs(alive: Array) -> Iterator[tuple[int, int]]:
    """Runs of rows that are not deleted, at most 4,096 long to limit memory."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], alive.astype(np.int8), [0]])))
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        for start in range(first, last, 4096):
            yield start, min(start + 4096, last)
