"""Masks of the passages that a search may return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from baleen.index.protocol import Where
from baleen.index.segment import Segment

Array = npt.NDArray[Any]


def allowed_rows(segments: Sequence[Segment], listed: list[list[int]] | None, where: Where) -> list[Array]:
    """For each segment a mask (passages,): not deleted, `listed` if given, and with matching metadata."""
    masks = [segment.alive for segment in segments]
    if listed is not None:
        masks = [mask & _row_mask(len(mask), rows) for mask, rows in zip(masks, listed, strict=True)]
    if where:
        masks = [mask & metadata_mask(segment, where) for mask, segment in zip(masks, segments, strict=True)]
    return masks


def exclude_rows(masks: Sequence[Array], rows: list[list[int]]) -> list[Array]:
    """Copies of the masks without some rows of each segment."""
    return [mask & ~_row_mask(len(mask), excluded) for mask, excluded in zip(masks, rows, strict=True)]


def metadata_mask(segment: Segment, where: Where) -> Array:
    """(passages,) bool: the value of each key equals or is among those wanted, or fulfils the predicate."""
    mask = np.ones(len(segment), np.bool_)
    for key, wanted in where.items():
        values = segment.store.columns.get(key, [None] * len(segment))
        mask &= np.fromiter(map(_predicate(wanted), values), np.bool_, len(values))
    return mask


def _row_mask(length: int, rows: list[int]) -> Array:
    """(length,) bool: True at `rows`."""
    mask = np.zeros(length, np.bool_)
    mask[rows] = True
    return mask


def _predicate(wanted: Any) -> Callable[[Any], bool]:
    """The condition on one value: a predicate (never called with None), a collection of values, or one value."""
    if callable(wanted):
        return lambda value: value is not None and bool(wanted(value))
    if isinstance(wanted, (list, tuple, set, frozenset)):
        listed = list(wanted)  # a list, since values may be unhashable
        return lambda value: value in listed
    return lambda value: bool(value == wanted)
