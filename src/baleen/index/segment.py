"""A mapped segment: some passages with their encoded vectors, never changed once written.

    offsets             (passages + 1) int64    start of each passage's vectors
    codes               (vectors) uint16        cell of each vector
    residuals           uint8                   streams of the passages, end to end (`residuals.py`); empty at 16 bits
    residual_offsets    (passages + 1) int64    start of each stream
    vectors             (vectors, dim) float16  at 16 bits only
    cells               (c) uint16              cells that occur here, ascending
    cell_offsets        (c + 1) int64           start of each cell's list in `postings`
    postings            uint16 or uint32        passages that have a vector in the cell, ascending

and the files of `store.py`.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from baleen.index.codec.codec import Encoded
from baleen.index.format import SegmentEntry, open_array
from baleen.index.store import NAME_ROLES, ROLES, Store

Array = npt.NDArray[Any]


class Segment:
    """An open segment: arrays mapped from disk, and a mask of the passages that are not deleted."""

    def __init__(self, root: Path, entry: SegmentEntry) -> None:
        self.entry = entry
        arrays = {role: open_array(root, file) for role, file in entry.files.items()}
        self.store = Store({role: arrays[role] for role in (*ROLES, *NAME_ROLES) if role in arrays})
        self.offsets, self.codes = arrays["offsets"], arrays["codes"]
        self.residuals, self.residual_offsets = arrays["residuals"], arrays["residual_offsets"]
        self.vectors = arrays.get("vectors")
        self.cells, self.cell_offsets, self.postings = arrays["cells"], arrays["cell_offsets"], arrays["postings"]
        self.tombstones = open_array(root, entry.tombstones) if entry.tombstones else np.empty(0, np.uint32)

    def __len__(self) -> int:
        """Number of passages, including deleted ones."""
        return self.entry.passages

    @property
    def encoded(self) -> Encoded:
        """The arrays that a codec decodes."""
        return Encoded(self.codes, self.offsets, self.residuals, self.residual_offsets)

    @cached_property
    def alive(self) -> Array:
        """(passages,) bool: not deleted."""
        alive = np.ones(len(self), np.bool_)
        alive[self.tombstones] = False
        return alive

    def find(self, pid: str) -> int | None:
        """Row of the passage with this id; None if it is unknown or deleted."""
        return next((row for row in self.store.rows(pid) if self.is_alive(row)), None)

    def is_alive(self, row: int) -> bool:
        """Whether a passage is not deleted."""
        at = int(np.searchsorted(self.tombstones, row))
        return at == len(self.tombstones) or self.tombstones[at] != row

    def span(self, row: int) -> slice:
        """Slice of a passage's vectors."""
        return slice(int(self.offsets[row]), int(self.offsets[row + 1]))
