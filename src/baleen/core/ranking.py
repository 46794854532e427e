"""One ranked list of the passages of all hops, and where each passage was retrieved.

rank_passages(trace)        by the facts that passages supplied ("hops"), or by their best sentences ("evidence")
best_sentences(trace)       the best sentence of each passage that was read
find_places(trace)          the hop, rank and score of each passage
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log1p

from baleen.core.types import Hit, Judgement, Query, Ranking, Trace


def rank_passages(trace: Trace) -> Ranking:
    """The passages of all hops in the order that `trace.ranked_by` names."""
    return _by_evidence(trace) if trace.ranked_by == "evidence" else _by_hops(trace)


def best_sentences(trace: Trace) -> tuple[Judgement, ...]:
    """The best sentence of each passage that was read, with its latest scores, best passage first."""
    return tuple(best for _, best in _scored(trace))


def best_facts(trace: Trace) -> dict[str, float]:
    """The score of the best final fact of each passage that supplied one."""
    best: dict[str, float] = {}
    for fact in trace.facts:
        best[fact.pid] = max(fact.score, best.get(fact.pid, fact.score))
    return best


def _by_hops(trace: Trace) -> Ranking:
    """Passages with final facts first, by their best fact; then the others by hop and rank."""
    best = best_facts(trace)
    supplied = [Hit(pid, score) for pid, score in sorted(best.items(), key=lambda item: (-item[1], item[0]))]
    rest = {hit.pid: hit for hop in reversed(trace.hops) for hit in reversed(hop.ranking.hits)}
    return Ranking((*supplied, *(rest[pid] for pid in trace.pids if pid not in best)))


def _by_evidence(trace: Trace) -> Ranking:
    """Passages that were read first, by their best sentence and rank; then the others as by hops."""
    found = {hit.pid: hit for hit in _by_hops(trace)}
    read = {best.pid: Hit(best.pid, score) for score, best in _scored(trace) if best.pid in found}
    return Ranking((*read.values(), *(hit for pid, hit in found.items() if pid not in read)))


def _scored(trace: Trace) -> list[tuple[float, Judgement]]:
    """The best sentence of each passage, with the passage's score: combined score - log(1 + rank from 0)."""
    best: dict[str, Judgement] = {}
    for each in _latest_judgements(trace):
        best[each.pid] = max(best.get(each.pid, each), each, key=lambda judged: (judged.combined, -judged.sid))
    ranks = {pid: rank for hop in reversed(trace.hops) for rank, pid in enumerate(hop.ranking.pids)}
    scored = [(each.combined - log1p(ranks.get(each.pid, 0)), each) for each in best.values()]
    return sorted(scored, key=lambda pair: (-pair[0], pair[1].pid))


def _latest_judgements(trace: Trace) -> list[Judgement]:
    """Every sentence that was scored, with the latest of each score."""
    latest: dict[tuple[str, int], Judgement] = {}
    for judged in (judged for hop in trace.hops for judged in hop.condensed.judgements):
        if judged.sentence_score is None and judged.fact_score is None:
            continue  # kept by an earlier hop, and not scored again
        known = latest.get((judged.pid, judged.sid), judged)
        sentence_score = known.sentence_score if judged.sentence_score is None else judged.sentence_score
        fact_score = known.fact_score if judged.fact_score is None else judged.fact_score
        latest[judged.pid, judged.sid] = Judgement(judged.pid, judged.sid, sentence_score, fact_score)
    return list(latest.values())


@dataclass(frozen=True)
class Place:
    """Where a passage was retrieved: hop and rank (both from 1), score, and the hop's query."""

    hop: int
    rank: int
    score: float
    query: Query


def find_places(*traces: Trace) -> dict[str, Place]:
    """The first place of every passage that was retrieved; earlier traces outrank later ones."""
    found: dict[str, Place] = {}
    for trace in traces:
        for number, hop in enumerate(trace.hops, start=1):
            for rank, hit in enumerate(hop.ranking, start=1):
                found.setdefault(hit.pid, Place(number, rank, hit.score, hop.query))
    return found
