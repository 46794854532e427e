"""Plain text and Markdown as passages: a short file is one, a long one is cut between paragraphs.

    notes/hops.md      ->  "notes/hops.md"                            where the whole file is short
    notes/baleen.md    ->  "notes/baleen.md#1", "notes/baleen.md#2"   where it is not

The title is the first Markdown heading, else the first line if it is short, else the file's stem.  What became the
title is not repeated in the text, unless it runs on into the paragraph below.
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

# Longer first lines are mostly the start of a paragraph that an editor wrapped.
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
    """The passages of the file `name` (a path relative to its collection), of at most `words` words each.

    Headings of a Markdown file that is cut start new passages, titled "document: section".  A paragraph that is too
    long is cut between sentences; a sentence never is, and so may be longer.  Empty text gives no passage.
    """
    title, blocks = _titled(name, list(_blocks(text, name.lower().endswith(MARKDOWN))))
    chunks = [chunk for chunk in _chunks(title, blocks, words) if chunk[1].strip()]
    for number, (heading, body) in enumerate(chunks, 1):
        pid = name if len(chunks) == 1 else f"{name}#{number}"
        yield Passage(pid, heading, body, sentences.split_sentences(body))


def source_file(pid: str) -> str:
    """The name of the file that a passage of such an id is of, if it is of a file of text."""
    return _NUMBER.sub("", pid)


def _blocks(text: str, markdown: bool) -> Iterator[_Block]:
    """Paragraphs and headings in order; a `#` inside a fenced piece of code is no heading."""
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
    """A heading without the hashes that may close it: `Aims ##`, but not those of `The C#`."""
    bare = heading.rstrip().rstrip("#")
    return bare.rstrip() if bare[-1:].isspace() else heading.rstrip()


def _titled(name: str, blocks: list[_Block]) -> tuple[str, list[_Block]]:
    """The document's title, and its blocks with a blank heading where the title stood."""
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
    """Consecutive items, as many together as have at most `words` words; an item that has more stands alone."""
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
