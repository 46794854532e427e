"""The final facts of a run: those above `final`, and the best sentence of further passages up to `min_passages`.

finalize(trace, passage, Thresholds(-2, -2, -0.5), min_passages=2)   the trace with the final facts in its last hop
with_answer_fact(trace, answer)                                      the trace with its outcome and the answer's fact

A borderline fact may lead to the next hop without being reported.  A reader may see it, and it is reported only if the
answer is in it.  Every judgement says what became of its sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from baleen.core.ranking import best_sentences
from baleen.core.types import FILLER, UNSCORED, Answer, Condensed, Fact, Judgement, Lookup, Trace, Verdict, sort_facts
from baleen.hops.config import Thresholds

Place = tuple[str, int]

ANSWERED = "contains the answer"
BORDERLINE = "borderline: read, not reported"


def finalize(
    trace: Trace, passage: Lookup, thresholds: Thresholds, *, min_passages: int = 0, max_facts: int | None = None
) -> Trace:
    """Settle the facts of a run's last hop: reported ones, from at least `min_passages` passages, and borderline ones.

    Facts that are not above `keep` came with the query, and stay.  If fillers make the facts more than `max_facts`, drop
    the lowest that are not the only ones of their passage, then borderline facts.
    """
    if not trace.hops:
        return trace
    split = split_by_score(trace.hops[-1].condensed, thresholds)
    fillers = pick_fillers(trace, split.facts, passage, min_passages)
    return _with_last(trace, add_fillers(split, fillers, min_passages, max_facts) if fillers else split)


def with_answer_fact(trace: Trace, outcome: Verdict | Answer) -> Trace:
    """Add the outcome of a run; a borderline fact that contains this answer is reported."""
    ended = replace(trace, outcome=outcome)
    if not trace.hops:
        return ended
    condensed = undo_promotion(trace.hops[-1].condensed)
    place = (outcome.pid, outcome.sid) if isinstance(outcome, Answer) else None
    found = [fact for fact in condensed.borderline if _place(fact) == place]
    return _with_last(ended, keep(condensed, found, ANSWERED) if found else condensed)


def undo_promotion(condensed: Condensed) -> Condensed:
    """Make the fact of an earlier answer borderline again."""
    raised = {_place(each) for each in condensed.judgements if each.kept and each.reason == ANSWERED}
    if not raised:
        return condensed
    back = [fact for fact in condensed.facts if _place(fact) in raised]
    left = drop(condensed, raised, BORDERLINE)
    return replace(left, borderline=sort_facts((*left.borderline, *back)))


def _with_last(trace: Trace, condensed: Condensed) -> Trace:
    return replace(trace, hops=(*trace.hops[:-1], replace(trace.hops[-1], condensed=condensed)))


def split_by_score(condensed: Condensed, thresholds: Thresholds) -> Condensed:
    """Split facts into reported ones, borderline ones and dropped ones."""
    lowest, read, final = thresholds
    gone = {_place(fact) for fact in condensed.facts if lowest < fact.score <= read}
    borderline = tuple(fact for fact in condensed.facts if max(lowest, read) < fact.score <= final)
    left = drop(condensed, gone, f"not above the threshold of {read:g} at the end")
    left = drop(left, set(map(_place, borderline)), BORDERLINE)
    return replace(left, borderline=(*left.borderline, *borderline))


def pick_fillers(
    trace: Trace, facts: Sequence[Fact], passage: Lookup, min_passages: int
) -> list[tuple[Judgement, Fact]]:
    """The best sentence of each of the best passages without facts, as many as are missing to `min_passages`."""
    carrying, given = {fact.pid for fact in facts}, {_place(fact): fact for fact in trace.query.facts}
    hops = {pid: number for number, hop in enumerate(trace.hops, start=1) for pid in hop.ranking.pids}
    others = [best for best in best_sentences(trace) if best.pid in hops and best.pid not in carrying]

    def fact(best: Judgement) -> Fact:
        known = given.get(_place(best))
        score = UNSCORED if best.fact_score is None else best.fact_score
        return replace(known, score=score) if known else passage(best.pid).fact(best.sid, score, hops[best.pid])

    return [(best, fact(best)) for best in others[: max(0, min_passages - len(carrying))]]


def add_fillers(
    condensed: Condensed, fillers: Sequence[tuple[Judgement, Fact]], min_passages: int, max_facts: int | None
) -> Condensed:
    reason = f"{FILLER}, as fewer than {min_passages} passages carried facts"
    filled = keep(condensed, [fact for _, fact in fillers], reason)
    known = set(map(_place, filled.judgements))
    others = (replace(judged, kept=True, reason=reason) for judged, _ in fillers if _place(judged) not in known)
    filled = replace(filled, judgements=(*filled.judgements, *others))
    if max_facts is None:
        return filled
    limited = drop(filled, beyond_limit(filled.facts, max_facts), f"over the limit of {max_facts} facts")
    return limit_borderline(limited, max_facts)


def limit_borderline(condensed: Condensed, max_facts: int) -> Condensed:
    """Drop the lowest borderline facts that exceed the limit together with the reported facts."""
    ranked = sorted(condensed.borderline, key=lambda fact: fact.score)
    gone = set(map(_place, ranked[: max(0, len(condensed.facts) + len(ranked) - max_facts)]))
    left = drop(condensed, gone, f"over the limit of {max_facts} facts")
    return replace(left, borderline=tuple(fact for fact in condensed.borderline if _place(fact) not in gone))


def keep(condensed: Condensed, facts: Sequence[Fact], reason: str) -> Condensed:
    """Report further facts, which may have been borderline; their judgements give the `reason`."""
    places = set(map(_place, facts))
    judgements = [
        replace(each, kept=True, reason=reason) if _place(each) in places else each for each in condensed.judgements
    ]
    borderline = tuple(fact for fact in condensed.borderline if _place(fact) not in places)
    all_facts = sort_facts((*condensed.facts, *facts))
    return replace(condensed, facts=all_facts, judgements=tuple(judgements), borderline=borderline)


def beyond_limit(facts: Sequence[Fact], max_facts: int) -> set[Place]:
    """The facts beyond the limit: the lowest that are not the only ones of their passage."""
    of_passage, gone = Counter(fact.pid for fact in facts), set[Place]()
    for fact in sorted(facts, key=lambda fact: fact.score):
        if len(facts) - len(gone) > max_facts and of_passage[fact.pid] > 1:
            of_passage[fact.pid] -= 1
            gone.add(_place(fact))
    return gone


def drop(condensed: Condensed, gone: set[Place], reason: str) -> Condensed:
    """Drop facts; their judgements give the `reason`."""
    judgements = [
        replace(each, kept=False, reason=reason) if _place(each) in gone else each for each in condensed.judgements
    ]
    facts = tuple(fact for fact in condensed.facts if _place(fact) not in gone)
    return replace(condensed, facts=facts, judgements=tuple(judgements))


def _place(sentence: Fact | Judgement) -> Place:
    return sentence.pid, sentence.sid
