"""Collections of passages: read and write them.

    *.jsonl, *.json                   one JSON object per line: `id` or `_id`, `title`, `text` (a string or sentences)
    *.jsonl.gz, *.jsonl.zst, *.bz2    the same, compressed; a .bz2 is a file of HotPotQA's wiki dump
    *.txt, *.md                       text, cut into passages (`baleen.data.textfiles`)
    a folder with corpus.jsonl[.gz]   a BEIR dataset: that file
    any other folder                  its JSONL and .bz2 files, sorted, at any depth; without any, its text files

Other keys of an object become metadata; an object under `metadata`, as in BEIR, is merged into it.  The title is
required but may be empty, as BEIR's often are.  Blank lines and a byte order mark are skipped.
"""

from __future__ import annotations

import html
import json
import logging
import random
import re
import urllib.parse
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from baleen.core import files
from baleen.core.errors import CorpusError
from baleen.core.files import MAX_LINE
from baleen.core.types import Passage
from baleen.data import parsing, sentences, textfiles
from baleen.data.parsing import InputError

logger = logging.getLogger(__name__)

MAX_TEXT_FILE = 100_000_000
FIRST_BAD = 5

_WRITABLE = (".jsonl", ".jsonl.gz", ".jsonl.zst")
_RECORDS = (*_WRITABLE, ".bz2")
_JSON = (".json", ".json.gz", ".json.zst")  # only when named: in a folder they tend to be settings
_TEXTS = (".txt", *textfiles.MARKDOWN)
_BEIR = ("corpus.jsonl", "corpus.jsonl.gz", "corpus.jsonl.zst")

# The wiki dump repeats its text with links, and has the offsets of its tokens.
_DROPPED = frozenset({"text_with_links", "charoffset", "charoffset_with_links"})
_ANCHOR = re.compile(r'<a href="(?P<target>[^"]+)"[^>]*>(?P<text>[^<]+)</a>')


@dataclass
class Tally:
    """Counts of a reading: passages read, records skipped, and the first messages about those."""

    passages: int = 0
    bad: int = 0
    first_bad: list[str] = field(default_factory=list)

    def skip(self, message: str) -> None:
        """Count a bad record; log the first few."""
        self.bad += 1
        if len(self.first_bad) < FIRST_BAD:
            self.first_bad.append(message)
            logger.warning("skipped: %s", message)


class _File(NamedTuple):
    path: Path
    name: str  # relative to the given folder; the id of a text file's passages


def read_passages(
    paths: Iterable[Path | str] | Path | str,
    *,
    skip_bad: bool = False,
    tally: Tally | None = None,
    chunk_words: int = textfiles.CHUNK_WORDS,
    links: bool = False,
) -> Iterator[Passage]:
    """Stream every passage of files and folders, in order.

    A missing path, an unknown kind of file, or a folder with nothing to read is a CorpusError at once.  A bad record
    is a CorpusError `path:line: what was found; what was expected` in its turn, or is skipped with `skip_bad`.
    `tally` counts passages and skipped records.

    Every id must be unique over all files: a 64-bit hash of each is held.  Text files are read as a whole, and cut
    into passages of at most `chunk_words` words.

    With `links` the metadata holds the wiki dump's links as (text, title) pairs under `links`.
    """
    given = [paths] if isinstance(paths, (str, Path)) else paths
    files = [file for path in given for file in _files(Path(path))]
    found = ((file.path, line, item) for file in files for line, item in _items(file, chunk_words, links))
    return _admitted(found, skip_bad, Tally() if tally is None else tally)


def sample_passages(passages: Iterable[Passage], count: int, seed: int = 0) -> list[Passage]:
    """Draw a uniform sample of up to `count` passages from a stream of any size."""
    chance, kept = random.Random(seed), list[Passage]()
    for number, passage in enumerate(passages):
        if len(kept) < count:
            kept.append(passage)
        elif (place := chance.randrange(number + 1)) < count:
            kept[place] = passage
    return kept


def estimate_count(paths: Iterable[Path | str]) -> int:
    """Estimate the number of passages: count lines of collections, and text files, without parsing."""
    files = [file for path in paths for file in _files(Path(path))]
    return sum(1 if file.name.lower().endswith(_TEXTS) else _lines(file.path) for file in files)


def text_file_names(paths: Iterable[Path | str]) -> set[str]:
    """The names of text files, as they appear in the ids of their passages (`textfiles.source_file`)."""
    files = (file for path in paths for file in _files(Path(path)))
    return {_text_name(file) for file in files if file.name.lower().endswith(_TEXTS)}


def _lines(path: Path) -> int:
    """Count lines up to the first damage, which `read_passages` will report."""
    count = 0
    with suppress(*files.READ_ERRORS):
        for _ in files.read_lines(path):
            count += 1
    return count


def write_passages(passages: Iterable[Passage], path: Path | str) -> int:
    """Write passages as JSONL (.jsonl, .jsonl.gz or .jsonl.zst) and return their number.

    Reading them back gives the same ids, titles, sentences and metadata.  Text that is split is written as a list of
    sentences, so the space between them may differ.  The file appears only when complete.
    """
    return write_lines((_line(passage) for passage in passages), path)


def write_lines(lines: Iterable[bytes], path: Path | str) -> int:
    """Write lines of JSON and return their number; the file appears only when complete."""
    path = Path(path)
    check_writable(path)
    with files.replacing(path) as aside:
        return files.write_lines(lines, aside)


def check_writable(path: Path) -> None:
    """Refuse a path that `write_lines` cannot write, before long work."""
    if not path.name.lower().endswith(_WRITABLE):
        raise CorpusError(f"{path}: unknown format; expected a name that ends in {', '.join(_WRITABLE)}")
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
        raise CorpusError(f"{path}: unknown format; expected a folder or a name that ends in {known}")
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
        logger.warning("%s: reading its %d record files; %d text files are ignored", folder, len(records), len(texts))
    return [_File(folder / name, name) for name in records or texts]


def _admitted(
    found: Iterable[tuple[Path, int, Passage | InputError]], skip_bad: bool, tally: Tally
) -> Iterator[Passage]:
    """Yield passages with unique ids; raise or count flaws."""
    seen: set[int] = set()
    for path, line, item in found:
        passage = _unrepeated(item, seen)
        if isinstance(passage, Passage):
            tally.passages += 1
            yield passage
        elif skip_bad:
            tally.skip(f"{path}:{line}: {passage}")
        else:
            raise CorpusError(f"{path}:{line}: {passage}")


def _unrepeated(item: Passage | InputError, seen: set[int]) -> Passage | InputError:
    """Return `item`, or an InputError if its id is in `seen`, which it joins."""
    if isinstance(item, InputError):
        return item
    known = int.from_bytes(blake2b(item.pid.encode(), digest_size=8).digest())
    if known in seen:
        return InputError(f"the id {item.pid!r} is repeated; expected every id once over all files")
    seen.add(known)
    return item


def _items(file: _File, chunk_words: int, links: bool) -> Iterator[tuple[int, Passage | InputError]]:
    """The passages and flaws of one file, with their lines."""
    line = 0
    items = _text_file(file, chunk_words) if file.name.lower().endswith(_TEXTS) else _record_file(file.path, links)
    try:
        for line, item in items:
            yield line, item
        if not line:
            yield (
                1,
                InputError("an empty file (nothing but blanks or titles); expected text or one JSON object per line"),
            )
    except files.READ_ERRORS as error:
        yield (
            line + 1,
            InputError(f"the rest of the file cannot be read ({error}); expected a complete, undamaged file"),
        )


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
    """The file's name as an id: valid Unicode, though names may be any bytes."""
    return file.name.encode("utf-8", "replace").decode()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _object(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE:
        raise InputError(f"a line over {MAX_LINE:,} bytes; expected shorter ones")
    record = parsing.decode(line, "one JSON object per line", _DECODER)
    if b"\\ud" in line.lower():  # an escape can spell an unpaired surrogate
        try:
            json.dumps(record, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise InputError("an unpaired surrogate; expected valid Unicode") from None
    if not isinstance(record, dict):
        raise InputError(f"{parsing.kind(record)}; expected a JSON object with id, title and text")
    return record


def _passage(record: dict[str, Any], links: bool = False) -> Passage:
    key = "_id" if "_id" in record and "id" not in record else "id"
    pid = str(parsing.value(record, key, "a string or an integer", str, int, alias="_id"))
    if not pid:
        raise InputError("the id is empty; expected a string or an integer")
    title = parsing.value(record, "title", "a string", str)
    text = parsing.value(record, "text", "a string or a list of sentences", str, list)
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


def _flat(text: list[Any]) -> list[str]:
    """The sentences of a list of sentences, or of the full wiki dump's list of paragraphs."""
    flat = [sentence for item in text for sentence in (item if isinstance(item, list) else [item])]
    for position, sentence in enumerate(flat):
        if not isinstance(sentence, str):
            raise InputError(f"sentence {position} of 'text' is {parsing.kind(sentence)}; expected a string")
    return flat


def _linked(text: Any) -> list[str]:
    """The strings of a text with anchors: a string, sentences, or paragraphs of sentences."""
    items = text if isinstance(text, list) else [text]
    flat = [sentence for item in items for sentence in (item if isinstance(item, list) else [item])]
    return [sentence for sentence in flat if isinstance(sentence, str)]


def _links(text: str) -> Iterator[tuple[str, str]]:
    """The (text, target title) pairs of HTML anchors."""
    for found in _ANCHOR.finditer(text):
        yield html.unescape(found["text"]), urllib.parse.unquote(found["target"])


def _metadata(others: dict[str, Any]) -> dict[str, Any]:
    spread = others.pop("metadata") if isinstance(others.get("metadata"), dict) else {}
    return {**spread, **{name: value for name, value in others.items() if name not in _DROPPED}}
