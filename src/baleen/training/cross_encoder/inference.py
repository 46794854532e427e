"""Scores of stage 1 of the condenser: of the sentences found, and of gold passages without annotated sentences."""

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
from baleen.core.parallel import chunks
from baleen.core.progress import progress
from baleen.core.records import Record
from baleen.core.types import Fact, Lookup, Passage, Query
from baleen.hops.condenser import SENTENCE_STAGE, score_sentences
from baleen.models.cross_encoder import CrossEncoder
from baleen.models.pairs import CrossInput
from baleen.training.cross_encoder.condenser_examples import FactsOf, Scorer, gold_sids
from baleen.training.hop_order.supervision import Step

KEPT = 12  # scored sentences kept for each hop of a question
AT_ONCE = 64  # queries whose passages are scored together

Item = TypeVar("Item")
_Scored = tuple[float, str, int]  # negated score, pid and sid of a sentence


@dataclass(frozen=True, slots=True)
class QuestionFacts(Record):
    """The best sentences `found` for a question, and its gold facts, annotated or inferred.

    Scores are those of stage 1, or of shared words for a question that is not searched for.
    """

    qid: str
    found: tuple[Fact, ...]
    gold: tuple[Fact, ...]


def found_sentences(cross_encoder: CrossEncoder, steps: Sequence[Step], passage: Lookup) -> dict[str, list[Fact]]:
    """The best sentences that each hop of a question found, by qid."""
    found: dict[str, list[Fact]] = {}
    with progress("scoring", len(steps), "queries") as bar:
        submitted = ((some, _submit(cross_encoder, some, passage)) for some in chunks(steps, AT_ONCE))
        for some, collect in _one_ahead(submitted):
            for step, sentences in zip(some, collect(), strict=True):
                found.setdefault(step.supervised.qid, []).extend(
                    passage(pid).fact(sid, -score, _hop(step)) for score, pid, sid in nsmallest(KEPT, sentences)
                )
            bar.advance(len(some))
    return found


def _submit(cross_encoder: CrossEncoder, steps: Sequence[Step], passage: Lookup) -> Callable[[], list[list[_Scored]]]:
    """Start scoring all passages of these hops; call the result to wait for the scores."""
    hops = [step.supervised for step in steps]
    passages = [[passage(pid) for pid in (*hop.positives, *hop.negatives)] for hop in hops]
    cross_encoder.inputs.cache_queries(hop.query for hop in hops)
    cross_encoder.inputs.cache_passages((each for own in passages for each in own), sentences=True)
    rows_of = [cross_encoder.inputs.sentences_of(hop.query, own) for hop, own in zip(hops, passages, strict=True)]
    windows = [
        [(each.pid, row) for each, rows in zip(own, found, strict=True) for row in rows]
        for own, found in zip(passages, rows_of, strict=True)
    ]
    said = cross_encoder.submit(SENTENCE_STAGE, [row for rows in windows for _, row in rows])
    return partial(_collect, windows, said)


def _collect(
    windows: Sequence[Sequence[tuple[str, CrossInput]]], said: Callable[[], list[npt.NDArray[np.float32]]]
) -> list[list[_Scored]]:
    """Every sentence of each hop; scores are negated, so that the best sentence is the smallest."""
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
    """The same items, each yielded after the next one is made: a GPU scores the next while one is collected."""
    source = iter(items)
    for held in islice(source, 1):
        for item in source:
            yield held
            held = item
        yield held


def infer_sentence_scores(cross_encoder: CrossEncoder, steps: Sequence[Step], passage: Lookup) -> Scorer:
    """A scorer of the sentences of gold passages without annotated sentences.

    Stage 1 reads them with the facts of earlier hops, annotated or inferred: the claim alone does not tell which hop a
    passage is for.
    """
    scores: dict[tuple[str, str], list[float]] = {}
    facts: dict[str, tuple[Fact, ...]] = {}
    for _, group in groupby(sorted(steps, key=_hop), key=_hop):
        hop = list(group)
        unlabelled = [
            (step, passage(pid)) for step in hop for pid in step.supervised.positives if not _is_annotated(step, pid)
        ]
        for some in chunks(unlabelled, 4 * AT_ONCE):
            queries = [Query(step.supervised.query.text, facts.get(step.supervised.qid, ())) for step, _ in some]
            clock = StageTimer(len(queries))
            facts_of = score_sentences(cross_encoder, queries, [[gold] for _, gold in some], 1, clock)
            for query, (_, gold), found in zip(queries, some, facts_of, strict=True):
                scores[query.text, gold.pid] = _by_sid(gold, found)
        for step in hop:
            facts[step.supervised.qid] = (*facts.get(step.supervised.qid, ()), *_facts(step, scores, passage))
    return lambda query, gold: scores[query.text, gold.pid]


def with_hops(gold: FactsOf, steps: Sequence[Step]) -> FactsOf:
    """Gold facts with the hops that found their passages."""
    hops = {(step.supervised.qid, pid): _hop(step) for step in steps for pid in step.supervised.positives}
    return lambda example: [replace(fact, hop=hops.get((example.qid, fact.pid), 0)) for fact in gold(example)]


def _facts(step: Step, scores: Mapping[tuple[str, str], Sequence[float]], passage: Lookup) -> Iterator[Fact]:
    hop = step.supervised
    for pid in hop.positives:
        gold = passage(pid)
        for sid in gold_sids(step.state.example, hop.query, gold, lambda query, own: scores[query.text, own.pid]):
            yield gold.fact(sid, 0.0, hop.hop)


def _by_sid(passage: Passage, facts: Sequence[Fact]) -> list[float]:
    scores = [-torch.inf] * len(passage.spans)
    for fact in facts:
        scores[fact.sid] = fact.score
    return scores


def _is_annotated(step: Step, pid: str) -> bool:
    return any(known == pid for known, _ in step.state.example.facts)


def _hop(step: Step) -> int:
    return step.supervised.hop
