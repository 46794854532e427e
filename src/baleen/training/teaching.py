"""A teacher's scores: what a reranker, which reads query and passage side by side, makes of the passages that a retriever
is to tell apart.

taught = list(teach(load_teacher("baleen-small"), records, corpus.__getitem__))
scores_of(taught)                                           for `train_retriever(..., teacher=...)`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from baleen.checkpoint import resolve
from baleen.crossencoder import CrossEncoder
from baleen.model_folder import component_folder
from baleen.progress import progress
from baleen.reranker import STAGE, Reranker
from baleen.training.retriever_batches import Labelled, TeacherScores
from baleen.types import Lookup, Query, Record

AT_ONCE = 64  # queries whose passages are scored together


@dataclass(frozen=True, slots=True)
class Taught(Record):
    """The scores of a query's passages, by pid."""

    query: Query
    scores: Mapping[str, float]


def load_teacher(name: str, device: str | None = None) -> Reranker:
    """The reranker of a model, or of the checkpoint of a cross-encoder that has one."""
    reading = CrossEncoder.load(component_folder(resolve(name), STAGE), device=device)
    reading.outputs(STAGE)
    return Reranker(reading)


def teach(teacher: Reranker, records: Sequence[Labelled], passage: Lookup) -> Iterator[Taught]:
    """What the teacher makes of the positives and the negatives of each record."""
    with progress("teaching", len(records), "queries") as bar:
        for first in range(0, len(records), AT_ONCE):
            some = records[first : first + AT_ONCE]
            passages = [[passage(pid) for pid in (*record.positives, *record.negatives)] for record in some]
            for record, ranking in zip(some, teacher.rank([record.query for record in some], passages), strict=True):
                yield Taught(record.query, {hit.pid: hit.score for hit in ranking})
            bar.advance(len(some))


def scores_of(taught: Iterable[Taught]) -> TeacherScores:
    """By query; what several records of one query are about is put together."""
    found: dict[Query, dict[str, float]] = {}
    for each in taught:
        found.setdefault(each.query, {}).update(each.scores)
    return found
