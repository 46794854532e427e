"""Plain text and Markdown as passages: a short file is one passage, a long one is cut between paragraphs.

    notes/hops.md      ->  "notes/hops.md"                            a short file
    notes/baleen.md    ->  "notes/baleen.md#1", "notes/baleen.md#2"   a long file

The title is the first Markdown heading, or a short first line, or the file's stem.  The text does not repeat it,
unless it runs on into the paragraph below.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from baleen.core.types import Passage
from baleen.data import sentences

MARKDOWN = (".md", ".markdown")
CHUNK_WORDS = 180

# A longer first line is mostly the start of a wrapped paragraph.
TITLE_LENGTH = 60

_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(\S.*)")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_NUMBER = re.compile(r"#\d+$")


class _Block(NamedTuple):
    text: str
    heading: bool = False


class _Section(NamedTuple):
    title: str
    paragraphs: list[str]


def text_passages(name: str, text: str, *, words: int = CHUNK_WORDS) -> Iterator[Passage]:
    """Cut the file `name` (relative to its collection) into passages of at most `words` words.

    In a long Markdown file every heading starts a passage, titled "document: section".  Long paragraphs are cut
    between sentences; a sentence is never cut, and may be longer.  Empty text gives no passage.
    """
    title, blocks = _titled(name, list(_blocks(text, name.lower().endswith(MARKDOWN))))
    chunks = [chunk for chunk in _chunks(title, blocks, words) if chunk[1].strip()]
    for number, (heading, body) in enumerate(chunks, 1):
        pid = name if len(chunks) == 1 else f"{name}#{number}"
        yield Passage(pid, heading, body, sentences.split_sentences(body))


def source_file(pid: str) -> str:
    """The text file that a passage id would come from."""
    return _NUMBER.sub("", pid)


def _blocks(text: str, markdown: bool) -> Iterator[_Block]:
    """Paragraphs and headings in order; a `#` in fenced code is not a heading."""
    lines: list[str] = []
    fenced = False
    for line in [*text.splitlines(), ""]:
        heading = _HEADING.match(line) if markdown and not fenced else None
        fenced ^= bool(_FENCE.match(line))
        if lines and (heading or not line.strip()):
            yield _Block("\n".join(lines).strip())
            lines = []
        if heading:
            yield _Block(_unclosed(heading[1]), heading=True)
        elif line.strip():
            lines.append(line)


def _unclosed(heading: str) -> str:
    """Remove the hashes that may close a heading: those of `Aims ##`, not that of `The C#`."""
    bare = heading.rstrip().rstrip("#")
    return bare.rstrip() if bare[-1:].isspace() else heading.rstrip()


def _titled(name: str, blocks: list[_Block]) -> tuple[str, list[_Block]]:
    """The document's title, and its blocks with a blank heading in place of the title."""
    for position, block in enumerate(blocks):
        if block.heading:
            return block.text, [*blocks[:position], _Block("", heading=True), *blocks[position + 1 :]]
    first = blocks[0].text.splitlines()[0].strip() if blocks else ""
    if not 0 < len(first) <= TITLE_LENGTH:
        return PurePosixPath(name).stem, blocks
    return first, blocks[1:] if len(blocks) > 1 and blocks[0].text == first else blocks


def _chunks(title: str, blocks: list[_Block], words: int) -> Iterator[tuple[str, str]]:
    """(title, text) of each passage."""
    if sum(len(block.text.split()) for block in blocks) <= words:
        yield title, "\n\n".join(block.text for block in blocks if block.text)
        return
    for section in _sections(title, blocks):
        pieces = (piece for paragraph in section.paragraphs for piece in _pieces(paragraph, words))
        for run in _runs(pieces, words):
            yield section.title, "\n\n".join(run)


def _sections(title: str, blocks: Iterable[_Block]) -> Iterator[_Section]:
    section = _Section(title, [])
    for block in blocks:
        if block.heading:
            yield section
            section = _Section(f"{title}: {block.text}" if block.text else title, [])
        else:
            section.paragraphs.append(block.text)
    yield section


def _pieces(paragraph: str, words: int) -> Iterator[str]:
    if len(paragraph.split()) <= words:
        yield paragraph
        return
    for run in _runs((paragraph[start:end] for start, end in sentences.split_sentences(paragraph)), words):
        yield " ".join(run)


def _runs(items: Iterable[str], words: int) -> Iterator[list[str]]:
    """Group consecutive items up to `words` words; a longer item is a group of its own."""
    run: list[str] = []
    count = 0
    for item in items:
        size = len(item.split())
        if run and count + size > words:
            yield run
            run, count = [], 0
        run.append(item)
        count += size
    if run:
        yield run
