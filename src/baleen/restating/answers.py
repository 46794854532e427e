"""The answer in the place of the phrase that a question asks with: its preposition, its noun, its number."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from baleen.restating import inflection
from baleen.restating.question import BLANK, KINDS, OTHER, Asking
from baleen.synthesis.falsehoods import MONTHS
from baleen.synthesis.lexicon import PREPOSITIONS
from baleen.synthesis.words import word_set

MANY = "\ue8f2"  # after BLANK: the plural of the answer
YEAR, DATE, DAY, MONTH, DECADE, NUMBER, NAME, ADJECTIVE, WORDS = (
    "year", "date", "day", "month", "decade", "number", "name", "adjective", "words",
)  # fmt: skip
NUMBER_WORDS = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
]
_SHAPES = (
    (YEAR, re.compile(r"1\d{3}|20\d\d")),
    (DATE, re.compile(rf"(?:{MONTHS}) \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}|\d{{1,2}} (?:{MONTHS}),? \d{{4}}")),
    (DAY, re.compile(rf"(?:{MONTHS}) \d{{1,2}}|\d{{1,2}} (?:{MONTHS})")),
    (MONTH, re.compile(rf"(?:{MONTHS})(?: \d{{4}})?")),
    (DECADE, re.compile(r"(?:the )?(?:early |mid-|mid |late )?\d{4}'?s")),
    (NUMBER, re.compile(rf"(?:about |over |approximately |around |nearly |more than |almost )?(?:[$£€]?\d[\d,.]*(?: (?:million|billion|thousand|hundred))?%?|(?i:{'|'.join(NUMBER_WORDS)}))(?: [a-z]+){{0,2}}")),
)  # fmt: skip
NATIONALITIES = word_set(
    """American British English Scottish Welsh Irish French German Italian Spanish Portuguese Dutch Belgian Swiss Austrian
    Swedish Norwegian Danish Finnish Icelandic Polish Czech Slovak Hungarian Romanian Bulgarian Greek Turkish Russian Ukrainian
    Serbian Croatian Slovenian Bosnian Albanian Macedonian Estonian Latvian Lithuanian Soviet Israeli Iranian Iraqi Syrian
    Lebanese Egyptian Moroccan Algerian Tunisian Nigerian Ghanaian Kenyan Ethiopian Indian Pakistani Bangladeshi Chinese
    Japanese Korean Vietnamese Thai Filipino Indonesian Malaysian Singaporean Taiwanese Australian Canadian Mexican Brazilian
    Argentine Argentinian Chilean Peruvian Colombian Venezuelan Cuban Jamaican European African Asian Nepalese Afghan Armenian
    Georgian Jewish Maltese Cypriot Mongolian Uruguayan Bolivian Ecuadorian Persian Scandinavian Catalan Rhodesian Trinidadian"""
)
_VENUES = word_set(
    "stadium university arena airport park college school hospital theatre theater museum institute palace hotel garden center"
)
_OF_NOUNS = word_set(
    "profession occupation job role position genre subject title rank style color colour nickname name sport discipline field post"
)
_LEADS = PREPOSITIONS | {"since", "until", "circa", "without"}
LONG = 0.65  # how often a phrase that says what the answer is stays before it


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer without brackets, full stop and stray spaces, and its shape."""

    text: str
    shape: str

    @classmethod
    def read(cls, text: str) -> Answer | None:
        """None where it is a sentence, a list with brackets inside, or torn out of a page's markup."""
        text = " ".join(text.replace("“", '"').replace("”", '"').split()).rstrip(" .,;")
        text = re.sub(r"(?<=\w) \([^()]*\)$| (?:long|tall|high)$", "", text)
        text = re.sub(r"^(\d+(?:st|nd|rd|th) century)$", r"the \1", text)
        if not text or (re.search(r"[<>()\[\]{}?;:]|\. ?$|https?", text) and not text.startswith('"')):
            return None
        if (
            len(text.split()) > 12
            or text.count('"') % 2
            or re.search(
                r"\b(?:is|was|are|were|has|had|he|she|it|they|occurred|that|who)\b", re.sub(r'"[^"]*"', "", text)
            )
        ):
            return None
        return cls(text, shape_of(text))

    @property
    def named(self) -> bool:
        return self.shape == NAME

    @property
    def several(self) -> bool:
        """Whether it is more than one thing, after which no verb in the singular can stand."""
        listed = " and " in self.text and "," in self.text
        return listed or (self.shape == WORDS and self.text.endswith("s") and not self.text.endswith("ss"))

    @property
    def led(self) -> bool:
        """Whether it brings a preposition along."""
        return self.text.split()[0].lower() in _LEADS


def shape_of(text: str) -> str:
    for shape, pattern in _SHAPES:
        if pattern.fullmatch(text):
            return shape
    if text in NATIONALITIES or all(word in NATIONALITIES for word in text.split("-")):
        return ADJECTIVE
    first = re.sub(r"^the ", "", text)[:1]
    return NAME if first in "\"'" or first.isupper() or re.match(r"\d+\S* [A-Z]", text) else WORDS


def filled(text: str, answer: str, other: str = "") -> str:
    """A frame with an answer in its blank, with the article or the plural that it asks for."""
    text = text.replace(BLANK + MANY, inflection.plural(answer))
    text = re.sub(rf"\ban? {BLANK}", lambda _: f"{inflection.article(answer)} {answer}", text)
    return text.replace(BLANK, answer).replace(OTHER, other)


def at_time(answer: Answer) -> str | None:
    """When: "in 1991", "on May 3, 1990"; None where it is no time."""
    if answer.led:
        return BLANK
    if answer.shape in {DATE, DAY}:
        return f"on {BLANK}"
    return f"in {BLANK}" if answer.shape in {YEAR, MONTH, DECADE} else None


def at_place(answer: Answer) -> str | None:
    """Where: "in Paris", "at Blue Grass Airport"; None where it is no place."""
    if answer.led:
        return BLANK
    if not answer.named or re.search(r"\d|\"", answer.text):
        return None
    return f"{place_preposition(answer.text)} {BLANK}"


def place_preposition(name: str) -> str:
    """ "at" a stadium, "on" an island, "in" a city."""
    last = name.split()[-1].lower()
    return "at" if last in _VENUES else "on" if last == "island" else "in"


def fitted(asking: Asking, answer: Answer, rng: random.Random, before: str = "") -> str | None:
    """What stands for the asking phrase after the word `before` (none where it is a subject); None where nothing fits."""
    if asking.word.startswith("how"):
        return _counted(asking, answer)
    if asking.word == "where":
        return BLANK if before in PREPOSITIONS and not answer.led and answer.named else at_place(answer)
    if asking.word == "when":
        return BLANK if before in PREPOSITIONS and not answer.led else at_time(answer)
    if asking.word == "who" or not asking.noun:
        return _plain(answer, before)
    return _with_noun(asking, answer, rng, before)


def _counted(asking: Asking, answer: Answer) -> str | None:
    if answer.shape not in {NUMBER, YEAR}:
        return None
    said, last = answer.text.lower().split(), asking.noun.lower().split()[-1]
    return (
        BLANK
        if last in said
        or (len(said) > 1 and said[-1].isalpha() and said[-1] not in {"million", "billion", "thousand", "hundred"})
        else f"{BLANK} {asking.noun}"
    )


def _plain(answer: Answer, before: str) -> str | None:
    if answer.led and before in PREPOSITIONS:
        return None
    if answer.shape == WORDS and before in {"is", "was"} and answer.text.split()[0] not in {"a", "an", "the"}:
        return None
    if answer.shape == WORDS and before == "both":
        return BLANK + MANY
    return BLANK


def _with_noun(asking: Asking, answer: Answer, rng: random.Random, before: str) -> str | None:
    words = asking.noun.split()
    head, long = asking.head, f"the {asking.noun} {BLANK}"
    if words[0].lower() in {"other", "else"}:
        words, long = words[1:], f"the {' '.join(words[1:])} {BLANK}"
    if not words or "'s" in asking.noun or words[-1] in NATIONALITIES or (asking.noun[0].isupper() and len(words) == 1):
        return None
    if head == "nationality" or answer.shape == ADJECTIVE:
        if any(word[0].isupper() for word in words):
            return None
        return f"{BLANK} {asking.noun}" if answer.shape == ADJECTIVE and before in {"of", "has", "have"} else None
    if answer.led:
        return None
    if head == "century":
        return BLANK if "century" in answer.text else f"the {BLANK} century"
    if words[0].lower() in KINDS or (len(words) > 1 and words[1].lower() in KINDS) or head in KINDS:
        return _of_kind(asking, answer, before)
    if answer.shape in {YEAR, DATE, DAY, MONTH, DECADE}:
        return BLANK if head in {"year", "date", "day", "month", "decade", "time"} else None
    if answer.shape == NUMBER:
        return (
            f"{inflection.article(asking.noun)} {asking.noun} of {BLANK}"
            if before in {"has", "have", "had", "with"}
            else BLANK
        )
    if answer.shape == WORDS:
        if head in _OF_NOUNS:
            if words[-1].endswith("s"):
                return None
            return f"the {asking.noun} of {BLANK}"
        return (
            BLANK
            if answer.text.split()[0] in {"a", "an", "the"} or answer.text.endswith("s") or before in PREPOSITIONS
            else None
        )
    return long if _says_more(words, answer) and rng.random() < LONG else BLANK


def _of_kind(asking: Asking, answer: Answer, before: str) -> str | None:
    if before in {"both", "are", "were"} and answer.shape == WORDS:
        return BLANK + MANY
    if before in {"is", "was", "a"} and answer.shape == WORDS and not answer.text.endswith("s"):
        return f"a {BLANK}" if before != "a" else BLANK
    return f"the {asking.noun} {BLANK}" if before == "of" and " of " not in asking.noun else None


def _says_more(words: list[str], answer: Answer) -> bool:
    """Whether a noun phrase can stand before a name: more than one word of it, one thing, nothing that the name has too."""
    said = {word.strip("\"'.,").lower() for word in answer.text.split()}
    if said & {word.lower() for word in words} or (
        words[-1].endswith("s") and not words[-1].endswith(("ss", "series"))
    ):
        return False
    if words[0].lower() in {"two", "three", "four", "same"} or re.match(
        r"(?i)(?:the|an?|his|her) |.* and |.*, ", answer.text
    ):
        return False
    return len(words) > 1
