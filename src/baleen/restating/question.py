"""A question made ready for rules: tidied, its names and quotations each one word, and the phrase that it asks with.

Question.read('Who directed "The Sun" ?', names)    "Who directed \\ue000", and what \\ue000 stands for
asking_phrase(words, start)                         "which former estate": the word, the noun phrase, and where it ends
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from baleen.restating import inflection
from baleen.synthesis.lexicon import ADVERBS, AFTER_NOUN, COPULAS, PREPOSITIONS, PRESENTS, is_past
from baleen.synthesis.words import word_set

BLANK, OTHER = "\ue8f0", "\ue8f1"  # where the answer goes, and where the one goes that it is compared with
_FIRST = 0xE000
_NAMED = re.compile("[\ue000-\ue7ff]")
_RESERVED = re.compile("[\ue000-\uf8ff]")  # for our own use: a text that has such characters already is not understood
_QUOTED = re.compile(r'"[^"]+"')
BRACKET = re.compile(r"\s*\([^)]*\)$")
_SENTENCES = re.compile(
    r"(?<![A-Z])(?<!\b[A-Z][a-z])(?<!\b(?:Mrs|Rev|Gov|Gen|Sgt|Col|Inc|Ltd|Esq))\. +[A-Z\ue000-\ue7ff]"
)
DO = word_set("do does did")
HAVE = word_set("has have had")
MODALS = word_set("can could will would may might must should")
AUXILIARIES = COPULAS | DO | HAVE | MODALS
RELATIVES = word_set("who that which whose whom where when")
DETERMINERS = word_set("the a an this that these those his her its their")
KINDS = word_set("type kind sort types kinds style form genre")
_PARTICIPIAL = word_set("starring featuring containing sharing including involving using playing making having being")


@dataclass(frozen=True, slots=True)
class Question:
    """The words of a question without its mark, and the names that stand in it as single characters."""

    words: tuple[str, ...]
    names: tuple[str, ...]

    @classmethod
    def read(cls, text: str, names: Iterable[str] = ()) -> Question | None:
        """None where it is more than one sentence, its quotation marks do not come in pairs, or we could not mark its names."""
        text = _tidy(text)
        kept: list[str] = []
        if text.count('"') % 2 or _RESERVED.search(text):
            return None

        def keep(match: re.Match[str]) -> str:
            kept.append(match[0])
            return chr(_FIRST + len(kept) - 1)

        for name in sorted(_spellings(names), key=lambda name: (-len(name), name)):
            text = re.sub(
                rf"(?<!\w){re.escape(name)}(?!\w)",
                lambda match: keep(match) if _is_capital(match[0]) else match[0],
                text,
                flags=re.IGNORECASE,
            )
        text = _QUOTED.sub(keep, text).rstrip("?. ,")
        if "?" in text or '"' in text or _SENTENCES.search(text) or not text:
            return None
        return cls(tuple(text.split()), tuple(kept))

    def spelled(self, text: str) -> str:
        """A text with the names in their places again; a name within a name too."""
        while _NAMED.search(text):
            text = _NAMED.sub(lambda match: self.names[ord(match[0]) - _FIRST], text)
        return text


@dataclass(frozen=True, slots=True)
class Asking:
    """What a question asks with: "how many major novels" is ("how many", "major novels"); `end` is the first word after it."""

    word: str
    noun: str
    end: int

    @property
    def head(self) -> str:
        """The word that says what kind of thing is asked for."""
        return head_of(self.noun) or self.word


def head_of(noun: str) -> str:
    """The noun of a phrase, small and in the singular: "major novels" as "novel", "type of game" as "game"."""
    words = [bare(word) for word in noun.split()]
    if "of" in words:
        cut = words.index("of")
        words = words[cut + 1 :] if words[cut - 1] in KINDS else words[:cut]
    if not words:
        return ""
    word = words[-1]
    if word in {"series", "species"}:
        return word
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us")) else word


def bare(word: str) -> str:
    """A word small, without punctuation."""
    return word.strip(",.;:()").lower()


def is_name(word: str) -> bool:
    """Whether a word is a name, or begins as one does."""
    return bool(_NAMED.match(word)) or _is_capital(word.lstrip("(\"'"))


def is_kept(word: str) -> bool:
    """Whether a word is a name that was known beforehand, or a quotation."""
    return bool(_NAMED.fullmatch(word.strip(",")))


def asking_phrase(words: Sequence[str], start: int) -> Asking | None:
    """The phrase that begins with an asking word at `start`; None where there is none."""
    word = bare(words[start])
    if word == "how":
        if start + 1 == len(words) or bare(words[start + 1]) not in {"many", "much"}:
            return None
        end = noun_end(words, start + 2)
        return (
            Asking(f"how {bare(words[start + 1])}", " ".join(words[start + 2 : end]), end) if end > start + 2 else None
        )
    if word in {"who", "whom", "where", "when"}:
        return Asking("who" if word == "whom" else word, "", start + 1)
    if word not in {"what", "which"} or words[start][-1] in ",;":
        return Asking(word, "", start + 1) if word in {"what", "which"} else None
    end = noun_end(words, start + 1)
    return Asking(word, " ".join(words[start + 1 : end]).rstrip(","), end)


def noun_end(words: Sequence[str], start: int) -> int:
    """Where a noun phrase without an article ends: before a verb, a preposition, a relative or after a comma."""
    place = start
    while place < len(words):
        word = bare(words[place])
        if word == "of" and place > start and bare(words[place - 1]) in KINDS:
            place += 1
            continue
        if word == "and" and place > start and place + 1 < len(words) and not _is_boundary(words, place + 1, start):
            place += 1
            continue
        if _is_boundary(words, place, start):
            return place
        place += 1
        if words[place - 1][-1] in ",;":
            return place
    return place


def _is_boundary(words: Sequence[str], place: int, start: int) -> bool:
    word = bare(words[place])
    if word in AUXILIARIES | RELATIVES | DETERMINERS | PREPOSITIONS or word in {
        "and",
        "or",
        "both",
        "also",
        "than",
        "about",
    }:
        return True
    if place == start or is_name(words[place]):
        return False
    if word in ADVERBS or word in _PARTICIPIAL:
        return True
    if word in AFTER_NOUN or is_past(word) or word in inflection.PARTICIPLES:
        return not (
            word.endswith("ed")
            and _is_adjective(words[place - 1])
            and place + 1 < len(words)
            and not is_name(words[place + 1])
            and not _opens(words[place + 1])
        )
    if word in PRESENTS or inflection.is_third_person(word):
        return place + 1 < len(words) and (is_name(words[place + 1]) or _opens(words[place + 1]))
    return False


def _opens(word: str) -> bool:
    """Whether a word opens what a verb is followed by."""
    return bare(word) in DETERMINERS | PREPOSITIONS | ADVERBS | RELATIVES or bare(word) in {
        "and",
        "both",
        "as",
        "how",
        "what",
    }


def _is_adjective(word: str) -> bool:
    return is_name(word) or word.endswith(("ly", "al", "ic", "an", "ous"))


def _is_capital(word: str) -> bool:
    return word[:1].isupper() or word[:1].isdigit()


def _spellings(names: Iterable[str]) -> set[str]:
    """Names with and without what stands in brackets after them; one of a letter or two is none."""
    return {spelling for name in names for spelling in (name, BRACKET.sub("", name)) if len(spelling) > 2}


def _tidy(text: str) -> str:
    text = " ".join(text.replace("“", '"').replace("”", '"').replace("’", "'").split()).lstrip("\\ ")
    text = re.sub(r'[?.]?(["\'])\s*>?\s*[?.]*$', r"\1", text).rstrip("?. ")
    text = re.sub(r"\s+([,;:])", r"\1", text)
    text = re.sub(r"(?<=[\w)]) '[sS]\b", "'s", text)
    text = re.sub(r"(?<=[a-z])'S\b", "'s", text)
    text = re.sub(r"\bof (?=(?:film|song|album|movie) [A-Z0-9])", "of the ", text)
    text = re.sub(
        r"(?:^This|\bthis) (?=(?:\S+ ){1,12}(?:who|that|which|whose|born|featured|founded|directed|located)\b)",
        "the ",
        text,
    )
    return re.sub(
        r"\b(\w+) (?=\1\b)",
        lambda match: "" if match[1].islower() and match[1] not in {"that", "had"} else match[0],
        text,
    )
