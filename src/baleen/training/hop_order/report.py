"""What an ordering of hops did, for a person to read: a line for every hop of every example, and what they add up to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations, groupby
from statistics import median

from baleen.core.records import Record
from baleen.core.types import Fact, Lookup
from baleen.training.hop_order.fixed import HopOrder
from baleen.training.hop_order.supervision import Step


@dataclass(frozen=True, slots=True)
class FoundPassage(Record):
    """A gold passage that became a positive, at which rank (from 1; None: it was not ranked)."""

    pid: str
    title: str
    rank: int | None


@dataclass(frozen=True, slots=True)
class HopReport(Record):
    """One hop of one example: which gold passages it took, which facts it added, which are still to be found.

    `fallback` says that the passage lies beyond the depth at which positives are taken.
    """

    qid: str
    hop: int
    text: str
    found: tuple[FoundPassage, ...]
    facts: tuple[Fact, ...]
    remaining: tuple[str, ...]
    fallback: bool = False


@dataclass(frozen=True, slots=True)
class HopSummary(Record):
    """One hop of all examples: `claims` got so far, `without` of them found nothing, `fallbacks` only by the fallback.

    `median_rank` is that of the gold passages found that were ranked, None if there are none.
    """

    hop: int
    claims: int
    without: int
    fallbacks: int
    golds: int
    facts: int
    median_rank: float | None


@dataclass(frozen=True, slots=True)
class Summary(Record):
    """All hops: how many claims, gold passages, gold passages `found`, claims `complete` with all of theirs."""

    claims: int
    complete: int
    golds: int
    found: int
    hops: tuple[HopSummary, ...]

    @property
    def share_found(self) -> float:
        return self.found / self.golds if self.golds else 0.0


@dataclass(frozen=True, slots=True)
class OrderAgreement(Record):
    """How alike two orderings are, over the claims (and gold passages of them) that both have.

    `identical` claims fall into the same hops; `same_hop` of the `golds` stand in the same one; of the `pairs` of gold
    passages of one claim, `same_pairs` stand the same way: before, after, or together.
    """

    claims: int
    identical: int
    golds: int
    same_hop: int
    pairs: int
    same_pairs: int


def inspect(step: Step, passages: Lookup) -> HopReport:
    """What a person may want to know of one hop."""
    supervised, state = step.supervised, step.state
    found = tuple(FoundPassage(one.pid, passages(one.pid).title, one.rank) for one in step.chosen)
    return HopReport(
        supervised.qid, supervised.hop, supervised.query.text, found, step.facts, state.remaining, step.fallback
    )


def summarise(inspected: Iterable[HopReport]) -> Summary:
    """What the hops of all examples add up to; an example counts as far as it got."""
    lines = sorted(inspected, key=lambda line: line.hop)
    last = {line.qid: line for line in lines}
    found = sum(len(line.found) for line in lines)
    return Summary(
        claims=len(last),
        complete=sum(not line.remaining for line in last.values()),
        golds=found + sum(len(line.remaining) for line in last.values()),
        found=found,
        hops=tuple(_hop(hop, list(group)) for hop, group in groupby(lines, key=lambda line: line.hop)),
    )


def orders(inspected: Iterable[HopReport]) -> dict[str, HopOrder]:
    """The order of hops that each example came to, by qid; hops that found nothing are left out."""
    found: dict[str, HopOrder] = {}
    for line in sorted(inspected, key=lambda line: line.hop):
        pids = tuple(one.pid for one in line.found)
        found[line.qid] = (*found.get(line.qid, ()), *([pids] if pids else []))
    return found


def agreement(one: Mapping[str, HopOrder], other: Mapping[str, HopOrder]) -> OrderAgreement:
    """Compare two orderings by qid: latent against heuristic, say, or against an oracle."""
    shared = [(_places(one[qid]), _places(other[qid])) for qid in one if qid in other]
    golds = [(a[pid], b[pid]) for a, b in shared for pid in a if pid in b]
    pairs = [
        _side(a[first], a[second]) == _side(b[first], b[second])
        for a, b in shared
        for first, second in combinations([pid for pid in a if pid in b], 2)
    ]
    return OrderAgreement(
        claims=len(shared),
        identical=sum(a == b for a, b in shared),
        golds=len(golds),
        same_hop=sum(a == b for a, b in golds),
        pairs=len(pairs),
        same_pairs=sum(pairs),
    )


def _hop(hop: int, lines: list[HopReport]) -> HopSummary:
    ranks = [one.rank for line in lines for one in line.found if one.rank is not None]
    return HopSummary(
        hop,
        claims=len(lines),
        without=sum(not line.found for line in lines),
        fallbacks=sum(line.fallback for line in lines),
        golds=sum(len(line.found) for line in lines),
        facts=sum(len(line.facts) for line in lines),
        median_rank=float(median(ranks)) if ranks else None,
    )


def _places(order: HopOrder) -> dict[str, int]:
    return {pid: hop for hop, pids in enumerate(order, 1) for pid in pids}


def _side(first: int, second: int) -> int:
    return (first > second) - (first < second)
