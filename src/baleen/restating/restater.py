"""Questions with answers restated as claims: true ones with the answer, false ones with another.

    restater = Restater([Source(examples, surroundings)], seed=1)
    for claim in restater.claims():
        claim.to_json()

HoVer's claims were written by people from HotPotQA's questions in that way; here it is done by rule (`open_questions`, `closed_questions`).  The
same questions and seed give the same claims in the same order.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from baleen.datasets.example import BY_ID, REFUTED, SUPPORTED, Example
from baleen.restating.answers import Answer, filled
from baleen.restating.closed_questions import NO, YES, comparison, yes_or_no
from baleen.restating.frame import YES_NO, Frame
from baleen.restating.open_questions import open_frame
from baleen.restating.question import Question, bare
from baleen.restating.surroundings import Surroundings
from baleen.restating.wrong_answers import Pool, wrong_answers
from baleen.synthesis.avoiding import Avoided, name_key
from baleen.synthesis.falsehoods import ORDER
from baleen.synthesis.quality import fingerprint, names_any
from baleen.types import Record

KIND = "restated"
SHORTEST, LONGEST = 4, 60  # words of a claim; HoVer's longest have about as many
NO_ANSWER = "no answer"
NOT_PLAIN = "more than one sentence, or quotation marks without their like"
NOT_SHORT = "an answer that is a sentence or a list"
NO_RULE = "no rule for it"
_BROKEN = re.compile(
    r"\b(?:an?|the) (?:an?|the)\b|\b(?!that\b|had\b)([a-z]+) \1\b|\b(\w+ \w+) \2\b|,,| ,|\.\.|\b(?:in|on|at) (?:in|on|at) |\b(?:of|for|with) (?:in|by|on|at|from|during) |"
    r"\bwh(?:at|om)\b[^ ]*$"
)


@dataclass(frozen=True, slots=True)
class Restated(Record):
    """A claim, what it rests on, and what it is from: a line of the file that `baleen train` reads as dataset `own`.

    `question` is the text of the question and `source` its id, written as "from"; `rule` is the rule that understood it, and
    `made` how a refuted claim came to be so, where it was not refuted from the start.
    """

    id: str
    text: str
    gold: tuple[str, ...]
    facts: tuple[tuple[str, int], ...]
    label: str
    hops: int | None
    kind: str
    order: tuple[str, ...]
    question: str
    source: str
    rule: str
    made: str | None = None

    def to_json(self) -> dict[str, Any]:
        data = Record.to_json(self)
        return {("from" if name == "source" else name): value for name, value in data.items()}


@dataclass(frozen=True, slots=True)
class Source:
    """The questions of one file, and what the file says around them."""

    examples: Sequence[Example]
    surroundings: Mapping[str, Surroundings] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Read:
    """A question that a rule has understood."""

    example: Example
    frame: Frame
    answer: Answer | None
    around: Surroundings

    @property
    def truth(self) -> str | None:
        """What is asked and answered, said; None of a question that is answered by no."""
        if self.frame.rule == YES_NO:
            return self.frame.text if self.frame.holds else None
        if self.frame.options is not None:
            return filled(self.frame.text, *self.frame.options)
        assert self.answer is not None
        return filled(self.frame.text, self.answer.text)


class Restater:
    """Restates the questions of some files, and counts what it leaves alone."""

    def __init__(self, sources: Sequence[Source], seed: int = 0, false: int = 1, avoid: Sequence[Example] = ()) -> None:
        """`false` is how many false claims are made of a question at most; nothing like what is in `avoid` is made."""
        self.sources, self.seed, self.false = sources, seed, false
        self._numbers: dict[str, list[int]] = {}
        for example in (example for source in sources for example in source.examples) if avoid else ():
            for name in example.gold:
                self._numbers.setdefault(name_key(name), [len(self._numbers)])
        self._avoided = Avoided(avoid, self._numbers)
        self._seen: set[str] = set()
        self._true: set[str] = set()
        self._made = 0
        self.counts: Counter[tuple[str, str]] = Counter()  # by rule and label
        self.left: Counter[str] = Counter()  # questions, by why they were left alone
        self.dropped: Counter[str] = Counter()  # claims, by what was wrong with them

    def claims(self) -> Iterator[Restated]:
        """Of each question that is understood the true claim, then the false ones."""
        found = (self._read(example, source) for source in self.sources for example in source.examples)
        read = [each for each in found if each is not None]
        pool = Pool()
        for each in read:
            if each.answer is not None:
                pool.add(each.frame, each.answer, each.around)
        self._true = {fingerprint(written(text)) for each in read if (text := each.truth) is not None}
        for each in read:
            yield from self._claims(each, pool)

    def _read(self, example: Example, source: Source) -> _Read | None:
        if not (example.answer or "").strip():
            self.left[NO_ANSWER] += 1
            return None
        found = understood(example, random.Random(f"{self.seed} {example.qid}"))
        if isinstance(found, str):
            self.left[found] += 1
            return None
        frame, answer = found
        return _Read(example, frame, answer, source.surroundings.get(example.qid, Surroundings()))

    def _claims(self, read: _Read, pool: Pool) -> Iterator[Restated]:
        rng = random.Random(f"{self.seed} {read.example.qid} false")
        frame, answer, truth = read.frame, read.answer, read.truth
        if truth is None:
            yield from self._claim(read, frame.text, REFUTED)
            return
        made = list(self._claim(read, truth, SUPPORTED))
        yield from made
        if not self.false or frame.rule == YES_NO:
            return
        if frame.options is not None:
            yield from self._claim(read, filled(frame.text, *reversed(frame.options)), REFUTED, ORDER)
        elif made and answer is not None:
            for wrong, how in wrong_answers(frame, answer, read.example.text, read.around, pool, rng, self.false):
                yield from self._claim(read, filled(frame.text, wrong), REFUTED, how)

    def _claim(self, read: _Read, text: str, label: str, made: str | None = None) -> Iterator[Restated]:
        """One claim, if it is good; none otherwise."""
        example, text = read.example, written(text)
        numbers = {self._numbers[name_key(name)][0] for name in example.gold if name_key(name) in self._numbers}
        mark = fingerprint(text)
        if not reads_well(text):
            self.dropped["does not read well"] += 1
        elif self._avoided.is_like(text, numbers):
            self.dropped["like a question to avoid"] += 1
        elif mark in self._seen:
            self.dropped["made before"] += 1
        elif label == REFUTED and mark in self._true:
            self.dropped["true of another question"] += 1
        else:
            self._seen.add(mark)
            self.counts[read.frame.rule, label] += 1
            self._made += 1
            yield Restated(
                f"{KIND}-{self.seed}-{self._made - 1:06d}", text, example.gold, example.facts, label, example.hops, KIND,
                example.order, example.text, example.qid, read.frame.rule, made,
            )  # fmt: skip


def understood(example: Example, rng: random.Random) -> tuple[Frame, Answer | None] | str:
    """The frame of a question and its answer, which yes, no and one of two need not have; or why it is left alone."""
    question = Question.read(example.text, () if example.named_by == BY_ID else example.gold)
    if question is None or len(question.words) < 3:
        return NOT_PLAIN
    said = fingerprint(example.answer or "")
    answer = None
    if said in {YES, NO}:
        frame = yes_or_no(question.words, said)
    else:
        frame = comparison(question, said, rng)
        if frame is None:
            answer = Answer.read(example.answer or "")
            if answer is None:
                return NOT_SHORT
            if any(bare(word) == "or" for word in question.words) or _gives_away(example.text, answer.text):
                return NO_RULE
            frame = open_frame(question.words, answer, rng)
    if frame is None:
        return NO_RULE
    return replace(frame, text=question.spelled(frame.text)), answer


def _gives_away(question: str, answer: str) -> bool:
    """Whether most words of an answer stand in its question: one of two that no rule has seen, or a restatement of nothing."""
    words = fingerprint(answer).split()
    return sum(names_any(question, [word]) for word in words) >= max(1, 2 * len(words) / 3)


def written(text: str) -> str:
    """A frame's text as a sentence: a capital at its beginning, a full stop at its end."""
    text = " ".join(text.split())
    start = 1 if text.startswith(('"', "'")) else 0
    return text[:start] + text[start : start + 1].upper() + text[start + 1 :].rstrip(",;") + "."


def reads_well(text: str) -> bool:
    """Whether nothing shows that a text was put together: its length, doubled words, brackets without their like."""
    if not SHORTEST <= len(text.split()) <= LONGEST or _BROKEN.search(text):
        return False
    return text.count('"') % 2 == 0 and text.count("(") == text.count(")")
