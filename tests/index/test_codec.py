from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from baleen.core.vectors import PassageVectors
from baleen.index.codec.codec import MAX_CELLS, Codec, cell_count, padded_dim, unpack_streams
from baleen.index.codec.fitting import LAYERS, Quantizer, Sample, fit
from baleen.index.codec.kmeans import MIN_GROUPED, kmeans, nearest

Array = npt.NDArray[Any]

BITS: tuple[int, ...] = (1, 2, 4, 16)


def unit_vectors(count: int, dim: int, seed: int = 0, topics: int = 12) -> Array:
    """(count, dim) float32 unit vectors around a common direction and some topics."""
    chance = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((topics, dim)) + 1.0
    vectors = centres[chance.integers(topics, size=count)] + 0.7 * chance.standard_normal((count, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def in_passages(vectors: Array, length: int = 20) -> PassageVectors:
    """Passages of this many vectors; the last one may be shorter."""
    return PassageVectors.of([vectors[start : start + length] for start in range(0, len(vectors), length)])


def fitted(vectors: Array, cells: int, bits: int, *, seed: int = 0, device: str = "cpu") -> Codec:
    return fit(Sample(vectors, in_passages(vectors)), cells, bits, seed=seed, device=device)


def round_trip(codec: Codec, vectors: Array) -> Array:
    """Encode, decode and map back to the space of `vectors`; at 16 bits the centroids alone."""
    encoded = Quantizer(codec).encode(in_passages(vectors))
    if codec.bits == 16:
        return codec.restore(codec.float_centroids[encoded.codes])
    return codec.restore(codec.decode(encoded))


def mean_error(codec: Codec, vectors: Array) -> float:
    return float(((round_trip(codec, vectors) - vectors) ** 2).sum(axis=1).mean())


@given(st.integers(1, 2**40))
def test_cell_count_is_a_power_of_two_within_bounds(vectors: int) -> None:
    count = cell_count(vectors)
    assert count & (count - 1) == 0
    assert 1 <= count <= MAX_CELLS
    assert count == 1 or 4 * count <= vectors
    assert count <= 16 * math.sqrt(vectors)
    double = 2 * count
    assert double > MAX_CELLS or double > 16 * math.sqrt(vectors) or 4 * double > vectors, "the largest that fits"


@pytest.mark.parametrize(
    ("vectors", "cells"),
    [(1, 1), (7, 1), (8, 2), (15, 2), (16, 4), (1000, 128), (4096, 1024), (2**20, 2**14), (2**24, 2**16), (10**12, 2**16)],
)  # fmt: skip
def test_cell_counts_by_hand(vectors: int, cells: int) -> None:
    assert cell_count(vectors) == cells


def test_dimensions_are_padded_to_multiples_of_16() -> None:
    assert [padded_dim(dim) for dim in (1, 15, 16, 17, 100, 128)] == [16, 16, 16, 32, 112, 128]


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("dim", [16, 24, 100])
def test_maps_preserve_inner_products(bits: int, dim: int) -> None:
    vectors = unit_vectors(300, dim)
    codec = fitted(vectors, 8, bits)
    assert (codec.dim, codec.width) == (dim, padded_dim(dim))
    queries = np.random.default_rng(1).standard_normal((5, dim)).astype(np.float32)
    mapped = vectors @ codec.forward
    np.testing.assert_allclose(codec.map_queries(queries) @ mapped.T, queries @ vectors.T, atol=1e-4)
    np.testing.assert_allclose(codec.restore(mapped), vectors, atol=1e-5)


@pytest.mark.parametrize("dim", [16, 24, 100])
def test_more_bits_reduce_the_error(dim: int) -> None:
    vectors = unit_vectors(1500, dim)
    cells_alone = mean_error(fitted(vectors, 16, 16), vectors)
    errors = [mean_error(fitted(vectors, 16, bits), vectors) for bits in (1, 2, 4)]
    assert cells_alone > errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.02


def test_array_shapes() -> None:
    codec = fitted(unit_vectors(300, 24), 10, 2)
    assert (codec.bits, codec.cells, codec.layers, codec.subspaces) == (2, 10, 4, 4)
    assert {name: (array.dtype.name, array.shape) for name, array in codec.arrays.items()} == {
        "forward": ("float32", (24, 32)),
        "backward": ("float32", (24, 32)),
        "centroids": ("int8", (10, 32)),
        "scales": ("float32", (10,)),
        "codebooks": ("float16", (4, 4, 256, 8)),
        "thresholds": ("float32", (4,)),
    }
    encoded = Quantizer(codec).encode(in_passages(unit_vectors(7, 24), 3))
    assert (encoded.codes.dtype, encoded.codes.shape) == (np.uint16, (7,))
    assert encoded.offsets.tolist() == [0, 3, 6, 7]
    assert (encoded.residuals.dtype, len(encoded.residual_offsets)) == (np.uint8, 4)
    assert encoded.residual_offsets[-1] == len(encoded.residuals)


def test_16_bits_have_no_residuals() -> None:
    codec = fitted(unit_vectors(300, 24), 10, 16)
    assert (codec.layers, codec.subspaces) == (0, 0)
    encoded = Quantizer(codec).encode(in_passages(unit_vectors(7, 24), 3))
    assert not encoded.residuals.size
    assert encoded.residual_offsets.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_bits_per_dimension_hold_on_average(bits: int) -> None:
    vectors = unit_vectors(4000, 32)
    encoded = Quantizer(fitted(vectors, 16, bits)).encode(in_passages(vectors))
    layers = unpack_streams(encoded.offsets, encoded.residuals, encoded.residual_offsets, 4)[0]
    assert layers.mean() == pytest.approx(bits, rel=0.1)
    assert layers.max() <= LAYERS[bits]


def test_similar_vectors_of_a_passage_compress_better() -> None:
    chance = np.random.default_rng(0)
    themes = unit_vectors(300, 32).repeat(10, axis=0)
    alike = themes + 0.05 * chance.standard_normal(themes.shape).astype(np.float32)
    scattered = alike[chance.permutation(len(alike))]  # the same vectors, in passages that have nothing in common
    codec = fitted(alike, 16, 2)
    together, apart = (Quantizer(codec).encode(in_passages(vectors, 10)) for vectors in (alike, scattered))
    assert len(together.residuals) < 0.8 * len(apart.residuals), "with the same thresholds"
    assert mean_error(codec, alike) < mean_error(codec, scattered)


@pytest.mark.parametrize("bits", [1, 2, 4])
@pytest.mark.parametrize("sample", [1, 2, 5, 10, 40])
def test_a_codec_fitted_on_few_vectors_generalizes(sample: int, bits: int) -> None:
    codec = fitted(unit_vectors(sample, 32), cell_count(sample), bits)
    others = unit_vectors(400, 32, seed=7)
    restored = round_trip(codec, others)
    assert np.isfinite(restored).all()
    # A unit vector lies at 1 from the origin: whatever is restored should be nearer than that to what was stored.
    assert float(((restored - others) ** 2).sum(axis=1).mean()) < 1.0


@pytest.mark.parametrize("bits", BITS)
def test_a_codec_fits_on_one_vector(bits: int) -> None:
    vector = unit_vectors(1, 16)
    codec = fitted(vector, 1, bits)
    assert Quantizer(codec).encode(in_passages(vector)).codes.tolist() == [0]
    np.testing.assert_allclose(round_trip(codec, vector), vector, atol=0.1)


def test_a_codec_fits_on_equal_vectors() -> None:
    vectors = np.repeat(unit_vectors(1, 16), 40, axis=0)
    np.testing.assert_allclose(round_trip(fitted(vectors, 4, 2), vectors), vectors, atol=0.1)


def test_float16_and_float32_vectors_encode_equally() -> None:
    vectors = unit_vectors(300, 16).astype(np.float16)
    quantizer = Quantizer(fitted(vectors, 8, 2))
    half, single = (quantizer.encode(in_passages(each)) for each in (vectors, vectors.astype(np.float32)))
    np.testing.assert_array_equal(half.codes, single.codes)
    np.testing.assert_array_equal(half.residuals, single.residuals)


def test_the_same_seed_gives_the_same_codec() -> None:
    vectors = unit_vectors(400, 24)
    first, again, other = (fitted(vectors, 16, 2, seed=seed) for seed in (3, 3, 4))
    for name, array in first.arrays.items():
        np.testing.assert_array_equal(array, again.arrays[name])
    assert (first.centroids != other.centroids).any()


@pytest.mark.parametrize("bits", [2, 16])
def test_the_codec_does_not_depend_on_the_number_of_threads(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, before = unit_vectors(3001, 24), torch.get_num_threads()
    codecs = []
    for threads in (1, 2, 3):
        monkeypatch.setattr("baleen.index.codec.kmeans.available_cores", lambda count=threads: count)
        torch.set_num_threads(threads)
        codecs.append(fitted(vectors, 16, bits))
        assert torch.get_num_threads() == threads, "left as it was"
    torch.set_num_threads(before)
    for name, array in codecs[0].arrays.items():
        for other in codecs[1:]:
            np.testing.assert_array_equal(array, other.arrays[name])


def test_centroids_are_bytes_times_scales() -> None:
    codec = fitted(unit_vectors(300, 16), 10, 2)
    read = codec.float_centroids
    assert read.shape == (12, 16), "rows are taken four at a time"
    np.testing.assert_allclose(read[:10], codec.centroids.astype(np.float32) * codec.scales[:, None])
    assert not read[10:].any()
    assert codec.largest_centroid == pytest.approx(np.linalg.norm(read, axis=1).max())


def test_few_cells_are_assigned_exactly() -> None:
    vectors = unit_vectors(300, 16)
    quantizer = Quantizer(fitted(vectors, 16, 2))
    cells = quantizer.encode(in_passages(vectors)).codes
    mapped = vectors @ quantizer.codec.forward
    distances = ((mapped[:, None] - quantizer.codec.float_centroids[None, :16]) ** 2).sum(axis=2)
    chosen = np.take_along_axis(distances, cells[:, None].astype(np.int64), axis=1)[:, 0]
    np.testing.assert_allclose(chosen, distances.min(axis=1), atol=1e-5)


@pytest.mark.parametrize("count", [1, 3, 63, 64, 65, 200])
def test_nearest_is_exact_for_few_centroids(count: int) -> None:
    points, centroids = torch.from_numpy(unit_vectors(301, 24)), torch.from_numpy(unit_vectors(count, 24, seed=1))
    distances = torch.cdist(points.double(), centroids.double())
    chosen = distances.gather(1, nearest(points, centroids)[:, None])[:, 0]
    np.testing.assert_allclose(chosen, distances.min(dim=1).values, atol=1e-5)


def test_nearest_is_nearly_exact_for_many_centroids() -> None:
    points, centroids = (torch.from_numpy(unit_vectors(count, 16, seed=count)) for count in (700, MIN_GROUPED + 100))
    distances = torch.cdist(points, centroids)
    chosen = distances.gather(1, nearest(points, centroids)[:, None])[:, 0]
    best = distances.min(dim=1).values
    assert (chosen <= best + 1e-5).float().mean() > 0.95
    assert chosen.mean() < 1.02 * best.mean()


@pytest.mark.parametrize("k", [1, 7, 40])
def test_kmeans_centroids_are_means_of_their_points(k: int) -> None:
    points = torch.from_numpy(unit_vectors(400, 16))
    generator = torch.Generator().manual_seed(0)
    start = points[torch.randperm(len(points), generator=torch.Generator().manual_seed(0))[:k]]
    centroids = kmeans(points, k, generator)
    assert centroids.shape == (k, 16)

    def spread(around: torch.Tensor) -> float:
        return float(torch.cdist(points, around).min(dim=1).values.square().mean())

    assert spread(centroids) < spread(start), "better than the sample that they started from"


def test_kmeans_with_one_centroid_per_point() -> None:
    points = torch.from_numpy(unit_vectors(30, 16))
    centroids = kmeans(points, 30, torch.Generator().manual_seed(0))
    assert float(torch.cdist(points, centroids).min(dim=1).values.max()) < 1e-3


def test_kmeans_on_a_cpu_returns_k_centroids() -> None:
    points = torch.from_numpy(unit_vectors(4 * MIN_GROUPED, 16))
    centroids = kmeans(points, MIN_GROUPED, torch.Generator().manual_seed(0))
    assert centroids.shape == (MIN_GROUPED, 16)
    assert centroids.isfinite().all()
    start = points[:MIN_GROUPED]
    assert torch.cdist(points, centroids).min(dim=1).values.mean() < torch.cdist(points, start).min(dim=1).values.mean()


@pytest.mark.gpu
@pytest.mark.parametrize("bits", BITS)
def test_gpu_and_cpu_encode_equally(bits: int) -> None:
    vectors = unit_vectors(5000, 100)
    codec = fitted(vectors, 64, bits)
    here, there = (Quantizer(codec, device=device).encode(in_passages(vectors)) for device in ("cpu", "cuda"))
    assert (here.codes == there.codes).mean() > 0.999
    assert len(there.residuals) == pytest.approx(len(here.residuals), rel=0.01)
    if bits != 16:
        errors = [((codec.restore(codec.decode(each)) - vectors) ** 2).sum(axis=1).mean() for each in (here, there)]
        assert errors[1] == pytest.approx(errors[0], rel=0.01)


@pytest.mark.gpu
@pytest.mark.parametrize("bits", [1, 2, 4])
def test_a_codec_fitted_on_a_gpu_has_the_same_error(bits: int) -> None:
    vectors = unit_vectors(5000, 100)
    here, there = (mean_error(fitted(vectors, 64, bits, device=device), vectors) for device in ("cpu", "cuda"))
    assert there == pytest.approx(here, rel=0.05)
