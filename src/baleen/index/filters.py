"""Masks of the passages that a search may return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from baleen.index.protocol import Where
from baleen.index.segment import Segment

Array = npt.NDArray[Any]


def allowed_rows(segments: Sequence[Segment], named: list[list[int]] | None, where: Where) -> list[Array]:
    """For each segment (passages,) bool: not deleted, among the `named` rows if any, and with matching metadata."""
    masks = [segment.alive for segment in segments]
    if named is not None:
        masks = [mask & _mask_of(len(mask), rows) for mask, rows in zip(masks, named, strict=True)]
    if where:
        masks = [mask & matching(segment, where) for mask, segment in zip(masks, segments, strict=True)]
    return masks


def without(masks: Sequence[Array], rows: list[list[int]]) -> list[Array]:
    """Copies of the masks without some rows of each segment."""
    return [mask & ~_mask_of(len(mask), dropped) for mask, dropped in zip(masks, rows, strict=True)]


def matching(segment: Segment, where: Where) -> Array:
    """(passages,) bool: the metadata has, for every key, the value, one of the values, or one the predicate accepts."""
    mask = np.ones(len(segment), np.bool_)
    for key, wanted in where.items():
        values = segment.store.columns.get(key, [None] * len(segment))
        mask &= np.fromiter(map(_condition(wanted), values), np.bool_, len(values))
    return mask


def _mask_of(length: int, rows: list[int]) -> Array:
    mask = np.zeros(length, np.bool_)
    mask[rows] = True
    return mask


def _condition(wanted: Any) -> Callable[[Any], bool]:
    if callable(wanted):
        return lambda value: value is not None and bool(wanted(value))
    if isinstance(wanted, (list, tuple, set, frozenset)):
        listed = list(wanted)  # a value may be a list itself, which no set can be asked for
        return lambda value: value in listed
    return lambda value: bool(value == wanted)
