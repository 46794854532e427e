"""Algorithm 1 of the paper: hop by hop, train a retriever, rank the corpus with it, supervise, expand the queries.

    start               the backbone with a projection from principal components, or a trained retriever to go on from
    retriever-t         R_t: trained from the start to find the gold passages of hop t
    hop-t               every query ranked by R_t: positives, negatives, and the queries of hop t + 1
    retriever           the final retriever: trained from the start on the hops of all turns

How a question is supervised depends on its order of hops:

    latent              the ranking of R_t says which gold passages hop t takes
    heuristic, oracle   an order fixed beforehand says so; the ranking of the start gives the negatives
    given               fixed as well: a question whose file has `order` "given" keeps that order under every plan

A stage that no question reaches finishes at once and leaves no model.  A plan with a `ready` retriever has the stage
`retriever` alone, which copies and measures that retriever.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from baleen.core.config import to_mapping
from baleen.core.errors import DatasetError
from baleen.core.files import read_records
from baleen.core.parallel import chunks
from baleen.core.types import Ranking
from baleen.models.checkpoint import AVERAGED, FORMATS, read_json, resolve_folder
from baleen.models.encoder import Encoder
from baleen.models.markup import passage_text
from baleen.training.cross_encoder.likely_sentences import likely_sentences
from baleen.training.data import Question, TrainingData
from baleen.training.hop_order.fixed import HopOrder, HopRecall, fixed_orders, oracle_hops, passages_due
from baleen.training.hop_order.mining import MiningIndex, RetrieverIndexes
from baleen.training.hop_order.report import inspect, summarise
from baleen.training.hop_order.strategies import Supervise, supervise_by_order, supervise_by_ranking
from baleen.training.hop_order.supervision import (
    State,
    Step,
    Supervised,
    gather,
    partly_found,
    start,
    unfinished,
    weak_targets,
)
from baleen.training.plan import RetrieverPlan
from baleen.training.retriever.task import train_retriever
from baleen.training.stages import CHECKPOINT, RunFolder

log = logging.getLogger(__name__)

SAMPLE = 1000  # passages that a starting projection is fitted on
QUERIES_AT_ONCE = 16384  # queries whose rankings are held in memory
FINAL = "retriever"  # the stage that makes the model's retriever
_DTYPES = {"auto": None, "bfloat16": torch.bfloat16, "float32": torch.float32}


class HopOrderTraining:
    """The retriever stages of a run."""

    def __init__(
        self, plan: RetrieverPlan, hops: int, data: TrainingData, run: RunFolder, device: str | None = None
    ) -> None:
        self.plan, self.hops, self.data, self.run, self.device = plan, hops, data, run, device
        self.sentences = likely_sentences(data.passage)  # for gold passages without annotated sentences
        self.indexes = RetrieverIndexes(self._load, run.stages[0], data, run.processes)
        self._collection = {question.example.qid: question.collection for question in (*data.train, *data.dev)}

    @staticmethod
    def stages(plan: RetrieverPlan, hops: int) -> list[str]:
        """Names of the stages, in order."""
        if plan.ready is not None:
            return [FINAL]
        turns = range(1, hops + 1)
        pairs = [[f"retriever-{turn}"] * plan.trains(turn) + [f"hop-{turn}"] for turn in turns]
        return ["start", *(stage for pair in pairs for stage in pair), FINAL]

    def train(self) -> None:
        """Run every stage that is not done."""
        if self.plan.ready is not None:
            self.run.run_stage(FINAL, self._copy_ready, self.plan.ready)
            return
        self.run.run_stage("start", self._start, first_process_only=True)
        for turn in range(1, self.hops + 1):
            if self.plan.trains(turn):
                self.run.run_stage(f"retriever-{turn}", self._train_hop_retriever, turn)
            self.run.run_stage(f"hop-{turn}", self._supervise_hop, turn)
        self.run.run_stage(FINAL, self._train_final)

    # Stages

    def _start(self, folder: Path) -> Mapping[str, Any]:
        """Save the encoder that every training of the run starts from."""
        assert self.plan.backbone is not None
        source, device, dtype = resolve_folder(self.plan.backbone), self.device, self._dtype
        if read_json(source / "config.json").get("format") in FORMATS:
            encoder = Encoder.load(source, device, dtype, trainable=True)
            encoder = encoder.with_settings(**to_mapping(self.plan.encoder))
        else:
            sample = list(self.data.passages.values())[:: max(1, len(self.data.passages) // SAMPLE)]
            texts = [passage_text(passage.title, passage.text) for passage in sample]
            encoder = Encoder.from_backbone(source, texts, self.plan.encoder, device=device, dtype=dtype)
        encoder.save(folder / CHECKPOINT)
        return {"backbone": self.plan.backbone}

    def _train_hop_retriever(self, folder: Path, turn: int) -> Mapping[str, Any]:
        """Train R_t: R_1 on the start's ranking, later ones on the negatives of the hop before."""
        records = self._first_targets(folder) if turn == 1 else self._weak_targets(turn)
        mined = {"mining_seconds": self.indexes.seconds()}
        if not records:
            return {"records": 0, **mined}
        steps = self.plan.steps[min(turn, len(self.plan.steps)) - 1]
        return {**self._train(records, steps, folder), **mined}

    def _supervise_hop(self, folder: Path, turn: int) -> Mapping[str, Any]:
        """Rank every query, and save the positives, negatives and expanded query of each."""
        depth = self.plan.positive_depth if turn < self.hops else None  # the last hop takes all that are left
        steps = list(self._supervised(self._ranker(turn), self._states(turn), depth))
        reports = [inspect(step, self.data.passage) for step in steps]
        self.run.write(steps, folder / "steps.jsonl.gz")
        self.run.write(reports, folder / "inspected.jsonl")
        return {**summarise(reports).to_json(), "mining_seconds": self.indexes.seconds()}

    def _train_final(self, folder: Path) -> Mapping[str, Any]:
        """Train one retriever on all hops, and measure it."""
        turns = range(1, self.hops + 1)
        records, partial = gather(self._steps(turn) for turn in turns), list[Supervised]()
        if self.plan.partial:
            steps = (step for turn in turns for step in self._steps(turn))
            partial = [each for step in steps for each in partly_found(step, self.data.passage, self.sentences)]
        report = self._train([*records, *partial], self.plan.final_steps, folder)
        return {**report, "partial": len(partial), **self._measure()}

    def _copy_ready(self, folder: Path, ready: str) -> Mapping[str, Any]:
        """Copy a trained retriever with its settings and in the type of its weights, and measure it."""
        encoder = Encoder.load(ready, "cpu", trainable=True)
        self.run.save(encoder, folder)
        return {"ready": ready, "fingerprint": encoder.fingerprint, **self._measure()}

    # Supervision

    @cached_property
    def _orders(self) -> dict[str, HopOrder]:
        """Orders of hops fixed beforehand, by qid; latent questions have none."""
        return fixed_orders(self.data.train, self.plan.order, self.data.passage)

    @cached_property
    def _fixed(self) -> dict[str, Supervise]:
        """The strategy of every question whose order is fixed, by qid."""
        return {
            qid: supervise_by_order(order, self.hops, self.data.passage, self.plan.negative_depth, self.sentences)
            for qid, order in self._orders.items()
        }

    def _supervised(self, stage: str, states: Sequence[State], depth: int | None) -> Iterator[Step]:
        """One step of each state, by the ranking of a stage's retriever; latent positives lie within `depth`."""
        latent = supervise_by_ranking(depth, self.data.passage, self.plan.negative_depth, self.sentences)
        for state, ranking in self._ranked(stage, states):
            supervise = self._fixed.get(state.example.qid, latent)
            step = supervise(state, ranking)
            yield replace(step, supervised=thin_negatives(step.supervised, self.plan.negatives_kept))

    def _first_targets(self, folder: Path) -> list[Supervised]:
        """Training records of R_1.

        They are saved in `folder`: a device may rank slightly differently the second time, and a resumed run needs the
        same records.
        """
        file = folder / "records.jsonl.gz"
        if not self.run.processes.broadcast(file.exists()):
            steps = self._supervised("start", self._states(1), self.plan.first_depth)
            self.run.write((step.supervised for step in steps), file)
        return list(read_records(file, Supervised))

    def _weak_targets(self, turn: int) -> list[Supervised]:
        """Training records of R_t for t > 1."""
        steps = [step for step in self._steps(turn - 1) if not step.state.done]
        records = [weak_targets(step.state, step.supervised.negatives) for step in steps]
        due = [passages_due(self._orders.get(step.state.example.qid, ()), step.state, self.hops) for step in steps]
        return [replace(record, positives=pids) for record, pids in zip(records, due, strict=True)]

    def _states(self, turn: int) -> list[State]:
        """Questions that reach a hop."""
        if turn > 1:
            return unfinished(self._steps(turn - 1))
        latent, count = self.plan.order == "latent", len(self.data.train)
        states = [start(question.example) for question in self.data.train]
        states = [each for each in states if not each.done and (latent or each.example.qid in self._orders)]
        if len(states) < count:
            log.warning("%s of %s questions have no gold passages, or none in order", count - len(states), count)
        if not states:
            raise DatasetError(
                f"no question can be trained on with order = '{self.plan.order}': none has gold passages"
                + ("" if latent else " in order")
            )
        return states

    def _steps(self, turn: int) -> Iterator[Step]:
        return read_records(self.run.folder(f"hop-{turn}") / "steps.jsonl.gz", Step)

    # Retrievers

    @property
    def _dtype(self) -> torch.dtype | None:
        return _DTYPES[self.plan.training.precision]

    def _load(self, stage: str, trainable: bool = False) -> Encoder:
        return Encoder.load(self.run.folder(stage) / CHECKPOINT, self.device, self._dtype, trainable=trainable)

    def _ranker(self, turn: int) -> str:
        """The stage whose retriever ranks the queries of a hop."""
        if self.plan.order != "latent":
            return "start"
        return f"retriever-{turn if self.plan.per_hop else 1}"

    def _ranked(self, stage: str, states: Sequence[State]) -> Iterator[tuple[State, Ranking]]:
        """Every state with the ranking of its query."""
        for part in chunks(states, QUERIES_AT_ONCE):
            yield from zip(part, self._rank(self.indexes.of(stage), part, self.plan.negative_depth), strict=True)

    def _rank(
        self, index: MiningIndex, states: Sequence[State], depth: int, exclude: Sequence[Sequence[str]] = ()
    ) -> list[Ranking]:
        collections = [self._collection[state.example.qid] for state in states]
        return index.rank([state.query for state in states], collections, depth, exclude)

    def _train(self, records: Sequence[Supervised], steps: int, folder: Path) -> dict[str, Any]:
        """Train a copy of the start, and save it."""
        self.indexes.release()
        encoder = self._load("start", trainable=True)
        usable = [record for record in records if record.positives and record.negatives]
        outcome = train_retriever(
            encoder,
            usable,
            self.data.passage,
            folder / "training",
            replace(self.plan.training, steps=steps),
            config=self.plan.learning,
            weights=self.data.weights,
            tokens=self.indexes.corpora.by_pid,
            resume=True,
        )
        encoder.notes.pop(AVERAGED, None)  # the start may be a mean of checkpoints, the trained encoder is not
        self.run.save(encoder, folder)
        return {"records": len(usable), **outcome.report()}

    def _measure(self) -> dict[str, Any]:
        """Recall of the final retriever on dev with a perfect condenser, by dataset."""
        index = self.indexes.of(FINAL)
        recalls = {
            f"dev {name}": self._recall(index, questions) for name, questions in by_dataset(self.data.dev).items()
        }
        reports = {name: [recall.to_json() for recall in found] for name, found in recalls.items()}
        return {**reports, "mining_seconds": self.indexes.seconds()}

    def _recall(self, index: MiningIndex, questions: Sequence[Question]) -> list[HopRecall]:
        def search(states: Sequence[State], depth: int, seen: Sequence[Sequence[str]]) -> list[Ranking]:
            return self._rank(index, states, depth, seen)

        examples = [question.example for question in questions]
        return oracle_hops(examples, search, self.data.passage, self.plan.depths, self.sentences)


def by_dataset(questions: Iterable[Question]) -> dict[str, list[Question]]:
    """Questions with gold passages, by dataset."""
    found: dict[str, list[Question]] = {}
    for question in questions:
        if question.example.gold:
            found.setdefault(question.dataset, []).append(question)
    return found


def thin_negatives(record: Supervised, most: int) -> Supervised:
    """A record with `most` of its negatives, evenly spread over the ranks; whole rankings would fill the memory."""
    found, count = record.negatives, min(most, len(record.negatives))
    return replace(record, negatives=tuple(found[place * len(found) // count] for place in range(count)))
