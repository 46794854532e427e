"""The records that stages hand to each other.

    Passage                 one unit of a corpus: a title, a text, and the spans of its sentences
    Fact                    one sentence that a hop kept, with its source
    Query                   a claim or question, with the facts gathered so far
    Hit, Ranking            the result of a search
    Judgement, Condensed    the scores of each sentence of a hop, and the facts after it
    Hop, Trace              the record of one hop, and of a whole run
    Verdict, Answer         the outcome of a run

All are frozen, hold plain values only, and go to JSON and back without loss (`to_json`, `from_json`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeVar

from baleen.core.errors import QueryError
from baleen.core.records import Record

Metadata = Mapping[str, Any]
Span = tuple[int, int]
RankedBy = Literal["hops", "evidence"]
Items = TypeVar("Items")
WHOLE_PASSAGE = -1  # the sid of a fact that is a whole passage
FILLER = "the best of its passage"  # how the reason of a judgement begins whose fact was added below the thresholds
UNSCORED = -4.0  # in place of the fact score of a sentence that the second stage did not score


@dataclass(frozen=True, slots=True)
class Passage(Record):
    """A titled text and its sentences.

    `spans[sid]` is the (start, end) of sentence `sid` in `text`; an empty sentence has an empty span, so that the
    sentence ids of a dataset stay valid.
    """

    pid: str
    title: str
    text: str
    spans: tuple[Span, ...] = ()
    metadata: Metadata = field(default_factory=dict)

    @property
    def sentences(self) -> tuple[str, ...]:
        return tuple(self.text[start:end] for start, end in self.spans)

    def fact(self, sid: int, score: float, hop: int) -> Fact:
        """Sentence `sid`, which is not WHOLE_PASSAGE, as a fact."""
        start, end = self.spans[sid]
        return Fact(self.pid, sid, self.title, self.text[start:end], score, hop)

    @classmethod
    def from_sentences(cls, pid: str, title: str, sentences: Sequence[str], metadata: Metadata | None = None) -> Self:
        """Join sentences into a text, with one space between two unless there is white space already."""
        text, spans = "", []
        for sentence in sentences:
            if text and sentence and not text[-1].isspace() and not sentence[0].isspace():
                text += " "
            start = len(text) + len(sentence) - len(sentence.lstrip())
            text += sentence
            spans.append((start, max(start, len(text.rstrip()))) if sentence.strip() else (len(text), len(text)))
        return cls(pid, title, text, tuple(spans), metadata or {})


Lookup = Callable[[str], Passage]  # the passage with a pid


@dataclass(frozen=True, slots=True)
class Fact(Record):
    """Sentence `sid` of passage `pid` (WHOLE_PASSAGE: all of it), kept at hop `hop` (from 1) with `score`."""

    pid: str
    sid: int
    title: str
    text: str
    score: float = 0.0
    hop: int = 0


def sort_facts(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """Facts by hop, best first."""
    return tuple(sorted(facts, key=lambda fact: (fact.hop, -fact.score, fact.pid, fact.sid)))


@dataclass(frozen=True, slots=True)
class Query(Record):
    """A claim or question, and the facts found so far."""

    text: str
    facts: tuple[Fact, ...] = ()

    def checked(self) -> Self:
        """The query; an empty text, or an unpaired surrogate in it or in a fact, is a QueryError."""
        if not self.text.strip():
            raise QueryError("the claim or question is empty; expected at least one word")
        for text in (self.text, *(part for fact in self.facts for part in (fact.title, fact.text))):
            valid_unicode(text)
        return self


def reject_string(items: Items, what: str) -> Items:
    """The items; one string in place of several is a QueryError, as it would be read as its characters."""
    if isinstance(items, str):
        raise QueryError(f"one string, {items[:40]!r}, where {what} are expected; put it into a list")
    return items


def valid_unicode(text: str) -> str:
    """The text; an unpaired surrogate is a QueryError, as no tokenizer and no index accepts it.

    Python turns bytes of a command line that are not UTF-8 into unpaired surrogates.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise QueryError(f"{text!r:.60} contains an unpaired surrogate; expected valid Unicode text") from None
    return text


@dataclass(frozen=True, slots=True)
class Hit(Record):
    pid: str
    score: float


@dataclass(frozen=True, slots=True)
class Ranking(Record):
    """Hits, best first; equal scores in order of their pids."""

    hits: tuple[Hit, ...] = ()

    @property
    def pids(self) -> tuple[str, ...]:
        return tuple(hit.pid for hit in self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __getitem__(self, rank: int) -> Hit:
        return self.hits[rank]


@dataclass(frozen=True, slots=True)
class Verdict(Record):
    """The likeliest label, given the facts; `probabilities` has every label, the likeliest first."""

    label: str
    probability: float
    probabilities: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer(Record):
    """A span of the fact (`pid`, `sid`), or "yes" or "no" without a fact; an empty text without any facts."""

    text: str
    score: float
    pid: str | None = None
    sid: int | None = None


@dataclass(frozen=True, slots=True)
class Judgement(Record):
    """The scores of one sentence at a hop, whether it was kept as a fact, and the reason.

    `sentence_score` is the score beside its own passage (None for a fact of an earlier hop, which is not read there
    again), `fact_score` the score among all candidate facts (None for a sentence that never was one).  A last hop also
    judges sentences of earlier hops that it adds to the final facts, with their earlier scores.
    """

    pid: str
    sid: int
    sentence_score: float | None = None
    fact_score: float | None = None
    kept: bool = False
    reason: str = ""

    @property
    def combined(self) -> float:
        """The sum of both scores, by which sentences compare; UNSCORED replaces a missing fact score."""
        return (self.sentence_score or 0.0) + (UNSCORED if self.fact_score is None else self.fact_score)


@dataclass(frozen=True, slots=True)
class Condensed(Record):
    """The facts after a hop, and the judgement of each sentence.

    `borderline` are facts of the last hop that the reader sees but that are not reported.  `chosen` is the reranker's
    order of the passages.  `seconds` and `tokens` are by stage.
    """

    facts: tuple[Fact, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    chosen: Ranking = Ranking()
    seconds: Mapping[str, float] = field(default_factory=dict)
    tokens: Mapping[str, int] = field(default_factory=dict)
    borderline: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True)
class Hop(Record):
    """One hop: its query, the passages it retrieved, and the facts it kept.

    `encoded_query` is the query as the encoder read it, `excluded` the passages of earlier hops.  `titles` has the titles
    of the ranking's passages, `mentioned` those of its passages that were boosted, each with the pid of the passage that
    mentions it ("" for the claim).
    """

    query: Query
    encoded_query: str = ""
    excluded: tuple[str, ...] = ()
    ranking: Ranking = Ranking()
    titles: Mapping[str, str] = field(default_factory=dict)
    condensed: Condensed = Condensed()
    seconds: Mapping[str, float] = field(default_factory=dict)
    tokens: Mapping[str, int] = field(default_factory=dict)
    mentioned: Mapping[str, str] = field(default_factory=dict)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The facts after this hop."""
        return self.condensed.facts

    @property
    def words(self) -> int:
        """Words of context beside the claim for the next hop, or after the last hop for the reader."""
        read = (*self.facts, *self.condensed.borderline)
        return sum(len(fact.title.split()) + len(fact.text.split()) for fact in read)


@dataclass(frozen=True, slots=True)
class Trace(Record):
    """A whole run: its query, its hops and its outcome.

    `stopped` is the reason why a run ended before its last hop, or empty.  `parts` are the runs that a hybrid was merged
    from.  `untrained` names components that are not trained.  `ranked_by` is the order of `ranking`.  `seconds` and
    `tokens` are the reader's.
    """

    query: Query
    hops: tuple[Hop, ...] = ()
    outcome: Verdict | Answer | None = None
    stopped: str = ""
    parts: tuple[Trace, ...] = ()
    untrained: tuple[str, ...] = ()
    ranked_by: RankedBy = "hops"
    seconds: Mapping[str, float] = field(default_factory=dict)
    tokens: Mapping[str, int] = field(default_factory=dict)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The facts after the last hop."""
        return self.hops[-1].facts if self.hops else self.query.facts

    @property
    def next_query(self) -> Query:
        """The claim with the facts so far: the query of the next hop."""
        return Query(self.query.text, self.facts)

    @property
    def borderline(self) -> tuple[Fact, ...]:
        """Facts that the reader sees but that are not reported."""
        return self.hops[-1].condensed.borderline if self.hops else ()

    @property
    def fillers(self) -> tuple[Fact, ...]:
        """Reported facts below the thresholds, added because too few passages supplied facts."""
        judgements = self.hops[-1].condensed.judgements if self.hops else ()
        added = {(each.pid, each.sid) for each in judgements if each.kept and each.reason.startswith(FILLER)}
        return tuple(fact for fact in self.facts if (fact.pid, fact.sid) in added)

    @property
    def final_query(self) -> Query:
        """The claim with its final and borderline facts: the query of the reader."""
        return Query(self.query.text, sort_facts((*self.facts, *self.borderline)) if self.borderline else self.facts)

    @property
    def pids(self) -> tuple[str, ...]:
        """The ids of all retrieved passages, by hop and rank."""
        return tuple(dict.fromkeys(pid for hop in self.hops for pid in hop.ranking.pids))

    def ranking(self) -> Ranking:
        """One ranked list of the passages of all hops, in the order that `ranked_by` names."""
        from baleen.core.ranking import rank_passages

        return rank_passages(self)

    def to_json(self, *, judgements: bool = False) -> dict[str, Any]:
        """The trace as one document (see trace_json.py); with `judgements`, `from_json` gives the same trace."""
        from baleen.core.trace_json import write_trace

        return write_trace(self, judgements=judgements)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Trace:
        """The trace of a document, without the judgements that it leaves out."""
        from baleen.core.trace_json import read_trace

        return read_trace(data)

    @staticmethod
    def json_schema() -> dict[str, Any]:
        """The JSON schema of the document that `to_json` returns."""
        from baleen.core.trace_json import trace_schema

        return trace_schema()
