"""The residual code against its definition, and the properties that make it useful."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from numba import njit

from baleen.index.codec import residuals
from baleen.index.codec.codec import unpack_streams
from baleen.index.codec.fitting import encode_residuals
from baleen.index.codec.residuals import BEAM_WIDTH, CODEWORDS, MAX_DEPTH, MAX_REFERENCE, WIDTH
from baleen.index.cpu.simd import first_nearest_codewords, nearest_codewords
from stream_fakes import RandomStream

Array = npt.NDArray[Any]

DIM = 2 * WIDTH
NEVER = np.float32(np.inf)


def chance(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def books(layers: int, seed: int = 0, spread: float = 1.0) -> Array:
    """(layers, 2, 256, 8) normal codewords, finer in each layer."""
    finer = spread * 0.6 ** np.arange(layers)
    return (finer[:, None, None, None] * chance(seed).standard_normal((layers, 2, CODEWORDS, WIDTH))).astype(np.float32)


def encoded(vectors: Array, codebooks: Array, thresholds: list[float], lengths: list[int] | None = None) -> Any:
    """Streams, their starts and the restored residuals; without weighting of directions."""
    offsets = np.cumsum([0, *(lengths or [len(vectors)])])
    nowhere = np.zeros_like(vectors)
    return *encode_residuals(vectors, nowhere, offsets, codebooks, np.array(thresholds, np.float32)), offsets


def parsed(streams: Array, starts: Array, offsets: Array) -> tuple[Array, Array, Array, int]:
    return unpack_streams(offsets, streams, starts, 2)


def normal(count: int, seed: int = 1) -> Array:
    return chance(seed).standard_normal((count, DIM)).astype(np.float32)


@pytest.mark.parametrize("length", [1, 2, 7, 40])
@pytest.mark.parametrize("layers", [1, 4])
def test_decoding_equals_the_definition(length: int, layers: int) -> None:
    stream, codebooks = RandomStream(length, 2, layers, chance(length)), books(layers)
    out = np.full((length, DIM), np.nan, np.float32)
    residuals.decode_passage(codebooks, stream.packed, out)
    np.testing.assert_allclose(out, stream.restored(codebooks), atol=1e-5)


@pytest.mark.parametrize("lengths", [[1], [5, 1, 8], [3, 4]])
def test_unpacking_equals_the_definition(lengths: list[int]) -> None:
    streams = [RandomStream(length, 2, 3, chance(length)) for length in lengths]
    packed = [stream.packed for stream in streams]
    starts, offsets = np.cumsum([0, *map(len, packed)]), np.cumsum([0, *lengths])
    layers, references, positions, max_depth = parsed(np.concatenate(packed), starts, offsets)
    assert layers.tolist() == [count for stream in streams for count in stream.layers]
    assert [*map(tuple, references.tolist())] == [pair for stream in streams for pair in stream.references]
    everything = np.concatenate(packed).tolist()
    for own, place in zip([own for stream in streams for own in stream.bytes], positions.tolist(), strict=True):
        assert everything[place : place + len(own)] == own
    assert max_depth == max(slow_depths([pair for stream in streams for pair in stream.references], lengths))


def slow_depths(references: list[Any], lengths: list[int]) -> list[int]:
    """Longest chain of references from each vector."""
    found, waiting = [], iter(references)
    for length in lengths:
        depths = [0]
        for _ in range(length):
            depths.append(max((depths[one] + 1 for one in next(waiting) if one), default=0))
        found += depths[1:]
    return found


def test_encoding_reports_what_decoding_restores() -> None:
    vectors, codebooks, lengths = normal(61), books(4), [30, 1, 20, 10]
    streams, starts, restored, offsets = encoded(vectors, codebooks, [0.5, 2, 4, 8], lengths)
    for row, (first, last) in enumerate(pairwise(offsets)):
        out = np.empty((last - first, DIM), np.float32)
        residuals.decode_passage(codebooks, streams[starts[row] : starts[row + 1]], out)
        np.testing.assert_allclose(out, restored[first:last], atol=1e-5)
    assert ((vectors - restored) ** 2).sum(axis=1).mean() < 0.5 * (vectors**2).sum(axis=1).mean()


def test_thresholds_set_the_number_of_layers() -> None:
    vectors = np.zeros((4, DIM), np.float32)
    vectors[:, 0] = [0.5, 1.0, 2.0, 9.0]  # squared: 0.25, 1, 4, 81
    streams, starts, _, offsets = encoded(vectors, books(3), [1.0, 4.0, 80.0], [1, 1, 1, 1])
    assert parsed(streams, starts, offsets)[0].tolist() == [0, 1, 2, 3], "each in a passage of its own"


def test_a_vector_without_layers_is_the_mean_of_its_references() -> None:
    vectors = normal(3)
    vectors[2] = (vectors[0] + vectors[1]) / 2
    streams, starts, restored, offsets = encoded(vectors, books(6), [0.2] * 6)
    layers, references, _, _ = parsed(streams, starts, offsets)
    assert sorted(references[2].tolist()) == [1, 2]
    assert layers.tolist() == [6, 6, 0]
    np.testing.assert_allclose(restored[2], (restored[0] + restored[1]) / 2, atol=1e-6)


def test_references_are_the_pair_with_the_nearest_mean() -> None:
    vectors = normal(9)
    streams, starts, restored, offsets = encoded(vectors, books(4), [0.0] * 4)
    references = parsed(streams, starts, offsets)[1]
    known = np.concatenate([np.zeros((1, DIM), np.float32), restored])
    for t, (one, other) in enumerate(references.tolist()):
        errors = {
            (i, j): float(((vectors[t] - (known[i] + known[j]) / 2) ** 2).sum())
            for i in range(t + 1)
            for j in range(i + 1)
        }
        assert errors[max(one, other), min(one, other)] == pytest.approx(min(errors.values()), rel=1e-4)


def test_references_respect_depth_and_reach() -> None:
    walk = np.cumsum(0.05 * normal(MAX_REFERENCE + 60), axis=0).astype(np.float32) + 3  # each like the one before
    codebooks = books(4)
    streams, starts, restored, offsets = encoded(walk, codebooks, [1e-4] * 4)
    _, references, _, max_depth = parsed(streams, starts, offsets)
    pairs = [tuple(pair) for pair in references.tolist()]
    assert max_depth == max(slow_depths(pairs, [len(walk)])) == MAX_DEPTH
    out = np.empty_like(walk)
    residuals.decode_passage(codebooks, streams, out)
    np.testing.assert_allclose(out, restored, atol=1e-4)


def test_layers_are_chosen_together() -> None:
    vectors, codebooks = normal(200), books(4)
    _, _, restored, _ = encoded(vectors, codebooks, [0.0] * 4, [1] * 200)
    greedy = np.zeros_like(vectors)
    for layer in codebooks:
        left = (vectors - greedy).reshape(200, 2, 1, WIDTH)
        nearest = ((left - layer[None]) ** 2).sum(axis=3).argmin(axis=2)  # (200, 2)
        greedy += layer[np.arange(2), nearest].reshape(200, DIM)
    ours, theirs = (((vectors - each) ** 2).sum(axis=1) for each in (restored, greedy))
    assert ours.mean() < 0.9 * theirs.mean()
    assert (ours <= theirs + 1e-5).mean() > 0.95


def test_one_layer_has_the_nearest_codewords() -> None:
    vectors, codebooks = normal(200), books(1)
    streams, starts, _, offsets = encoded(vectors, codebooks, [0.0], [1] * 200)
    positions = parsed(streams, starts, offsets)[2]
    chosen = streams[positions[:, None] + np.arange(2)]
    distances = ((vectors.reshape(200, 2, 1, WIDTH) - codebooks[0][None]) ** 2).sum(axis=3)  # (200, 2, 256)
    # A place takes the lowest 10 of 23 bits of a distance, so distances closer than 2^-13 of themselves tie.
    found = np.take_along_axis(distances, chosen[:, :, None].astype(np.int64), axis=2)[:, :, 0]
    assert (found <= distances.min(axis=2) * (1 + 2**-12)).all()
    assert (chosen == distances.argmin(axis=2)).mean() > 0.99


def test_errors_along_the_vector_are_smaller() -> None:
    vectors = normal(500) / 4
    offsets, codebooks, thresholds = np.arange(501), books(2, spread=0.2), np.zeros(2, np.float32)
    blind, aware = (
        vectors - encode_residuals(vectors, along, offsets, codebooks, thresholds)[2]
        for along in (np.zeros_like(vectors), vectors)
    )
    before, after = ((np.einsum("td,td->t", error, vectors) ** 2).mean() for error in (blind, aware))
    assert after < 0.7 * before
    assert (aware**2).sum(axis=1).mean() < 1.15 * (blind**2).sum(axis=1).mean()


def test_small_remainders_are_not_written() -> None:
    streams, starts, restored, _ = encoded(normal(5), books(2), [NEVER, NEVER])
    assert starts.tolist() == [0, 3 + 10], "half bytes and references alone"
    assert len(streams) == 13
    assert not restored.any()


@njit
def nearest(rows: Array, columns: Array, norms: Array, positions: Array) -> None:
    nearest_codewords(rows.ctypes.data, columns.ctypes.data, norms.ctypes.data, WIDTH, positions.ctypes.data)


@njit
def nearest_of_one(rows: Array, columns: Array, norms: Array, positions: Array) -> None:
    first_nearest_codewords(rows.ctypes.data, columns.ctypes.data, norms.ctypes.data, WIDTH, positions.ctypes.data)


def found_and_true(seed: int, rows: int) -> tuple[Array, Array]:
    """Squared distances of the four codewords that a kernel finds, and the four smallest of all, ascending."""
    random, positions = chance(seed), np.full(BEAM_WIDTH, -1, np.int32)
    words = random.standard_normal((CODEWORDS, WIDTH)).astype(np.float32)
    vectors = random.standard_normal((BEAM_WIDTH, WIDTH)).astype(np.float32)
    vectors[0] = words[seed]  # a distance of nothing, which rounding may put below
    kernel = nearest if rows == BEAM_WIDTH else nearest_of_one
    kernel(vectors, np.ascontiguousarray(words.T), (words**2).sum(axis=1), positions)
    distances = ((vectors[:rows, None] - words) ** 2).sum(axis=2).ravel()
    assert len(set(positions.tolist())) == BEAM_WIDTH
    return distances[positions], np.sort(distances)[:BEAM_WIDTH]


@pytest.mark.parametrize("seed", range(40))
def test_nearest_codewords_of_one_row_are_exact(seed: int) -> None:
    found, true = found_and_true(seed, 1)
    np.testing.assert_allclose(found, true, rtol=1e-3, atol=1e-4)


def test_nearest_codewords_of_four_rows_are_nearly_exact() -> None:
    missed = 0
    for seed in range(100):
        found, true = found_and_true(seed, BEAM_WIDTH)
        np.testing.assert_allclose(found[0], true[0], rtol=1e-3, atol=1e-4)
        assert (np.diff(found) >= -1e-3 * found[1:] - 1e-4).all(), "the nearest comes first"
        missed += int((~np.isclose(found, true, rtol=1e-3, atol=1e-4)).any())
    assert missed <= 10
