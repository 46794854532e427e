"""Kernels that find the nearest of many members for each of many points, on one thread of a CPU.

Members lie in groups.  A point is compared with the groups' centres and then with the members of some of the groups:

    visits alone        of the `visits` groups whose centres are nearest
    visits and reach    of the nearest group first; then of up to `visits` - 1 others, nearest first, whose centres are
                        no farther than `reach` times the squared distance of what was found there

The reach is what saves the work: with cells in clumps, as those of frequent words are, most of the next nearest groups
are large and far away.  Points go group by group, four at a time, so that a group's members stay in the cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from baleen.index.kernels import aligned
from baleen.index.vector_ir import LANES, closest_lanes, dot_rows, first_largest

Array = npt.NDArray[Any]

HALVINGS = 12  # of an interval of closeness: enough to tell all but equal groups apart


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


def block_starts(groups: list[Array]) -> Array:
    """(groups + 1,): the block that each group starts at, every group at one of its own."""
    return np.cumsum([0] + [-(-len(group) // LANES) for group in groups])


@njit(nogil=True, cache=True)
def nearest_members(
    points: Array, centres: Array, centre_halves: Array, members: Array, member_halves: Array, numbers: Array,
    starts: Array, visits: int, reach: float, codes: Array,
) -> None:  # fmt: skip
    """codes[i] = the number of the nearest member to points[i]; a `reach` of 0 is none, another wants no group empty.

    *Closeness* of x to m is x . m - m . m / 2: half the squared norm of x less half the squared distance.
    """
    n, groups = len(points), len(starts) - 1
    closeness = np.empty((n, len(centres) * LANES), np.float32)
    _compare_with_all(points, centres, centre_halves, closeness)
    chosen, counts = np.empty((n, min(visits, groups)), np.int64), np.full(n, min(visits, groups), np.int64)
    best = np.full(n, -np.inf, np.float32)
    if reach == 0:
        for i in range(n):
            _largest(closeness[i, :groups], chosen[i])
    else:
        _choose_nearest(closeness, chosen, counts)
        _visit(points, members, member_halves, numbers, starts, chosen, counts, best, codes)
        _choose_others(points, closeness, best, reach, chosen, counts)
    _visit(points, members, member_halves, numbers, starts, chosen, counts, best, codes)


@njit(nogil=True, cache=True)
def _choose_nearest(closeness: Array, chosen: Array, counts: Array) -> None:
    """Only the nearest group."""
    for i in range(len(closeness)):
        chosen[i, 0] = first_largest(closeness.ctypes.data + i * closeness.shape[1] * 4, closeness.shape[1] // LANES)
        counts[i] = 1


@njit(nogil=True, cache=True)
def _choose_others(points: Array, closeness: Array, best: Array, reach: float, chosen: Array, counts: Array) -> None:
    """Other groups than the nearest: those within the reach of what was found there, nearest first, as many as fit."""
    near = np.empty(closeness.shape[1] + 1, np.int64)
    for i in range(len(points)):
        half = np.float32(0)
        for j in range(points.shape[1]):
            half += points[i, j] * points[i, j] / np.float32(2)
        floor, ceiling = np.float32(half - reach * (half - best[i])), closeness[i, chosen[i, 0]]
        closeness[i, chosen[i, 0]] = -np.inf
        counts[i] = _above(closeness[i], _raised(closeness[i], floor, ceiling, chosen.shape[1]), near)
        chosen[i, : counts[i]] = near[: counts[i]]


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
    points: Array, members: Array, halves: Array, numbers: Array, starts: Array, chosen: Array, counts: Array,
    best: Array, codes: Array,
) -> None:  # fmt: skip
    """Compare points[i] with the members of the groups chosen[i, : counts[i]]; keep in best and codes what is closer."""
    dim = points.shape[1]
    visitors, firsts = _visitors(chosen, counts, len(starts) - 1)
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
def _visitors(chosen: Array, counts: Array, groups: int) -> tuple[Array, Array]:
    """The points that visit each group, in their order: those of group g are visitors[firsts[g] : firsts[g + 1]]."""
    firsts = np.zeros(groups + 1, np.int64)
    for i in range(len(counts)):
        for v in range(counts[i]):
            firsts[chosen[i, v] + 1] += 1
    firsts = np.cumsum(firsts)
    visitors, place = np.empty(firsts[-1], np.int64), firsts.copy()
    for i in range(len(counts)):
        for v in range(counts[i]):
            visitors[place[chosen[i, v]]] = i
            place[chosen[i, v]] += 1
    return visitors, firsts


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


@njit(nogil=True, cache=True)
def _raised(values: Array, floor: np.float32, ceiling: np.float32, most: int) -> np.float32:
    """The floor, or a higher one, found by halving, above which there are at most `most` values, but nearly so many.

    No value is above the ceiling.
    """
    if _count_above(values, floor) <= most:
        return floor
    low, high = floor, ceiling
    for _ in range(HALVINGS):
        middle = (low + high) / np.float32(2)
        count = _count_above(values, middle)
        if count > most:
            low = middle
        else:
            high = middle
        if most - most // 8 <= count <= most:
            break
    return high


@njit(nogil=True, cache=True)
def _count_above(values: Array, floor: np.float32) -> int:
    count = np.int32(0)
    for i in range(len(values)):
        count += np.int32(values[i] > floor)
    return int(count)


@njit(nogil=True, cache=True)
def _above(values: Array, floor: np.float32, places: Array) -> int:
    """Fill `places` with where the values above the floor stand and say how many; one place more is written to."""
    count = 0
    for i in range(len(values)):
        places[count] = i
        count += values[i] > floor
    return count
