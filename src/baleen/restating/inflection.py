"""Forms of English verbs and nouns: what undoing a question's inversion takes."""

from __future__ import annotations

from baleen.synthesis.past_verbs import REGULAR_PASTS
from baleen.synthesis.words import word_set

# base past [participle, where it is another]
_IRREGULAR = """
    win won, become became become, make made, begin began begun, take took taken, go went gone, write wrote written, hold held,
    lead led, run ran run, come came come, leave left, lose lost, sell sold, rise rose risen, grow grew grown, fight fought,
    find found, give gave given, stand stood, sing sang sung, ride rode ridden, build built, meet met, break broke broken,
    see saw seen, sit sat, get got, hit hit, fly flew flown, fall fell fallen, choose chose chosen, bring brought,
    draw drew drawn, throw threw thrown, seek sought, sink sank sunk, swim swam swum, shoot shot, drive drove driven,
    keep kept, send sent, catch caught, buy bought, wear wore worn, flee fled, put put, undertake undertook undertaken,
    speak spoke spoken, strike struck, sweep swept, teach taught, tell told, undergo underwent undergone,
    withdraw withdrew withdrawn, oversee oversaw overseen, bear bore born, beat beat beaten, die died, have had, spend spent,
    say said, know knew known, show showed shown, feel felt, mean meant, lie lay, pay paid, lend lent, shut shut, cut cut,
    cost cost, hide hid hidden, steal stole stolen, split split, spin spun, set set, read read, air aired, occur occurred,
    star starred, debut debuted, premiere premiered, use used, call called, name named, base based, hail hailed, record recorded,
    attend attended, marry married, originate originated, invade invaded, cause caused, create created
"""
_PASTS: dict[str, str] = {}
_PARTICIPLES: set[str] = set()


def _learn() -> None:
    for past in sorted(REGULAR_PASTS):
        stem = past[:-2]
        for base in {
            stem,
            past[:-1],
            stem[:-1] if stem[-1:] == stem[-2:-1] else stem,
            f"{past[:-3]}y" if past.endswith("ied") else stem,
        }:
            _PASTS[base] = past
        _PARTICIPLES.add(past)
    for line in _IRREGULAR.split(","):
        base, past, *participle = line.split()
        _PASTS[base] = past
        _PARTICIPLES.add(participle[0] if participle else past)


_learn()
PARTICIPLES = frozenset(_PARTICIPLES) - {"died", "lived", "occurred", "appeared"} | word_set(
    """located situated headquartered based known named called used considered nicknamed credited inducted classified spoken
    buried titled entitled translated nominated defeated drafted abbreviated hosted stationed inspired"""
)


def past(base: str) -> str | None:
    """ "play" as "played"; None for what is not known to be a verb."""
    return _PASTS.get(base)


def third_person(base: str) -> str | None:
    """ "play" as "plays"."""
    if base not in _PASTS:
        return None
    if base == "have":
        return "has"
    if base.endswith(("s", "sh", "ch", "x", "o")):
        return f"{base}es"
    return f"{base[:-1]}ies" if base.endswith("y") and base[-2:-1] not in "aeiou" else f"{base}s"


def is_third_person(word: str) -> bool:
    """Whether a word is such a form of a verb that is known."""
    return word in _THIRD_PERSONS


_THIRD_PERSONS = frozenset(form for form in map(third_person, _PASTS) if form)


def plural(noun: str) -> str:
    """The last word of a phrase in its plural."""
    if noun.endswith("s"):
        return noun
    if noun.endswith(("sh", "ch", "x")):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else f"{noun}s"


def article(phrase: str) -> str:
    """ "a" or "an", by its first letter; "u" is as often that of "university"."""
    return "an" if phrase[:1].lower() in "aeio" else "a"
