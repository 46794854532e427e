"""Rules for questions whose auxiliary stands before their subject: "In what year was the album that ... released?" """

from __future__ import annotations

import random
from collections.abc import Sequence

from baleen.restating.answers import ADJECTIVE, DATE, DAY, Answer, at_place, at_time, fitted
from baleen.restating.frame import COPULA, INVERSION, Frame
from baleen.restating.question import (
    AUXILIARIES,
    BLANK,
    DETERMINERS,
    DO,
    RELATIVES,
    Asking,
    asking_phrase,
    bare,
    head_of,
    is_name,
    noun_end,
)
from baleen.restating.word_order import inflected, is_extracted, undone
from baleen.synthesis.lexicon import ADVERBS, COPULAS, PREPOSITIONS
from baleen.synthesis.words import word_set

TIMES = frozenset({"year", "date", "day", "month", "decade"})
_SCHOOLED = word_set("graduated studied educated teaches taught works worked")
_LEFT_BEHIND = word_set(
    """born located filmed released held formed died published built found situated raised educated buried trained married
    founded headquartered based set"""
)
_PLACES = frozenset({"place", "birthplace", "hometown", "location", "birth"})


def inverted(words: Sequence[str], answer: Answer, rng: random.Random, *, front: bool) -> Frame | None:
    """Such a question as a statement, with the answer at its end or, if `front` allows it, before all else."""
    lead = bare(words[0]) if bare(words[0]) in PREPOSITIONS else ""
    asking = asking_phrase(words, 1 if lead else 0)
    if asking is None or asking.end >= len(words) - 1:
        return None
    if bare(words[asking.end]) not in AUXILIARIES:
        return None
    auxiliary, rest = bare(words[asking.end]), list(words[asking.end + 1 :])
    common = _in_common(asking, rest, answer)
    if common is not None:
        return common
    clause = undone(auxiliary, rest)
    if clause is None:
        return _where_is(asking, auxiliary, rest, answer) if not lead else None
    said, tail = f"{clause.subject} {clause.verb}", list(clause.tail)
    schooled = asking.word == "where" and bare(clause.verb.split()[-1]) in _SCHOOLED
    frame = Frame(INVERSION, "", asking.word, "school" if schooled else asking.head)
    if lead or asking.word in {"where", "when"} or asking.head in TIMES:
        if clause.stranded and clause.stranded != lead and asking.word != "where":
            return None
        adverbial = _adverbial(lead, asking, answer, rng, clause.stranded)
        if adverbial is None:
            return None
        if clause.stranded and lead:
            tail = tail[:-1] if tail else tail
        if clause.stranded and not lead:
            return _framed(frame, [said, *tail, adverbial])
        fronted = front and (len(tail) > 8 or any(bare(word) in RELATIVES for word in tail) or rng.random() < 0.15)
        if fronted:
            return _framed(frame, [f"{adverbial},", said, *tail])
        return _framed(frame, [said, *tail, adverbial]) if len(tail) <= 8 else None
    if auxiliary in DO and not clause.tail and inflected(auxiliary, bare(rest[-1])) != clause.verb.split()[-1]:
        return None  # "who did X appoint that ...": the clause at the end may be the answer's
    return _object(frame, clause.stranded, said, tail, asking, answer, rng)


def _object(
    frame: Frame, stranded: str, said: str, tail: list[str], asking: Asking, answer: Answer, rng: random.Random
) -> Frame | None:
    """What was taken from behind the verb, or from behind a preposition at the end."""
    before = stranded or bare(said.split()[-1])
    phrase = _nationality(stranded, answer) or fitted(asking, answer, rng, before)
    if phrase is None:
        return None
    if stranded == "from" and answer.shape == ADJECTIVE:
        words = [*said.split(), *tail]
        return _framed(frame, [*words[:-1], BLANK]) if bare(words[-2]) in COPULAS else None
    if stranded or [bare(word) for word in tail] == ["after"]:
        return _framed(frame, [said, *tail, phrase])
    if len(tail) > 1 and bare(tail[1]) in {"that", "who", "which"} | PREPOSITIONS:
        return None
    if not tail or bare(tail[0]) in PREPOSITIONS | ADVERBS | {"when", "as"}:
        copular = bare(said.split()[-2]) in COPULAS if len(said.split()) > 1 else False
        return (
            None
            if copular and bare(said.split()[-1]) not in {"called", "named"}
            else _framed(frame, [said, phrase, *tail])
        )
    return None


def _nationality(stranded: str, answer: Answer) -> str | None:
    return BLANK if stranded == "from" and answer.shape == ADJECTIVE else None


def _adverbial(lead: str, asking: Asking, answer: Answer, rng: random.Random, stranded: str) -> str | None:
    """When, where or with what: the answer with the preposition that it needs."""
    if asking.word == "when" or asking.head in TIMES:
        return at_time(answer)
    if asking.word == "where":
        return (BLANK if answer.named else None) if stranded else at_place(answer)
    if answer.led:
        return BLANK if answer.text.split()[0].lower() == lead else None
    phrase = fitted(asking, answer, rng, lead)
    return None if phrase is None else f"{lead} {phrase}"


def _where_is(asking: Asking, auxiliary: str, rest: Sequence[str], answer: Answer) -> Frame | None:
    """ "Where is the seat of X?", "When is X's birthday?": a copula with nothing behind the subject."""
    if asking.noun or auxiliary not in COPULAS or is_extracted(rest) or asking.word not in {"where", "when"}:
        return None
    if any(bare(word) in _LEFT_BEHIND and bare(rest[place]) not in AUXILIARIES for place, word in enumerate(rest[1:])):
        return None
    head = described(rest)
    if asking.word == "where":
        said = BLANK if head == "where" and answer.named else at_place(answer)
    else:
        said = BLANK if head == "birthday" and answer.shape in {DATE, DAY} else at_time(answer)
        if head != "birthday" and any(bare(word) in RELATIVES for word in rest):
            return None
    if asking.word == "when" and bare(rest[-1]) == "birthday" and answer.shape in {DATE, DAY}:
        said = BLANK
    if said is None or (not head and not is_name(rest[0])):
        return None
    return _framed(Frame(COPULA, "", asking.word, head or asking.word), [*rest, auxiliary, said])


def country_from(words: Sequence[str], answer: Answer) -> Frame | None:
    """ "Which country the director of X is from?", as some write it."""
    if len(words) < 5 or bare(words[1]) != "country" or bare(words[2]) in AUXILIARIES:
        return None
    if bare(words[-1]) != "from" or bare(words[-2]) not in COPULAS:
        return None
    said = BLANK if answer.shape == ADJECTIVE else f"from {BLANK}" if answer.named else None
    return None if said is None else Frame(INVERSION, " ".join([*words[2:-1], said]), "which", "country")


def _in_common(asking: Asking, rest: Sequence[str], answer: Answer) -> Frame | None:
    if [bare(word) for word in rest[-3:]] != ["have", "in", "common"] or " of " in asking.noun or len(rest) < 6:
        return None
    if not asking.noun:
        if not answer.named:
            return None
        return Frame(INVERSION, f"{' '.join(rest[:-3])} have {BLANK} in common", asking.word, asking.head)
    return Frame(
        INVERSION, f"the {asking.noun} that {' '.join(rest[:-3])} have in common is {BLANK}", asking.word, asking.head
    )


def _framed(frame: Frame, parts: Sequence[str]) -> Frame:
    return Frame(frame.rule, " ".join(part for part in parts if part), frame.word, frame.head)


def described(said: Sequence[str]) -> str:
    """The noun that a description is about: "the name of the pop band founded by ..." is about a band."""
    words = list(said)
    while words and bare(words[0]) in DETERMINERS:
        words = words[1:]
    end = noun_end(words, 0)
    if (
        [bare(word) for word in words[:end]][-1:] in (["name"], ["title"])
        and end + 2 < len(words)
        and bare(words[end]) == "of"
    ):
        return described(words[end + 1 :])
    if not end:
        return ""
    owner = [place for place, word in enumerate(words[:end]) if word.endswith(("'s", "s'"))]
    head = head_of(" ".join(words[owner[-1] + 1 : end] if owner else words[:end]))
    if head in {"date", "place"} and [bare(word) for word in words[end : end + 2]] in (
        ["of", "birth"],
        ["of", "death"],
    ):
        return "date" if head == "date" else "where"
    return "where" if head in _PLACES else head
