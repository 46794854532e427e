"""Questions that give their answers to choose from: yes or no, this one or that one."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from baleen.restating import inflection
from baleen.restating.answers import NATIONALITIES
from baleen.restating.frame import ASKING, COMPARISON, YES_NO, Frame, is_finite
from baleen.restating.question import (
    AUXILIARIES,
    BLANK,
    DETERMINERS,
    DO,
    OTHER,
    Question,
    asking_phrase,
    bare,
    is_kept,
    is_name,
)
from baleen.restating.word_order import inflected
from baleen.synthesis.lexicon import PREPOSITIONS
from baleen.synthesis.quality import fingerprint
from baleen.synthesis.words import word_set

YES, NO = "yes", "no"
_LINKS = word_set("of the and de la le du di da von van der for in to a an on & no der y")
_TAG = re.compile(r",? (?:is (?:this|that|it) (?:true|correct|right)|true or false|correct|right)$", re.IGNORECASE)
_BEFORE = re.compile(r"\b(?:first|earlier|earliest|sooner)$")
_AFTER = re.compile(r"\b(?:later|last|latest|more recently|most recently)$")
_MORE = re.compile(
    r"\b(?:older|younger|larger|taller|higher|bigger|longer|shorter|smaller|closer|wider|deeper|greater|fewer|more|less|farther|further|better|newer|heavier|faster|broader|lower|richer|stronger|lighter)\b"
)
_MOST = re.compile(
    r"\b(?:most|least|oldest|youngest|largest|tallest|highest|longest|biggest|smallest|earliest|latest|best|fewest)\b"
)
_OWN = re.compile(
    r"^(?:has|have|had|with|whose|who has|that has) (?:the |a |an )?(director|author|composer|performer|creator|writer|producer)(?: (?:who|that|which))? ?(?:is|was|were)? ?(.+)$"
)


def yes_or_no(words: Sequence[str], answer: str) -> Frame | None:
    """What a question for yes or no states; it holds if the answer is yes."""
    text = _TAG.sub("", " ".join(words))
    words, holds = text.split(), fingerprint(answer) == YES
    first = bare(words[0])
    if first in ASKING or any(bare(word) == "or" for word in words):
        return None
    if first not in AUXILIARIES:
        asks = any(bare(word) in {"what", "how"} for word in words)
        stated = any(is_finite(word) for word in words[1:]) and not asks
        return Frame(YES_NO, text, holds=holds) if stated else None
    stated_as = _stated(first, words[1:])
    return None if stated_as is None else Frame(YES_NO, stated_as, holds=holds)


def _stated(auxiliary: str, words: Sequence[str]) -> str | None:
    cut = _subject_end(words)
    if cut is None or cut >= len(words) or bare(words[0]) in {"there", "it", "he", "she", "they", "you"}:
        return None
    subject, said = list(words[:cut]), list(words[cut:])
    adverbs = []
    while said and bare(said[0]) in {"both", "also", "each", "all", "ever"}:
        adverbs.append(said.pop(0))
    if not said:
        return None
    if auxiliary in DO:
        verb = inflected(auxiliary, said[0])
        if verb is None:
            return None
        parts = [*adverbs, verb, *said[1:]]
    else:
        if (
            is_name(said[0])
            and bare(said[0]).title() not in NATIONALITIES
            and not adverbs
            and said[0].split("-")[0] not in NATIONALITIES
        ):
            return None
        parts = [auxiliary, *adverbs, *said]
    subject[-1] = subject[-1].rstrip(",")
    return " ".join([*_with_articles(subject), *parts])


def _with_articles(subject: Sequence[str]) -> list[str]:
    """ "director of film X and director of film Y" with the articles that it lacks."""
    text = re.sub(r"(^|\b(?:and|both) )((?:director|composer|performer|author) of)\b", r"\1the \2", " ".join(subject))
    return re.sub(r"\bof film (?!s)", "of the film ", text).split()


def _subject_end(words: Sequence[str]) -> int | None:
    """Where what is spoken of ends: at "both", or after the last name of "A and B"."""
    for place, word in enumerate(words[1:], 1):
        if bare(word) == "both":
            return place
    joints = [place for place, word in enumerate(words) if bare(word) == "and"]
    joints = [place for place in joints if _name_end(words, place + 1) is not None]
    if joints:
        return _name_end(words, joints[0] + 1)
    return _name_end(words, 0) if words and bare(words[0]) != "both" else None


def _name_end(words: Sequence[str], start: int) -> int | None:
    """Where a name ends that begins at `start`, after an article and what it is ("the film", "director of film")."""
    place = start
    while place < len(words) and not is_name(words[place]):
        if place - start > 3 or bare(words[place]) in AUXILIARIES:
            return None
        place += 1
    begun = place
    while place < len(words):
        if is_kept(words[place]) and place == begun:
            place += 1
            return place
        if is_name(words[place]) and not (place > begun and words[place] in NATIONALITIES):
            place += 1
            if words[place - 1].endswith(","):
                return place
        elif (
            place + 1 < len(words)
            and bare(words[place]) in _LINKS - {"and", "in", "on", "to", "a", "an"}
            and is_name(words[place + 1])
            and words[place + 1] not in NATIONALITIES
        ):
            place += 1
        else:
            break
    return place if place > begun else None


def comparison(question: Question, answer: str, rng: random.Random) -> Frame | None:
    """Which of two that are named: the one stated to be so, with the other to be put in its place."""
    found = _options(question.words)
    if found is None:
        return None
    frame, one, two, tail = found
    one, two = question.spelled(one), question.spelled(two)
    chosen = _chosen(answer, one, two)
    said = _predicate(frame, tail)
    if chosen is None or not said:
        return None
    text = _compared(said, rng)
    other = two if chosen == one else one
    return None if text is None else Frame(COMPARISON, text, "which", "", (chosen, other))


def _options(words: Sequence[str]) -> tuple[list[str], str, str, list[str]] | None:
    """What stands before two options, the options, and what stands after them."""
    joint = "or"
    ors = [place for place, word in enumerate(words) if bare(word) == "or"]
    offset = 0
    first = bare(words[0])
    if not ors:
        offset = _listed(words)
        if not offset:
            return None
        joint = "and"
        ors = [place for place, word in enumerate(words) if bare(word) == joint and place > offset]
        if first in {"between", "of", "in", "out", "from"}:
            ors = ors[:1]
    if len(ors) != 1:
        return None
    place = ors[0]
    end = next((spot + 1 for spot in range(place + 1, len(words)) if words[spot].endswith(",")), len(words))
    if first in AUXILIARIES:
        found = _name_end(words, place + 1)
        if found is None or found == len(words) or not _opens_predicate(words[found]):
            return None
        end = found
    start = _option_start(words, place, offset)
    if start is None:
        return None
    opened = offset or start
    while offset and start < place - 1 and not is_name(words[start]) and bare(words[start]) != "the":
        start += 1
    one, two = (" ".join(part).rstrip(",:") for part in (words[start:place], words[place + 1 : end]))
    if not _is_option(one) or not _is_option(two):
        return None
    return list(words[:opened]), one, two, list(words[end:])


def _opens_predicate(word: str) -> bool:
    small = bare(word)
    return (
        small in inflection.PARTICIPLES | DETERMINERS | PREPOSITIONS or bool(_MORE.fullmatch(small)) or small == "from"
    )


def _listed(words: Sequence[str]) -> int:
    """How many words open "between A and B" or "out of A and B", where the two stand before or behind the rest."""
    for place, word in enumerate(words):
        if bare(word) == "between" and (place == 0 or words[place - 1].endswith(",") or place == 1):
            return place + 1
        if bare(word) in {"out", "of"} and place == 0:
            return 2 if bare(words[1]) == "of" else 1
        if bare(word) == "out" and place + 1 < len(words) and bare(words[place + 1]) == "of" and place > 3:
            return place + 2
    return 0


def _option_start(words: Sequence[str], joint: int, offset: int) -> int | None:
    if offset:
        return offset
    marks = ",;" if any(word[-1] in ",;" for word in words[:joint]) else ":"
    for place in range(joint - 1, 0, -1):
        if words[place - 1][-1] in marks or words[place - 1] in {"-", "–"}:
            known = [spot for spot in range(place, joint) if is_kept(words[spot])]
            if len(known) == 1 and known[0] == joint - 1 and all(is_name(word) for word in words[place:joint]):
                return known[0]  # "in Chestnut Hill, Massachusetts Boston College or ...", where the college is known
            return place if joint - place <= 9 else None
        if bare(words[place - 1]) in {"between", "either"}:
            return place
    place = joint
    while place > 1 and (
        is_name(words[place - 1]) or (bare(words[place - 1]) in _LINKS and place < joint and is_name(words[place - 2]))
    ):
        place -= 1
        if is_kept(words[place]):
            break
    if place == joint:
        return None
    return place - 1 if bare(words[place - 1]) == "the" else place


def _is_option(text: str) -> bool:
    words = [word for word in text.split() if bare(word) not in {"the", "a", "an"}]
    return (
        bool(words)
        and len(words) <= 9
        and any(map(is_name, words))
        and (is_name(words[-1]) or len(words) == 1 or is_name(words[0]))
        and not any(is_finite(word) for word in words)
    )


def _chosen(answer: str, one: str, two: str) -> str | None:
    """The option that an answer means: the same, or the one that shares more words with it."""
    words, *sets = (set(fingerprint(text).split()) for text in (answer, one, two))
    shared = [len(words & each) / max(len(each), 1) for each in sets]
    if shared[0] == shared[1] or max(shared) < 0.5 or not words:
        return None
    return one if shared[0] > shared[1] else two


def _predicate(frame: Sequence[str], tail: Sequence[str]) -> str:
    """The verb and what follows it, without the word that asks."""
    words = list(frame)
    while words and bare(words[-1]) in {"between", "either", "out", "of", "from", "among", "-", "–", ""}:
        words.pop()
    if words and bare(words[0]) in AUXILIARIES and len(words) == 1:
        return " ".join([bare(words[0]), *tail])
    if not words or bare(words[0]) not in ASKING:
        words = list(tail)
    elif tail:
        asking = asking_phrase(words, 0)
        if asking is None or asking.end < len(words):
            return ""  # something is said before the two and behind them
        words = words + list(tail)
    if (words and bare(words[0]) in {"between", "of"}) or not words or bare(words[0]) not in {"who", "which", "what"}:
        return ""
    text = re.sub(
        r"^(\w+),? (?:out )?of (?:the|these) (?:two |following )?[\w ]*?(?=is|was|has|were|are)",
        r"\1 ",
        " ".join(words),
    )
    words = text.split()
    asking = asking_phrase(words, 0)
    if asking is None or "'s" in asking.noun:
        return ""
    said = " ".join(words[asking.end :]).strip(" ,:-–")
    return re.sub(r",? (?:of|out of|between) (?:the two|them)$| than the other$|,? of the two\b", "", said)


def _compared(said: str, rng: random.Random) -> str | None:
    said = said.strip(" ,")
    own = _OWN.match(said)
    if own:
        return _compared_owners(own[1], own[2])
    first = said.split()[0]
    if not is_finite(first) or bare(first) in DO or re.search(r"\b(?:you|your)\b", said):
        return None
    if _BEFORE.search(said):
        return f"{BLANK} {_BEFORE.sub('before', said)} {OTHER}"
    if _AFTER.search(said):
        return f"{BLANK} {_AFTER.sub('after', said)} {OTHER}"
    if " than " not in said and not _MOST.search(said) and _MORE.search(said):
        return f"{BLANK} {said} than {OTHER}"
    if _MOST.search(said):
        return f"of the two, {BLANK} and {OTHER}, the former {said}"
    return f"{BLANK}, unlike {OTHER}, {said}" if rng.random() < 0.5 else f"unlike {OTHER}, {BLANK} {said}"


def _compared_owners(owner: str, said: str) -> str | None:
    """ "has the director who died later" of two films."""
    said = re.sub(r" than the other.*$", "", said).strip(" ,")
    one, other = f"the {owner} of {BLANK}", f"the {owner} of {OTHER}"
    born = re.fullmatch(r"(born|died) (first|earlier|later|last)", said)
    if born:
        verb = "was born" if born[1] == "born" else "died"
        return f"{one} {verb} {'before' if born[2] in {'first', 'earlier'} else 'after'} {other}"
    return f"{one} is {said} than {other}" if said in {"older", "younger"} else None
