"""Split sentences into clauses, where rules are certain about subject and predicate.

    tidied("Toledo (/tə.../) is a city in Ohio.")       "Toledo is a city in Ohio."
    clauses("played for X and moved to Y in 2010")      "played for X", "moved to Y in 2010"

A predicate starts at the finite verb after the subject: "played college football at the University of Toledo".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from baleen.synthesis.lexicon import (
    ADVERBS,
    AFTER_COMMA,
    ALSO_NOUNS,
    AUXILIARIES,
    COPULAS,
    DANGLING,
    LOOSE_ENDS,
    PAST_PARTICIPLES,
    PRESENTS,
    is_finite,
    is_past,
)
from baleen.synthesis.past_verbs import REGULAR_PASTS

_ROUND = re.compile(r"\s*\([^()]*\)")
_SQUARE = re.compile(r"\s*\[[^\[\]]*\]")
_BEFORE_STOP = re.compile(r"\s+([,.])")
_STOPS = re.compile(r",\s*,+")
_CURLY = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "‑": "-"})
# Latin letters, digits and plain punctuation.
_LATIN = re.compile("[A-Za-z0-9_ \\-.,'\"&%$£€°!?+ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞßàáâãäåæçèéêëìíîïðñòóôõöøùúûüýþÿĀ-ž]*")
_CUT = re.compile(r", (?:{})\b".format("|".join(sorted(AFTER_COMMA))))
_ABBREVIATED = re.compile(r"^(?:[A-Z]\.)*[A-Z]$")  # such as "B.C" without its last full stop
_JOINT = re.compile(r",? (?:and|but) (?=(?:[a-z]+ )?[a-z]+)")
MIN_WORDS, MAX_WORDS = 3, 24


def tidied(sentence: str) -> str:
    """Remove brackets and Markdown emphasis; use plain quotes, plain dashes and single spaces."""
    text = sentence if sentence.isascii() else sentence.translate(_CURLY)
    if "(" in text or "[" in text:
        previous = None
        while previous != text:
            previous, text = text, _SQUARE.sub("", _ROUND.sub("", text))
    if "`" in text or "**" in text:
        text = text.replace("**", "").replace("`", "")
    text = " ".join(text.split())
    if " ," in text or " ." in text:
        text = _BEFORE_STOP.sub(r"\1", text)
    return _STOPS.sub(",", text) if ",," in text or ", ," in text else text


def is_plain(text: str) -> bool:
    """Whether a tidied sentence is one statement in Latin letters that ends with a full stop."""
    return (
        text.endswith(".")
        and '""' not in text
        and text.count('"') % 2 == 0
        and _LATIN.fullmatch(text) is not None
        and "?" not in text
    )


def predicate(words: list[str]) -> int | None:
    """Position of the finite verb in the words after a subject, after adverbs; None without one."""
    for position, word in enumerate(words[:3]):
        if is_finite(word):
            return position
        if word not in ADVERBS:
            return None
    return None


def clauses(text: str) -> Iterator[str]:
    """Yield the parts of a predicate (without its full stop) that are complete on their own."""
    for part in _parts(text):
        cut = _CUT.search(part)
        clause = (part[: cut.start()] if cut else part).strip(" ,")
        broken = cut is not None and cut[0] in {", and", ", or"} and "," in clause
        if not broken and stands_alone(clause):
            yield clause


def _parts(text: str) -> Iterator[str]:
    """Split a predicate at each "and" followed by a finite verb."""
    begin = 0
    for joint in _JOINT.finditer(text):
        words = text[joint.end() :].split(" ", 3)
        verb = predicate(words)
        if verb is not None and _resumes(words[verb], text[begin : joint.start()].split()):
            yield text[begin : joint.start()]
            begin = joint.end()
    yield text[begin:]


def _resumes(verb: str, before: list[str]) -> bool:
    """Whether `verb` after "and" starts a clause of the same subject.

    After "was founded in 1900", "destroyed" shares "was"; after "was a house built in 1900", "sold" may be the house's;
    after "was a poet" nothing is shared.
    """
    if verb in ALSO_NOUNS:
        return False
    noun = before[1:2] in (["a"], ["an"], ["the"]) and not any(is_past(word) for word in before[2:])
    if before[:1] and before[0] in AUXILIARIES and not noun and (verb in REGULAR_PASTS or verb in PAST_PARTICIPLES):
        return False
    return verb in AUXILIARIES or verb in PRESENTS or is_past(verb)


def stands_alone(clause: str) -> bool:
    """Whether a clause is complete: of suitable length and without references to anything outside it."""
    words = clause.split()
    if not MIN_WORDS <= len(words) <= MAX_WORDS or clause.count('"') % 2:
        return False
    if words[-1].lower() in LOOSE_ENDS or words[-1].endswith(("'", ",")) or _ABBREVIATED.search(words[-1]):
        return False
    bare = {word.strip(",\"'") for word in words}
    if bare & DANGLING or words[1] == "by" or (words[0] in COPULAS and _vague(words)):
        return False
    if any(before.endswith(",") and is_finite(after) for before, after in pairwise(words)):
        return False  # inside "did this, did that, and did another"
    return clause.count(",") <= 3 and "," not in words[0] and not _SPOKEN.search(clause)


_SPOKEN = re.compile(
    r"\b(?:said|stated|quoted|saying|refer|refers|referred|etc|i\.e|e\.g|respectively|e\.g\.)\b|,\"|\.\.|\. [A-Z][a-z]{3}"
)


def _vague(words: list[str]) -> bool:
    """Whether a copula says little: "was also there", "is one of"."""
    return len(words) < 4 or words[1] in {"one", "similar", "different", "not", "called", "named", "known"}
