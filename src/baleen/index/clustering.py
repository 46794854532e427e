"""k-means over a sample, and the nearest centroid of a vector, fast enough for tens of thousands of centroids.

On a CPU both go through groups of centroids: a vector is compared with the groups' centres and then with the members of
a few groups near it, some 8 to 20 times less work than with all; on a GPU a plain product is faster.
docs/benchmarks.md has what the groups cost and win.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numba import njit
from torch import Tensor

from baleen.cores import cores
from baleen.index.assignment import Blocks, block_starts, nearest_members

Array = npt.NDArray[Any]

GROUPS_FROM = 1024  # centroids; with fewer, comparing with all is as fast
REACH_FROM = 8192  # centroids; with fewer, looking into the nearest groups is fast enough, and codecs stay as they were
BATCH = 16_384  # vectors that a thread takes at once,
CLOSENESS = 2**23  # or as many fewer as keep their closeness to all groups within 32 MB
ROUNDS = 4
SUMS_AT_ONCE = 1024  # centroids whose points a thread adds up: with fewer, starting it would cost more


def kmeans(points: Tensor, k: int, generator: torch.Generator) -> Tensor:
    """(n, d) -> (k, d) centroids; k <= n.  Many centroids on a CPU start out group by group."""
    if points.device.type != "cpu" or k < GROUPS_FROM:
        return _lloyd(points, _sample(points, k, generator), ROUNDS + 2)
    groups = group_count(k)
    centres = _lloyd(points[: 128 * groups], _sample(points, groups, generator), ROUNDS + 2)
    pieces = parts(points, nearest(points, centres), groups)
    shares = _shares([len(piece) for piece in pieces], k)
    starts = [
        _lloyd(piece, _sample(piece, share, generator), ROUNDS)
        for piece, share in zip(pieces, shares, strict=True)
        if share
    ]
    return _lloyd(points, torch.cat(starts), 2)


def nearest(points: Tensor, centroids: Tensor) -> Tensor:
    """(n,) int64: the centroid at the smallest Euclidean distance, approximately so when there are many on a CPU."""
    return Nearest.of(centroids)(points)


@dataclass(frozen=True)
class Visits:
    """Which groups a vector looks into: the `most` nearest, or fewer within a `reach` (see `assignment.py`; 0: none)."""

    most: int
    reach: float


NEAREST_GROUPS = Visits(10, 0)
GROUPS_IN_REACH = Visits(48, 2.5)


@dataclass(frozen=True, eq=False)
class Nearest:
    """Centroids made ready to be compared with: as they are on a GPU, grouped and laid out for kernels on a CPU."""

    centroids: Tensor  # (k, d)
    grouped: Grouped | None = None

    @classmethod
    def of(cls, centroids: Tensor) -> Nearest:
        return cls(centroids, Grouped.of(centroids) if centroids.device.type == "cpu" else None)

    def __call__(self, points: Tensor) -> Tensor:
        return compare_with_all(points, self.centroids) if self.grouped is None else self.grouped(points)


def compare_with_all(points: Tensor, centroids: Tensor) -> Tensor:
    """(n,) int64: the nearest centroid, by a plain product."""
    half = (centroids**2).sum(dim=1) / 2
    size = max(256, 2**28 // len(centroids))
    return torch.cat([torch.addmm(-half, part, centroids.T).argmax(dim=1) for part in torch.split(points, size)])


@dataclass(frozen=True, eq=False)
class Grouped:
    """Centroids in groups, as the kernels of a CPU take them."""

    centres: Blocks  # of the groups
    members: Blocks  # every group starts at a block of its own
    starts: Array  # (groups + 1,) in blocks of `members`
    visits: Visits

    @classmethod
    def of(cls, centroids: Tensor) -> Grouped:
        """As suits their number: all in one group, or by k-means and then with or without a reach."""
        if len(centroids) < GROUPS_FROM:
            return cls._of(centroids, centroids[:1], [np.arange(len(centroids))], NEAREST_GROUPS)
        if len(centroids) < REACH_FROM:
            return cls.by_kmeans(centroids, group_count(len(centroids)), NEAREST_GROUPS)
        return cls.by_kmeans(centroids, finer_group_count(len(centroids)), GROUPS_IN_REACH)

    @classmethod
    def by_kmeans(cls, centroids: Tensor, groups: int, visits: Visits) -> Grouped:
        """Groups of centroids that are near each other; the same for the same centroids."""
        generator = torch.Generator().manual_seed(len(centroids))
        centres = _lloyd(centroids, _sample(centroids, groups, generator), ROUNDS)
        owner = nearest(centroids, centres).numpy()
        numbers = np.unique(owner) if visits.reach else np.arange(groups)  # what is in reach is told from a member
        return cls._of(centroids, centres[numbers], [np.flatnonzero(owner == group) for group in numbers], visits)

    @classmethod
    def _of(cls, centroids: Tensor, centres: Tensor, groups: list[Array], visits: Visits) -> Grouped:
        around = Blocks.of(centres.numpy(), [np.arange(len(centres))])
        return cls(around, Blocks.of(centroids.numpy(), groups), block_starts(groups), visits)

    def __call__(self, points: Tensor) -> Tensor:
        """The same for any number of threads: each takes whole batches, and no vector depends on another."""
        rows = np.ascontiguousarray(points.numpy(), np.float32)
        codes = np.zeros(len(rows), np.int64)
        size = min(BATCH, CLOSENESS // self.centres.numbers.size)

        def run(start: int) -> None:
            part = slice(start, start + size)
            nearest_members(
                rows[part], self.centres.values, self.centres.halves, self.members.values, self.members.halves,
                self.members.numbers, self.starts, self.visits.most, self.visits.reach, codes[part],
            )  # fmt: skip

        in_threads(run, range(0, len(rows), size))
        return torch.from_numpy(codes)


def in_threads(run: Callable[[int], None], items: Iterable[int]) -> None:
    """Call `run` with every item, as many at once as there are cores; kernels let go of the interpreter's lock."""
    with ThreadPoolExecutor(cores()) as pool:
        for _ in pool.map(run, items):
            pass


def _lloyd(points: Tensor, centroids: Tensor, rounds: int) -> Tensor:
    for _ in range(rounds if len(centroids) < len(points) else 0):
        centroids = means(points, nearest(points, centroids), centroids)
    return centroids


def means(points: Tensor, owner: Tensor, centroids: Tensor) -> Tensor:
    """The mean of each centroid's points; one without points stays where it is."""
    counts = torch.bincount(owner, minlength=len(centroids))
    sums = _sums(points, owner, torch.zeros_like(centroids))
    return torch.where(counts[:, None] > 0, sums / counts.clamp(min=1)[:, None], centroids)


def _sums(points: Tensor, owner: Tensor, sums: Tensor) -> Tensor:
    """Add every point to its owner's row of `sums`, in place and in the order of the points, whoever does it.

    On a CPU each thread has some of the owners to itself: torch's `index_add_` there is one core and a call for every row.
    """
    if points.device.type != "cpu":
        return sums.index_add_(0, owner, points)
    rows, owners, out = np.ascontiguousarray(points.numpy()), owner.numpy(), sums.numpy()
    size = max(SUMS_AT_ONCE, -(-len(out) // cores()))
    in_threads(lambda first: add_rows(rows, owners, first, out[first : first + size]), range(0, len(out), size))
    return sums


@njit(nogil=True, cache=True)
def add_rows(rows: Array, owners: Array, first: int, sums: Array) -> None:
    """sums[owner - first] += row, one row after another, for the rows whose owner is one of these."""
    for i in range(len(rows)):
        place = owners[i] - first
        if 0 <= place < len(sums):
            for j in range(rows.shape[1]):
                sums[place, j] += rows[i, j]


def parts(points: Tensor, owner: Tensor, groups: int) -> list[Tensor]:
    """The points of each group, in the order in which they came."""
    sizes = torch.bincount(owner, minlength=groups).tolist()
    return list(torch.split(points[owner.argsort(stable=True)], sizes))


def group_count(centroids: int) -> int:
    """About the square root, a power of two."""
    return int(2 ** round(centroids.bit_length() / 2))


def finer_group_count(centroids: int) -> int:
    """Four times the square root: smaller groups, since a reach lets most vectors do with few of them."""
    return 4 * math.isqrt(centroids)


def _shares(sizes: list[int], k: int) -> list[int]:
    """Split k over parts in proportion to their sizes, none getting more than its size; sums to k."""
    total = sum(sizes)
    shares = [min(size, k * size // total) for size in sizes]
    wanting = sorted(range(len(sizes)), key=lambda part: shares[part] - k * sizes[part] / total)
    while sum(shares) < k:
        for part in wanting:
            shares[part] += shares[part] < sizes[part] and sum(shares) < k
    return shares


def _sample(points: Tensor, count: int, generator: torch.Generator) -> Tensor:
    chosen = torch.randperm(len(points), generator=generator)[:count]
    return points[chosen.to(points.device)]
