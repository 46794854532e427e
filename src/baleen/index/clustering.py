"""k-means over a sample, and the nearest centroid of a vector, fast enough for tens of thousands of centroids.

On a CPU both go through groups of centroids: a vector is compared with the groups' centres and then with the members of
the few nearest groups, some 15 to 30 times less work than with all; on a GPU a plain product is faster.
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

from baleen.cores import cores
from baleen.index.kernels import aligned
from baleen.index.vector_ir import LANES, dot_rows

Array = npt.NDArray[Any]

GROUPS_FROM = 1024  # centroids; with fewer, comparing with all is as fast
NEAREST_GROUPS = 10
BATCH = 16_384
ROUNDS = 4


def kmeans(points: Tensor, k: int, generator: torch.Generator) -> Tensor:
    """(n, d) -> (k, d) centroids; k <= n.  Many centroids on a CPU start out group by group."""
    if points.device.type != "cpu" or k < GROUPS_FROM:
        return _lloyd(points, _sample(points, k, generator), ROUNDS + 2)
    groups = _group_count(k)
    centres = _lloyd(points[: 128 * groups], _sample(points, groups, generator), ROUNDS + 2)
    owner = nearest(points, centres)
    parts = [points[owner == group] for group in range(groups)]
    shares = _shares([len(part) for part in parts], k)
    starts = [
        _lloyd(part, _sample(part, share, generator), ROUNDS)
        for part, share in zip(parts, shares, strict=True)
        if share
    ]
    return _lloyd(points, torch.cat(starts), 2)


def nearest(points: Tensor, centroids: Tensor) -> Tensor:
    """(n,) int64: the centroid at the smallest Euclidean distance, approximately so when there are many on a CPU."""
    return Nearest.of(centroids)(points)


@dataclass(frozen=True, eq=False)
class Nearest:
    """Centroids made ready to be compared with: as they are on a GPU, grouped and laid out for kernels on a CPU."""

    centroids: Tensor  # (k, d)
    centres: Blocks | None = None  # of the groups
    members: Blocks | None = None  # every group starts at a block of its own
    group_starts: Array | None = None  # (groups + 1,) in blocks of `members`

    @classmethod
    def of(cls, centroids: Tensor) -> Nearest:
        if centroids.device.type != "cpu":
            return cls(centroids)
        rows = centroids.numpy()
        if len(rows) < GROUPS_FROM:
            everything = [np.arange(len(rows))]
            return cls(
                centroids,
                Blocks.of(rows[:1], [np.zeros(1, np.int64)]),
                Blocks.of(rows, everything),
                _starts(everything),
            )
        generator = torch.Generator().manual_seed(len(rows))
        centres = _lloyd(centroids, _sample(centroids, _group_count(len(rows)), generator), ROUNDS)
        owner = nearest(centroids, centres).numpy()
        groups = [np.flatnonzero(owner == group) for group in range(len(centres))]
        return cls(
            centroids, Blocks.of(centres.numpy(), [np.arange(len(centres))]), Blocks.of(rows, groups), _starts(groups)
        )

    def __call__(self, points: Tensor) -> Tensor:
        if self.members is None or self.centres is None:
            return self._compare_all(points)
        rows = np.ascontiguousarray(points.numpy(), np.float32)
        codes = np.empty(len(rows), np.int64)

        def run(start: int) -> None:
            assert self.members is not None
            assert self.centres is not None
            part = slice(start, start + BATCH)
            nearest_members(
                rows[part], self.centres.values, self.centres.halves, self.members.values, self.members.halves,
                self.members.numbers, self.group_starts, NEAREST_GROUPS, codes[part],
            )  # fmt: skip

        in_threads(run, range(0, len(rows), BATCH))
        return torch.from_numpy(codes)

    def _compare_all(self, points: Tensor) -> Tensor:
        half = (self.centroids**2).sum(dim=1) / 2
        size = max(256, 2**28 // len(self.centroids))
        return torch.cat(
            [torch.addmm(-half, part, self.centroids.T).argmax(dim=1) for part in torch.split(points, size)]
        )


@dataclass(frozen=True, eq=False)
class Blocks:
    """Rows laid out 64 side by side: values (blocks, d, 64), half squared norms and numbers (blocks, 64)."""

    values: Array
    halves: Array  # infinite where a place is empty, so that it is never the nearest
    numbers: Array

    @classmethod
    def of(cls, rows: Array, groups: list[Array]) -> Blocks:
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


@njit(nogil=True, cache=True)
def nearest_members(
    points: Array, centres: Array, centre_halves: Array, members: Array, member_halves: Array, numbers: Array,
    starts: Array, visits: int, codes: Array,
) -> None:  # fmt: skip
    """codes[i] = the nearest member of the `visits` groups whose centres are nearest to points[i]."""
    n, dim = points.shape
    groups = len(starts) - 1
    visits = min(visits, groups)
    chosen = np.empty((n, visits), np.int64)
    rows, products = np.zeros((4, dim), np.float32), np.empty((4, LANES), np.float32)
    closeness = np.empty((4, len(centres) * LANES), np.float32)
    for i in range(0, n, 4):
        height = min(4, n - i)
        rows[:height] = points[i : i + height]
        for block in range(len(centres)):
            dot_rows(rows.ctypes.data, centres.ctypes.data + block * dim * LANES * 4, dim, products.ctypes.data)
            for r in range(4):
                for lane in range(LANES):
                    closeness[r, block * LANES + lane] = products[r, lane] - centre_halves[block, lane]
        for r in range(height):
            _largest(closeness[r], chosen[i + r])
    # Group after group, so that its members stay in the cache while all that visit it are compared.
    counts = np.zeros(groups + 1, np.int64)
    for i in range(n):
        for v in range(visits):
            counts[chosen[i, v] + 1] += 1
    firsts = np.cumsum(counts)
    visitors, place = np.empty(n * visits, np.int64), firsts.copy()
    for i in range(n):
        for v in range(visits):
            visitors[place[chosen[i, v]]] = i
            place[chosen[i, v]] += 1
    best = np.full(n, -np.inf, np.float32)
    values, blocks = np.empty((4, LANES), np.float32), np.empty((4, LANES), np.int32)
    for group in range(groups):
        for first in range(firsts[group], firsts[group + 1], 4):
            height = min(4, firsts[group + 1] - first)
            for r in range(height):
                rows[r] = points[visitors[first + r]]
            values[:] = -np.inf
            for block in range(starts[group], starts[group + 1]):
                dot_rows(rows.ctypes.data, members.ctypes.data + block * dim * LANES * 4, dim, products.ctypes.data)
                for r in range(4):
                    for lane in range(LANES):
                        value = products[r, lane] - member_halves[block, lane]
                        if value > values[r, lane]:
                            values[r, lane] = value
                            blocks[r, lane] = block
            for r in range(height):
                at = np.argmax(values[r])
                if values[r, at] > best[visitors[first + r]]:
                    best[visitors[first + r]] = values[r, at]
                    codes[visitors[first + r]] = numbers[blocks[r, at], at]


@njit(nogil=True, cache=True)
def _largest(values: Array, places: Array) -> None:
    """Fill `places` with where the largest values stand, in no particular order."""
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


def in_threads(run: Callable[[int], None], items: Iterable[int]) -> None:
    """Call `run` with every item, as many at once as there are cores; kernels let go of the interpreter's lock."""
    with ThreadPoolExecutor(cores()) as pool:
        for _ in pool.map(run, items):
            pass


def _lloyd(points: Tensor, centroids: Tensor, rounds: int) -> Tensor:
    for _ in range(rounds if len(centroids) < len(points) else 0):
        centroids = _means(points, nearest(points, centroids), centroids)
    return centroids


def _means(points: Tensor, owner: Tensor, centroids: Tensor) -> Tensor:
    """The mean of each centroid's points; one without points stays where it is."""
    counts = torch.bincount(owner, minlength=len(centroids))
    sums = torch.zeros_like(centroids).index_add_(0, owner, points)
    return torch.where(counts[:, None] > 0, sums / counts.clamp(min=1)[:, None], centroids)


def _group_count(centroids: int) -> int:
    return int(2 ** round(centroids.bit_length() / 2))


def _starts(groups: list[Array]) -> Array:
    return np.cumsum([0] + [-(-len(group) // LANES) for group in groups])


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
