"""How a passage scored: what each vector of the query and of its facts matched, and which matches counted.

explanation = explain(retriever, trace.hops[1].query, pid)
explanation.score                                           the sum of the matches that counted
[(m.token, m.matched, m.score) for m in explanation.counted]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from baleen.core.ranking import find_places
from baleen.core.records import Record
from baleen.core.types import Query, Trace
from baleen.hops.retriever import Retriever

Part = Literal["query", "facts"]


@dataclass(frozen=True, slots=True)
class Match(Record):
    """A token of a query, its nearest token in the passage, and whether the match is in focus."""

    part: Part
    token: str
    matched: str
    score: float
    counted: bool


@dataclass(frozen=True, slots=True)
class Explanation(Record):
    """A passage's score and its matches, in the order of the query's tokens."""

    pid: str
    score: float
    matches: tuple[Match, ...]

    @property
    def counted(self) -> tuple[Match, ...]:
        """The matches that sum to the score, strongest first."""
        return tuple(sorted((match for match in self.matches if match.counted), key=lambda match: -match.score))


def explain(retriever: Retriever, query: Query, pid: str) -> Explanation:
    """How passage `pid` scores for a query and its facts, from its vectors as the index keeps them."""
    encoder = retriever.encoder
    (row,) = encoder.inputs.query_ids([query])
    (vectors,) = encoder.encode_query_ids([row])
    stored, tokens = retriever.index.vectors(pid), encoder.inputs.passage_tokens(retriever.passage(pid))
    names = encoder.inputs.token_names(row.claim), encoder.inputs.token_names(row.facts)
    matches = (
        *_matches("query", names[0], vectors.query @ stored.T, tokens, encoder.focus[0]),
        *_matches("facts", names[1], vectors.facts @ stored.T, tokens, encoder.focus[1]),
    )
    return Explanation(pid, sum(match.score for match in matches if match.counted), matches)


def explain_trace(retriever: Retriever, trace: Trace) -> list[tuple[int, Explanation]]:
    """For each passage that supplied a final fact, the hop that found it and how it scored for that hop's query."""
    found = find_places(*trace.parts or (trace,))  # the facts of a merged run are those of its first part
    supplied = dict.fromkeys(fact.pid for fact in trace.facts if fact.pid in found)
    return [(found[pid].hop, explain(retriever, found[pid].query, pid)) for pid in supplied]


def _matches(
    part: Part, names: Sequence[str], similarity: npt.NDArray[np.float32], tokens: Sequence[str], focus: int | None
) -> Iterator[Match]:
    """`similarity` (query tokens, passage tokens): each query token with the best of its row."""
    nearest, best = similarity.argmax(axis=1), similarity.max(axis=1)
    counted = set(np.argsort(-best, kind="stable")[:focus].tolist())
    for place, (name, match, score) in enumerate(zip(names, nearest.tolist(), best.tolist(), strict=True)):
        yield Match(part, name, tokens[match], score, place in counted)
