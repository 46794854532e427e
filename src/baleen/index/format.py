"""The directory of an index: a manifest, the array files that it names, and atomic commits.

    manifest.json       the state of the index, renamed into place last; without it there is no index
    lock                held by the one process that writes
    g000001/...         files of the change that made generation 1; never changed again
    g000002/...

A writer puts new files into the folder of the next generation, syncs them and replaces the manifest: that is the
commit.  Files that the manifest does not name are left over from an unfinished change; the next writer removes them.
`docs/index-format.md` specifies every byte.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
import numpy.typing as npt

from baleen.core.errors import (
    IndexCorruptError,
    IndexExistsError,
    IndexFormatError,
    IndexLockedError,
    IndexNotFoundError,
    IndexVersionError,
)
from baleen.core.files import lock, sync_folder
from baleen.core.records import Record

Array = npt.NDArray[Any]

FORMAT = "baleen-index"
FORMAT_VERSION = 2
MANIFEST = "manifest.json"
LOCK = "lock"
_GENERATION = re.compile(r"g\d{6,}")


@dataclass(frozen=True, slots=True)
class ArrayFile(Record):
    """A file of little-endian numbers, row after row."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    sha256: str

    @property
    def bytes(self) -> int:
        """Size of the file."""
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class SegmentEntry(Record):
    """The files of a segment by role.  Tombstones are separate, since deletions replace them."""

    name: str
    passages: int
    vectors: int
    files: Mapping[str, ArrayFile]
    deleted: int = 0
    tombstones: ArrayFile | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        plain = dict(data)
        plain["files"] = {role: ArrayFile.from_json(entry) for role, entry in data["files"].items()}
        if data.get("tombstones"):
            plain["tombstones"] = ArrayFile.from_json(data["tombstones"])
        return cls(**plain)


@dataclass(frozen=True, slots=True)
class Manifest(Record):
    """One committed state of an index."""

    generation: int
    dim: int
    bits: int
    encoder: str
    focus: Mapping[str, int | None]
    fitted_on: int
    codec: Mapping[str, ArrayFile]
    segments: tuple[SegmentEntry, ...]
    format: str = FORMAT
    format_version: int = FORMAT_VERSION
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        plain = dict(data)
        plain["codec"] = {role: ArrayFile.from_json(entry) for role, entry in data["codec"].items()}
        plain["segments"] = tuple(SegmentEntry.from_json(entry) for entry in data["segments"])
        return cls(**plain)

    def files(self) -> Iterator[ArrayFile]:
        """Every file of the state."""
        yield from self.codec.values()
        for segment in self.segments:
            yield from segment.files.values()
            if segment.tombstones:
                yield segment.tombstones


def read_manifest(root: Path) -> Manifest:
    """Read and check the manifest; raises one of the index errors of `baleen.core.errors`."""
    path = root / MANIFEST
    try:
        data = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise IndexNotFoundError(
            f"{root}: no index here (there is no {MANIFEST}); build one with 'baleen index'"
        ) from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise IndexCorruptError(f"{path}: not valid JSON ({error}); restore it or rebuild the index") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise IndexFormatError(
            f"{path}: not the manifest of a Baleen index ('format' is not '{FORMAT}'); choose another folder"
        )
    if data.get("format_version") != FORMAT_VERSION:
        raise IndexVersionError(
            f"{path}: index format {data.get('format_version')}, but this Baleen reads format {FORMAT_VERSION}; "
            "use the Baleen that wrote it, or rebuild the index"
        )
    try:
        return Manifest.from_json(data)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise IndexCorruptError(f"{path}: incomplete ({error}); restore it or rebuild the index") from None


def commit(root: Path, manifest: Manifest) -> None:
    """Make `manifest` the state of the index, atomically and durably."""
    temporary = root / f"{MANIFEST}.new"
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(manifest.to_json(), file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, root / MANIFEST)
    sync_folder(root)


def generation_name(generation: int) -> str:
    """Folder name of a generation."""
    return f"g{generation:06d}"


def generation_folders(root: Path) -> list[Path]:
    """Folders named like generations."""
    return [path for path in root.glob("g*") if _GENERATION.fullmatch(path.name) and path.is_dir()]


def next_generation(root: Path, committed: int) -> int:
    """A generation number that no commit or folder has used."""
    return 1 + max([committed, *(int(folder.name[1:]) for folder in generation_folders(root))])


def sync_generation(root: Path, generation: int) -> None:
    """Sync the directories of a generation; its files were synced as they were written."""
    for folder, _, _ in os.walk(root / generation_name(generation)):
        sync_folder(Path(folder))
    sync_folder(root)


@contextmanager
def write_lock(root: Path) -> Iterator[None]:
    """Hold the write lock of an index; first remove what an unfinished change left."""
    root.mkdir(parents=True, exist_ok=True)
    _refuse_foreign_folder(root)
    with (root / LOCK).open("a") as file:
        lock(file, IndexLockedError(f"{root}: another process is writing to this index; wait for it to end"))
        sweep(root)
        yield


def _refuse_foreign_folder(root: Path) -> None:
    """Refuse a folder with generation folders but no index: `sweep` would delete files of others."""
    foreign = [] if (root / LOCK).exists() or (root / MANIFEST).exists() else generation_folders(root)
    if foreign:
        raise IndexExistsError(
            f"{root}: no index, but it contains a folder '{foreign[0].name}', a name that indexes use; "
            "choose another folder"
        )


def sweep(root: Path, failed: int | None = None) -> None:
    """Remove generation folders and files that the manifest does not name.

    If the manifest cannot be read, remove only the `failed` generation, whose commit was never reached.
    """
    try:
        named = {entry.path for entry in read_manifest(root).files()}
    except IndexNotFoundError:
        named = set()
    except (IndexCorruptError, IndexFormatError):
        if failed is not None:
            shutil.rmtree(root / generation_name(failed), ignore_errors=True)
        return
    for folder in generation_folders(root):
        if not any(path.startswith(f"{folder.name}/") for path in named):
            shutil.rmtree(folder)
            continue
        for file in folder.rglob("*"):
            if file.is_file() and file.relative_to(root).as_posix() not in named:
                file.unlink()


def open_array(root: Path, entry: ArrayFile) -> Array:
    """Map a file into memory, read-only.  Checks its size; `Index.verify` checks its content."""
    path = root / entry.path
    try:
        size = path.stat().st_size
        if size != entry.bytes:
            raise IndexCorruptError(f"{path}: {size} bytes, expected {entry.bytes}; the file was truncated or altered")
        return map_file(path, entry.dtype, entry.shape)
    except FileNotFoundError:
        raise IndexCorruptError(
            f"{path}: missing, though the manifest names it; restore it or rebuild the index"
        ) from None


def map_file(path: Path, dtype: str, shape: tuple[int, ...]) -> Array:
    """Map the numbers of a file without reading them."""
    if 0 in shape:  # an empty file cannot be mapped
        return np.empty(shape, dtype)
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(mapped, dtype).reshape(shape)


def write_array(root: Path, path: str, array: Array) -> ArrayFile:
    """Write one array to a new file."""
    with ArrayWriter(root, path, array.dtype, array.shape[1:]) as writer:
        writer.append(array)
    return writer.entry


class ArrayWriter:
    """Appends rows to a new file and hashes them; syncs the file if it closes without an error."""

    def __init__(self, root: Path, path: str, dtype: npt.DTypeLike, row_shape: tuple[int, ...] = ()) -> None:
        self.path = path
        self.dtype = np.dtype(dtype).newbyteorder("<")
        self.row_shape = row_shape
        self.rows = 0
        self._digest = hashlib.sha256()
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[bytes] = (root / path).open("wb")

    def append(self, rows: Array) -> None:
        """Write rows of the declared shape."""
        assert rows.shape[1:] == self.row_shape, f"{self.path}: {rows.shape}"
        data = np.ascontiguousarray(rows, self.dtype).data.cast("B") if rows.size else b""
        self._file.write(data)
        self._digest.update(data)
        self.rows += len(rows)

    @property
    def entry(self) -> ArrayFile:
        """Path, shape and hash of the rows written."""
        return ArrayFile(self.path, self.dtype.str, (self.rows, *self.row_shape), self._digest.hexdigest())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._file.flush()
            os.fsync(self._file.fileno())
        self.close()

    def close(self) -> None:
        """Close the file without syncing it."""
        self._file.close()


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
