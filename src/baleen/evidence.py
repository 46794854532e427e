"""What stands at the end of a run: the facts that hold, and a sentence of each passage that a chain cannot do without.

standing(trace, retriever.passage, leading=-2, final=-0.5, least=2)     the trace, its last hop with the facts that stand

On the way a doubtful fact may lead on, and goes when the run is over.  And what takes several passages to tell is not told
by one: where the facts that hold come from fewer than `least`, the best sentences of the next best passages join them,
however little they scored.  The trace says so of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from baleen.types import Condensed, Fact, Judgement, Lookup, Trace

Place = tuple[str, int]


def standing(
    trace: Trace,
    passage: Lookup,
    *,
    leading: float,
    final: float,
    least: int = 0,
    most: int | None = None,
) -> Trace:
    """A run that has ended, with the facts of its last hop that score above `final`, from `least` passages or more.

    Facts that are not above `leading` came with the query, and stay.  Where what joins makes them more than `most`, the
    lowest go that are not the only ones of their passage.
    """
    if not trace.hops:
        return trace
    held = _without_doubtful(trace.hops[-1].condensed, leading, final)
    joining = _joining(trace, held.facts, passage, least)
    condensed = _joined(held, joining, least, most) if joining else held
    return replace(trace, hops=(*trace.hops[:-1], replace(trace.hops[-1], condensed=condensed)))


def _without_doubtful(condensed: Condensed, leading: float, final: float) -> Condensed:
    gone = {_place(fact) for fact in condensed.facts if leading < fact.score <= final}
    return _dropped(condensed, gone, f"not above the threshold of {final:g} at the end")


def _joining(trace: Trace, facts: Sequence[Fact], passage: Lookup, least: int) -> list[tuple[Judgement, Fact]]:
    """The best sentences of so many of the best passages as are missing; a fact that came with the query is one."""
    carrying, given = {fact.pid for fact in facts}, {_place(fact): fact for fact in trace.query.facts}
    hops = {pid: number for number, hop in enumerate(trace.hops, start=1) for pid in hop.ranking.pids}
    others = [best for best in trace.best_sentences() if best.pid in hops and best.pid not in carrying]

    def fact(best: Judgement) -> Fact:
        known = given.get(_place(best))
        return replace(known, score=best.last) if known else passage(best.pid).fact(best.sid, best.last, hops[best.pid])

    return [(best, fact(best)) for best in others[: max(0, least - len(carrying))]]


def _joined(condensed: Condensed, joining: Sequence[tuple[Judgement, Fact]], least: int, most: int | None) -> Condensed:
    reason = f"the best of its passage, as fewer than {least} passages carried facts"
    told = {_place(judged): replace(judged, kept=True, reason=reason) for judged, _ in joining}
    judgements = [
        replace(each, kept=True, reason=reason) if told.pop(_place(each), None) else each
        for each in condensed.judgements
    ]
    facts = [*condensed.facts, *(fact for _, fact in joining)]
    facts.sort(key=lambda fact: (fact.hop, -fact.score, fact.pid, fact.sid))
    joined = replace(condensed, facts=tuple(facts), judgements=(*judgements, *told.values()))
    return _dropped(joined, _over(facts, most), f"over the limit of {most} facts")


def _over(facts: Sequence[Fact], most: int | None) -> set[Place]:
    """The lowest that are not the only ones of their passage, as many as are too many."""
    of_passage, gone = Counter(fact.pid for fact in facts), set[Place]()
    for fact in sorted(facts, key=lambda fact: fact.score):
        if most is not None and len(facts) - len(gone) > most and of_passage[fact.pid] > 1:
            of_passage[fact.pid] -= 1
            gone.add(_place(fact))
    return gone


def _dropped(condensed: Condensed, gone: set[Place], reason: str) -> Condensed:
    judgements = [
        replace(each, kept=False, reason=reason) if _place(each) in gone else each for each in condensed.judgements
    ]
    facts = tuple(fact for fact in condensed.facts if _place(fact) not in gone)
    return replace(condensed, facts=facts, judgements=tuple(judgements))


def _place(sentence: Fact | Judgement) -> Place:
    return sentence.pid, sentence.sid
