"""Writing the segments of an index: from passages, through an encoder and a codec, to files."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

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
from baleen.index.codec.codec import BITS, MAX_CELLS, Codec, cell_count
from baleen.index.codec.fitting import CODEBOOK_SAMPLE, Quantizer, Sample, fit
from baleen.index.format import Manifest, SegmentEntry
from baleen.index.segment import PassageEncoder, SegmentWriter

Array = npt.NDArray[Any]

SAMPLE_PER_CELL = 16  # vectors that k-means sees for each centroid


def build(
    root: Path,
    passages: Iterable[Passage],
    encoder: PassageEncoder,
    *,
    bits: int,
    cells: int | None,
    seed: int,
    overwrite: bool,
    device: str,
    total: int | None,
    corpus: str | None = None,
) -> Manifest:
    """Write and commit a new index; see `Index.build`."""
    if bits not in BITS:
        raise ConfigError(f"bits = {bits} should be one of {', '.join(map(str, BITS))}")
    if cells is not None and not 1 <= cells <= MAX_CELLS:
        raise ConfigError(f"cells = {cells} should be from 1 to {MAX_CELLS}")
    with _building(root, overwrite) as generation, _spooled(root, generation, passages, encoder, total) as writer:
        folder = format.generation_name(generation)
        if not writer.passages:
            raise CorpusError("no passages were given, and an index needs at least one")
        count = min(cells or cell_count(writer.vectors), writer.vectors)
        codec = fit(_sample(writer, count, seed), count, bits, seed=seed, device=device)
        manifest = Manifest(
            generation=generation,
            dim=encoder.dim,
            bits=bits,
            encoder=encoder.fingerprint,
            focus=dict(zip(("query", "facts"), encoder.focus, strict=True)),
            fitted_on=writer.vectors,
            codec={
                role: format.write_array(root, f"{folder}/codec/{role}.bin", array)
                for role, array in codec.arrays.items()
            },
            segments=(_finish(writer, codec, device),),
            settings={"seed": seed, "cells": count} | ({} if corpus is None else {"corpus": corpus}),
        )
        format.sync_generation(root, generation)
        format.commit(root, manifest)
        format.sweep(root)
    return manifest


def write_segment(
    root: Path,
    generation: int,
    passages: Iterable[Passage],
    encoder: PassageEncoder,
    codec: Codec,
    device: str,
    total: int | None,
) -> SegmentEntry | None:
    """One more segment with a codec that is there already; None if there were no passages."""
    with _spooled(root, generation, passages, encoder, total) as writer:
        return _finish(writer, codec, device) if writer.passages else None


def _finish(writer: SegmentWriter, codec: Codec, device: str) -> SegmentEntry:
    with progress("encoding vectors", total=writer.vectors, unit="vectors") as bar:
        return writer.finish(Quantizer(codec, device=device), bar.advance)


@contextmanager
def _spooled(
    root: Path, generation: int, passages: Iterable[Passage], encoder: PassageEncoder, total: int | None
) -> Iterator[SegmentWriter]:
    """A segment whose passages are written and encoded to float vectors, to be finished with a codec."""
    with closing(SegmentWriter(root, f"{format.generation_name(generation)}/segment", encoder.dim)) as writer:
        with (
            progress("encoding passages", total=total, unit="passages") as bar,
            closing(background(encoder.encode_passages(passages))) as batches,
        ):
            for batch, vectors in batches:
                writer.append(batch, vectors)
                bar.advance(len(batch))
        yield writer


def _sample(writer: SegmentWriter, cells: int, seed: int) -> Sample:
    """What a codec is fitted on, drawn over the whole corpus: some vectors for each cell, and whole passages."""
    vectors, lengths, chance = writer.spooled(), writer.lengths(), np.random.default_rng(seed)
    size = min(len(vectors), max(SAMPLE_PER_CELL * cells, CODEBOOK_SAMPLE))
    single = np.sort(chance.choice(len(vectors), size, replace=False))
    drawn = chance.permutation(len(lengths))
    enough = int(np.searchsorted(lengths[drawn].cumsum(), CODEBOOK_SAMPLE)) + 1
    starts = lengths.cumsum() - lengths
    passages = [vectors[starts[row] : starts[row] + lengths[row]] for row in np.sort(drawn[:enough])]
    return Sample(vectors[single], PassageVectors.of(passages))


def refuse_existing(root: Path, overwrite: bool) -> int:
    """The generation that stands here, 0 if none does; an error unless it may be overwritten, as a broken one may."""
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
def _building(root: Path, overwrite: bool) -> Iterator[int]:
    """Hold the lock of an index to be and yield its generation; leave nothing behind on failure."""
    fresh = not root.exists()
    with format.writing(root):
        generation = format.next_generation(root, refuse_existing(root, overwrite))
        try:
            yield generation
        except BaseException:
            if fresh:
                shutil.rmtree(root, ignore_errors=True)
            else:
                format.sweep(root, failed=generation)
            raise
