"""Find mentions of other passages in text: all titles in one pass.

    finder = Finder([(name_of(title), number), ...], common=words that also occur in lower case)
    finder.find("He studied at the University of Toledo.", own=number)      Mention(18, 38, target)

A name is a title without its bracket.  A name that several titles share is ignored.  A name whose title has a bracket
("Mercury (planet)") needs a word of that bracket near by.  A single word that the corpus also has in lower case is no
name.
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
    """A mention of passage number `target` in `text[start:end]`."""

    start: int
    end: int
    target: int


@dataclass(frozen=True)
class Name:
    """A title's name in running text; one of the words `beside` must be near it, if there are any.

    `small`: the title starts in lower case, so lower case does not rule the name out.
    """

    text: str
    beside: frozenset[str] = field(default=frozenset())
    small: bool = False


def name_of(title: str) -> Name:
    """Split a title: "Casino Royale (2006 film)" is "Casino Royale" with "film" or "2006" near it."""
    title = unicodedata.normalize("NFC", title).strip()
    found = _BRACKET.match(title)
    if found is None:
        return Name(title, small=title[:1].islower())
    return Name(found["name"], frozenset(_NOT_WORD.sub(" ", found["bracket"].lower()).split()) - _SMALL - {"born"})


class Finder:
    """Finds the names of a corpus in texts."""

    def __init__(self, names: Iterable[tuple[Name, int]], common: Collection[str] = ()) -> None:
        self._names: list[Name] = []
        self._targets: list[int] = []
        for name, target in _unambiguous(names):
            if _is_distinctive(name, common):
                self._names.append(name)
                self._targets.append(target)
        self._automaton = _automaton([_searched(name.text) for name in self._names]) if self._names else None

    def __len__(self) -> int:
        return len(self._names)

    def find(self, text: str, own: int | None = None) -> list[Mention]:
        """Mentions in order and without overlap, except those of passage `own`."""
        if self._automaton is None:
            return []
        mentions = []
        for index, start, end in self._automaton.find_matches_as_indexes(_searched(text)):
            name, target = self._names[index], self._targets[index]
            mention = Mention(start, end - 2, target)
            if target != own and not _in_longer_name(text, mention) and _is_meant(name, text, mention):
                mentions.append(mention)
        return mentions


def _searched(text: str) -> str:
    """Replace everything but letters and digits by blanks and add one at each end, so that names end where words do."""
    return f" {text.translate(_BLANKS) if text.isascii() else _NOT_WORD.sub(' ', text)} "


def _unambiguous(names: Iterable[tuple[Name, int]]) -> Iterable[tuple[Name, int]]:
    """Names of one passage only; of several parts of one document, the first."""
    bearers: dict[str, dict[Name, int]] = defaultdict(dict)
    for name, number in names:
        bearers[_searched(name.text)].setdefault(name, number)
    return (pair for found in bearers.values() if len(found) == 1 for pair in found.items())


def _is_distinctive(name: Name, common: Collection[str]) -> bool:
    """Whether a name is distinguishable from common words everywhere."""
    words = name.text.split()
    if len(name.text) < SHORTEST or not any(word[0].isupper() for word in words) or name.text.startswith("List of "):
        return False
    if len(words) == 1 and words[0] == words[0].capitalize() and words[0].lower() in common and not name.small:
        return False
    return not all(word.isdigit() or word in CALENDAR or word.lower() in _SMALL for word in words)


def _in_longer_name(text: str, mention: Mention) -> bool:
    """Whether a name is part of a longer one ("West Dulwich", "Boeing 737-800"); ignores a sentence's first word."""
    before, after = text[: mention.start], text[mention.end : mention.end + 2]
    if before.endswith("-") or after[:1] == "-" or (after[:1] == " " and after[1:].isupper()):
        return True
    words = before.split()
    return before.endswith(" ") and len(words) > 1 and words[-1][0].isupper() and words[-1][-1].isalpha()


def _is_meant(name: Name, text: str, mention: Mention) -> bool:
    """Whether a name's last mark ("Mother!") and a word of its bracket are there."""
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
    """Short forms of a name in later text: a surname, or the acronym in brackets after the name."""
    forms = []
    words = name.split()
    if person and len(words) > 1 and len(words[-1]) > SHORTEST and words[-1][0].isupper():
        forms.append(words[-1])
    _, named, rest = sentence.partition(f"{name} (")
    acronym = _ACRONYM.match(rest) if named else None
    return [*forms, acronym[1]] if acronym else forms


def find_form(form: str, text: str, target: int) -> list[Mention]:
    """Find a short form that has no capitalised word before or after it."""
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
    """Sort mentions; of overlapping ones keep the first, then the longest."""
    kept: list[Mention] = []
    for mention in sorted(mentions, key=lambda mention: (mention.start, -mention.end)):
        if not kept or mention.start >= kept[-1].end:
            kept.append(mention)
    return kept


def explicit(links: Any, numbers: Mapping[str, int], text: str) -> list[Mention]:
    """Mentions from a corpus's own links: a list of titles, or of [text, title] pairs, in the metadata."""
    found = []
    for link in links if isinstance(links, (list, tuple)) else []:
        anchor, title = link if isinstance(link, (list, tuple)) and len(link) == 2 else (link, link)
        if not isinstance(anchor, str) or not isinstance(title, str) or title not in numbers or not anchor:
            continue
        start = _find_words(anchor, text)
        if start >= 0:
            found.append(Mention(start, start + len(anchor), numbers[title]))
    return found


def _find_words(words: str, text: str) -> int:
    """Position of the first occurrence of whole words in a text, or -1."""
    start = text.find(words)
    while start >= 0:
        before, after = text[:start][-1:], text[start + len(words) :][:1]
        if not before.isalnum() and not after.isalnum():
            break
        start = text.find(words, start + 1)
    return start
