"""A run as one JSON document: what `--json` prints, and what a line of `--out` holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from baleen.explain import Explanation
    from baleen.retriever import Retriever
    from baleen.types import Query, Trace


@dataclass(frozen=True)
class Task:
    """What tells `verify` and `ask` apart: the component that reads at the end, and what its reading is called."""

    command: str
    noun: str
    component: str
    outcome: str


VERIFY = Task("verify", "claim", "verifier", "verdict")
ASK = Task("ask", "question", "answerer", "answer")


@dataclass(frozen=True)
class Place:
    """Where a passage came up: at which hop, for which query, how high, and with what score."""

    hop: int
    rank: int
    score: float
    query: Query


def places(*traces: Trace) -> dict[str, Place]:
    """The place of every passage that was retrieved; those of the first trace go before those of the next."""
    found: dict[str, Place] = {}
    for trace in traces:
        for number, hop in enumerate(trace.hops, start=1):
            for rank, hit in enumerate(hop.ranking, start=1):
                found.setdefault(hit.pid, Place(number, rank, hit.score, hop.query))
    return found


def document(
    task: Task, trace: Trace, retriever: Retriever, seconds: float, *, explained: bool = False
) -> dict[str, Any]:
    """A finished run; `explained` adds why each passage that carries a fact was found.

    `doubtful` are the facts that were read beside those of `facts`, and do not stand.  The score of a passage is the
    retriever's, at the hop and rank where it came up, with the bonus where it is among `named` of that hop; `fact_score`
    is that of the best fact it carries, null where it carries none.  The order is that of `Trace.ranking`.
    """
    told: dict[str, Any] = {
        "query": trace.query.text,
        task.outcome: trace.outcome.to_json() if trace.outcome is not None else None,
        "facts": [fact.to_json() for fact in trace.facts],
        "doubtful": [fact.to_json() for fact in trace.doubtful],
        "passages": _passages(trace, retriever),
        "hops": [hop.to_json() | {"words": hop.words} for hop in trace.hops],
        "ranked_by": trace.ranked_by,
        "untrained": list(trace.untrained),
        "stopped": trace.stopped,
        "seconds": round(seconds, 6),
    }
    if explained:
        told["explanations"] = [
            {"hop": hop, **explanation.to_json()} for hop, explanation in explanations(trace, retriever)
        ]
    return told


def explanations(trace: Trace, retriever: Retriever) -> list[tuple[int, Explanation]]:
    """For each passage that carries a fact, the hop that found it and why its query did."""
    from baleen.explain import explain

    found = places(*trace.parts or (trace,))  # a merged run has its facts from its first part
    carrying = dict.fromkeys(fact.pid for fact in trace.facts)
    return [(found[pid].hop, explain(retriever, found[pid].query, pid)) for pid in carrying]


def _passages(trace: Trace, retriever: Retriever) -> list[dict[str, Any]]:
    found = places(trace, *trace.parts)
    best: dict[str, float] = {}
    for fact in trace.facts:
        best[fact.pid] = max(fact.score, best.get(fact.pid, fact.score))
    return [
        {
            "pid": hit.pid,
            "title": retriever.passage(hit.pid).title,
            "score": found[hit.pid].score,
            "hop": found[hit.pid].hop,
            "rank": found[hit.pid].rank,
            "fact_score": best.get(hit.pid),
        }
        for hit in trace.ranking()
    ]
