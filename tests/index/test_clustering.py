"""What k-means is made of on a CPU: sums by owner, parts by owner; `test_codec.py` has its results."""

from __future__ import annotations

import pytest
import torch

from baleen.index.codec.kmeans import SUMS_AT_ONCE, cluster_means, split_by_group


def plain_means(points: torch.Tensor, owner: torch.Tensor, centroids: torch.Tensor) -> torch.Tensor:
    """As torch would do it, row after row."""
    sums = torch.zeros_like(centroids).index_add_(0, owner, points)
    counts = torch.bincount(owner, minlength=len(centroids))[:, None]
    return torch.where(counts > 0, sums / counts.clamp(min=1), centroids)


@pytest.mark.parametrize("centroids", [1, 3, SUMS_AT_ONCE, 3 * SUMS_AT_ONCE + 5])
@pytest.mark.parametrize("cores", [1, 2, 5])
def test_means_are_those_of_a_plain_sum_to_the_last_bit(
    centroids: int, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("baleen.index.codec.kmeans.available_cores", lambda: cores)
    generator = torch.Generator().manual_seed(centroids)
    points, old = (torch.randn(count, 24, generator=generator) for count in (4000, centroids))
    owner = torch.randint(centroids, (4000,), generator=generator)
    assert torch.equal(cluster_means(points, owner, old), plain_means(points, owner, old))


def test_a_centroid_without_points_stays_where_it_is() -> None:
    old = torch.arange(6.0).view(3, 2)
    found = cluster_means(torch.tensor([[1.0, 1.0], [3.0, 5.0]]), torch.tensor([2, 2]), old)
    assert found.tolist() == [[0.0, 1.0], [2.0, 3.0], [2.0, 3.0]]


def test_points_that_lie_scattered_in_memory_are_added_up_too() -> None:
    wide = torch.randn(50, 16, generator=torch.Generator().manual_seed(0))
    owner = torch.arange(50) % 4
    some = wide[:, ::2]
    assert torch.equal(cluster_means(some, owner, torch.zeros(4, 8)), plain_means(some, owner, torch.zeros(4, 8)))


def test_parts_keep_the_order_and_may_be_empty() -> None:
    points = torch.arange(12.0).view(6, 2)
    found = split_by_group(points, torch.tensor([2, 0, 2, 0, 3, 2]), 5)
    assert [part[:, 0].tolist() for part in found] == [[2.0, 6.0], [], [0.0, 4.0, 10.0], [8.0], []]


def test_no_points_make_empty_parts() -> None:
    assert [len(part) for part in split_by_group(torch.empty(0, 2), torch.empty(0, dtype=torch.int64), 3)] == [0, 0, 0]
