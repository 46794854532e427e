"""Files: streams of lines, plain or compressed (.gz, .bz2, .zst); JSONL files of records; atomic replacement; locks.

read_lines, write_lines         lines as bytes, in constant memory
read_records, write_records     a record per line, written by several processes where that pays
replacing                       write a file aside, then move it into place
lock, sync_folder               one writer at a time; durable names
"""

from __future__ import annotations

import bz2
import fcntl
import gc
import gzip
import importlib
import io
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

from baleen.core.errors import MissingExtraError
from baleen.core.parallel import map_chunks
from baleen.core.progress import progress
from baleen.core.records import Record

MAX_LINE = 10_000_000

# Errors of reading a file that is missing, unreadable, damaged or truncated.
READ_ERRORS = (OSError, EOFError, zlib.error)

COMPRESSED = (".gz", ".bz2", ".zst")

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLOCK = 1 << 16
_FAST_GZIP = 2  # five times as fast as the best level, for files a sixth larger
# One byte of .zst can decompress to thousands: small inputs keep the output small.
_ZSTD_BLOCK = 1 << 12


def read_lines(path: Path) -> Iterator[bytes]:
    """Read the lines of `path`, without line ends and byte order mark; a bad file raises one of READ_ERRORS.

    A line over MAX_LINE bytes is cut to MAX_LINE + 1 bytes, so that it is never held in memory.
    """
    rest = b""
    for block in _without_mark(_blocks(path)):
        first, *others = block.split(b"\n")
        rest += first[: MAX_LINE + 1 - len(rest)]
        for other in others:
            yield rest
            rest = other[: MAX_LINE + 1]
    if rest:
        yield rest


def read_bytes(path: Path) -> bytes:
    """Read all of `path`, without byte order mark; a bad file raises one of READ_ERRORS."""
    return b"".join(_blocks(path)).removeprefix(_BYTE_ORDER_MARK)


def write_lines(lines: Iterable[bytes], path: Path) -> int:
    """Write lines to `path`, compressed as its suffix says, and return their number; equal lines give equal bytes."""
    count = 0
    with ExitStack() as stack:
        file: Any = stack.enter_context(path.open("wb"))
        if path.suffix.lower() == ".gz":
            # No time and no name inside: equal content gives an equal file.
            file = stack.enter_context(gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0))
        elif path.suffix.lower() == ".bz2":
            file = stack.enter_context(bz2.BZ2File(file, "wb"))
        elif path.suffix.lower() == ".zst":
            file = stack.enter_context(_zstandard().ZstdCompressor().stream_writer(file, closefd=False))
        for line in lines:
            file.write(line + b"\n")
            count += 1
    return count


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a file to write, and move it to `path` at the end; after an error `path` is as it was.

    A pipe or device such as /dev/null is yielded itself.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    aside = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield aside
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def lock(file: IO[Any], refusal: Exception, *, shared_with_forks: bool = True) -> None:
    """Lock an open, writable file until it is closed; raise `refusal` if another process holds the lock.

    Forked processes share the lock, and may hold it longer than this one, unless `shared_with_forks` is False.
    """
    lock_file = fcntl.flock if shared_with_forks else fcntl.lockf
    try:
        lock_file(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        raise refusal from None


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def compress_lines(lines: Iterable[bytes], suffix: str) -> bytes:
    """Compress lines as a file of this suffix holds them; the concatenation of such chunks is a valid file.

    Fast rather than small; equal lines give equal bytes.
    """
    data = b"".join(line + b"\n" for line in lines)
    if suffix.lower() == ".gz":
        return gzip.compress(data, compresslevel=_FAST_GZIP, mtime=0)
    return bytes(_zstandard().ZstdCompressor().compress(data)) if suffix.lower() == ".zst" else data


def _without_mark(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Remove a byte order mark, which may be spread over several blocks of a compressed file."""
    first = b""
    for block in blocks:
        first += block
        if len(first) >= len(_BYTE_ORDER_MARK):
            break
    yield first.removeprefix(_BYTE_ORDER_MARK)
    yield from blocks


def _blocks(path: Path) -> Iterator[bytes]:
    suffix = path.suffix.lower()
    if suffix == ".zst":
        yield from _zstd_blocks(path)
        return
    with _opened(path, suffix) as file:
        # read1 returns what a damaged file still holds before it raises.
        while block := file.read1(_BLOCK):
            yield block


def _opened(path: Path, suffix: str) -> io.BufferedIOBase:
    if suffix == ".gz":
        return gzip.open(path, "rb")
    return bz2.open(path, "rb") if suffix == ".bz2" else path.open("rb")


def _zstd_blocks(path: Path) -> Iterator[bytes]:
    """Decompress frame by frame: zstandard's own file reader takes a truncated file for a complete one."""
    library = _zstandard()
    frame, rest = None, b""
    with path.open("rb") as file:
        while rest := rest or file.read(_ZSTD_BLOCK):
            frame = frame or library.ZstdDecompressor().decompressobj()
            try:
                yield frame.decompress(rest)
            except library.ZstdError as error:
                raise OSError(str(error)) from None
            rest, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
    if frame:
        raise EOFError("the last frame has no end")


def _zstandard() -> Any:
    try:
        return importlib.import_module("zstandard")
    except ImportError:
        raise MissingExtraError(
            "reading and writing .zst needs the package 'zstandard', which is not installed: pip install zstandard"
        ) from None


Kind = TypeVar("Kind", bound=Record)
Item = TypeVar("Item")

PIECE = 250  # records

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def write_records(records: Iterable[Record], path: Path | str) -> int:
    """Write records and return their number; the file appears only when complete.

    Equal records give equal bytes, however many processes write them.
    """
    return sum(_write_chunks(map_chunks(partial(_encode_chunk, Path(path).suffix, _line), records, PIECE), Path(path)))


def write_each(make: Callable[[Item], Record], items: Sequence[Item], path: Path | str, doing: str = "writing") -> int:
    """Write `make(item)` for each item; the process that writes a record makes it, so none holds them all."""
    chunks = map_chunks(partial(_encode_chunk, Path(path).suffix, lambda item: _line(make(item))), items, PIECE)
    with progress(doing, len(items), "records") as bar:
        for count in _write_chunks(chunks, Path(path)):
            bar.advance(count)
    return bar.done


def read_records(file: Path, kind: type[Kind]) -> Iterator[Kind]:
    """Read records one at a time."""
    for line in read_lines(file):
        yield kind.from_json(json.loads(line))


def read_all_records(file: Path, kind: type[Kind]) -> list[Kind]:
    """Read all records, with garbage collection paused: it would walk them all again and again."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return list(read_records(file, kind))
    finally:
        if collecting:
            gc.enable()


def _write_chunks(chunks: Iterable[tuple[int, bytes]], path: Path) -> Iterator[int]:
    """Write chunks and yield the number of records in each."""
    with replacing(path) as aside, aside.open("wb") as file:
        for count, data in chunks:
            file.write(data)
            yield count
        if not file.tell():
            file.write(compress_lines((), path.suffix))


def _encode_chunk(suffix: str, line: Callable[[Item], bytes], items: Sequence[Item]) -> tuple[int, bytes]:
    return len(items), compress_lines(map(line, items), suffix)


def _line(record: Record) -> bytes:
    return _encode(record.to_json()).encode()
