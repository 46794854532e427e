"""Orders of hops that are settled before any retrieval: by title overlap, as the paper's appendix has it, or as given.

    order = heuristic_order(example, passages)                      or oracle_order(example)
    step = ordered_hop(state, ranking, passages, positives=order[state.hop - 1])

An order is a tuple of hops, a hop a tuple of pids; every gold passage stands in it once.

How far a retriever gets with a perfect condenser: of what each hop finds, the gold facts are kept and nothing else.

It bounds what the same retriever can do with a real condenser, and needs none, so it is how retrievers are compared
while they are trained.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from baleen.core.errors import DatasetError
from baleen.core.records import Record
from baleen.core.types import Lookup, Ranking
from baleen.data.example import Example
from baleen.training.hop_order import evidence_match
from baleen.training.hop_order.supervision import SentenceChoice, State, advance, oracle_facts, start

HopOrder = tuple[tuple[str, ...], ...]

# Trying every passage for a hop that no title matches doubles the work with each; beyond this many the first is taken.
MAX_TRIED = 10


def oracle_order(example: Example) -> HopOrder:
    """One passage a hop, as the dataset orders them; gold passages that it leaves out make up a last hop."""
    if not example.order:
        raise DatasetError(f"{example.qid}: the dataset gives no order of hops; expected one, or another way to order")
    given = tuple(pid for pid in dict.fromkeys(example.order) if pid in example.gold)
    rest = tuple(pid for pid in dict.fromkeys(example.gold) if pid not in given)
    return (*((pid,) for pid in given), *([rest] if rest else []))


def heuristic_order(example: Example, passages: Lookup) -> HopOrder:
    """Each hop takes the passages whose titles the claim names best, and adds their full text to the claim.

    Where exactly one of several gold passages has the answer, it is the last hop.  Where no title matches at all, each
    passage is tried for this hop and the one stays that leads to the largest sum of overlaps in the hops after it;
    between equals the first in `example.gold`.
    """
    gold = tuple(dict.fromkeys(example.gold))
    last = _answering(example, gold, passages)
    order, _ = _Overlaps(example.text, gold, passages).order(tuple(pid for pid in gold if pid not in last))
    return (*order, last) if last else order


def _answering(example: Example, gold: tuple[str, ...], passages: Lookup) -> tuple[str, ...]:
    """The one gold passage of several that has the answer, if it is one."""
    answer = example.answer
    if answer is None or not evidence_match.is_extractive(answer) or len(gold) < 2:
        return ()
    holding = tuple(pid for pid in gold if evidence_match.holds(passages(pid), answer))
    return holding if len(holding) == 1 else ()


class _Overlaps:
    """How well the claim and each gold passage name the title of each other one."""

    def __init__(self, claim: str, gold: tuple[str, ...], passages: Lookup) -> None:
        found = {pid: passages(pid) for pid in gold}
        self._by_claim = {pid: evidence_match.title_overlap(found[pid].title, claim) for pid in gold}
        self._by_passage = {
            (pid, other): evidence_match.title_overlap(found[pid].title, found[other].text)
            for pid in gold
            for other in gold
        }

    def order(self, passages: tuple[str, ...]) -> tuple[HopOrder, float]:
        """The hops that `passages` fall into, and the sum of the overlaps that led to them."""

        @cache
        def ordered(remaining: tuple[str, ...]) -> tuple[HopOrder, float]:
            if not remaining:
                return (), 0.0
            read = [pid for pid in passages if pid not in remaining]
            scores = {pid: self._score(pid, read) for pid in remaining}
            best = max(scores.values())
            hops = [tuple(pid for pid in remaining if scores[pid] == best)] if best else _singly(remaining)
            orders = [_joined(hop, best, ordered(_without(remaining, hop))) for hop in hops]
            return max(orders, key=lambda order: order[1])

        return ordered(passages)

    def _score(self, pid: str, read: list[str]) -> float:
        return max([self._by_claim[pid], *(self._by_passage[pid, other] for other in read)])


def _singly(remaining: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [(pid,) for pid in (remaining if len(remaining) <= MAX_TRIED else remaining[:1])]


def _without(remaining: tuple[str, ...], hop: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(pid for pid in remaining if pid not in hop)


def _joined(hop: tuple[str, ...], score: float, rest: tuple[HopOrder, float]) -> tuple[HopOrder, float]:
    return (hop, *rest[0]), score * len(hop) + rest[1]


Search = Callable[[Sequence[State], int, Sequence[Sequence[str]]], list[Ranking]]


@dataclass(frozen=True, slots=True)
class HopRecall(Record):
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
) -> list[HopRecall]:
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


def _reach(hop: int, depth: int, states: Sequence[State]) -> HopRecall:
    shares = [1 - len(state.remaining) / max(1, len(set(state.example.gold))) for state in states]
    count = max(1, len(states))
    return HopRecall(hop, depth, sum(state.done for state in states) / count, sum(shares) / count)
