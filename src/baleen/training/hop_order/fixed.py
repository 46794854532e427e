"""Orders of hops fixed before any retrieval, and the recall of a retriever under a perfect condenser.

    heuristic_order     by title overlap, as in the paper's appendix
    oracle_order        as the dataset gives it
    oracle_hops         recall after each hop, when exactly the gold facts of each hop are kept

An order is a tuple of hops, and a hop a tuple of pids; every gold passage is in it once.  `oracle_hops` is an upper bound
for the same retriever with a trained condenser, so it compares retrievers before there is a condenser.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from baleen.core.errors import DatasetError
from baleen.core.records import Record
from baleen.core.types import Lookup, Ranking
from baleen.data.example import Example
from baleen.training.data import Question
from baleen.training.hop_order import evidence_match
from baleen.training.hop_order.supervision import SentenceChoice, State, advance, oracle_facts, start
from baleen.training.plan import Order

HopOrder = tuple[tuple[str, ...], ...]

# Each further passage that is tried for a hop without a title match doubles the work.
MAX_TRIED = 10


def oracle_order(example: Example) -> HopOrder:
    """One passage a hop, in the order of the dataset; gold passages that are not in it form a last hop."""
    if not example.order:
        raise DatasetError(
            f"{example.qid}: the dataset gives no order of hops; expected one, or a plan with another `order`"
        )
    given = tuple(pid for pid in dict.fromkeys(example.order) if pid in example.gold)
    rest = tuple(pid for pid in dict.fromkeys(example.gold) if pid not in given)
    return (*((pid,) for pid in given), *([rest] if rest else []))


def heuristic_order(example: Example, passages: Lookup) -> HopOrder:
    """Each hop takes the passages whose titles overlap most with the claim, and adds their full text to the claim.

    If exactly one of several gold passages contains the answer, it is the last hop.  If no title matches, every passage
    is tried for the hop, and the one with the largest sum of overlaps in later hops wins; ties go to the first one in
    `example.gold`.
    """
    gold = tuple(dict.fromkeys(example.gold))
    last = _with_answer(example, gold, passages)
    order, _ = _Overlaps(example.text, gold, passages).order(tuple(pid for pid in gold if pid not in last))
    return (*order, last) if last else order


def _with_answer(example: Example, gold: tuple[str, ...], passages: Lookup) -> tuple[str, ...]:
    """The gold passage with the answer, if there are several and exactly one of them has it."""
    answer = example.answer
    if answer is None or not evidence_match.is_extractive(answer) or len(gold) < 2:
        return ()
    holding = tuple(pid for pid in gold if evidence_match.holds(passages(pid), answer))
    return holding if len(holding) == 1 else ()


def fixed_orders(questions: Iterable[Question], order: Order, passages: Lookup) -> dict[str, HopOrder]:
    """Orders by qid: the one in the question's file if it is to be kept, else by the plan's `order`; latent ones have none."""
    found: dict[str, HopOrder] = {}
    for question in questions:
        example = question.example
        if example.gold and (question.ordered or (order == "oracle" and example.order)):
            found[example.qid] = oracle_order(example)
        elif example.gold and order == "heuristic":
            found[example.qid] = heuristic_order(example, passages)
    return found


def passages_due(order: HopOrder, state: State, hops: int) -> tuple[str, ...]:
    """Gold passages that an order has for the hop of `state`; at its last hop, or the last of `hops`, all that are left."""
    return order[state.hop - 1] if state.hop < min(hops, len(order)) else state.remaining


class _Overlaps:
    """Overlaps of each gold passage's title with the claim and with every other gold passage."""

    def __init__(self, claim: str, gold: tuple[str, ...], passages: Lookup) -> None:
        found = {pid: passages(pid) for pid in gold}
        self._by_claim = {pid: evidence_match.title_overlap(found[pid].title, claim) for pid in gold}
        self._by_passage = {
            (pid, other): evidence_match.title_overlap(found[pid].title, found[other].text)
            for pid in gold
            for other in gold
        }

    def order(self, passages: tuple[str, ...]) -> tuple[HopOrder, float]:
        """The hops of `passages`, and the sum of their overlaps."""

        @cache
        def ordered(remaining: tuple[str, ...]) -> tuple[HopOrder, float]:
            if not remaining:
                return (), 0.0
            read = [pid for pid in passages if pid not in remaining]
            scores = {pid: self._score(pid, read) for pid in remaining}
            best = max(scores.values())
            hops = [tuple(pid for pid in remaining if scores[pid] == best)] if best else _one_each(remaining)
            orders = [_prepend(hop, best, ordered(_without(remaining, hop))) for hop in hops]
            return max(orders, key=lambda order: order[1])

        return ordered(passages)

    def _score(self, pid: str, read: list[str]) -> float:
        return max([self._by_claim[pid], *(self._by_passage[pid, other] for other in read)])


def _one_each(remaining: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [(pid,) for pid in (remaining if len(remaining) <= MAX_TRIED else remaining[:1])]


def _without(remaining: tuple[str, ...], hop: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(pid for pid in remaining if pid not in hop)


def _prepend(hop: tuple[str, ...], score: float, rest: tuple[HopOrder, float]) -> tuple[HopOrder, float]:
    return (hop, *rest[0]), score * len(hop) + rest[1]


Search = Callable[[Sequence[State], int, Sequence[Sequence[str]]], list[Ranking]]


@dataclass(frozen=True, slots=True)
class HopRecall(Record):
    """Recall after a hop of `depth` passages: the share of questions with all gold passages, and the mean share of these."""

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
    """Recall after each hop, with a perfect condenser.

    `search(states, depth, seen)` ranks the passages for each state without those in `seen`, which earlier hops retrieved.
    A question leaves the search when all its gold passages are found.  `sentences` picks the facts of gold passages
    without annotated sentences.
    """
    states, seen = [start(example) for example in examples], [list[str]() for _ in examples]
    recalls = []
    for hop, depth in enumerate(depths, start=1):
        active = [place for place, state in enumerate(states) if not state.done]
        rankings = search([states[place] for place in active], depth, [seen[place] for place in active])
        for place, ranking in zip(active, rankings, strict=True):
            states[place] = _keep(states[place], ranking, passages, sentences)
            seen[place].extend(ranking.pids)
        recalls.append(_recall(hop, depth, states))
    return recalls


def _keep(state: State, ranking: Ranking, passages: Lookup, sentences: SentenceChoice | None) -> State:
    found = [pid for pid in ranking.pids if pid in state.remaining]
    return advance(state, found, oracle_facts(state, found, passages, sentences=sentences))


def _recall(hop: int, depth: int, states: Sequence[State]) -> HopRecall:
    shares = [1 - len(state.remaining) / max(1, len(set(state.example.gold))) for state in states]
    count = max(1, len(states))
    return HopRecall(hop, depth, sum(state.done for state in states) / count, sum(shares) / count)
