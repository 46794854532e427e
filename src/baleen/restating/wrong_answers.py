"""Wrong answers that might be right: a near number, or another of the same sort.

    time, number    another of the same shape, near
    name            a passage of the question's own distractors that is what was asked for, by its first sentence;
                    else what another question asked for by the same noun, or by one of the same sort
    word            what another question asked for by the same noun: a profession, a nationality

None that the question or its gold passages name, none that shares a word with the answer, none that can be right beside it.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from dataclasses import dataclass, field

from baleen.restating.answers import (
    DATE,
    DAY,
    DECADE,
    MONTH,
    NAME,
    NUMBER,
    NUMBER_WORDS,
    WORDS,
    YEAR,
    Answer,
    place_preposition,
    shape_of,
)
from baleen.restating.frame import Frame
from baleen.restating.question import BLANK, BRACKET
from baleen.restating.sorts import (
    ANYBODY,
    ANYONE,
    CONTINENTS,
    COUNTRIES,
    SEXES,
    STATES,
    UNLIKE,
    WOMAN,
    are_alike,
    bare_name,
    is_born,
    is_person,
    noun_of,
    sort_of,
)
from baleen.restating.surroundings import Surroundings
from baleen.synthesis.falsehoods import ENTITY, MONTHS
from baleen.synthesis.falsehoods import NUMBER as NUMBERED
from baleen.synthesis.quality import fingerprint, names_any
from baleen.synthesis.words import word_set

_YEARS = re.compile(r"\bborn\b|\([^)]*\d{4}[^)]*\)")
_NOT_A_THING = re.compile(r"\b(?:List of|filmography|discography|disambiguation|season|videography)\b")
_BOUND = re.compile(rf"\b(?:than|over|least|most|under|about|nearly|almost|approximately|around) {BLANK}")
_EVENT = re.compile(r"Battle of|\d{4} ")
_COMMON = word_set("of and in for university county river city")
_ENDS = "in|of|located|at|by|from|that|which|and|based|on|for|founded|directed|released|situated|starring|written|published|produced"
SAMPLE = 60  # of those that were asked for by the same noun, among which one that fits is looked for


@dataclass
class Pool:
    """Answers of all questions, by what was asked for."""

    answers: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, frame: Frame, answer: Answer, around: Surroundings) -> None:
        sort = sort_of(frame.head, answer)
        if sort in SEXES and around.gold and not is_born(answer.text, around.gold):
            return
        for each in {sort, noun_of(frame.head) if sort in SEXES else sort}:
            self.answers[each, answer.shape].append(answer.text)

    def like(self, frame: Frame, answer: Answer, rng: random.Random) -> list[str]:
        """Others that were asked for by the same noun, then others of the same sort, each in random order."""
        sort = sort_of(frame.head, answer)
        found: list[str] = []
        noun = noun_of(frame.head)
        for each in [noun, *([sort] if noun in ANYBODY else [])] if sort in SEXES else [sort]:
            own = sorted(set(self.answers.get((each, answer.shape), ()))) if sort and noun not in UNLIKE else []
            found += rng.sample(own, min(SAMPLE, len(own)))
        return found


def wrong_answers(
    frame: Frame, answer: Answer, question: str, around: Surroundings, pool: Pool, rng: random.Random, count: int
) -> list[tuple[str, str]]:
    """Up to `count` wrong answers, each with how it was come by."""
    known = f"{question} {around.gold}"
    if _BOUND.search(frame.text):
        return []
    if answer.shape in {YEAR, DATE, DAY, MONTH, DECADE, NUMBER}:
        near = (_near(answer, rng) for _ in range(8 * count))
        found = [(each, NUMBERED) for each in near if each and each != answer.text and not names_any(known, [each])]
    else:
        sort = sort_of(frame.head, answer)
        candidates = [*_neighbours(frame, answer, around, rng), *pool.like(frame, answer, rng)]
        found = [(each, ENTITY) for each in candidates if _fits(each, answer, known, around.gold, sort)]
    return list(dict.fromkeys(found))[:count]


def _neighbours(frame: Frame, answer: Answer, around: Surroundings, rng: random.Random) -> list[str]:
    """Titles of the other passages that are what was asked for."""
    if answer.shape != NAME:
        return []
    sort, noun, names = sort_of(frame.head, answer), noun_of(frame.head), []
    for title, text in rng.sample(around.others, len(around.others)):
        name = BRACKET.sub("", title)
        same = _is_such_person(name, text, sort, noun) if sort in SEXES else sort != "" and _is_such(text, noun)
        if same and not _NOT_A_THING.search(title):
            names.append(f'"{name}"' if answer.text.startswith('"') else name)
    return names


def _is_such(text: str, noun: str) -> bool:
    """Whether a passage opens by saying that something is what a noun means."""
    before = r"(?:(?!(?:by|of|in|for|from|at|on|to|with|that|who)\b)[\w'’-]+ ){0,5}"
    said = rf"\b(?:is|was) (?:an?|the) {before}{re.escape(noun)}(?: (?:{_ENDS})\b|[.,;(]|$)"
    return len(noun) > 2 and bool(re.search(said, " ".join(text.split()[:28]).lower()))


def _is_such_person(name: str, text: str, sort: str, noun: str) -> bool:
    """Whether a passage is about a person of the sex, or of the calling, that was asked for."""
    if not is_person(name) or not _YEARS.search(" ".join(text.split()[:20])):
        return False
    small = text.lower()
    if sort == ANYONE:
        return noun == "who" or names_any(small, [noun])
    woman = len(re.findall(r"\b(?:she|her|actress)\b", small)) > len(re.findall(r"\b(?:he|his|him)\b", small))
    return woman == (sort == WOMAN)


def _fits(candidate: str, answer: Answer, known: str, gold: str, sort: str) -> bool:
    one, other = (set(fingerprint(text).split()) for text in (candidate, answer.text))
    if (one & other) - _COMMON or names_any(known, [candidate]) or are_alike(candidate, answer.text):
        return False
    if answer.shape == WORDS:
        return (candidate.endswith("s")) == answer.text.endswith("s")
    if answer.shape != NAME:
        return True
    if is_person(answer.text) and is_born(answer.text, gold) and not is_person(candidate):
        return False
    listed = [(" and " in text, " and " in text and text.count(",")) for text in (candidate, answer.text)]
    if listed[0] != listed[1] or _EVENT.match(candidate):
        return False
    if sort in {"where", "city"} and re.search(r" in |&", candidate):
        return False
    if sort == "where" and place_preposition(candidate) != place_preposition(answer.text):
        return False
    if (
        _size(candidate) != _size(answer.text)
        or shape_of(candidate) != NAME
        or ((", " in candidate) and _size(answer.text))
    ):
        return False
    words, said = (set(re.findall(r"[A-Z]\w{3,}", text)) for text in (candidate, known))
    shared = {word for word in words & said if word.lower() not in _COMMON}
    return len(shared) < max(1, len(candidate.split()) - 1)


def _size(name: str) -> int:
    """A country and a state are of a size of their own, so that no city is put for its country."""
    sizes = (STATES, COUNTRIES, CONTINENTS)
    return next((size for size, names in enumerate(sizes, 1) if bare_name(name) in names), 0)


def _near(answer: Answer, rng: random.Random) -> str | None:
    text = answer.text
    if answer.shape == DECADE:
        return re.sub(r"\d{4}", lambda year: str(int(year[0]) + rng.choice([-30, -20, -10])), text)
    if answer.shape == YEAR or (answer.shape in {DATE, MONTH} and re.search(r"\d{4}", text) and rng.random() < 0.5):
        return re.sub(r"\d{4}", lambda year: _other_year(year[0], rng), text)
    if answer.shape in {DATE, DAY, MONTH}:
        if answer.shape == MONTH or rng.random() < 0.5:
            long_months = [month for month in MONTHS.split("|") if month != "February"]
            return re.sub(MONTHS, lambda _: rng.choice(long_months), text) if " 31" not in f" {text}" else None
        return re.sub(r"\b\d{1,2}\b", lambda _: str(rng.randint(1, 28)), text, count=1)
    return _other_number(text, rng)


def _other_year(year: str, rng: random.Random) -> str:
    return str(min(2021, int(year) + rng.choice([-12, -9, -7, -5, -4, -3, -2, 2, 3, 4, 5, 7, 9, 12])))


def _other_number(text: str, rng: random.Random) -> str | None:
    """ "six" as "eight", "1,840 students" as "2,392 students"; nothing where a bound is given, which another may keep too."""
    if re.match(r"(?:about|over|approximately|around|nearly|more|almost)\b", text, re.IGNORECASE):
        return None
    for place, word in enumerate(NUMBER_WORDS):
        if re.search(rf"\b{word}\b", text, re.IGNORECASE):
            other = NUMBER_WORDS[max(1, min(len(NUMBER_WORDS) - 1, place + rng.choice([-3, -2, 2, 3, 4])))]
            changed = re.sub(rf"\b{word}\b", other, text, count=1, flags=re.IGNORECASE)
            return changed if changed.lower() != text.lower() and place else None
    return re.sub(r"\d[\d,]*(?:\.\d+)?", lambda found: _scaled(found[0], rng), text, count=1)


def _scaled(number: str, rng: random.Random) -> str:
    if "." in number:
        decimals = len(number.partition(".")[2])
        return f"{float(number.replace(',', '')) * rng.choice([0.6, 0.7, 1.4, 1.7]):.{decimals}f}"
    value = int(number.replace(",", ""))
    other = value + rng.choice([2, 3, 4]) if value < 10 else round(value * rng.choice([0.5, 0.7, 1.3, 1.6]))
    return f"{other:,}" if "," in number else str(other)
