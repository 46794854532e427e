"""Where sentences mention other passages: titles found in text, all of them in one pass.

    finder = Finder([(name_of(title), number), ...], common=words that are also written small)
    finder.find("He studied at the University of Toledo.", own=number)      Mention(18, 38, target)

A name is a title, or what stands before the title's bracket.  A name that several titles share belongs to none of them; one
whose title has a bracket ("Mercury (planet)") counts only beside a word of that bracket; and a single word that the corpus
also writes in small letters is taken for that word.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from baleen.core.errors import MissingExtraError
from baleen.synthesis.words import word_set

_NOT_WORD = re.compile(r"[\W_]")
_BLANKS = {code: " " for code in range(128) if not chr(code).isalnum()}
_BRACKET = re.compile(r"^(?P<name>.+?) \((?P<bracket>[^()]+)\)$")
CALENDAR = word_set(
    """January February March April May June July August September October November December Monday Tuesday Wednesday
    Thursday Friday Saturday Sunday American English French German Italian Spanish British Irish Chinese Japanese Roman
    Christian European African Asian Indian Russian Latin Greek Jewish Catholic Canadian Australian"""
)
_SMALL = word_set("of the and in for at by on a an to de la le von van der")
_ACRONYM = re.compile(r"(?:the )?([A-Z][A-Z0-9&.]{1,7})\)")
SHORTEST = 3


class Mention(NamedTuple):
    """Passage number `target`, spoken of in `text[start:end]`."""

    start: int
    end: int
    target: int


@dataclass(frozen=True)
class Name:
    """What a title is called in running text, and the words of which one must stand by it.

    `small` says that the title itself begins with a small letter, so that small letters do not speak against it.
    """

    text: str
    beside: frozenset[str] = field(default=frozenset())
    small: bool = False


def name_of(title: str) -> Name:
    """ "Casino Royale (2006 film)" is called "Casino Royale", and "film" or "2006" must stand near."""
    title = unicodedata.normalize("NFC", title).strip()
    found = _BRACKET.match(title)
    if found is None:
        return Name(title, small=title[:1].islower())
    return Name(found["name"], frozenset(_NOT_WORD.sub(" ", found["bracket"].lower()).split()) - _SMALL - {"born"})


class Finder:
    """The names of a corpus, and where they stand in a text."""

    def __init__(self, names: Iterable[tuple[Name, int]], common: Collection[str] = ()) -> None:
        self._names: list[Name] = []
        self._targets: list[int] = []
        for name, target in _unambiguous(names):
            if _tells(name, common):
                self._names.append(name)
                self._targets.append(target)
        self._automaton = _automaton([_searched(name.text) for name in self._names]) if self._names else None

    def __len__(self) -> int:
        return len(self._names)

    def find(self, text: str, own: int | None = None) -> list[Mention]:
        """Mentions in their order, none inside another, without those of passage `own`."""
        if self._automaton is None:
            return []
        mentions = []
        for index, start, end in self._automaton.find_matches_as_indexes(_searched(text)):
            name, target = self._names[index], self._targets[index]
            mention = Mention(start, end - 2, target)
            if target != own and not _touched(text, mention) and _is_meant(name, text, mention):
                mentions.append(mention)
        return mentions


def _searched(text: str) -> str:
    """The text with a blank for all that is neither letter nor digit, and blanks around it: names end where words do."""
    return f" {text.translate(_BLANKS) if text.isascii() else _NOT_WORD.sub(' ', text)} "


def _unambiguous(names: Iterable[tuple[Name, int]]) -> Iterable[tuple[Name, int]]:
    """Names with the passage that bears each: the first of several parts of one document, none of several namesakes."""
    bearers: dict[str, dict[Name, int]] = defaultdict(dict)
    for name, number in names:
        bearers[_searched(name.text)].setdefault(name, number)
    return (pair for found in bearers.values() if len(found) == 1 for pair in found.items())


def _tells(name: Name, common: Collection[str]) -> bool:
    """Whether a name can be told from common words wherever it stands."""
    words = name.text.split()
    if len(name.text) < SHORTEST or not any(word[0].isupper() for word in words) or name.text.startswith("List of "):
        return False
    if len(words) == 1 and words[0] == words[0].capitalize() and words[0].lower() in common and not name.small:
        return False
    return not all(word.isdigit() or word in CALENDAR or word.lower() in _SMALL for word in words)


def _touched(text: str, mention: Mention) -> bool:
    """Whether a name is part of a longer one: "West Dulwich", "Boeing 737-800"; a sentence's first word is none of it."""
    before, after = text[: mention.start], text[mention.end : mention.end + 2]
    if before.endswith("-") or after[:1] == "-" or (after[:1] == " " and after[1:].isupper()):
        return True
    words = before.split()
    return before.endswith(" ") and len(words) > 1 and words[-1][0].isupper() and words[-1][-1].isalpha()


def _is_meant(name: Name, text: str, mention: Mention) -> bool:
    """Whether the mark that a name ends with is there too ("Mother!"), and a word of its bracket somewhere beside it."""
    if not name.text[-1].isalnum() and text[mention.end - 1] != name.text[-1]:
        return False
    if not name.beside:
        return True
    around = f"{text[: mention.start]} {text[mention.end :]}".lower()
    return bool(name.beside & set(_NOT_WORD.sub(" ", around).split()))


def _automaton(patterns: list[str]) -> Any:
    try:
        from ahocorasick_rs import AhoCorasick, MatchKind
    except ImportError:
        raise MissingExtraError.of("ahocorasick_rs", "synthesis", "finding mentions") from None
    return AhoCorasick(patterns, matchkind=MatchKind.LeftmostLongest)


def short_forms(name: str, sentence: str, person: bool) -> list[str]:
    """How a text may go on to call what it has named in full: a surname, or the acronym that it puts in brackets."""
    forms = []
    words = name.split()
    if person and len(words) > 1 and len(words[-1]) > SHORTEST and words[-1][0].isupper():
        forms.append(words[-1])
    _, named, rest = sentence.partition(f"{name} (")
    acronym = _ACRONYM.match(rest) if named else None
    return [*forms, acronym[1]] if acronym else forms


def find_form(form: str, text: str, target: int) -> list[Mention]:
    """A short form where it stands by itself: no capitalised word before it or after it."""
    found, start = [], text.find(form)
    while start >= 0:
        end = start + len(form)
        before, after = text[:start].rsplit(" ", 2)[-2:], text[end : end + 2]
        apart = (not start or text[start - 1] in ' "') and not after[:1].isalnum() and after[:1] not in {"'", "-"}
        named = (start and before[0][:1].isupper()) or (after[:1] == " " and after[1:].isupper())
        if apart and not named:
            found.append(Mention(start, end, target))
        start = text.find(form, end)
    return found


def merged(mentions: Iterable[Mention]) -> list[Mention]:
    """In order, and of those that overlap the first, then the longest."""
    kept: list[Mention] = []
    for mention in sorted(mentions, key=lambda mention: (mention.start, -mention.end)):
        if not kept or mention.start >= kept[-1].end:
            kept.append(mention)
    return kept


def explicit(links: Any, numbers: Mapping[str, int], text: str) -> list[Mention]:
    """The links that a corpus itself gives: a list of titles, or of [text, title] pairs, in a passage's metadata."""
    found = []
    for link in links if isinstance(links, (list, tuple)) else []:
        anchor, title = link if isinstance(link, (list, tuple)) and len(link) == 2 else (link, link)
        if not isinstance(anchor, str) or not isinstance(title, str) or title not in numbers or not anchor:
            continue
        start = _whole(anchor, text)
        if start >= 0:
            found.append(Mention(start, start + len(anchor), numbers[title]))
    return found


def _whole(words: str, text: str) -> int:
    """Where whole words first stand in a text, or -1."""
    start = text.find(words)
    while start >= 0:
        before, after = text[:start][-1:], text[start + len(words) :][:1]
        if not before.isalnum() and not after.isalnum():
            break
        start = text.find(words, start + 1)
    return start
