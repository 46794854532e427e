"""What a system made of one question, and how that was judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from baleen.datasets import Example
from baleen.types import WHOLE, Answer, Fact, Ranking, Record, Trace, Verdict


@dataclass(frozen=True, slots=True)
class Taken(Record):
    """One hop: the passages that it retrieved, best first, and the words of context that were read after it."""

    pids: tuple[str, ...]
    words: int = 0


@dataclass(frozen=True, slots=True)
class Prediction(Record):
    """A ranking of passages, and whatever else a system has to say.

    `condensed` tells a system that chose `facts`, be they none, from one that only ranks.  `label` is a verdict's.
    `hops` are those of a system that takes some.
    """

    ranking: Ranking = field(default_factory=Ranking)
    facts: tuple[Fact, ...] = ()
    condensed: bool = False
    label: str | None = None
    answer: str | None = None
    hops: tuple[Taken, ...] = ()

    @classmethod
    def of_trace(cls, trace: Trace) -> Prediction:
        outcome = trace.outcome
        return cls(
            trace.ranking(),
            trace.facts,
            condensed=True,
            label=outcome.label if isinstance(outcome, Verdict) else None,
            answer=outcome.text if isinstance(outcome, Answer) else None,
            hops=tuple(Taken(hop.ranking.pids, hop.words) for hop in trace.hops),
        )

    @property
    def passages(self) -> frozenset[str]:
        """The pids of the passages that carry a fact."""
        return frozenset(fact.pid for fact in self.facts)

    @property
    def has_sentences(self) -> bool:
        """Whether facts are sentences: a reranker adds whole passages."""
        return self.condensed and all(fact.sid != WHOLE for fact in self.facts)

    @property
    def sentences(self) -> tuple[Fact, ...]:
        """The facts that are sentences, in the order they would be submitted in: best passage first, then best sentence."""
        ranks = {pid: rank for rank, pid in enumerate(self.ranking.pids)}
        chosen = [fact for fact in self.facts if fact.sid != WHOLE]
        return tuple(
            sorted(chosen, key=lambda fact: (ranks.get(fact.pid, len(ranks)), fact.pid, -fact.score, fact.sid))
        )

    @property
    def evidence(self) -> tuple[tuple[str, int], ...]:
        """(pid, sid) of `sentences`."""
        return tuple((fact.pid, fact.sid) for fact in self.sentences)


@dataclass(frozen=True, slots=True)
class Result(Record):
    """A question, what came of it, and each metric that applies to it, from 0 to 1."""

    example: Example
    prediction: Prediction
    metrics: Mapping[str, float] = field(default_factory=dict)
