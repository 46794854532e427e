"""Questions turned into statements with a blank where the answer goes, by rule.

    in place        The single features what soul singer?               The single features [the soul singer] ____.
    subject         Who produced the single that ...?                   ____ produced the single that ...
    copula          Who is the director of the film where ...?          The director of the film where ... is ____.
    inversion       In what year was the album that ... released?       The album that ... was released in ____.
    yes or no       Are both A and B rock bands?                        Both A and B are rock bands.
    comparison      Which film came out first, A or B?                  ____ came out before the other.

The last two are those of `closed_questions`; inversions are undone in `inverted_questions`.  What no rule understands is left alone.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from baleen.restating import inflection
from baleen.restating.answers import ADJECTIVE, DATE, DAY, YEAR, Answer, fitted
from baleen.restating.frame import ASKING, COPULA, IN_PLACE, SUBJECT, Frame, is_finite
from baleen.restating.inverted_questions import TIMES, country_from, described, inverted
from baleen.restating.question import (
    AUXILIARIES,
    BLANK,
    DETERMINERS,
    DO,
    HAVE,
    MODALS,
    RELATIVES,
    Asking,
    asking_phrase,
    bare,
    is_name,
)
from baleen.restating.word_order import is_extracted
from baleen.synthesis.lexicon import ADVERBS, COPULAS, PREPOSITIONS, is_past
from baleen.synthesis.words import word_set

_FRONTED = word_set("in at during after since besides on for from among aside along as before with out")
_AFTER_COMMA = RELATIVES | word_set("born known founded formed located released directed based called a an the")
_ADDRESSED = word_set("you your i we our us me")
_DESCRIBING = RELATIVES | word_set(
    """of from with into directed produced written starring featuring born based located known called named"""
)
_NOT_SAID = frozenset({"connection", "relationship", "difference", "relation", "commonality"})
_AFTER_SUBJECT = {"in"} | RELATIVES | word_set("named called known born based located nicknamed starring featuring")


def open_frame(words: Sequence[str], answer: Answer, rng: random.Random) -> Frame | None:
    """The statement that a question for something amounts to; None where no rule understands it."""
    if any(bare(word) in _ADDRESSED for word in words):
        return None
    first = bare(words[0])
    if first in _FRONTED and bare(words[1]) not in ASKING:
        return _after_front(words, answer, rng) or _in_place(words, answer, rng)
    if first in ASKING or (first in PREPOSITIONS and bare(words[1]) in ASKING):
        return country_from(words, answer) or _subject(words, answer, rng) or inverted(words, answer, rng, front=True)
    return _in_place(words, answer, rng) if first not in AUXILIARIES else None


def _after_front(words: Sequence[str], answer: Answer, rng: random.Random) -> Frame | None:
    """ "In the film X, who played ...": the question after the comma, with what stands before it put first again."""
    for place in range(1, len(words) - 1):
        if words[place - 1].endswith(",") and (bare(words[place]) in ASKING or bare(words[place + 1]) in ASKING):
            rest = list(words[place:])
            if bare(rest[0]) not in ASKING and bare(rest[0]) not in PREPOSITIONS:
                return None
            if bare(rest[0]) == "which" and bare(rest[1]) in AUXILIARIES:
                continue  # a relative clause of what stands before
            if len(rest) > 1 and bare(rest[1]) == "else":
                del rest[1]
            frame = _subject(rest, answer, rng, plain=True) or inverted(rest, answer, rng, front=False)
            return (
                None
                if frame is None
                else Frame(frame.rule, f"{' '.join(words[:place])} {frame.text}", frame.word, frame.head)
            )
    return None


def _in_place(words: Sequence[str], answer: Answer, rng: random.Random) -> Frame | None:
    """An asking phrase where its answer would stand."""
    places = [place for place in range(1, len(words)) if _asks(words, place)]
    if len(places) != 1 or words[places[0] - 1][-1] in ",;:" or not any(map(is_finite, words[: places[0]])):
        return None
    place = places[0]
    asking = asking_phrase(words, place)
    if asking is None:
        return None
    before, tail = list(words[:place]), list(words[asking.end :])
    if tail and (bare(tail[0]) in AUXILIARIES or (bare(before[-1]) == "and" and is_past(bare(tail[0])))):
        return None
    if asking.head in TIMES and bare(before[-1]) in {"in", "on"}:
        before[-1] = "on" if answer.shape in {DATE, DAY} else "in"
    phrase = fitted(asking, answer, rng, bare(before[-1]))
    if phrase is None:
        return None
    if tail and bare(tail[0]).endswith("ing") and answer.named:
        phrase = BLANK
    ended = words[asking.end - 1].endswith(",")
    if ended and tail and bare(tail[0]) not in _AFTER_COMMA | PREPOSITIONS | {"and"}:
        return None
    if tail and not ended and asking.noun and answer.named and bare(tail[0]) in _DESCRIBING:
        if asking.noun.split()[-1].endswith("s") or asking.noun.split()[0].lower() in {"other", "two", "three"}:
            return None
        phrase = f"{BLANK}, {inflection.article(asking.noun)} {asking.noun}"
    return Frame(
        IN_PLACE, " ".join([*before, phrase + "," if ended and tail else phrase, *tail]), asking.word, asking.head
    )


def _asks(words: Sequence[str], place: int) -> bool:
    """Whether a word asks, and does not open a relative clause."""
    word, last = bare(words[place]), place == len(words) - 1
    if word in {"how", "what"}:
        return True
    if word == "which":
        asking = asking_phrase(words, place)
        return asking is not None and bool(asking.noun) and inflection.past(asking.head) is None
    if word in {"who", "whom", "where", "when"}:
        return last or (
            word in {"who", "whom"}
            and bare(words[place + 1]) in PREPOSITIONS
            and bare(words[place - 1]) in PREPOSITIONS | {"played"}
        )
    return False


def _subject(words: Sequence[str], answer: Answer, rng: random.Random, *, plain: bool = False) -> Frame | None:
    """An asking phrase that its verb follows, or a copula that turns a description round."""
    asking = asking_phrase(words, 0)
    if asking is None or asking.word in {"where", "when"} or asking.end >= len(words) - 1:
        return None
    rest = list(words[asking.end :])
    first, second = bare(rest[0]), rest[1]
    if first in COPULAS:
        return _copula(asking, rest, answer, rng, plain=plain)
    if any(bare(word) in DO | {"what"} for word in rest) or first == "of":
        return None
    if first in HAVE | MODALS and (is_name(second) or (bare(second) in DETERMINERS and is_extracted(rest))):
        return None
    if asking.head == "time" and bare(second) in DETERMINERS:
        return None
    ended = words[asking.end - 1].endswith(",")
    if ended and first not in _AFTER_COMMA:
        return None
    opened = first in _AFTER_SUBJECT or ended
    if not opened and not is_finite(rest[0]) and first not in ADVERBS | {"also"}:
        return None
    if opened and (not asking.noun or not _has_main_verb(rest) or _is_inverted(rest)):
        return None
    return _with_subject(asking, rest, answer, rng, comma=ended)


def _with_subject(
    asking: Asking, rest: Sequence[str], answer: Answer, rng: random.Random, *, comma: bool
) -> Frame | None:
    if bare(rest[0]) in {"is", "was", "has"} and answer.several and not asking.word.startswith("how"):
        return None
    phrase = fitted(asking, answer, rng)
    said = " ".join(rest)
    if phrase is not None and not (asking.noun and phrase == BLANK and bare(rest[0]) in RELATIVES):
        return Frame(SUBJECT, f"{phrase}{',' if comma else ''} {said}", asking.word, asking.head)
    if (
        phrase is None
        and asking.noun
        and not asking.word.startswith("how")
        and not comma
        and is_finite(rest[0])
        and " of " not in asking.noun
    ):
        copula = "was" if is_past(bare(rest[0])) or bare(rest[0]) in {"was", "were", "had"} else "is"
        if not asking.noun.lower().endswith("s") and not answer.led and answer.shape != YEAR:
            return Frame(SUBJECT, f"the {asking.noun} that {said} {copula} {BLANK}", asking.word, asking.head)
    return None


def _copula(asking: Asking, rest: Sequence[str], answer: Answer, rng: random.Random, *, plain: bool) -> Frame | None:
    copula, said = bare(rest[0]), list(rest[1:])
    first = bare(said[0])
    if not is_name(said[0]) and first not in DETERMINERS and not said[0].endswith("'s"):
        if first in {"common", "it", "there", "he", "she", "they", "both"} or asking.head == "nationality":
            return None if asking.head != "nationality" else _of_nation(asking, copula, said, answer)
        if is_extracted(said) and first not in inflection.PARTICIPLES:
            return None
        return _with_subject(asking, rest, answer, rng, comma=False)
    if first in {"a", "an"} and asking.word != "what" and not is_extracted(said):
        return _with_subject(asking, rest, answer, rng, comma=False)
    if asking.head == "nationality":
        return _of_nation(asking, copula, said, answer)
    if is_extracted(said) or len(said) < 2:
        return None
    if asking.noun:
        return (
            _with_subject(asking, rest, answer, rng, comma=False)
            if first == "the" and answer.named and asking.head not in TIMES | {"country", "city", "state"}
            else None
        )
    return _turned(asking, copula, said, answer, rng, plain=plain)


def _of_nation(asking: Asking, copula: str, said: Sequence[str], answer: Answer) -> Frame | None:
    """ "What nationality is X?" as "X is ____", or "X is from ____" where the answer is a country."""
    if is_extracted(said) or not (answer.shape == ADJECTIVE or answer.named):
        return None
    of = BLANK if answer.shape == ADJECTIVE else f"from {BLANK}"
    return Frame(COPULA, f"{' '.join(said)} {copula} {of}", asking.word, asking.head)


def _turned(
    asking: Asking, copula: str, said: Sequence[str], answer: Answer, rng: random.Random, *, plain: bool
) -> Frame | None:
    """ "Who is X's father?" as "X's father is ____" or "____ is X's father"."""
    description, head = " ".join(said), described(said)
    if (asking.word == "what" and head in _NOT_SAID) or answer.led or not head[:1].isascii() or not head:
        return None
    if copula in {"are", "were"} and not re.search(r"s\b|,| and ", answer.text):
        return None
    straight = Frame(COPULA, f"{description} {copula} {BLANK}", asking.word, head)
    if not answer.named or len(said) > 22 or plain or _is_open(said):
        return Frame(COPULA, f"{BLANK} {copula} {description}", asking.word, head) if answer.named else straight
    return straight if rng.random() < 0.5 else Frame(COPULA, f"{BLANK} {copula} {description}", asking.word, head)


def _is_open(said: Sequence[str]) -> bool:
    """Whether a description ends in a loose comma clause, after which a verb would be read as that clause's."""
    return any(word.endswith(",") for word in said)


def _has_main_verb(rest: Sequence[str]) -> bool:
    """Whether one more verb is there than relatives ask for."""
    relatives = sum(bare(word) in RELATIVES for word in rest)
    return sum(map(is_finite, rest)) > relatives


def _is_inverted(rest: Sequence[str]) -> bool:
    """Whether an auxiliary inside stands before its subject: "which road of 147 miles is Kirk Langley found on"."""
    return is_extracted(rest) and any(
        bare(word) in AUXILIARIES and (is_name(rest[place + 1]) or bare(rest[place + 1]) in DETERMINERS)
        for place, word in enumerate(rest[:-1])
    )
