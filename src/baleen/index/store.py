"""Passages of a segment on disk: compressed texts, ids, titles and metadata.

texts           zlib blocks of BLOCK passages each: JSON [[title, text, [start, end, ...], metadata], ...]
text_ends       end of each block
pids, pid_ends  ids in UTF-8, end to end, and the end of each
id_hashes       64-bit hashes of the ids, ascending
id_rows         row of each hash
name_hashes     64-bit hashes of the names in each title, ascending (`baleen.data.titles`; a title may have several)
name_rows       row of each name
columns         one zlib JSON object {key: [value of row 0, ...]}, keys by first occurrence; read only for filters
"""

from __future__ import annotations

import hashlib
import json
import zlib
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from baleen.core.errors import CorpusError
from baleen.core.types import Passage
from baleen.data.titles import title_names
from baleen.index.format import ArrayFile, ArrayWriter, write_array

Array = npt.NDArray[Any]

BLOCK = 16
CACHED_BLOCKS = 2048  # about 50 MB; a batch of claims reads the passages of a hop more than once
ROLES = ("texts", "text_ends", "pids", "pid_ends", "id_hashes", "id_rows", "columns")
NAME_ROLES = ("name_hashes", "name_rows")  # optional: older indexes lack them


def text_hash(text: str) -> int:
    """64-bit hash of an id or a name.  An unpaired surrogate is hashed too, though no passage has one."""
    return int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "little")


class _TitleTable:
    """Hashes of the names in titles, with their rows."""

    def __init__(self) -> None:
        self._hashes, self._rows, self._titles = array("Q"), array("L"), 0

    def append(self, title: str) -> None:
        """Add the title of the next row."""
        for name in title_names(title):
            self._hashes.append(text_hash(name))
            self._rows.append(self._titles)
        self._titles += 1

    def arrays(self) -> dict[str, Array]:
        """Both arrays by role, ascending by hash, then by row."""
        hashes, rows = np.array(self._hashes, np.uint64), np.array(self._rows, np.uint32)
        order = np.argsort(hashes, kind="stable")
        return {"name_hashes": hashes[order], "name_rows": rows[order]}


class StoreWriter:
    """Writes passages; holds a few numbers per passage and all metadata in memory."""

    def __init__(self, root: Path, folder: str) -> None:
        self.root, self.folder = root, folder
        self._texts = ArrayWriter(root, f"{folder}/texts.bin", np.uint8)
        self._pids = ArrayWriter(root, f"{folder}/pids.bin", np.uint8)
        self._text_ends, self._pid_ends, self._hashes = array("q"), array("q"), array("Q")
        self._names = _TitleTable()
        self._columns: dict[str, list[Any]] = {}
        self._pending: list[Passage] = []

    def append(self, passages: Sequence[Passage]) -> None:
        """Add the next passages."""
        for passage in passages:
            self._add_metadata(passage)
            self._hashes.append(text_hash(passage.pid))
            self._names.append(passage.title)
            self._pids.append(np.frombuffer(passage.pid.encode(), np.uint8))
            self._pid_ends.append(self._pids.rows)
            self._pending.append(passage)
            if len(self._pending) == BLOCK:
                self._flush()

    def _add_metadata(self, passage: Passage) -> None:
        for key in {**self._columns, **passage.metadata}:  # not a set: the order must be the same in every process
            column = self._columns.setdefault(key, [])
            column.extend([None] * (len(self._hashes) - len(column)))
            column.append(passage.metadata.get(key))

    def _flush(self) -> None:
        if self._pending:
            self._texts.append(np.frombuffer(_compress_block(self._pending), np.uint8))
            self._text_ends.append(self._texts.rows)
            self._pending = []

    def finish(self) -> dict[str, ArrayFile]:
        """Write the rest and return every file by role; refuse duplicate ids."""
        self._flush()
        with self._texts, self._pids:
            pass
        hashes = np.array(self._hashes, np.uint64)
        rows = np.argsort(hashes, kind="stable").astype(np.uint32)
        columns = zlib.compress(json.dumps(self._columns, ensure_ascii=False).encode(), 6)
        arrays: dict[str, Array] = {
            "text_ends": np.array(self._text_ends, np.int64),
            "pid_ends": np.array(self._pid_ends, np.int64),
            "id_hashes": hashes[rows],
            "id_rows": rows,
            "columns": np.frombuffer(columns, np.uint8),
            **self._names.arrays(),
        }
        files = {role: write_array(self.root, f"{self.folder}/{role}.bin", values) for role, values in arrays.items()}
        self._check_duplicates(hashes[rows], rows)
        return {"texts": self._texts.entry, "pids": self._pids.entry, **files}

    def close(self) -> None:
        """Close the files, finished or not."""
        self._texts.close()
        self._pids.close()

    def _check_duplicates(self, hashes: Array, rows: Array) -> None:
        """Refuse duplicate ids, given the hashes of all ids in ascending order with their rows."""
        repeats = np.nonzero(hashes[1:] == hashes[:-1])[0]
        if len(repeats):
            raw = (self.root / self._pids.path).read_bytes()
            ends = [0, *self._pid_ends]
            for repeat in repeats:
                first, second = (raw[ends[row] : ends[row + 1]].decode() for row in rows[repeat : repeat + 2])
                if first == second:
                    raise CorpusError(f"the id '{first}' is given to more than one passage; ids must differ")


class Store:
    """Reads mapped passages; caches the `cached_blocks` most recently used blocks of texts."""

    def __init__(self, arrays: dict[str, Array], cached_blocks: int = CACHED_BLOCKS) -> None:
        self._arrays, self._cached_blocks = arrays, cached_blocks
        self._blocks: OrderedDict[int, list[Any]] = OrderedDict()  # most recently used last

    def pid(self, row: int) -> str:
        """Id of a row."""
        ends = self._arrays["pid_ends"]
        start = int(ends[row - 1]) if row else 0
        return self._arrays["pids"][start : int(ends[row])].tobytes().decode()

    def rows(self, pid: str) -> Iterator[int]:
        """Rows with this id; at most one of them is not deleted."""
        hashes = self._arrays["id_hashes"]
        wanted = np.uint64(text_hash(pid))
        at = int(np.searchsorted(hashes, wanted))
        while at < len(hashes) and hashes[at] == wanted:
            row = int(self._arrays["id_rows"][at])
            if self.pid(row) == pid:
                yield row
            at += 1

    def rows_titled(self, names: Sequence[str]) -> Iterator[tuple[int, list[int]]]:
        """For each name that occurs in a title: its position in `names`, and the rows with it."""
        hashes, rows = self._names["name_hashes"], self._names["name_rows"]
        wanted = np.fromiter(map(text_hash, names), np.uint64, len(names))
        firsts, ends = (np.searchsorted(hashes, wanted, side) for side in ("left", "right"))
        for number in np.flatnonzero(firsts < ends).tolist():
            yield number, rows[firsts[number] : ends[number]].tolist()

    @cached_property
    def _names(self) -> dict[str, Array]:
        """Hashes and rows of names by role; derived from the titles if the index lacks them."""
        if all(role in self._arrays for role in NAME_ROLES):
            return {role: self._arrays[role] for role in NAME_ROLES}
        names = _TitleTable()
        for block in range(len(self._arrays["text_ends"])):
            for title, *_ in self._read_block(block):
                names.append(title)
        return names.arrays()

    def passage(self, row: int) -> Passage:
        """The passage of a row, as it was added."""
        title, text, flat, metadata = self._block(row // BLOCK)[row % BLOCK]
        spans = tuple(zip(flat[::2], flat[1::2], strict=True))
        return Passage(self.pid(row), title, text, spans, metadata)

    @cached_property
    def columns(self) -> dict[str, list[Any]]:
        """Metadata by key: a value for each row, None if missing."""
        columns: dict[str, list[Any]] = json.loads(zlib.decompress(self._arrays["columns"].tobytes()))
        length = len(self._arrays["pid_ends"])
        return {key: values + [None] * (length - len(values)) for key, values in columns.items()}

    def _block(self, block: int) -> list[Any]:
        """A block of texts, from the cache or from disk."""
        known = self._blocks.pop(block, None) or self._read_block(block)  # no block is empty
        self._blocks[block] = known
        if len(self._blocks) > self._cached_blocks:
            self._blocks.popitem(last=False)
        return known

    def _read_block(self, block: int) -> list[Any]:
        ends = self._arrays["text_ends"]
        start = int(ends[block - 1]) if block else 0
        content: list[Any] = json.loads(zlib.decompress(self._arrays["texts"][start : int(ends[block])].tobytes()))
        return content


def _compress_block(passages: Sequence[Passage]) -> bytes:
    """A zlib block of passages."""
    records = [[p.title, p.text, [edge for span in p.spans for edge in span], dict(p.metadata)] for p in passages]
    return zlib.compress(json.dumps(records, ensure_ascii=False, separators=(",", ":")).encode(), 6)
