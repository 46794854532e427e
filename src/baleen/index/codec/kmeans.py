"""k-means, and the nearest centroid of a vector, fast enough for tens of thousands of centroids.

On a GPU a vector is compared with every centroid.  On a CPU centroids lie in groups: a vector is compared with the
centres of the groups, then with the *members* of the `PROBED_GROUPS` nearest groups, about 8 times less work.  Kernels
go group by group and take four vectors at a time, so that the members of a group stay in the cache.
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
from baleen.index.cpu.memory import aligned
from baleen.index.cpu.simd import LANES, closest_lanes, dot_rows

Array = npt.NDArray[Any]

MIN_GROUPED = 1024  # centroids; with fewer, exact comparison is as fast
PROBED_GROUPS = 10  # groups whose members a vector is compared with
BATCH_SIZE = 16_384  # vectors per thread and step, at most
CLOSENESS_BUDGET = 2**23  # vectors x groups per thread and step, at most: 32 MB of float32
ROUNDS = 4
MIN_SUMS_PER_THREAD = 1024  # centroids; with fewer, starting a thread costs more than it saves


@dataclass(frozen=True, eq=False)
class Blocks:
    """Rows in blocks of 64: values (blocks, dim, 64), half squared norms and ids (blocks, 64)."""

    values: Array
    half_norms: Array  # infinite in empty lanes, which are then never the nearest
    ids: Array

    @classmethod
    def of(cls, rows: Array, groups: list[Array]) -> Blocks:
        """Lay out the rows of each group; every group starts a new block."""
        count = sum(-(-len(group) // LANES) for group in groups)
        values = aligned((count, rows.shape[1], LANES), np.float32)
        values[:] = 0
        half_norms, ids = np.full((count, LANES), np.inf, np.float32), np.zeros((count, LANES), np.int64)
        block = 0
        for group in groups:
            for start in range(0, len(group), LANES):
                part = group[start : start + LANES]
                values[block, :, : len(part)] = rows[part].T
                half_norms[block, : len(part)] = (rows[part] ** 2).sum(axis=1) / 2
                ids[block, : len(part)] = part
                block += 1
        return cls(values, half_norms, ids)


def block_starts(groups: list[Array]) -> Array:
    """(groups + 1,): the block at which each group starts."""
    return np.cumsum([0] + [-(-len(group) // LANES) for group in groups])


@njit(nogil=True, cache=True)
def nearest_members(
    points: Array, centres: Array, centre_half_norms: Array, members: Array, member_half_norms: Array, ids: Array,
    starts: Array, probes: int, codes: Array,
) -> None:  # fmt: skip
    """codes[i] = the id of the member nearest to points[i], among the members of its `probes` nearest groups.

    The closeness of x to m is x . m - m . m / 2: the nearer of two members has the larger closeness.
    """
    n, groups = len(points), len(starts) - 1
    closeness = np.empty((n, len(centres) * LANES), np.float32)
    _closeness_to_centres(points, centres, centre_half_norms, closeness)
    probed = np.empty((n, min(probes, groups)), np.int64)
    for i in range(n):
        _largest_positions(closeness[i, :groups], probed[i])
    _probe_groups(points, members, member_half_norms, ids, starts, probed, codes)


@njit(nogil=True, cache=True)
def _closeness_to_centres(points: Array, centres: Array, half_norms: Array, closeness: Array) -> None:
    """closeness[i, j] = the closeness of points[i] to centre j; -inf in empty lanes."""
    n, dim = points.shape
    rows, products = np.zeros((4, dim), np.float32), np.empty((4, LANES), np.float32)
    for i in range(0, n, 4):
        height = min(4, n - i)
        rows[:height] = points[i : i + height]
        for block in range(len(centres)):
            dot_rows(rows.ctypes.data, centres.ctypes.data + block * dim * LANES * 4, dim, products.ctypes.data)
            for r in range(height):
                for lane in range(LANES):
                    closeness[i + r, block * LANES + lane] = products[r, lane] - half_norms[block, lane]


@njit(nogil=True, cache=True)
def _probe_groups(
    points: Array, members: Array, half_norms: Array, ids: Array, starts: Array, probed: Array, codes: Array
) -> None:
    """codes[i] = the id of the closest member of the groups probed[i]."""
    dim = points.shape[1]
    best = np.full(len(points), -np.inf, np.float32)
    indices, firsts = _points_by_group(probed, len(starts) - 1)
    rows, values, positions = np.empty(4, np.int64), np.empty(4, np.float32), np.empty(4, np.int64)
    for group in range(len(starts) - 1):
        start, blocks = starts[group], starts[group + 1] - starts[group]
        for first in range(firsts[group], firsts[group + 1] if blocks else firsts[group], 4):
            height = min(4, firsts[group + 1] - first)
            for r in range(4):
                rows[r] = points.ctypes.data + indices[first + min(r, height - 1)] * dim * 4
            closest_lanes(
                rows.ctypes.data, members.ctypes.data + start * dim * LANES * 4,
                half_norms.ctypes.data + start * LANES * 4, blocks, dim, values.ctypes.data, positions.ctypes.data,
            )  # fmt: skip
            for r in range(height):
                i = indices[first + r]
                if values[r] > best[i]:
                    best[i] = values[r]
                    codes[i] = ids[start + positions[r] // LANES, positions[r] % LANES]


@njit(nogil=True, cache=True)
def _points_by_group(probed: Array, groups: int) -> tuple[Array, Array]:
    """Points that probe each group, in order: indices[firsts[g] : firsts[g + 1]] for group g."""
    firsts = np.zeros(groups + 1, np.int64)
    for i in range(len(probed)):
        for v in range(probed.shape[1]):
            firsts[probed[i, v] + 1] += 1
    firsts = np.cumsum(firsts)
    indices, place = np.empty(firsts[-1], np.int64), firsts.copy()
    for i in range(len(probed)):
        for v in range(probed.shape[1]):
            indices[place[probed[i, v]]] = i
            place[probed[i, v]] += 1
    return indices, firsts


@njit(nogil=True, cache=True)
def _largest_positions(values: Array, positions: Array) -> None:
    """Fill `positions` with the positions of the largest values, in no particular order."""
    count = len(positions)
    kept = np.empty(count, np.float32)
    lowest = np.int64(0)
    for i in range(len(values)):
        if i < count:
            kept[i], positions[i] = values[i], i
        elif values[i] > kept[lowest]:
            kept[lowest], positions[lowest] = values[i], i
        else:
            continue
        lowest = np.argmin(kept[: min(i + 1, count)])


def kmeans(points: Tensor, k: int, generator: torch.Generator) -> Tensor:
    """Cluster points (n, d) into k <= n centroids (k, d).

    On a CPU many centroids are initialized by k-means within groups of points.
    """
    if points.device.type != "cpu" or k < MIN_GROUPED:
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
    """Nearest centroid of each point by Euclidean distance: (n,) int64; approximate for many centroids on a CPU."""
    return Nearest.of(centroids)(points)


@dataclass(frozen=True, eq=False)
class Nearest:
    """Nearest-centroid assignment: exact on a GPU, through groups of centroids on a CPU."""

    centroids: Tensor  # (k, d)
    grouped: GroupedCentroids | None = None

    @classmethod
    def of(cls, centroids: Tensor) -> Nearest:
        """Prepare centroids on their device."""
        return cls(centroids, GroupedCentroids.of(centroids) if centroids.device.type == "cpu" else None)

    def __call__(self, points: Tensor) -> Tensor:
        return exact_nearest(points, self.centroids) if self.grouped is None else self.grouped(points)


def exact_nearest(points: Tensor, centroids: Tensor) -> Tensor:
    """Nearest centroid of each point, by comparison with every centroid: (n,) int64."""
    half = (centroids**2).sum(dim=1) / 2
    size = max(256, 2**28 // len(centroids))
    return torch.cat([torch.addmm(-half, part, centroids.T).argmax(dim=1) for part in torch.split(points, size)])


@dataclass(frozen=True, eq=False)
class GroupedCentroids:
    """Centroids in groups, laid out for the CPU kernels."""

    centres: Blocks  # of the groups
    members: Blocks  # every group starts a new block
    starts: Array  # (groups + 1,): first block of each group in `members`

    @classmethod
    def of(cls, centroids: Tensor) -> GroupedCentroids:
        """Group centroids by k-means, or into one group if there are few; deterministic."""
        if len(centroids) < MIN_GROUPED:
            return cls._of(centroids, centroids[:1], [np.arange(len(centroids))])
        generator = torch.Generator().manual_seed(len(centroids))
        centres = _lloyd(centroids, _sample(centroids, group_count(len(centroids)), generator), ROUNDS)
        owner = nearest(centroids, centres).numpy()
        ids = np.unique(owner)  # drops empty groups, which would waste probes
        return cls._of(centroids, centres[ids], [np.flatnonzero(owner == group) for group in ids])

    @classmethod
    def _of(cls, centroids: Tensor, centres: Tensor, groups: list[Array]) -> GroupedCentroids:
        """Lay out centroids in groups with these centres."""
        centre_blocks = Blocks.of(centres.numpy(), [np.arange(len(centres))])
        return cls(centre_blocks, Blocks.of(centroids.numpy(), groups), block_starts(groups))

    def __call__(self, points: Tensor) -> Tensor:
        """Nearest centroid of each point; the same with any number of threads."""
        rows = np.ascontiguousarray(points.numpy(), np.float32)
        codes = np.zeros(len(rows), np.int64)
        size = min(BATCH_SIZE, CLOSENESS_BUDGET // self.centres.ids.size)

        def run(start: int) -> None:
            part = slice(start, start + size)
            nearest_members(
                rows[part], self.centres.values, self.centres.half_norms, self.members.values, self.members.half_norms,
                self.members.ids, self.starts, PROBED_GROUPS, codes[part],
            )  # fmt: skip

        in_threads(run, range(0, len(rows), size))
        return torch.from_numpy(codes)


def in_threads(run: Callable[[int], None], items: Iterable[int]) -> None:
    """Call `run` with every item, on all cores; kernels release the GIL."""
    with ThreadPoolExecutor(available_cores()) as pool:
        for _ in pool.map(run, items):
            pass


def _lloyd(points: Tensor, centroids: Tensor, rounds: int) -> Tensor:
    """Run Lloyd's algorithm; centroids that are all of the points stay as they are."""
    for _ in range(rounds if len(centroids) < len(points) else 0):
        centroids = cluster_means(points, nearest(points, centroids), centroids)
    return centroids


def cluster_means(points: Tensor, owner: Tensor, centroids: Tensor) -> Tensor:
    """Mean of each centroid's points; a centroid without points stays where it is."""
    counts = torch.bincount(owner, minlength=len(centroids))
    sums = _sums(points, owner, torch.zeros_like(centroids))
    return torch.where(counts[:, None] > 0, sums / counts.clamp(min=1)[:, None], centroids)


def _sums(points: Tensor, owner: Tensor, sums: Tensor) -> Tensor:
    """Add every point to the row of its owner in `sums`, in place and in the order of the points.

    On a CPU each thread takes a range of owners; torch's `index_add_` runs on one core, with a call for every row.
    """
    if points.device.type != "cpu":
        return sums.index_add_(0, owner, points)
    rows, owners, out = np.ascontiguousarray(points.numpy()), owner.numpy(), sums.numpy()
    size = max(MIN_SUMS_PER_THREAD, -(-len(out) // available_cores()))
    in_threads(lambda first: add_rows(rows, owners, first, out[first : first + size]), range(0, len(out), size))
    return sums


@njit(nogil=True, cache=True)
def add_rows(rows: Array, owners: Array, first: int, sums: Array) -> None:
    """sums[owner - first] += row, in order, for rows whose owner is in first : first + len(sums)."""
    for i in range(len(rows)):
        place = owners[i] - first
        if 0 <= place < len(sums):
            for j in range(rows.shape[1]):
                sums[place, j] += rows[i, j]


def split_by_group(points: Tensor, owner: Tensor, groups: int) -> list[Tensor]:
    """Points of each group, in their order."""
    sizes = torch.bincount(owner, minlength=groups).tolist()
    return list(torch.split(points[owner.argsort(stable=True)], sizes))


def group_count(centroids: int) -> int:
    """Number of groups: about the square root of the number of centroids, a power of two."""
    return int(2 ** round(centroids.bit_length() / 2))


def _centroids_per_group(sizes: list[int], k: int) -> list[int]:
    """Split k over groups in proportion to their sizes, at most the size each; the parts sum to k."""
    total = sum(sizes)
    shares = [min(size, k * size // total) for size in sizes]
    neediest = sorted(range(len(sizes)), key=lambda part: shares[part] - k * sizes[part] / total)
    while sum(shares) < k:
        for part in neediest:
            shares[part] += shares[part] < sizes[part] and sum(shares) < k
    return shares


def _sample(points: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw `count` points without replacement."""
    chosen = torch.randperm(len(points), generator=generator)[:count]
    return points[chosen.to(points.device)]
