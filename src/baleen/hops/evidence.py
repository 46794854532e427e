"""What stands at the end of a run: the facts that hold, and a sentence of each passage that a chain cannot do without.

standing(trace, retriever.passage, leading=-2, final=-0.5, least=2)     the trace, its last hop with the facts that stand
with_its_fact(trace, answer)                                            the trace, with the fact that the answer stands in

On the way a doubtful fact may lead on, and goes when the run is over; a reader may weigh it all the same, and then it does
not stand unless the answer stands in it.  And what takes several passages to tell is not told by one: where the facts that
hold come from fewer than `least`, the best sentences of the next best passages join them, however little they scored.  The
trace says so of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from baleen.core.types import UNSCORED, Answer, Condensed, Fact, Judgement, Lookup, Trace, Verdict, sort_facts

Place = tuple[str, int]

ANSWERED = "the answer stands in it"
WEIGHED = "too doubtful to stand, left for the reader to weigh"


def finalize(
    trace: Trace,
    passage: Lookup,
    *,
    leading: float,
    final: float,
    read: float | None = None,
    least: int = 0,
    most: int | None = None,
) -> Trace:
    """A run that has ended, with the facts of its last hop that score above `final`, from `least` passages or more.

    Those above `read`, where that is lower, are for its reader to weigh (`doubtful`).  Facts that are not above `leading`
    came with the query, and stay.  Where what joins makes them more than `most`, the lowest go that are not the only ones
    of their passage, and doubtful ones that there is no room for.
    """
    if not trace.hops:
        return trace
    held = _parted(trace.hops[-1].condensed, leading, final if read is None else read, final)
    joining = _joining(trace, held.facts, passage, least)
    return _ending(trace, _joined(held, joining, least, most) if joining else held)


def with_answer_fact(trace: Trace, outcome: Verdict | Answer) -> Trace:
    """A run with its outcome; a doubtful fact stands if this answer, and no earlier one, was read off it."""
    ended = replace(trace, outcome=outcome)
    if not trace.hops:
        return ended
    condensed = _without_raised(trace.hops[-1].condensed)
    place = (outcome.pid, outcome.sid) if isinstance(outcome, Answer) else None
    found = [fact for fact in condensed.doubtful if _place(fact) == place]
    return _ending(ended, _with(condensed, found, ANSWERED) if found else condensed)


def _without_raised(condensed: Condensed) -> Condensed:
    """With what another answer stood in among the doubtful again."""
    raised = {_place(each) for each in condensed.judgements if each.kept and each.reason == ANSWERED}
    if not raised:
        return condensed
    back = [fact for fact in condensed.facts if _place(fact) in raised]
    left = _dropped(condensed, raised, WEIGHED)
    return replace(left, doubtful=sort_facts((*left.doubtful, *back)))


def _ending(trace: Trace, condensed: Condensed) -> Trace:
    return replace(trace, hops=(*trace.hops[:-1], replace(trace.hops[-1], condensed=condensed)))


def _parted(condensed: Condensed, leading: float, read: float, final: float) -> Condensed:
    """What stands, what is doubtful, and what goes."""
    gone = {_place(fact) for fact in condensed.facts if leading < fact.score <= read}
    doubtful = tuple(fact for fact in condensed.facts if max(leading, read) < fact.score <= final)
    left = _dropped(condensed, gone, f"not above the threshold of {read:g} at the end")
    left = _dropped(left, set(map(_place, doubtful)), WEIGHED)
    return replace(left, doubtful=(*left.doubtful, *doubtful))


def _joining(trace: Trace, facts: Sequence[Fact], passage: Lookup, least: int) -> list[tuple[Judgement, Fact]]:
    """The best sentences of so many of the best passages as are missing; a fact that came with the query is one."""
    carrying, given = {fact.pid for fact in facts}, {_place(fact): fact for fact in trace.query.facts}
    hops = {pid: number for number, hop in enumerate(trace.hops, start=1) for pid in hop.ranking.pids}
    others = [best for best in trace.best_sentences() if best.pid in hops and best.pid not in carrying]

    def fact(best: Judgement) -> Fact:
        known = given.get(_place(best))
        score = UNSCORED if best.second is None else best.second
        return replace(known, score=score) if known else passage(best.pid).fact(best.sid, score, hops[best.pid])

    return [(best, fact(best)) for best in others[: max(0, least - len(carrying))]]


def _joined(condensed: Condensed, joining: Sequence[tuple[Judgement, Fact]], least: int, most: int | None) -> Condensed:
    reason = f"the best of its passage, as fewer than {least} passages carried facts"
    joined = _with(condensed, [fact for _, fact in joining], reason)
    known = set(map(_place, joined.judgements))
    others = (replace(judged, kept=True, reason=reason) for judged, _ in joining if _place(judged) not in known)
    joined = replace(joined, judgements=(*joined.judgements, *others))
    held = _dropped(joined, _over(joined.facts, most), f"over the limit of {most} facts")
    return held if most is None else _with_fewer_doubtful(held, most)


def _with_fewer_doubtful(condensed: Condensed, most: int) -> Condensed:
    """Without the lowest of the doubtful facts that there is no room for beside those that stand."""
    ranked = sorted(condensed.doubtful, key=lambda fact: fact.score)
    gone = set(map(_place, ranked[: max(0, len(condensed.facts) + len(ranked) - most)]))
    left = _dropped(condensed, gone, f"over the limit of {most} facts")
    return replace(left, doubtful=tuple(fact for fact in condensed.doubtful if _place(fact) not in gone))


def _with(condensed: Condensed, facts: Sequence[Fact], reason: str) -> Condensed:
    """With more facts that stand, each of which may have been doubtful, and is judged to be kept for this `reason`."""
    places = set(map(_place, facts))
    judgements = [
        replace(each, kept=True, reason=reason) if _place(each) in places else each for each in condensed.judgements
    ]
    doubtful = tuple(fact for fact in condensed.doubtful if _place(fact) not in places)
    all_facts = sort_facts((*condensed.facts, *facts))
    return replace(condensed, facts=all_facts, judgements=tuple(judgements), doubtful=doubtful)


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
