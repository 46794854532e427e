"""Kernels that find the nearest of many members for each of many points, on one CPU thread.

Members lie in groups.  A point is compared with the groups' centres, and then with the members of the `visits` groups
whose centres are nearest.  Points go group by group, four at a time, so that a group's members stay in the cache.

k-means over a sample, and the nearest centroid of a vector, fast enough for tens of thousands of centroids.

On a CPU both go through groups of centroids: a vector is compared with the groups' centres and then with the members of
the few groups nearest to it, some 8 times less work than with all; on a GPU a plain product is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numba import njit
from torch import Tensor

from baleen.core.parallel import available_cores
from baleen.index.cpu.kernels import aligned
from baleen.index.cpu.simd import LANES, closest_lanes, dot_rows

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Blocks:
    """Rows laid out 64 side by side: values (blocks, d, 64), half squared norms and numbers (blocks, 64)."""

    values: Array
    halves: Array  # infinite where a place is empty, so that it is never the nearest
    numbers: Array

    @classmethod
    def of(cls, rows: Array, groups: list[Array]) -> Blocks:
        """Lay out the rows of each group, every group from a new block on."""
        count = sum(-(-len(group) // LANES) for group in groups)
        values = aligned((count, rows.shape[1], LANES), np.float32)
        values[:] = 0
        halves, numbers = np.full((count, LANES), np.inf, np.float32), np.zeros((count, LANES), np.int64)
        block = 0
        for group in groups:
            for start in range(0, len(group), LANES):
                some = group[start : start + LANES]
                values[block, :, : len(some)] = rows[some].T
                halves[block, : len(some)] = (rows[some] ** 2).sum(axis=1) / 2
                numbers[block, : len(some)] = some
                block += 1
        return cls(values, halves, numbers)


def block_starts(groups: list[Array]) -> Array:
    """(groups + 1,): the block at which each group starts."""
    return np.cumsum([0] + [-(-len(group) // LANES) for group in groups])


@njit(nogil=True, cache=True)
def nearest_members(
    points: Array, centres: Array, centre_halves: Array, members: Array, member_halves: Array, numbers: Array,
    starts: Array, visits: int, codes: Array,
) -> None:  # fmt: skip
    """codes[i] = the number of the nearest member to points[i].

    *Closeness* of x to m is x . m - m . m / 2: half the squared norm of x less half the squared distance.
    """
    n, groups = len(points), len(starts) - 1
    closeness = np.empty((n, len(centres) * LANES), np.float32)
    _compare_with_all(points, centres, centre_halves, closeness)
    chosen = np.empty((n, min(visits, groups)), np.int64)
    for i in range(n):
        _largest(closeness[i, :groups], chosen[i])
    _visit(points, members, member_halves, numbers, starts, chosen, codes)


@njit(nogil=True, cache=True)
def _compare_with_all(points: Array, centres: Array, halves: Array, closeness: Array) -> None:
    """closeness[i, j] = that of points[i] to centre j; -inf where there is none."""
    n, dim = points.shape
    rows, products = np.zeros((4, dim), np.float32), np.empty((4, LANES), np.float32)
    for i in range(0, n, 4):
        height = min(4, n - i)
        rows[:height] = points[i : i + height]
        for block in range(len(centres)):
            dot_rows(rows.ctypes.data, centres.ctypes.data + block * dim * LANES * 4, dim, products.ctypes.data)
            for r in range(height):
                for lane in range(LANES):
                    closeness[i + r, block * LANES + lane] = products[r, lane] - halves[block, lane]


@njit(nogil=True, cache=True)
def _visit(
    points: Array, members: Array, halves: Array, numbers: Array, starts: Array, chosen: Array, codes: Array
) -> None:
    """codes[i] = the number of the closest member of the groups chosen[i]."""
    dim = points.shape[1]
    best = np.full(len(points), -np.inf, np.float32)
    visitors, firsts = _visitors(chosen, len(starts) - 1)
    rows, values, places = np.empty(4, np.int64), np.empty(4, np.float32), np.empty(4, np.int64)
    for group in range(len(starts) - 1):
        start, blocks = starts[group], starts[group + 1] - starts[group]
        for first in range(firsts[group], firsts[group + 1] if blocks else firsts[group], 4):
            height = min(4, firsts[group + 1] - first)
            for r in range(4):
                rows[r] = points.ctypes.data + visitors[first + min(r, height - 1)] * dim * 4
            closest_lanes(
                rows.ctypes.data, members.ctypes.data + start * dim * LANES * 4, halves.ctypes.data + start * LANES * 4,
                blocks, dim, values.ctypes.data, places.ctypes.data,
            )  # fmt: skip
            for r in range(height):
                i = visitors[first + r]
                if values[r] > best[i]:
                    best[i] = values[r]
                    codes[i] = numbers[start + places[r] // LANES, places[r] % LANES]


@njit(nogil=True, cache=True)
def _visitors(chosen: Array, groups: int) -> tuple[Array, Array]:
    """The points that visit each group, in their order: those of group g are visitors[firsts[g] : firsts[g + 1]]."""
    firsts = np.zeros(groups + 1, np.int64)
    for i in range(len(chosen)):
        for v in range(chosen.shape[1]):
            firsts[chosen[i, v] + 1] += 1
    firsts = np.cumsum(firsts)
    visitors, place = np.empty(firsts[-1], np.int64), firsts.copy()
    for i in range(len(chosen)):
        for v in range(chosen.shape[1]):
            visitors[place[chosen[i, v]]] = i
            place[chosen[i, v]] += 1
    return visitors, firsts


@njit(nogil=True, cache=True)
def _largest(values: Array, places: Array) -> None:
    """Fill `places` with the positions of the largest values, in no particular order."""
    count = len(places)
    kept = np.empty(count, np.float32)
    lowest = np.int64(0)
    for i in range(len(values)):
        if i < count:
            kept[i], places[i] = values[i], i
        elif values[i] > kept[lowest]:
            kept[lowest], places[lowest] = values[i], i
        else:
            continue
        lowest = np.argmin(kept[: min(i + 1, count)])


GROUPS_FROM = 1024  # centroids; with fewer, comparing with all is as fast
VISITS = 10  # groups whose members a vector is compared with
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
    pieces = split_by_group(points, nearest(points, centres), groups)
    shares = _centroids_per_group([len(piece) for piece in pieces], k)
    starts = [
        _lloyd(piece, _sample(piece, share, generator), ROUNDS)
        for piece, share in zip(pieces, shares, strict=True)
        if share
    ]
    return _lloyd(points, torch.cat(starts), 2)


def nearest(points: Tensor, centroids: Tensor) -> Tensor:
    """(n,) int64: the centroid at the smallest Euclidean distance, approximately so when there are many on a CPU."""
    return Nearest.of(centroids)(points)


@dataclass(frozen=True, eq=False)
class Nearest:
    """Nearest-centroid assignment: a plain product on a GPU, groups of centroids on a CPU."""

    centroids: Tensor  # (k, d)
    grouped: Grouped | None = None

    @classmethod
    def of(cls, centroids: Tensor) -> Nearest:
        """Prepare centroids on their own device."""
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
    """Centroids in groups, laid out for the kernels of a CPU."""

    centres: Blocks  # of the groups
    members: Blocks  # every group starts at a block of its own
    starts: Array  # (groups + 1,) in blocks of `members`

    @classmethod
    def of(cls, centroids: Tensor) -> Grouped:
        """All in one group when there are few, else by k-means; the same for the same centroids."""
        if len(centroids) < GROUPS_FROM:
            return cls._of(centroids, centroids[:1], [np.arange(len(centroids))])
        generator = torch.Generator().manual_seed(len(centroids))
        centres = _lloyd(centroids, _sample(centroids, group_count(len(centroids)), generator), ROUNDS)
        owner = nearest(centroids, centres).numpy()
        numbers = np.unique(owner)  # an empty group would take the place of one that has members
        return cls._of(centroids, centres[numbers], [np.flatnonzero(owner == group) for group in numbers])

    @classmethod
    def _of(cls, centroids: Tensor, centres: Tensor, groups: list[Array]) -> Grouped:
        around = Blocks.of(centres.numpy(), [np.arange(len(centres))])
        return cls(around, Blocks.of(centroids.numpy(), groups), block_starts(groups))

    def __call__(self, points: Tensor) -> Tensor:
        """Nearest centroid of each point; the same for any number of threads."""
        rows = np.ascontiguousarray(points.numpy(), np.float32)
        codes = np.zeros(len(rows), np.int64)
        size = min(BATCH, CLOSENESS // self.centres.numbers.size)

        def run(start: int) -> None:
            part = slice(start, start + size)
            nearest_members(
                rows[part], self.centres.values, self.centres.halves, self.members.values, self.members.halves,
                self.members.numbers, self.starts, VISITS, codes[part],
            )  # fmt: skip

        in_threads(run, range(0, len(rows), size))
        return torch.from_numpy(codes)


def in_threads(run: Callable[[int], None], items: Iterable[int]) -> None:
    """Call `run` with every item, on all cores; kernels release the GIL."""
    with ThreadPoolExecutor(available_cores()) as pool:
        for _ in pool.map(run, items):
            pass


def _lloyd(points: Tensor, centroids: Tensor, rounds: int) -> Tensor:
    for _ in range(rounds if len(centroids) < len(points) else 0):
        centroids = cluster_means(points, nearest(points, centroids), centroids)
    return centroids


def cluster_means(points: Tensor, owner: Tensor, centroids: Tensor) -> Tensor:
    """The mean of each centroid's points; one without points stays where it is."""
    counts = torch.bincount(owner, minlength=len(centroids))
    sums = _sums(points, owner, torch.zeros_like(centroids))
    return torch.where(counts[:, None] > 0, sums / counts.clamp(min=1)[:, None], centroids)


def _sums(points: Tensor, owner: Tensor, sums: Tensor) -> Tensor:
    """Add every point to its owner's row of `sums`, in place and in the order of the points.

    On a CPU each thread has some of the owners to itself: torch's `index_add_` there is one core and a call for every row.
    """
    if points.device.type != "cpu":
        return sums.index_add_(0, owner, points)
    rows, owners, out = np.ascontiguousarray(points.numpy()), owner.numpy(), sums.numpy()
    size = max(SUMS_AT_ONCE, -(-len(out) // available_cores()))
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


def split_by_group(points: Tensor, owner: Tensor, groups: int) -> list[Tensor]:
    """The points of each group, in the order in which they came."""
    sizes = torch.bincount(owner, minlength=groups).tolist()
    return list(torch.split(points[owner.argsort(stable=True)], sizes))


def group_count(centroids: int) -> int:
    """About the square root, a power of two."""
    return int(2 ** round(centroids.bit_length() / 2))


def _centroids_per_group(sizes: list[int], k: int) -> list[int]:
    """Split k over groups in proportion to their sizes, none getting more than its size; sums to k."""
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
