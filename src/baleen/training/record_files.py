"""Files of records: a line of JSON each, compressed where their names say so.

They are written in pieces, of which several processes make many at once where there are enough.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from baleen import bytelines
from baleen.progress import progress
from baleen.training.spreading import spread
from baleen.types import Record

Kind = TypeVar("Kind", bound=Record)
Item = TypeVar("Item")

PIECE = 250  # records

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def write_records(records: Iterable[Record], path: Path | str) -> int:
    """Write records and say how many; the file appears only once complete, and is the same whoever writes it."""
    return sum(_written(spread(partial(_piece, Path(path).suffix, _line), records, PIECE), Path(path)))


def write_each(make: Callable[[Item], Record], items: Sequence[Item], path: Path | str, doing: str = "writing") -> int:
    """The same of the record that `make` makes of each item, by the process that writes it: nobody holds them all."""
    pieces = spread(partial(_piece, Path(path).suffix, lambda item: _line(make(item))), items, PIECE)
    with progress(doing, len(items), "records") as bar:
        for count in _written(pieces, Path(path)):
            bar.advance(count)
    return bar.done


def read_records(file: Path, kind: type[Kind]) -> Iterator[Kind]:
    """What was written, a record at a time."""
    for line in bytelines.read(file):
        yield kind.from_json(json.loads(line))


def read_all(file: Path, kind: type[Kind]) -> list[Kind]:
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
    with bytelines.replacing(path) as aside, aside.open("wb") as file:
        for count, data in pieces:
            file.write(data)
            yield count
        if not file.tell():
            file.write(bytelines.piece((), path.suffix))


def _piece(suffix: str, line: Callable[[Item], bytes], items: Sequence[Item]) -> tuple[int, bytes]:
    return len(items), bytelines.piece(map(line, items), suffix)


def _line(record: Record) -> bytes:
    return _encode(record.to_json()).encode()
