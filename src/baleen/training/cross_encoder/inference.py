"""What stage 1 of the condenser says of what was found, and of gold passages none of whose sentences is known for gold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import nsmallest
from itertools import groupby, islice
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch

from baleen.core.machine import StageTimer
from baleen.core.progress import progress
from baleen.core.records import Record
from baleen.core.types import Fact, Lookup, Passage, Query
from baleen.hops.condenser import SENTENCE_STAGE, score_sentences
from baleen.models.cross_encoder import CrossEncoder
from baleen.models.pairs import CrossInput
from baleen.training.cross_encoder.condenser_examples import FactsOf, Scorer, gold_sids
from baleen.training.hop_order.supervision import Step

KEPT = 12  # sentences of each hop of a question that are kept with their scores
AT_ONCE = 64  # queries whose passages are scored together

Item = TypeVar("Item")
_Place = tuple[float, str, int]  # score, pid and sid of a sentence


@dataclass(frozen=True, slots=True)
class Scored(Record):
    """A question's best sentences beside its gold facts: by stage 1, or by shared words where it was not searched for.

    Gold facts are known or inferred.
    """

    qid: str
    found: tuple[Fact, ...]
    gold: tuple[Fact, ...]


def found_sentences(reading: CrossEncoder, steps: Sequence[Step], passage: Lookup) -> dict[str, list[Fact]]:
    """By qid, the best sentences that each of its hops found."""
    found: dict[str, list[Fact]] = {}
    with progress("scoring", len(steps), "queries") as bar:
        launched = ((some, _launched(reading, some, passage)) for some in _slices(steps, AT_ONCE))
        for some, collect in _one_ahead(launched):
            for step, places in zip(some, collect(), strict=True):
                found.setdefault(step.supervised.qid, []).extend(
                    passage(pid).fact(sid, -score, _hop(step)) for score, pid, sid in nsmallest(KEPT, places)
                )
            bar.advance(len(some))
    return found


def _launched(reading: CrossEncoder, steps: Sequence[Step], passage: Lookup) -> Callable[[], list[list[_Place]]]:
    """All passages of these hops, begun to be read."""
    hops = [step.supervised for step in steps]
    passages = [[passage(pid) for pid in (*hop.positives, *hop.negatives)] for hop in hops]
    reading.inputs.cache_queries(hop.query for hop in hops)
    reading.inputs.cache_passages((each for own in passages for each in own), sentences=True)
    laid = [reading.inputs.sentences_of(hop.query, own) for hop, own in zip(hops, passages, strict=True)]
    windows = [
        [(each.pid, row) for each, rows in zip(own, found, strict=True) for row in rows]
        for own, found in zip(passages, laid, strict=True)
    ]
    said = reading.submit(SENTENCE_STAGE, [row for rows in windows for _, row in rows])
    return partial(_places, windows, said)


def _places(
    windows: Sequence[Sequence[tuple[str, CrossInput]]], said: Callable[[], list[npt.NDArray[np.float32]]]
) -> list[list[_Place]]:
    """Of each hop every sentence with its score, turned round, so that the best one is the least."""
    scores = iter(said())
    return [
        [
            (-score, pid, sid)
            for pid, row in rows
            for sid, score in zip(row.keys, next(scores)[:, 0].tolist(), strict=True)
        ]
        for rows in windows
    ]


def _one_ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The same items, each given out when the next one is there: a GPU reads the next while these are collected."""
    source = iter(items)
    for held in islice(source, 1):
        for item in source:
            yield held
            held = item
        yield held


def inferring(reading: CrossEncoder, steps: Sequence[Step], passage: Lookup) -> Scorer:
    """A score for every sentence of the gold passages none of whose sentences is known for gold.

    Each is read beside the facts, known or inferred, of the hops before it: of a claim alone nothing tells which of its
    hops a passage is for.
    """
    scores: dict[tuple[str, str], list[float]] = {}
    facts: dict[str, tuple[Fact, ...]] = {}
    for _, group in groupby(sorted(steps, key=_hop), key=_hop):
        hop = list(group)
        unclear = [(step, passage(pid)) for step in hop for pid in step.supervised.positives if _unclear(step, pid)]
        for some in _slices(unclear, 4 * AT_ONCE):
            queries = [Query(step.supervised.query.text, facts.get(step.supervised.qid, ())) for step, _ in some]
            for query, (_, read), found in zip(
                queries, some, _scored(reading, queries, [[read] for _, read in some]), strict=True
            ):
                scores[query.text, read.pid] = _by_sid(read, found)
        for step in hop:
            facts[step.supervised.qid] = (*facts.get(step.supervised.qid, ()), *_facts(step, scores, passage))
    return lambda query, read: scores[query.text, read.pid]


def of_hops(gold: FactsOf, steps: Sequence[Step]) -> FactsOf:
    """Gold facts with the hops at which their passages were found."""
    hops = {(step.supervised.qid, pid): _hop(step) for step in steps for pid in step.supervised.positives}
    return lambda example: [replace(fact, hop=hops.get((example.qid, fact.pid), 0)) for fact in gold(example)]


def _facts(step: Step, scores: Mapping[tuple[str, str], Sequence[float]], passage: Lookup) -> Iterator[Fact]:
    hop = step.supervised
    for pid in hop.positives:
        read = passage(pid)
        for sid in gold_sids(step.state.example, hop.query, read, lambda query, own: scores[query.text, own.pid]):
            yield read.fact(sid, 0.0, hop.hop)


def _scored(reading: CrossEncoder, queries: Sequence[Query], passages: Sequence[Sequence[Passage]]) -> list[list[Fact]]:
    return score_sentences(reading, queries, passages, 1, StageTimer(len(queries)))


def _by_sid(passage: Passage, facts: Sequence[Fact]) -> list[float]:
    scores = [-torch.inf] * len(passage.spans)
    for fact in facts:
        scores[fact.sid] = fact.score
    return scores


def _unclear(step: Step, pid: str) -> bool:
    return not any(known == pid for known, _ in step.state.example.facts)


def _hop(step: Step) -> int:
    return step.supervised.hop


def _slices(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    return (items[start : start + size] for start in range(0, len(items), size))
