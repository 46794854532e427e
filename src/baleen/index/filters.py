"""Which passages a search may return: the living ones, those named, those whose metadata fits, less those excluded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from baleen.index.segment import Segment

Array = npt.NDArray[Any]
Where = Mapping[str, Any]


def allowed_rows(segments: Sequence[Segment], named: list[list[int]] | None, where: Where | None) -> list[Array]:
    """For each segment (passages,) bool: alive, among the rows `named` if any are, and with metadata that fits."""
    masks = [segment.alive for segment in segments]
    if named is not None:
        masks = [mask & _only(len(mask), rows) for mask, rows in zip(masks, named, strict=True)]
    if where:
        masks = [mask & matching(segment, where) for mask, segment in zip(masks, segments, strict=True)]
    return masks


def without(masks: Sequence[Array], rows: list[list[int]]) -> list[Array]:
    """Copies of the masks in which some rows of each segment are not allowed."""
    return [mask & ~_only(len(mask), dropped) for mask, dropped in zip(masks, rows, strict=True)]


def matching(segment: Segment, where: Where) -> Array:
    """(passages,) bool: whose metadata has, for every key, the value wanted, one of the values, or one that passes."""
    mask = np.ones(len(segment), np.bool_)
    for key, wanted in where.items():
        values = segment.store.columns.get(key, [None] * len(segment))
        mask &= np.fromiter(map(_test(wanted), values), np.bool_, len(values))
    return mask


def _only(length: int, rows: list[int]) -> Array:
    mask = np.zeros(length, np.bool_)
    mask[rows] = True
    return mask


def _test(wanted: Any) -> Callable[[Any], bool]:
    if callable(wanted):
        return lambda value: value is not None and bool(wanted(value))
    if isinstance(wanted, (list, tuple, set, frozenset)):
        listed = list(wanted)  # a value may be a list itself, which no set can be asked for
        return lambda value: value in listed
    return lambda value: bool(value == wanted)
