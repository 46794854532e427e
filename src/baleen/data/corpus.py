"""Passages in and out: the only reader of collection files.

    *.jsonl, *.json                   a JSON object a line: `id` or `_id`, `title`, `text` (a string or its sentences)
    *.jsonl.gz, *.jsonl.zst, *.bz2    the same, compressed; a .bz2 is a file of HotPotQA's wiki dump
    *.txt, *.md                       text, cut into passages (`baleen.data.textfiles`)
    a folder with corpus.jsonl[.gz]   a BEIR dataset: that file
    any other folder                  its JSONL and .bz2 files, sorted, however deep; if it has none, its text files

Every other key of a JSON object becomes metadata; an object under `metadata`, as BEIR has it, is spread into it.  A
title must be there but may be empty, as BEIR's often are.  Blank lines and a byte order mark are passed over.
"""

from __future__ import annotations

import html
import json
import logging
import random
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from baleen.core import files
from baleen.core.errors import CorpusError
from baleen.core.files import MAX_LINE
from baleen.core.types import Passage
from baleen.data import sentences, textfiles

logger = logging.getLogger(__name__)

MAX_TEXT_FILE = 100_000_000
FIRST_BAD = 5

_WRITABLE = (".jsonl", ".jsonl.gz", ".jsonl.zst")
_RECORDS = (*_WRITABLE, ".bz2")
_JSON = (".json", ".json.gz", ".json.zst")  # named by themselves only: in a folder they tend to be settings
_TEXTS = (".txt", *textfiles.MARKDOWN)
_BEIR = ("corpus.jsonl", "corpus.jsonl.gz", "corpus.jsonl.zst")

# The wiki dump repeats its text with links, and says where each token stands.
_DROPPED = frozenset({"text_with_links", "charoffset", "charoffset_with_links"})
_ANCHOR = re.compile(r'<a href="(?P<target>[^"]+)"[^>]*>(?P<text>[^<]+)</a>')


class InputError(ValueError):
    """What is wrong with one piece of input: what was found; what is expected."""


@dataclass
class Tally:
    """How a reading went: passages given out, pieces of input left out, and what was wrong with the first of those."""

    passages: int = 0
    bad: int = 0
    first_bad: list[str] = field(default_factory=list)

    def leave_out(self, message: str) -> None:
        self.bad += 1
        if len(self.first_bad) < FIRST_BAD:
            self.first_bad.append(message)
            logger.warning("left out: %s", message)


class _File(NamedTuple):
    path: Path
    name: str  # relative to the folder that was asked for: what a text file's passages are called


def read_passages(
    paths: Iterable[Path | str] | Path | str,
    *,
    skip_bad: bool = False,
    tally: Tally | None = None,
    chunk_words: int = textfiles.CHUNK_WORDS,
    links: bool = False,
) -> Iterator[Passage]:
    """Every passage of the files and folders `paths`, in order, one at a time.

    A path that is missing or of an unknown kind, or a folder with nothing to read, is a CorpusError at once.  Bad
    input is a CorpusError `path:line: what was found; what is expected` when its turn comes; with `skip_bad` it is
    left out and counted in `tally` instead.  Passages given out are counted there too.

    Files are streamed: all that grows is a set with a 64-bit hash of every id, since an id may stand only once in all
    of them.  Text files alone are read whole, and cut into passages of at most `chunk_words` words.

    With `links` the wiki dump's links are kept, as (text, title of the passage) pairs under `links` in the metadata.
    """
    given = [paths] if isinstance(paths, (str, Path)) else paths
    files = [file for path in given for file in _files(Path(path))]
    found = ((file.path, line, item) for file in files for line, item in _items(file, chunk_words, links))
    return _admitted(found, skip_bad, Tally() if tally is None else tally)


def sample_passages(passages: Iterable[Passage], count: int, seed: int = 0) -> list[Passage]:
    """`count` of the passages, or all where there are no more: each as likely as any other, from a stream of any size."""
    chance, kept = random.Random(seed), list[Passage]()
    for number, passage in enumerate(passages):
        if len(kept) < count:
            kept.append(passage)
        elif (place := chance.randrange(number + 1)) < count:
            kept[place] = passage
    return kept


def estimate_count(paths: Iterable[Path | str]) -> int:
    """About how many passages `read` will give: lines of collections and files of text, counted but not parsed."""
    files = [file for path in paths for file in _files(Path(path))]
    return sum(1 if file.name.lower().endswith(_TEXTS) else _lines(file.path) for file in files)


def text_file_names(paths: Iterable[Path | str]) -> set[str]:
    """The files of text that `read` will cut into passages, as the ids of these name them (`textfiles.file_of`)."""
    files = (file for path in paths for file in _files(Path(path)))
    return {_text_name(file) for file in files if file.name.lower().endswith(_TEXTS)}


def _lines(path: Path) -> int:
    """As many as a damaged file still gives: to tell of the damage is for `read`."""
    count = 0
    with suppress(*files.READ_ERRORS):
        for _ in files.read_lines(path):
            count += 1
    return count


def write_passages(passages: Iterable[Passage], path: Path | str) -> int:
    """Write `passages` as JSONL (.jsonl, .jsonl.gz or .jsonl.zst) and say how many there were.

    What `read` gives back has the same ids, titles, sentences and metadata.  Its text may differ in the space between
    sentences: text is written as the list of its sentences, where it has been split into any.  The file appears only once it is complete.
    """
    return write_lines((_line(passage) for passage in passages), path)


def write_lines(lines: Iterable[bytes], path: Path | str) -> int:
    """Write lines of JSON to a file that appears only once it is complete, and say how many there were."""
    path = Path(path)
    check_writable(path)
    with files.replacing(path) as aside:
        return files.write_lines(lines, aside)


def check_writable(path: Path) -> None:
    """Refuse a file that `write` and `write_lines` would refuse, for whom it takes long to come that far."""
    if not path.name.lower().endswith(_WRITABLE):
        raise CorpusError(f"{path}: cannot tell the format; expected a name that ends in {', '.join(_WRITABLE)}")
    if not path.parent.is_dir():
        raise CorpusError(f"{path.parent}: no such folder to write {path.name} into")


def _line(passage: Passage) -> bytes:
    record: dict[str, Any] = {
        "id": passage.pid,
        "title": passage.title,
        "text": passage.sentences if passage.spans else passage.text,
    }
    if passage.metadata:
        record["metadata"] = dict(passage.metadata)
    return json.dumps(record, ensure_ascii=False, allow_nan=False).encode()


def _files(path: Path) -> list[_File]:
    if path.is_dir():
        return _folder(path)
    if not path.exists():
        raise CorpusError(f"{path}: no such file or folder")
    if not path.name.lower().endswith((*_RECORDS, *_JSON, *_TEXTS)):
        known = ", ".join((*_RECORDS, *_TEXTS))
        raise CorpusError(f"{path}: cannot tell the format; expected a folder or a name that ends in {known}")
    return [_File(path, path.name)]


def _folder(folder: Path) -> list[_File]:
    for name in _BEIR:
        if (folder / name).is_file():
            return [_File(folder / name, name)]
    names = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    visible = sorted(name.as_posix() for name in names if not any(part.startswith(".") for part in name.parts))
    records = [name for name in visible if name.lower().endswith(_RECORDS)]
    texts = [name for name in visible if name.lower().endswith(_TEXTS)]
    if not records and not texts:
        raise CorpusError(f"{folder}: nothing to read; expected files that end in {', '.join((*_RECORDS, *_TEXTS))}")
    if records and texts:
        logger.warning("%s: reading its %d record files; %d text files are left out", folder, len(records), len(texts))
    return [_File(folder / name, name) for name in records or texts]


def _admitted(
    found: Iterable[tuple[Path, int, Passage | InputError]], skip_bad: bool, tally: Tally
) -> Iterator[Passage]:
    """The passages of `found`, each id once; a flaw raises or is counted."""
    seen: set[int] = set()
    for path, line, item in found:
        passage = _unrepeated(item, seen)
        if isinstance(passage, Passage):
            tally.passages += 1
            yield passage
        elif skip_bad:
            tally.leave_out(f"{path}:{line}: {passage}")
        else:
            raise CorpusError(f"{path}:{line}: {passage}")


def _unrepeated(item: Passage | InputError, seen: set[int]) -> Passage | InputError:
    """`item`, or the flaw that its id was `seen` before; remembers the id."""
    if isinstance(item, InputError):
        return item
    known = int.from_bytes(blake2b(item.pid.encode(), digest_size=8).digest())
    if known in seen:
        return InputError(f"the id {item.pid!r} is repeated; expected every id once over all files")
    seen.add(known)
    return item


def _items(file: _File, chunk_words: int, links: bool) -> Iterator[tuple[int, Passage | InputError]]:
    """What stands in one file, with the line where it stands."""
    line = 0
    items = _text_file(file, chunk_words) if file.name.lower().endswith(_TEXTS) else _record_file(file.path, links)
    try:
        for line, item in items:
            yield line, item
        if not line:
            yield 1, InputError("an empty file (nothing but blanks or titles); expected text or one JSON object a line")
    except files.READ_ERRORS as error:
        yield line + 1, InputError(f"the file cannot be read on ({error}); expected a complete, undamaged file")


def _record_file(path: Path, links: bool) -> Iterator[tuple[int, Passage | InputError]]:
    for number, line in enumerate(files.read_lines(path), 1):
        if line.strip():
            yield number, _attempt(line, links)


def _attempt(line: bytes, links: bool) -> Passage | InputError:
    try:
        return _passage(_object(line), links)
    except InputError as flaw:
        return flaw


def _text_file(file: _File, chunk_words: int) -> Iterator[tuple[int, Passage | InputError]]:
    with file.path.open("rb") as stream:
        content = stream.read(MAX_TEXT_FILE + 1)
    if len(content) > MAX_TEXT_FILE:
        yield 1, InputError(f"a text file over {MAX_TEXT_FILE:,} bytes; expected a smaller one, or JSONL")
        return
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        yield content.count(b"\n", 0, error.start) + 1, InputError("invalid UTF-8; expected UTF-8")
        return
    for passage in textfiles.text_passages(_text_name(file), text, words=chunk_words):
        yield 1, passage


def _text_name(file: _File) -> str:
    """A file's name may be any bytes; an id is Unicode."""
    return file.name.encode("utf-8", "replace").decode()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _object(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE:
        raise InputError(f"a line over {MAX_LINE:,} bytes; expected shorter ones")
    try:
        record = _DECODER.decode(line.decode())
        if b"\\ud" in line.lower():  # an escape can spell half a character, which no tokenizer takes
            json.dumps(record, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise InputError(f"invalid UTF-8 at byte {error.start + 1}; expected UTF-8") from None
    except UnicodeEncodeError:
        raise InputError("an escaped lone surrogate; expected whole characters") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON ({error}); expected one JSON object a line") from None
    if not isinstance(record, dict):
        raise InputError(f"{_kind(record)}; expected a JSON object with id, title and text")
    return record


def _passage(record: dict[str, Any], links: bool = False) -> Passage:
    key = "_id" if "_id" in record and "id" not in record else "id"
    pid = _pid(_value(record, key, "a string or an integer", (str, int)))
    title = _value(record, "title", "a string", (str,))
    text = _value(record, "text", "a string or a list of sentences", (str, list))
    metadata = _metadata({name: value for name, value in record.items() if name not in {key, "title", "text"}})
    if links and "text_with_links" in record:
        metadata["links"] = [list(pair) for part in _linked(record["text_with_links"]) for pair in _links(part)]
    if isinstance(text, str):
        passage = Passage(pid, title, text, sentences.split_sentences(text), metadata)
    else:
        passage = Passage.from_sentences(pid, title, _flat(text), metadata)
    if not passage.text.strip():
        raise InputError("'text' is empty; expected at least one word")
    return passage


def _value(record: Mapping[str, Any], key: str, expected: str, kinds: tuple[type, ...]) -> Any:
    if key not in record:
        name = "'id' or '_id'" if key == "id" else f"'{key}'"
        keys = ", ".join(map(repr, list(record)[:8])) or "(none)"
        raise InputError(f"no {name} among the keys {keys}; expected {expected}")
    if not isinstance(record[key], kinds) or isinstance(record[key], bool):
        raise InputError(f"'{key}' is {_kind(record[key])}; expected {expected}")
    return record[key]


def _pid(value: str | int) -> str:
    if value == "":
        raise InputError("the id is empty; expected a string or an integer")
    return str(value)


def _flat(text: list[Any]) -> list[str]:
    """Sentences; the full wiki dump has paragraphs of sentences, which follow each other here."""
    flat = [sentence for item in text for sentence in (item if isinstance(item, list) else [item])]
    for position, sentence in enumerate(flat):
        if not isinstance(sentence, str):
            raise InputError(f"sentence {position} of 'text' is {_kind(sentence)}; expected a string")
    return flat


def _linked(text: Any) -> list[str]:
    """Sentences with anchors, or paragraphs of them; what is no string has no links."""
    items = text if isinstance(text, list) else [text]
    flat = [sentence for item in items for sentence in (item if isinstance(item, list) else [item])]
    return [sentence for sentence in flat if isinstance(sentence, str)]


def _links(text: str) -> Iterator[tuple[str, str]]:
    """What is linked in a text with HTML anchors, with the title that each leads to."""
    for found in _ANCHOR.finditer(text):
        yield html.unescape(found["text"]), urllib.parse.unquote(found["target"])


def _metadata(others: dict[str, Any]) -> dict[str, Any]:
    spread = others.pop("metadata") if isinstance(others.get("metadata"), dict) else {}
    return {**spread, **{name: value for name, value in others.items() if name not in _DROPPED}}


def _kind(value: Any) -> str:
    kinds = {str: "a string", bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return kinds.get(type(value), "null")
