"""How far a retriever gets with a perfect condenser: of what each hop finds, the gold facts are kept and nothing else.

It bounds what the same retriever can do with a real condenser, and needs none, so it is how retrievers are compared
while they are trained.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from baleen.datasets import Example
from baleen.training.supervision import SentenceChoice, State, advance, oracle_facts, start
from baleen.types import Lookup, Query, Ranking, Record

Search = Callable[[Sequence[Query], int, Sequence[Sequence[str]]], list[Ranking]]


@dataclass(frozen=True, slots=True)
class Reach(Record):
    """After one hop of `depth` passages: the share of questions with all gold passages found, and of gold passages."""

    hop: int
    depth: int
    all_found: float
    mean_found: float


def oracle_hops(
    examples: Sequence[Example],
    search: Search,
    passages: Lookup,
    depths: Sequence[int],
    sentences: SentenceChoice | None = None,
) -> list[Reach]:
    """Take all examples through the hops; passages of earlier hops do not come again.

    Of a gold passage none of whose sentences is known for gold, those that `sentences` picks are kept.
    """
    states, seen = [start(example) for example in examples], [list[str]() for _ in examples]
    reached = []
    for hop, depth in enumerate(depths, start=1):
        rankings = search([state.query for state in states], depth, seen)
        states = [_keep(state, ranking, passages, sentences) for state, ranking in zip(states, rankings, strict=True)]
        for own, ranking in zip(seen, rankings, strict=True):
            own.extend(ranking.pids)
        reached.append(_reach(hop, depth, states))
    return reached


def _keep(state: State, ranking: Ranking, passages: Lookup, sentences: SentenceChoice | None) -> State:
    found = [pid for pid in ranking.pids if pid in state.remaining]
    return advance(state, found, oracle_facts(state, found, passages, sentences=sentences))


def _reach(hop: int, depth: int, states: Sequence[State]) -> Reach:
    shares = [1 - len(state.remaining) / max(1, len(set(state.example.gold))) for state in states]
    count = max(1, len(states))
    return Reach(hop, depth, sum(state.done for state in states) / count, sum(shares) / count)
