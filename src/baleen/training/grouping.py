"""Rows of unequal length in few groups of like length: little padding, and few passes through a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


def grouped(lengths: Sequence[int], most_padding: float) -> list[list[int]]:
    """The indices of rows of these lengths in the fewest groups that pad at most this share of their slots.

    A group is as wide as its longest row.  Rows of like length share a group, and the groups are the best that can be
    had of their number; a group is shorter than the one before it.
    """
    widths, counts = np.unique(np.asarray(lengths), return_counts=True)
    filled = np.concatenate([[0], np.cumsum(counts)])
    bounds = _bounds(widths, filled, most_padding)
    order = np.argsort(lengths, kind="stable")
    pieces = np.split(order, filled[bounds[1:-1]])
    return [piece.tolist() for piece in reversed(pieces)]


def _bounds(widths: Numbers, filled: Numbers, most_padding: float) -> list[int]:
    """Where to cut the sorted distinct widths: by dynamic programming over the number of groups.

    `filled[i]` rows are narrower than `widths[i]`.
    """
    kinds = len(widths)
    tokens = int((np.diff(filled) * widths).sum())
    sizes = (filled[None, 1:] - filled[:-1, None]) * widths[None, :]  # (from, to): slots of one group of those widths
    costs = np.where(np.tril(np.ones_like(sizes), -1), np.inf, sizes)
    best = costs[0]  # (to,): slots of the cheapest grouping that ends there
    cuts: list[Numbers] = []
    while best[-1] * (1 - most_padding) > tokens and len(cuts) < kinds:
        joined = np.concatenate([[np.inf], best[:-1]])[:, None] + costs  # (from, to): the last group starts at `from`
        cuts.append(joined.argmin(axis=0))
        best = joined.min(axis=0)
    bounds, end = [kinds], kinds
    for cut in reversed(cuts):
        end = int(cut[end - 1])
        bounds.append(end)
    return [0, *reversed(bounds)]
