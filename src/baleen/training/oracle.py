"""How far a retriever gets with a perfect condenser: of what each hop finds, the gold facts are kept and nothing else.

It bounds what the same retriever can do with a real condenser, and needs none, so it is how retrievers are compared
while they are trained.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from baleen.datasets import Example
from baleen.training.supervision import SentenceChoice, State, advance, oracle_facts, start
from baleen.types import Lookup, Ranking, Record

Search = Callable[[Sequence[State], int, Sequence[Sequence[str]]], list[Ranking]]


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
    """Take all examples through the hops; passages of earlier hops do not come again, and nothing is searched for in vain.

    `search` is given where questions stand, how deep to look, and what each has seen; a question all of whose gold
    passages are found is not among them any more.  Of a gold passage none of whose sentences is known for gold, those
    that `sentences` picks are kept.
    """
    states, seen = [start(example) for example in examples], [list[str]() for _ in examples]
    reached = []
    for hop, depth in enumerate(depths, start=1):
        going = [place for place, state in enumerate(states) if not state.done]
        rankings = search([states[place] for place in going], depth, [seen[place] for place in going])
        for place, ranking in zip(going, rankings, strict=True):
            states[place] = _keep(states[place], ranking, passages, sentences)
            seen[place].extend(ranking.pids)
        reached.append(_reach(hop, depth, states))
    return reached


def _keep(state: State, ranking: Ranking, passages: Lookup, sentences: SentenceChoice | None) -> State:
    found = [pid for pid in ranking.pids if pid in state.remaining]
    return advance(state, found, oracle_facts(state, found, passages, sentences=sentences))


def _reach(hop: int, depth: int, states: Sequence[State]) -> Reach:
    shares = [1 - len(state.remaining) / max(1, len(set(state.example.gold))) for state in states]
    count = max(1, len(states))
    return Reach(hop, depth, sum(state.done for state in states) / count, sum(shares) / count)
