"""The records that stages hand to each other.

    Passage                 one unit of a corpus: a title, a text, and where its sentences stand in that text
    Fact                    one sentence that a hop kept, with where it came from
    Query                   what is asked, with the facts gathered so far
    Hit, Ranking            what a search returns
    Judgement, Condensed    how each sentence that a hop read fared, and the facts that stand after it
    Hop, Trace              what one hop did, and what a whole run did
    Verdict, Answer         how a run ends

All are frozen, hold nothing but plain values, and go to JSON and back without loss (`to_json`, `from_json`).
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
UNSCORED = -4.0  # in place of what the second stage might have made of a sentence that did not get so far


@dataclass(frozen=True, slots=True)
class Passage(Record):
    """A titled text and its sentences.

    `spans[sid]` is where sentence `sid` stands in `text` as (start, end); an empty sentence is an empty span, so that
    sentence ids given by a dataset keep holding.
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
        """Sentence `sid`, which is not WHOLE, as a fact."""
        start, end = self.spans[sid]
        return Fact(self.pid, sid, self.title, self.text[start:end], score, hop)

    @classmethod
    def from_sentences(cls, pid: str, title: str, sentences: Sequence[str], metadata: Metadata | None = None) -> Self:
        """Join sentences into a text, one space between two of them unless one is there already."""
        text, spans = "", []
        for sentence in sentences:
            if text and sentence and not text[-1].isspace() and not sentence[0].isspace():
                text += " "
            start = len(text) + len(sentence) - len(sentence.lstrip())
            text += sentence
            spans.append((start, max(start, len(text.rstrip()))) if sentence.strip() else (len(text), len(text)))
        return cls(pid, title, text, tuple(spans), metadata or {})


Lookup = Callable[[str], Passage]  # of a passage by its pid


@dataclass(frozen=True, slots=True)
class Fact(Record):
    """Sentence `sid` of passage `pid`, or all of it where `sid` is WHOLE, kept at hop `hop` (from 1) with `score`."""

    pid: str
    sid: int
    title: str
    text: str
    score: float = 0.0
    hop: int = 0


def sort_facts(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """Facts as they are told: by hop, and best first."""
    return tuple(sorted(facts, key=lambda fact: (fact.hop, -fact.score, fact.pid, fact.sid)))


@dataclass(frozen=True, slots=True)
class Query(Record):
    """A claim or question, and the facts that earlier hops found for it."""

    text: str
    facts: tuple[Fact, ...] = ()

    def checked(self) -> Self:
        """Itself; an empty text, or half a character in it or in a fact, is a QueryError."""
        if not self.text.strip():
            raise QueryError("the claim or question is empty; expected at least one word")
        for text in (self.text, *(part for fact in self.facts for part in (fact.title, fact.text))):
            valid_unicode(text)
        return self


def reject_string(items: Items, what: str) -> Items:
    """The items; one string in place of several, which would be taken for its characters, is a QueryError."""
    if isinstance(items, str):
        raise QueryError(f"one string, {items[:40]!r}, where {what} are expected; put it into a list")
    return items


def valid_unicode(text: str) -> str:
    """The text; half a character in it, which no tokenizer and no index takes, is a QueryError.

    Such a lone surrogate is what Python makes of bytes on a command line that are not UTF-8.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise QueryError(f"{text!r:.60} has half a character; expected whole Unicode text") from None
    return text


@dataclass(frozen=True, slots=True)
class Hit(Record):
    pid: str
    score: float


@dataclass(frozen=True, slots=True)
class Ranking(Record):
    """Hits, best first; equal scores stand in order of their pids."""

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
    """How likely `label` is, given the facts; `probabilities` has every label, the likeliest first."""

    label: str
    probability: float
    probabilities: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer(Record):
    """What was read off the facts: a span of the fact (`pid`, `sid`), or "yes" or "no", which stand in none."""

    text: str
    score: float
    pid: str | None = None
    sid: int | None = None


@dataclass(frozen=True, slots=True)
class Judgement(Record):
    """What a hop made of one sentence: its scores, whether it was kept as a fact, and why or why not.

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
    """What a hop's reading came to: the facts that stand after it, and how each sentence fared.

    `borderline` are facts of a last hop that its reader weighs and that do not stand.  `chosen` is the new order of the
    passages where a reranker made one.  `seconds` and `tokens` are by stage.
    """

    facts: tuple[Fact, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    chosen: Ranking = Ranking()
    seconds: Mapping[str, float] = field(default_factory=dict)
    tokens: Mapping[str, int] = field(default_factory=dict)
    borderline: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True)
class Hop(Record):
    """One turn of the loop: what went in, what was retrieved, what was read and kept.

    `encoded_query` is the query as the encoder read it, `excluded` the passages of earlier hops, which could not come again.
    `mentioned` has the passages of the ranking that were raised for being named, each with the pid of the passage that names
    it, or "" for the claim.
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
        """Those that stand after this hop."""
        return self.condensed.facts

    @property
    def words(self) -> int:
        """Of context that the next hop reads beside the claim, or after the last one the reader."""
        read = (*self.facts, *self.condensed.borderline)
        return sum(len(fact.title.split()) + len(fact.text.split()) for fact in read)


@dataclass(frozen=True, slots=True)
class Trace(Record):
    """A whole run: its query, its hops, and what they led to.

    `stopped` says why a run ended before its last hop.  `parts` holds the runs that this one was merged from.
    `untrained` names the components that were stand-ins.  `ranked_by` says how `ranking` orders.  `seconds` and
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
        """Those that stand at the end."""
        return self.hops[-1].facts if self.hops else self.query.facts

    @property
    def next_query(self) -> Query:
        """The claim with the facts so far: what the next hop asks."""
        return Query(self.query.text, self.facts)

    @property
    def borderline(self) -> tuple[Fact, ...]:
        """Those that are read beside the facts at the end, and do not stand."""
        return self.hops[-1].condensed.borderline if self.hops else ()

    @property
    def final_query(self) -> Query:
        """The claim with the facts that stand and those that are too doubtful to: what a reader reads."""
        return Query(self.query.text, sort_facts((*self.facts, *self.borderline)) if self.borderline else self.facts)

    @property
    def pids(self) -> tuple[str, ...]:
        """Every passage that was retrieved, by hop and rank."""
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
