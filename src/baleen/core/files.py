"""Lines of bytes out of files and into them, plain or compressed (.gz, .bz2, .zst), in memory that does not grow.

Files of records: a line of JSON each, compressed where their names say so.

They are written in pieces, of which several processes make many at once where there are enough.
"""

from __future__ import annotations

import bz2
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
from typing import Any, TypeVar

from baleen.core.errors import MissingExtraError
from baleen.core.parallel import map_chunks
from baleen.core.progress import progress
from baleen.core.records import Record

MAX_LINE = 10_000_000

# What reading a file that is damaged, cut short or not ours to read can raise.
BROKEN = (OSError, EOFError, zlib.error)

PACKED = (".gz", ".bz2", ".zst")

_MARK = b"\xef\xbb\xbf"
_BLOCK = 1 << 16
_FAST_GZIP = 2  # five times as fast as the best level, for files a sixth larger
# A byte of .zst can stand for thousands; fed in pieces this small, what comes out at a time stays small as well.
_ZSTD_BLOCK = 1 << 12


def read_lines(path: Path) -> Iterator[bytes]:
    """The lines of `path` without their ends, and without a byte order mark.

    A line over MAX_LINE bytes is never held whole: it comes out cut to MAX_LINE + 1.  A broken file raises one of
    BROKEN.
    """
    rest = b""
    for block in _unmarked(_blocks(path)):
        first, *others = block.split(b"\n")
        rest += first[: MAX_LINE + 1 - len(rest)]
        for other in others:
            yield rest
            rest = other[: MAX_LINE + 1]
    if rest:
        yield rest


def read_bytes(path: Path) -> bytes:
    """All of `path`, without a byte order mark; for files that are one document.  A broken file raises one of BROKEN."""
    return b"".join(_blocks(path)).removeprefix(_MARK)


def write_lines(lines: Iterable[bytes], path: Path) -> int:
    """Write `lines` to `path`, an end after each, compressed as its name says; the same lines give the same bytes."""
    count = 0
    with ExitStack() as stack:
        file: Any = stack.enter_context(path.open("wb"))
        if path.suffix.lower() == ".gz":
            # No time and no name inside, so that equal content is an equal file.
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
    """A file beside `path` to write to, which takes its place at the end: `path` is there whole, or as it was before.

    What is there and is no file, such as a pipe or /dev/null, is written to as it stands: it has no place to take.
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


def compress_lines(lines: Iterable[bytes], suffix: str) -> bytes:
    """Lines as bytes of a file of that suffix: such pieces, written one after the other, are the file.

    Compressed fast rather than well; the same lines give the same bytes.
    """
    data = b"".join(line + b"\n" for line in lines)
    if suffix.lower() == ".gz":
        return gzip.compress(data, compresslevel=_FAST_GZIP, mtime=0)
    return bytes(_zstandard().ZstdCompressor().compress(data)) if suffix.lower() == ".zst" else data


def _unmarked(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The first pieces of what is compressed may be empty, so that they are put together until a mark would show."""
    first = b""
    for block in blocks:
        first += block
        if len(first) >= len(_MARK):
            break
    yield first.removeprefix(_MARK)
    yield from blocks


def _blocks(path: Path) -> Iterator[bytes]:
    suffix = path.suffix.lower()
    if suffix == ".zst":
        yield from _zstd_blocks(path)
        return
    with _opened(path, suffix) as file:
        # read1 hands out what a damaged file still gives before it raises.
        while block := file.read1(_BLOCK):
            yield block


def _opened(path: Path, suffix: str) -> io.BufferedIOBase:
    if suffix == ".gz":
        return gzip.open(path, "rb")
    return bz2.open(path, "rb") if suffix == ".bz2" else path.open("rb")


def _zstd_blocks(path: Path) -> Iterator[bytes]:
    """Frame by frame, because zstandard's own file reader takes a file that was cut short for a complete one."""
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
    """Write records and say how many; the file appears only once complete, and is the same whoever writes it."""
    return sum(_written(map_chunks(partial(_piece, Path(path).suffix, _line), records, PIECE), Path(path)))


def write_each(make: Callable[[Item], Record], items: Sequence[Item], path: Path | str, doing: str = "writing") -> int:
    """The same of the record that `make` makes of each item, by the process that writes it: nobody holds them all."""
    pieces = map_chunks(partial(_piece, Path(path).suffix, lambda item: _line(make(item))), items, PIECE)
    with progress(doing, len(items), "records") as bar:
        for count in _written(pieces, Path(path)):
            bar.advance(count)
    return bar.done


def read_records(file: Path, kind: type[Kind]) -> Iterator[Kind]:
    """What was written, a record at a time."""
    for line in read_lines(file):
        yield kind.from_json(json.loads(line))


def read_all_records(file: Path, kind: type[Kind]) -> list[Kind]:
    """All of it, without a search for garbage each time that so many more objects are there: none of them is."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return list(read_records(file, kind))
    finally:
        if collecting:
            gc.enable()


def _written(pieces: Iterable[tuple[int, bytes]], path: Path) -> Iterator[int]:
    """How many records each piece has, once it is written."""
    with replacing(path) as aside, aside.open("wb") as file:
        for count, data in pieces:
            file.write(data)
            yield count
        if not file.tell():
            file.write(compress_lines((), path.suffix))


def _piece(suffix: str, line: Callable[[Item], bytes], items: Sequence[Item]) -> tuple[int, bytes]:
    return len(items), compress_lines(map(line, items), suffix)


def _line(record: Record) -> bytes:
    return _encode(record.to_json()).encode()
