"""Reports of an inferred order of hops: a line for every hop of every example, their summary, and agreement of orders."""

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
    """A gold passage that became a positive, and its rank (from 1; None: not ranked)."""

    pid: str
    title: str
    rank: int | None


@dataclass(frozen=True, slots=True)
class HopReport(Record):
    """One hop of one example: gold passages found, facts added, and gold passages still to find.

    With `fallback`, the passage is beyond the depth of positives.
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
    """One hop over all examples.

    claims          examples that reached the hop
    without         examples that found nothing
    fallbacks       examples that needed the fallback
    golds           gold passages found
    facts           facts added
    median_rank     of the gold passages found; None if none was ranked
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
    """All hops: numbers of claims, of claims `complete` with all gold passages, of gold passages, and of those `found`."""

    claims: int
    complete: int
    golds: int
    found: int
    hops: tuple[HopSummary, ...]


@dataclass(frozen=True, slots=True)
class OrderAgreement(Record):
    """Agreement of two orders, over the claims and gold passages that both have.

    identical       claims with the same hops
    same_hop        gold passages in the same hop, of `golds`
    same_pairs      pairs of gold passages of one claim in the same relation (before, after, together), of `pairs`
    """

    claims: int
    identical: int
    golds: int
    same_hop: int
    pairs: int
    same_pairs: int


def inspect(step: Step, passages: Lookup) -> HopReport:
    supervised, state = step.supervised, step.state
    found = tuple(FoundPassage(one.pid, passages(one.pid).title, one.rank) for one in step.chosen)
    return HopReport(
        supervised.qid, supervised.hop, supervised.query.text, found, step.facts, state.remaining, step.fallback
    )


def summarise(inspected: Iterable[HopReport]) -> Summary:
    """The summary of all reports; an example counts for the hops that it reached."""
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
    """The order of hops of each example, by qid, without hops that found nothing."""
    found: dict[str, HopOrder] = {}
    for line in sorted(inspected, key=lambda line: line.hop):
        pids = tuple(one.pid for one in line.found)
        found[line.qid] = (*found.get(line.qid, ()), *([pids] if pids else []))
    return found


def agreement(one: Mapping[str, HopOrder], other: Mapping[str, HopOrder]) -> OrderAgreement:
    """Compare two orders by qid, such as latent and heuristic."""
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
