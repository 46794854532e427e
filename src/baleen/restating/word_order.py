"""A question's auxiliary back behind its subject: "did the opera premiere in Rome" as "the opera premiered in Rome".

Where the subject ends has to be seen from the words: before the one base form that "did" can belong to, before the one
participle that "was" can belong to, or before the preposition that is left over at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from baleen.restating import inflection
from baleen.restating.question import AUXILIARIES, DETERMINERS, DO, MODALS, RELATIVES, bare, is_kept, is_name
from baleen.synthesis.lexicon import ADVERBS, COPULAS, PREPOSITIONS, PRESENTS, is_past
from baleen.synthesis.words import word_set

_BEFORE_NOUN = (
    DETERMINERS
    | PREPOSITIONS
    | RELATIVES
    | AUXILIARIES
    | {"and", "or", "own", "first", "second", "third", "last", "same", "he", "she", "they", "it"}
)
_NOT_BASES = word_set(
    "said film title voice show name record fire state house present set cast use place number mark base"
)
_CALLED = word_set("voted called nicknamed titled considered ranked")
_BROUGHT_ABOUT = word_set("called named known located born released founded")
_EXTRAPOSED = word_set("who that which whose who's that's starring featuring")
_STRANDED = (PREPOSITIONS | {"as"}) - {
    "under",
    "after",
    "before",
    "near",
    "around",
    "above",
    "below",
    "outside",
    "inside",
}


@dataclass(frozen=True, slots=True)
class Clause:
    """A statement in three: `subject`, `verb` with its auxiliary, and what follows."""

    subject: str
    verb: str
    tail: tuple[str, ...]

    @property
    def stranded(self) -> str:
        """The preposition that the clause ends in, if it ends in one."""
        last = (self.verb.split() + list(self.tail))[-1]
        return bare(last) if _is_stranded(last) else ""


def is_extracted(words: Sequence[str]) -> bool:
    """Whether words end as they do where something was taken from behind them: in a preposition or in a participle."""
    if _is_stranded(words[-1]) or _is_main_participle(words, len(words) - 1):
        return True
    if len(words) > 1 and bare(words[-1]) == "after" and bare(words[-2]) in inflection.PARTICIPLES:
        return True
    return any(_is_left_behind(words, place) for place in range(1, len(words) - 1))


def _is_left_behind(words: Sequence[str], place: int) -> bool:
    """Whether a participle in the middle lacks what was asked for: "the film, which ..., called in France"."""
    word, after = bare(words[place]), words[place + 1]
    if word in _CALLED and _is_main_participle(words, place):
        return not is_name(after) and bare(after) not in {"by", "the", "after"}
    related = any(bare(each) in RELATIVES for each in words[:place])
    return related and words[place - 1].endswith(",") and word in _BROUGHT_ABOUT


def undone(auxiliary: str, words: Sequence[str]) -> Clause | None:
    """The clause that an auxiliary and the words after it turn into; None where the end of the subject cannot be told."""
    auxiliary = auxiliary.lower()
    if auxiliary in DO | MODALS:
        return _with_base(auxiliary, words)
    return _with_participle(auxiliary, words)


def inflected(auxiliary: str, base: str) -> str | None:
    """ "did" and "play" as "played"; None where the second is no base form."""
    if auxiliary == "did":
        return inflection.past(base)
    if auxiliary == "does":
        return inflection.third_person(base)
    return base if inflection.past(base) else None


def _with_base(auxiliary: str, words: Sequence[str]) -> Clause | None:
    places = [place for place in range(1, len(words)) if _is_base(words, place)]
    related = [place for place, word in enumerate(words) if bare(word) in RELATIVES]
    if not places or (len(places) > 1 and related and related[0] < places[0]):
        return None
    place = places[1] if len(places) > 1 and places[1] == places[0] + 1 else places[0]  # "the hunger strike end"
    if any(bare(word) == "and" and _follows_base(words, spot + 1) for spot, word in enumerate(words) if spot > place):
        return None  # a second verb would have to change with the first
    verb = words[place] if auxiliary in MODALS else inflected(auxiliary, words[place].rstrip(","))
    if verb is None or _is_loose(words[:place]):
        return None
    subject, tail = list(words[:place]), list(words[place + 1 :])
    if _is_extraposed(tail):
        if is_extracted(tail) or words[place].endswith(","):
            return None
        return Clause(" ".join([*subject, *tail]), f"{auxiliary} {verb}" if auxiliary in MODALS else verb, ())
    cut = place
    while bare(words[cut - 1]) in ADVERBS | {"last"} and cut > 1:
        cut -= 1
    adverb = " ".join([*words[cut:place], ""])
    return Clause(
        " ".join(words[:cut]),
        f"{auxiliary} {adverb}{verb}" if auxiliary in MODALS else adverb + verb,
        tuple(words[place + 1 :]),
    )


def _follows_base(words: Sequence[str], place: int) -> bool:
    return place < len(words) and not is_name(words[place]) and inflection.past(bare(words[place])) is not None


def _is_base(words: Sequence[str], place: int) -> bool:
    word, before = bare(words[place]), words[place - 1]
    if is_name(words[place]) or inflection.past(word) is None or word in _NOT_BASES:
        return False
    if word in inflection.PARTICIPLES and word not in {"become", "come", "run", "put", "hit"}:
        return False
    return (
        bare(before) not in _BEFORE_NOUN
        and bare(before) != "to"
        and not (
            before.endswith("'s")
            and place + 1 < len(words)
            and bare(words[place + 1]) not in PREPOSITIONS | DETERMINERS
        )
    )


def _with_participle(auxiliary: str, words: Sequence[str]) -> Clause | None:
    last = len(words) - 1
    place = None
    if _is_main_participle(words, last):
        place = last
    elif _is_stranded(words[last]):
        place = last - 1 if _is_main_participle(words, last - 1) else last
        if place == last and (
            bare(words[last]) not in {"from", "in", "on", "at"}
            or auxiliary not in COPULAS
            or any(bare(word) in RELATIVES for word in words)
        ):
            return None
    else:
        places = [spot for spot in range(1, last) if _is_main_participle(words, spot)]
        if (
            len(places) == 1
            and not any(bare(word) in RELATIVES for word in words[: places[0]])
            and bare(words[places[0] + 1]) != "by"
        ):
            place = places[0]
    if place is None or place < 1:
        return None
    tail = list(words[place + 1 :])
    subject = list(words[:place])
    if _is_extraposed(tail):
        if is_extracted(tail):
            return None
        subject, tail = subject + tail, []
    cut = len(subject)
    while bare(subject[cut - 1]) in ADVERBS | {"last"} and cut > 1:
        cut -= 1
    adverb = " ".join([*subject[cut:], ""])
    if _is_loose(subject[:cut]):
        return None
    return Clause(" ".join(subject[:cut]), f"{auxiliary} {adverb}{words[place]}", tuple(tail))


def _is_main_participle(words: Sequence[str], place: int) -> bool:
    """Whether a participle is not one of a relative clause with an auxiliary of its own, nor a name's."""
    if place < 1 or is_name(words[place]) or bare(words[place]) not in inflection.PARTICIPLES:
        return False
    before = [bare(word) for word in words[max(0, place - 3) : place]]
    if before[-1] in {"be", "been", "being", "to"} | PREPOSITIONS | DETERMINERS | RELATIVES:
        return False
    opened = max((spot for spot in range(place) if bare(words[spot]) in RELATIVES), default=None)
    if opened is not None and not any(_is_verb(word) for word in words[opened + 1 : place]):
        return False
    return not any(word in COPULAS | {"has", "had", "have"} for word in before if word not in ADVERBS) or words[
        place - 1
    ].endswith(",")


def _is_stranded(word: str) -> bool:
    return bare(word) in _STRANDED and not is_name(word)


def _is_extraposed(tail: Sequence[str]) -> bool:
    """Whether what follows the verb describes the subject: "was the actor born who ...", "the firm founded for which ..."."""
    small = [bare(word) for word in tail[:2]]
    return bool(small) and (
        small[0] in _EXTRAPOSED or (small[0] in PREPOSITIONS and small[1:] in (["which"], ["whom"]))
    )


def _is_verb(word: str) -> bool:
    small = bare(word)
    return not is_name(word) and (
        small in AUXILIARIES or is_past(small) or small in PRESENTS or inflection.is_third_person(small)
    )


def _is_loose(subject: Sequence[str]) -> bool:
    """Whether words cannot be a subject: nothing but a pronoun, or an end that something has to follow."""
    last = bare(subject[-1])
    if last in PREPOSITIONS | AUXILIARIES | RELATIVES | DETERMINERS | {"and", "or"} and not is_kept(subject[-1]):
        # "the city that he was born in" ends in a preposition all the same
        return not (last in _STRANDED and any(bare(word) in RELATIVES for word in subject))
    return bare(subject[0]) in {"it", "there", "you", "we", "i", "one", "he", "she", "they"}
