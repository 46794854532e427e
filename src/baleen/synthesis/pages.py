"""A passage parsed for synthesis: its subject, the kind of that subject, and statements about it.

    Ada Lovelace            "an" "English mathematician", a person, born 1815
      clause 0              "was an English mathematician and writer"
      clause 2              "worked with [Charles Babbage]"

Only sentences about the passage's own subject are parsed: those that start with its name, a person's surname, an
unambiguous pronoun, or "The film" for a film.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from baleen.synthesis.clauses import clauses, is_plain, predicate
from baleen.synthesis.lexicon import AFTER_NOUN, EMPTY_NOUNS, NOT_NOUNS, NOUNS_ALL_THE_SAME, WORDLY_KINDS
from baleen.synthesis.mentions import Mention, Name, name_of
from baleen.synthesis.words import word_set

_DEFINED = re.compile(r"^(?P<subject>.{1,100}?) (?P<copula>is|was|are|were) (?P<predicate>(?:an?|the) .+)\.$")
_BORN = re.compile(r"\([^()]*?\b(?:born|b\.)[^()]*?\b(1[0-9]{3}|20[0-2][0-9])\b")
_LIFE = re.compile(r"\((?:[^()]*?[ ;])?(1[0-9]{3}|20[0-2][0-9])\s*[-–—]\s*[^()]*?\b(?:1[0-9]{3}|20[0-2][0-9])\)")
_BEGUN = re.compile(
    r"\b(founded|established|formed|opened|incorporated|launched)\b(?: \w+){0,6}? in (1[0-9]{3}|20[0-2][0-9])\b"
)
_THINGS = word_set(
    """film album song single novel series band book game company episode team season school university club group
    organization magazine newspaper station show opera play musical village town city river building ship"""
)
_NO_LIFE = re.compile(r"\b(?:reign\w*|ruled|r\.|fl\.|flourished|active|office|served)")
_BRACKET = re.compile(r"\([^()]*\)")
_AGENTS = ("er", "or", "ist", "ian", "ess")
_COPULA = re.compile(r"\b(?:is|was|are|were)\b")
_SUFFIXES = word_set("Jr. Sr. II III IV Jr Sr")
_KIND_IN_BRACKET = re.compile(
    r"(?:[12][0-9]{3} )?(?:[A-Z]?[a-z-]+ )?(?:film|band|album|song|novel|series|game|footballer|singer|actor|actress|"
    r"politician|musician|wrestler|cricketer|writer|author|director|composer|company|magazine|newspaper|artist|painter|"
    r"rapper|cyclist|swimmer|sprinter|boxer|golfer|village|town|river|comics|opera|play|musical|book|city|province)"
)
_HE = re.compile(r"^(?:He|She|His|Her)\b")


@dataclass(frozen=True, slots=True)
class Clause:
    """A predicate about the page in sentence `sid`, from its verb on, and the pages that it mentions."""

    sid: int
    text: str
    mentions: tuple[Mention, ...] = ()

    @property
    def verb(self) -> str:
        return self.text.partition(" ")[0]


@dataclass(frozen=True, slots=True)
class Page:
    """A parsed passage.  `noun` is the noun phrase of the definition without its article, `kind` its head noun."""

    number: int
    pid: str
    title: str
    name: str  # in running text: "Belvidere Assembly Plant"
    subject: str  # at the start of a sentence: "the Belvidere Assembly Plant"
    article: str = ""
    noun: str = ""
    kind: str = ""
    person: bool = False
    defined: int = 0  # sid of the definition
    definition: Clause | None = None
    clauses: tuple[Clause, ...] = ()
    links: frozenset[int] = frozenset()
    begun: tuple[str, int, int] | None = None  # "born" or "founded", the year, and the sid

    @property
    def one_of_a_kind(self) -> bool:
        """Whether "a" is its article: with another clause, "the largest city" would be another city."""
        return self.article in {"a", "an"}

    @property
    def which(self) -> str:
        return "who" if self.person else "that"

    @property
    def all_clauses(self) -> tuple[Clause, ...]:
        return self.clauses if self.definition is None else (self.definition, *self.clauses)


def define(number: int, pid: str, title: str, sentences: Sequence[str], tidy: Sequence[str]) -> Page:
    """Find the definition of a passage's subject; `tidy` are its sentences, tidied.

    The subject is the title, or a side of its colon: a section of a document is often about the document.
    """
    name = name_of(title)
    for sid, sentence in enumerate(tidy):
        found = _DEFINED.match(sentence) if is_plain(sentence) else None
        if found is None or not _about(found["subject"], name.text, exactly=sid > 0):
            continue
        noun_phrase = noun_of(found["predicate"])
        if noun_phrase is None:
            break
        called = found["subject"] if _same(found["subject"], name.text) else name.text
        subject = _subject(replace(name, text=called), title, found["subject"])
        return Page(number, pid, title, called, subject, *noun_phrase, _is_person(sentences, *noun_phrase[1:]), sid)
    return Page(number, pid, title, name.text, name.text)


def with_clauses(
    page: Page, sentences: Sequence[str], tidy: Sequence[str], mentions: Sequence[Sequence[Mention]]
) -> Page:
    """Add the statements and mentions of a page; `mentions[sid]` were found in `tidy[sid]`."""
    page = replace(page, links=frozenset(mention.target for found in mentions for mention in found))
    found = _DEFINED.match(tidy[page.defined]) if page.kind else None
    if found is None:
        return replace(page, clauses=tuple(_said(page, tidy, mentions, 0)))
    first = _clauses(page.defined, tidy[page.defined], found.start("copula"), mentions[page.defined])
    defines = bool(first) and first[0].text.startswith(found["copula"])
    said = _said(page, tidy, mentions, page.defined + 1)
    return replace(
        page,
        definition=first[0] if defines else None,
        clauses=(*first[1:], *said) if defines else tuple(said),
        begun=_begun(sentences[0], said, page.person),
    )


def _same(subject: str, name: str) -> bool:
    return subject.lower() in {name.lower(), *name.lower().split(": ")}


def _about(subject: str, name: str, exactly: bool) -> bool:
    """Whether a definition's subject is the title's: they share the first or last word of the name."""
    if exactly:
        return _same(subject.removeprefix("The "), name)
    words, named = subject.replace(",", "").replace('"', "").lower().split(), name.replace(",", "").lower().split()
    return bool(named) and (named[-1] in words or named[0] in words[:2])


def noun_of(text: str) -> tuple[str, str, str] | None:
    """Article, noun phrase and head noun of a definition's predicate.

    "an American actress and film producer who ..."     "an", "American actress and film producer", "producer"
    "a member of parliament from 1990"                  "a", "member of parliament", "member"
    """
    article, _, rest = text.partition(" ")
    words = rest.split()
    stop = _stop(words)
    if "of" in words[:stop]:
        head = words.index("of") - 1
        kind = words[max(head, 0)]
        stop = head + 1 if kind not in EMPTY_NOUNS else stop
    else:
        kind = words[stop - 1].rstrip(",.") if stop else ""
    phrase = " ".join(words[:stop]).rstrip(",.")
    return (article, phrase, kind) if _is_noun_phrase(phrase, kind) else None


def _stop(words: Sequence[str]) -> int:
    """End of the noun phrase at the start of `words`."""
    for position, word in enumerate(words):
        if word in AFTER_NOUN:
            return position
        if word.endswith((",", ".")) and not word[:-1].isupper():
            return position + 1
    return len(words)


def _is_noun_phrase(phrase: str, kind: str) -> bool:
    if not 1 <= len(phrase.split()) <= 8 or " the " in phrase or phrase.endswith(" and") or "," in phrase:
        return False
    if kind in WORDLY_KINDS | NOT_NOUNS or not (kind.isascii() and kind.isalpha() and kind.islower()):
        return False
    return kind in NOUNS_ALL_THE_SAME or not kind.endswith(("ly", "est", "ing", "ed"))


def _is_person(sentences: Sequence[str], noun: str, kind: str) -> bool:
    """Whether a page is about a person: it has a birth or a pronoun, and is not, say, a "film score"."""
    if kind in _THINGS:
        return False
    if _BORN.search(_before_verb(sentences[0])):
        return True
    thing = bool(_THINGS & set(noun.replace("-", " ").split()))
    return (not thing or kind.endswith(_AGENTS)) and any(_HE.match(sentence) for sentence in sentences[1:])


def _before_verb(first: str) -> str:
    """The text before the verb of a first sentence, where years in brackets can only be the subject's."""
    verb = _COPULA.search(_BRACKET.sub(lambda bracket: "-" * len(bracket[0]), first))
    return first[: verb.start()] if verb else first


def _subject(name: Name, title: str, defined: str) -> str:
    """The name as a subject, after the noun of the title's bracket if it has one."""
    if name.beside:
        bracket = title[len(name.text) + 2 : -1]
        return f"the {bracket} {name.text}" if _KIND_IN_BRACKET.fullmatch(bracket) else title
    return f"the {name.text}" if defined.startswith("The ") and not name.text.startswith("The ") else name.text


def _said(page: Page, tidy: Sequence[str], mentions: Sequence[Sequence[Mention]], start: int) -> list[Clause]:
    """Clauses about the page from sentence `start` on; a pronoun counts only after such a sentence."""
    found: list[Clause] = []
    openings = [f"{page.name} "] if page.name.startswith("The ") else [f"The {page.name} ", f"{page.name} "]
    surname = _surname(page.name) if page.person else ""
    openings += [f"{surname} "] if surname else [f"The {page.kind} "] if page.kind else []
    pronouns = ["He ", "She "] if page.person else ["It "]
    follows = bool(page.kind)
    for sid, sentence in enumerate(tidy[start:], start):
        opening = next((each for each in openings + (pronouns if follows else []) if sentence.startswith(each)), None)
        follows = opening is not None
        if opening is not None and is_plain(sentence):
            found += _clauses(sid, sentence, len(opening) - 1, mentions[sid])
    return found


def _surname(name: str) -> str:
    words = [word for word in name.split() if word not in _SUFFIXES]
    return words[-1] if len(words) > 1 and len(words[-1]) > 2 else ""


def _clauses(sid: int, sentence: str, begin: int, mentions: Sequence[Mention]) -> list[Clause]:
    """Clauses, with their mentions, of a sentence whose subject ends at `begin`."""
    said = sentence[begin:].strip()
    begin = len(sentence) - len(said)
    verb = predicate(said.split(" ", 4))
    if verb is None:
        return []
    adverbs = said.split(" ")[:verb]
    begin += sum(len(adverb) + 1 for adverb in adverbs)
    found, after = [], begin
    for text in clauses(sentence[begin:].rstrip(".").rstrip()):
        start = sentence.find(text, after)
        if start < 0:
            continue
        words = text.split(" ", 4)
        verb = predicate(words)
        if verb is None:
            continue
        skipped = sum(len(word) + 1 for word in words[:verb])
        start, text = start + skipped, text[skipped:]
        after = start
        inside = tuple(
            Mention(mention.start - start, mention.end - start, mention.target)
            for mention in mentions
            if start < mention.start and mention.end <= start + len(text)
        )
        found.append(Clause(sid, text, inside))
    return found


def _begun(first: str, said: Sequence[Clause], person: bool) -> tuple[str, int, int] | None:
    """The word born, founded or the like, its year, and the sid of its sentence."""
    if person:
        subject = _before_verb(first)
        life = _LIFE.search(subject)
        born = _BORN.search(subject) or (None if life and _NO_LIFE.search(life[0]) else life)
        return ("born", int(born[1]), 0) if born else None
    for clause in said:
        found = _BEGUN.search(clause.text)
        if found and clause.verb in {"was", "were"} and clause.text.split()[1] == found[1]:
            return found[1], int(found[2]), clause.sid
    return None
