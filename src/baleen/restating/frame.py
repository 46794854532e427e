"""A question's statement with a blank, and what the rules that make one share."""

from __future__ import annotations

from dataclasses import dataclass

from baleen.restating import inflection
from baleen.restating.question import AUXILIARIES, bare, is_name
from baleen.synthesis.lexicon import PRESENTS, is_past
from baleen.synthesis.words import word_set

IN_PLACE, SUBJECT, COPULA, INVERSION, YES_NO, COMPARISON = (
    "in place",
    "subject",
    "copula",
    "inversion",
    "yes or no",
    "comparison",
)
RULES = (IN_PLACE, SUBJECT, COPULA, INVERSION, YES_NO, COMPARISON)
ASKING = word_set("who whom whose what which where when how why name")


@dataclass(frozen=True, slots=True)
class Frame:
    """A statement with BLANK for the answer; `word` and `head` say what was asked for ("what", "county").

    A comparison has OTHER for the one that the answer is compared with, and `options` as (the answer's, the other); a yes or
    no has no blank, and `holds` says which it is.
    """

    rule: str
    text: str
    word: str = ""
    head: str = ""
    options: tuple[str, str] | None = None
    holds: bool = True


def is_finite(word: str) -> bool:
    """Whether a word opens a predicate."""
    small = bare(word)
    return not is_name(word) and (
        small in AUXILIARIES
        or small in PRESENTS
        or is_past(small)
        or inflection.is_third_person(small)
        or small in {"died", "said"}
    )
