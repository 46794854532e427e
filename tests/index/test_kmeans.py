"""Nearest centroids through groups, against exact comparison; means and groups.  `test_codec.py` tests `kmeans`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from baleen.index.codec.kmeans import (
    BATCH_SIZE,
    CLOSENESS_BUDGET,
    MIN_GROUPED,
    MIN_SUMS_PER_THREAD,
    Blocks,
    GroupedCentroids,
    Nearest,
    block_starts,
    cluster_means,
    exact_nearest,
    in_threads,
    kmeans,
    nearest,
    nearest_members,
    split_by_group,
)
from baleen.index.cpu.simd import LANES

Array = npt.NDArray[Any]
Groups = list[list[int]]

MANY = 8192  # centroids, in some 90 to 180 groups


def clumps(count: int, dim: int = 16, *, seed: int = 0, centres: int = 300) -> Array:
    """(count, dim) unit vectors around some centres, most of them around the first ones, like the vectors of words."""
    chance = np.random.default_rng(seed)
    middles = np.random.default_rng(99).standard_normal((centres, dim))
    of = np.minimum(chance.zipf(1.3, count) - 1, centres - 1)
    vectors = middles[of] + 0.5 * chance.standard_normal((count, dim))
    unit: Array = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return unit


def closest(points: Array, members: Array, centres: Array, groups: Groups, probes: int) -> Array:
    """Result of the kernel for these groups."""
    rows = [np.array(group, np.int64) for group in groups]
    blocks, codes = Blocks.of(members, rows), np.full(len(points), -1)
    of = Blocks.of(centres, [np.arange(len(centres))])
    nearest_members(
        points, of.values, of.half_norms, blocks.values, blocks.half_norms, blocks.ids, block_starts(rows), probes, codes
    )  # fmt: skip
    return codes


def by_definition(points: Array, members: Array, centres: Array, groups: Groups, probes: int) -> Array:
    """The same in double precision, point by point, as `kmeans.py` describes it."""
    codes = []
    for point in points.astype(np.float64):
        far = ((members - point) ** 2).sum(axis=1)
        to_groups = ((centres - point) ** 2).sum(axis=1)
        order = np.argsort(to_groups, kind="stable")[:probes].tolist()
        codes.append(min((far[member], member) for group in order for member in groups[group])[1])
    return np.array(codes)


def squared(points: Array, members: Array, codes: Array) -> Array:
    distances: Array = ((points - members[codes]) ** 2).sum(axis=1)
    return distances


@pytest.mark.parametrize("dim", [16, 128])
@pytest.mark.parametrize("probes", [1, 3, 20])
def test_nearest_members_equals_its_definition(probes: int, dim: int) -> None:
    members, points = clumps(600, dim, seed=1), clumps(501, dim, seed=2)
    centres = members[::30].copy()  # 20 groups, of very different sizes, one of them over several blocks
    owner = ((members[:, None] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)
    groups = [np.flatnonzero(owner == group).tolist() for group in range(20)]
    assert max(map(len, groups)) > LANES
    arguments = points, members, centres, groups, probes
    codes, expected = closest(*arguments), by_definition(*arguments)
    assert (codes == expected).mean() > 0.995, "but for rounding"
    np.testing.assert_allclose(
        squared(points, members, codes).mean(), squared(points, members, expected).mean(), rtol=1e-3
    )


def test_probing_every_group_is_exact() -> None:
    members, points = clumps(400, seed=1), clumps(200, seed=2)
    groups = [list(range(start, 400, 10)) for start in range(10)]  # groups that mean nothing
    codes = closest(points, members, members[:10], groups, 10)
    exact = exact_nearest(torch.from_numpy(points), torch.from_numpy(members)).numpy()
    np.testing.assert_allclose(squared(points, members, codes), squared(points, members, exact), atol=1e-5)


@pytest.mark.parametrize("probes", [2, 5, 9])
def test_only_the_nearest_groups_are_probed(probes: int) -> None:
    """Every group holds one member, at its centre, so the best is always in the nearest group."""
    members, points = clumps(64, seed=1), clumps(300, seed=2)
    groups = [[member] for member in range(64)]
    codes = closest(points, members, members, groups, probes)
    exact = exact_nearest(torch.from_numpy(points), torch.from_numpy(members)).numpy()
    np.testing.assert_array_equal(codes, exact)
    # Now each group holds the member of another centre: only the `probes` nearest centres are considered.
    codes = closest(points, members, members, [[(member + 1) % 64] for member in range(64)], probes)
    ranks = ((points[:, None] - members[None]) ** 2).sum(axis=2).argsort(axis=1).argsort(axis=1)
    seen = ranks[np.arange(300), (codes - 1) % 64]
    assert seen.max() < probes


def test_empty_groups_are_dropped() -> None:
    """A thousand centroids eight times over: centres coincide, and one gets all members."""
    centroids = torch.from_numpy(clumps(MIN_GROUPED, seed=5)).repeat(8, 1)
    groups = GroupedCentroids.of(centroids)
    assert (np.diff(groups.starts) > 0).all()
    assert len(groups.starts) - 1 < 128
    points = clumps(500, seed=6)
    codes = nearest(torch.from_numpy(points), centroids).numpy()
    exact = exact_nearest(torch.from_numpy(points), centroids).numpy()
    rows = centroids.numpy()
    assert (squared(points, rows, codes) <= squared(points, rows, exact) + 1e-5).mean() > 0.97


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65])
def test_equal_members_give_one_of_them(count: int) -> None:
    members = np.repeat(clumps(1), count, axis=0)
    codes = closest(members[:1], members, members[:1], [list(range(count))], 1)
    assert codes.tolist() == [0]


@pytest.mark.parametrize("points", [0, 1, 3, 4, 5])
def test_point_counts_that_are_no_multiple_of_four(points: int) -> None:
    members = clumps(90)
    groups = [list(range(45)), list(range(45, 90))]
    some = members[:points]
    assert closest(some, members, members[[0, 45]], groups, 2).tolist() == list(range(points))


def test_the_number_of_groups_follows_the_number_of_centroids() -> None:
    few, more, many = (
        GroupedCentroids.of(torch.from_numpy(clumps(count))) for count in (MIN_GROUPED - 1, MIN_GROUPED, MANY)
    )
    assert [len(groups.starts) - 1 for groups in (few, more, many)] == [1, 64, 128]
    assert Nearest.of(torch.from_numpy(clumps(5)).to("meta")).grouped is None, "any other device compares with all"


@pytest.mark.parametrize(("dim", "share", "error"), [(16, 0.97, 1.005), (128, 0.97, 1.005)])
def test_grouped_assignment_is_nearly_exact(dim: int, share: float, error: float) -> None:
    """Share of held-out vectors that get their nearest cell, and the squared error of the others."""
    sample, points = clumps(40_000, dim, seed=3), clumps(3000, dim, seed=4)
    centroids = kmeans(torch.from_numpy(sample), MANY, torch.Generator().manual_seed(0))
    codes = nearest(torch.from_numpy(points), centroids).numpy()
    exact = exact_nearest(torch.from_numpy(points), centroids).numpy()
    rows = centroids.numpy()
    assert (codes == exact).mean() >= share
    assert squared(points, rows, codes).mean() <= error * squared(points, rows, exact).mean()


@pytest.mark.parametrize("points", [0, 1, 7, 300])
def test_fewer_points_than_groups(points: int) -> None:
    centroids = torch.from_numpy(clumps(MANY, seed=5))
    assert nearest(centroids[:points], centroids).tolist() == list(range(points))


def test_identical_centroids() -> None:
    same = nearest(torch.from_numpy(clumps(500, seed=6)), torch.from_numpy(np.repeat(clumps(1), MANY, axis=0)))
    assert ((same >= 0) & (same < MANY)).all()


@pytest.mark.parametrize("threads", [1, 3, 8])
def test_assignment_does_not_depend_on_the_number_of_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    centroids, points = (torch.from_numpy(clumps(count, seed=count)) for count in (MANY, 2 * BATCH_SIZE + 77))
    expected = nearest(points, centroids)
    monkeypatch.setattr("baleen.index.codec.kmeans.available_cores", lambda: threads)
    np.testing.assert_array_equal(nearest(points, centroids), expected)


def test_assignment_does_not_depend_on_the_batch() -> None:
    find = GroupedCentroids.of(torch.from_numpy(clumps(MANY, seed=5)))
    points = torch.from_numpy(clumps(1001, seed=6))
    alone = torch.cat([find(part) for part in torch.split(points, 13)])
    np.testing.assert_array_equal(find(points), alone)


def test_scratch_memory_of_a_batch_is_bounded() -> None:
    centres = 256  # of the most cells that there can be
    assert min(BATCH_SIZE, CLOSENESS_BUDGET // centres) * centres * 4 <= 2**25


def test_in_threads_runs_each_item_once() -> None:
    done: list[int] = []
    in_threads(done.append, range(50))
    assert sorted(done) == list(range(50))


def plain_means(points: torch.Tensor, owner: torch.Tensor, centroids: torch.Tensor) -> torch.Tensor:
    """Means by torch, row after row."""
    sums = torch.zeros_like(centroids).index_add_(0, owner, points)
    counts = torch.bincount(owner, minlength=len(centroids))[:, None]
    return torch.where(counts > 0, sums / counts.clamp(min=1), centroids)


@pytest.mark.parametrize("centroids", [1, 3, MIN_SUMS_PER_THREAD, 3 * MIN_SUMS_PER_THREAD + 5])
@pytest.mark.parametrize("cores", [1, 2, 5])
def test_means_equal_torch_bit_for_bit(centroids: int, cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("baleen.index.codec.kmeans.available_cores", lambda: cores)
    generator = torch.Generator().manual_seed(centroids)
    points, old = (torch.randn(count, 24, generator=generator) for count in (4000, centroids))
    owner = torch.randint(centroids, (4000,), generator=generator)
    assert torch.equal(cluster_means(points, owner, old), plain_means(points, owner, old))


def test_a_centroid_without_points_keeps_its_position() -> None:
    old = torch.arange(6.0).view(3, 2)
    found = cluster_means(torch.tensor([[1.0, 1.0], [3.0, 5.0]]), torch.tensor([2, 2]), old)
    assert found.tolist() == [[0.0, 1.0], [2.0, 3.0], [2.0, 3.0]]


def test_means_of_points_that_are_not_contiguous() -> None:
    wide = torch.randn(50, 16, generator=torch.Generator().manual_seed(0))
    owner = torch.arange(50) % 4
    some = wide[:, ::2]
    assert torch.equal(cluster_means(some, owner, torch.zeros(4, 8)), plain_means(some, owner, torch.zeros(4, 8)))


def test_split_by_group_keeps_order_and_empty_groups() -> None:
    points = torch.arange(12.0).view(6, 2)
    found = split_by_group(points, torch.tensor([2, 0, 2, 0, 3, 2]), 5)
    assert [part[:, 0].tolist() for part in found] == [[2.0, 6.0], [], [0.0, 4.0, 10.0], [8.0], []]


def test_split_by_group_without_points() -> None:
    assert [len(part) for part in split_by_group(torch.empty(0, 2), torch.empty(0, dtype=torch.int64), 3)] == [0, 0, 0]
