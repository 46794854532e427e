"""Algorithm 1 with its models: train, search the corpus, split, expand, hop by hop; then one retriever over all hops.

    start               the backbone with its principal-component projection, or a retriever to go on from
    retriever-t         R_t: trained from the start on what hop t is to find
    hop-t               every query ranked by R_t: positives, negatives, and the queries of the next hop
    retriever           trained from the start on all hops

With `order` "heuristic" or "oracle" the hops are settled beforehand, and the start's own ranking gives the negatives.
Questions whose file says `order` "given" keep their order under any plan.
Stages whose hop no question gets to are done at once, and leave no model.

Of a plan whose retriever is `ready`, the stage `retriever` alone is done: it takes that one and measures it.
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
from baleen.core.machine import StageTimer
from baleen.core.types import Ranking
from baleen.models.checkpoint import AVERAGED, FORMATS, read_json, resolve_folder
from baleen.models.encoder import Encoder
from baleen.models.markup import passage_text
from baleen.training.cross_encoder.likely_sentences import likely_sentences
from baleen.training.data import Question, TrainingData
from baleen.training.hop_order.fixed import HopOrder, Reach, heuristic_order, oracle_hops, oracle_order
from baleen.training.hop_order.mining import Corpora, MiningIndex
from baleen.training.hop_order.report import inspect, summarise
from baleen.training.hop_order.supervision import (
    State,
    Step,
    Supervised,
    final_round_depths,
    first_hop,
    gather,
    latent_hop,
    ordered_hop,
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
RANKED_AT_ONCE = 16384  # queries whose whole rankings are held
FINAL = "retriever"  # the stage whose retriever the model gets
_DTYPES = {"auto": None, "bfloat16": torch.bfloat16, "float32": torch.float32}


class HopOrderTraining:
    """The retriever's stages of a run."""

    def __init__(
        self, plan: RetrieverPlan, hops: int, world: TrainingData, run: RunFolder, device: str | None = None
    ) -> None:
        self.plan, self.hops, self.world, self.run, self.device = plan, hops, world, run, device
        self._collection = {question.example.qid: question.collection for question in (*world.train, *world.dev)}
        self.sentences = likely_sentences(world.passage)  # of gold passages none of whose sentences is known for gold
        self._kept: tuple[str, MiningIndex] | None = None
        self._clock = StageTimer(1)

    @staticmethod
    def stages(plan: RetrieverPlan, hops: int) -> list[str]:
        """In the order in which they are done."""
        if plan.ready is not None:
            return [FINAL]
        turns = range(1, hops + 1)
        pairs = [[f"retriever-{turn}"] * plan.trains(turn) + [f"hop-{turn}"] for turn in turns]
        return ["start", *(stage for pair in pairs for stage in pair), FINAL]

    def train(self) -> None:
        """Every stage that is not done yet."""
        if self.plan.ready is not None:
            self.run.do(FINAL, self._take, self.plan.ready)
            return
        self.run.do("start", self._start, alone=True)
        for turn in range(1, self.hops + 1):
            if self.plan.trains(turn):
                self.run.do(f"retriever-{turn}", self._train_for, turn)
            self.run.do(f"hop-{turn}", self._hop, turn)
        self.run.do(FINAL, self._final)

    # Stages

    def _start(self, folder: Path) -> Mapping[str, Any]:
        assert self.plan.backbone is not None
        source, device, dtype = resolve_folder(self.plan.backbone), self.device, self._dtype
        if read_json(source / "config.json").get("format") in FORMATS:
            encoder = Encoder.load(source, device, dtype, trainable=True)
            encoder = encoder.with_settings(**to_mapping(self.plan.encoder))
        else:
            sample = list(self.world.passages.values())[:: max(1, len(self.world.passages) // SAMPLE)]
            texts = [passage_text(passage.title, passage.text) for passage in sample]
            encoder = Encoder.from_backbone(source, texts, self.plan.encoder, device=device, dtype=dtype)
        encoder.save(folder / CHECKPOINT)
        return {"backbone": self.plan.backbone}

    def _train_for(self, folder: Path, turn: int) -> Mapping[str, Any]:
        """R_t: the first from the start's ranking, later ones from the negatives of the hop before."""
        records = self._first_targets(folder) if turn == 1 else self._weak_targets(turn)
        mined = {"mining_seconds": self.mining_seconds()}
        if not records:
            return {"records": 0, **mined}
        return {**self._train(records, self.plan.steps[min(turn, len(self.plan.steps)) - 1], folder), **mined}

    def _hop(self, folder: Path, turn: int) -> Mapping[str, Any]:
        """Every query ranked: what it found, or was to find, becomes positives and the query of the next hop."""
        steps = [self._step(state, ranking) for state, ranking in self._ranked(self._ranker(turn), self._states(turn))]
        self.run.write(steps, folder / "steps.jsonl.gz")
        self.run.write((inspect(step, self.world.passage) for step in steps), folder / "inspected.jsonl")
        report = summarise(inspect(step, self.world.passage) for step in steps).to_json()
        return {**report, "mining_seconds": self.mining_seconds()}

    def _final(self, folder: Path) -> Mapping[str, Any]:
        """One retriever over all hops, measured with a perfect condenser over all passages that are searched."""
        records = gather(self._steps(turn) for turn in range(1, self.hops + 1))
        parts = self._partly_found() if self.plan.partial else []
        report = self._train([*records, *parts], self.plan.final_steps, folder)
        return {**report, "partial": len(parts), **self._measured()}

    def _take(self, folder: Path, ready: str) -> Mapping[str, Any]:
        """A retriever that was trained before, with its own settings and in the type of its weights."""
        encoder = Encoder.load(ready, "cpu", trainable=True)
        self.run.save(encoder, folder)
        return {"ready": ready, "fingerprint": encoder.fingerprint, **self._measured()}

    def _measured(self) -> dict[str, Any]:
        """How far the final retriever gets on dev, and what it took to tell."""
        haystacks, report = self.haystacks(FINAL), {}
        for dataset, questions in self._dev().items():
            report[f"dev {dataset}"] = [reach.to_json() for reach in self._reach(haystacks, questions)]
        return {**report, "mining_seconds": self.mining_seconds()}

    # What they train on

    @cached_property
    def _orders(self) -> dict[str, HopOrder]:
        """The settled orders, by qid: of questions that keep what their file gives, and as the plan settles the others."""
        found: dict[str, HopOrder] = {}
        for question in self.world.train:
            example = question.example
            if example.gold and (question.ordered or (self.plan.order == "oracle" and example.order)):
                found[example.qid] = oracle_order(example)
            elif example.gold and self.plan.order == "heuristic":
                found[example.qid] = heuristic_order(example, self.world.passage)
        return found

    def _states(self, turn: int) -> list[State]:
        """The questions that get to a hop; those without gold passages are left out."""
        if turn > 1:
            return unfinished(self._steps(turn - 1))
        states = [start(question.example) for question in self.world.train]
        kept = [state for state in states if self._trained_on(state)]
        if len(kept) < len(states):
            log.warning(
                "%s of %s questions have no gold passages, or none in order", len(states) - len(kept), len(states)
            )
        if not kept:
            raise DatasetError(
                f"no question can be trained on with order = '{self.plan.order}': none has gold passages"
                + (" in order" if not self._is_latent else "")
            )
        return kept

    def _trained_on(self, state: State) -> bool:
        return not state.done and (self._is_latent or state.example.qid in self._orders)

    def _first_targets(self, folder: Path) -> list[Supervised]:
        """Kept in `folder`: a device that ranks a little otherwise the second time must not change a run that goes on."""
        file = folder / "records.jsonl.gz"
        if not self.run.processes.agreed(file.exists()):
            ranked = self._ranked("start", self._states(1))
            self.run.write((self._thinned(self._first_target(state, own)) for state, own in ranked), file)
        return list(read_records(file, Supervised))

    def _first_target(self, state: State, ranking: Ranking) -> Supervised:
        if state.example.qid in self._orders:
            return self._settled_step(state, ranking).supervised
        depth, negative_depth = self.plan.first_depth, self.plan.negative_depth
        return first_hop(state.example, ranking, depth=depth, negative_depth=negative_depth)

    def _weak_targets(self, turn: int) -> list[Supervised]:
        steps = [step for step in self._steps(turn - 1) if not step.state.done]
        return [
            replace(weak_targets(step.state, step.supervised.negatives), positives=self._due(step.state))
            for step in steps
        ]

    def _partly_found(self) -> list[Supervised]:
        steps = (step for turn in range(1, self.hops + 1) for step in self._steps(turn))
        return [record for step in steps for record in partly_found(step, self.world.passage, self.sentences)]

    def _step(self, state: State, ranking: Ranking) -> Step:
        step = (self._settled_step if state.example.qid in self._orders else self._latent_step)(state, ranking)
        return replace(step, supervised=self._thinned(step.supervised))

    def _latent_step(self, state: State, ranking: Ranking) -> Step:
        depth = final_round_depths(self.hops, self.plan.positive_depth)[state.hop - 1]
        most, sentences = self.plan.negative_depth, self.sentences
        return latent_hop(state, ranking, self.world.passage, depth=depth, negative_depth=most, sentences=sentences)

    def _settled_step(self, state: State, ranking: Ranking) -> Step:
        due, most, sentences = self._due(state), self.plan.negative_depth, self.sentences
        return ordered_hop(state, ranking, self.world.passage, positives=due, negative_depth=most, sentences=sentences)

    def _due(self, state: State) -> tuple[str, ...]:
        """The passages that a settled order has for this hop, and at the last one, or without an order, all that are left."""
        order = self._orders.get(state.example.qid, ())
        return order[state.hop - 1] if state.hop < min(self.hops, len(order)) else state.remaining

    def _thinned(self, record: Supervised) -> Supervised:
        """With as many negatives as are kept: a whole ranking of every query would fill the memory."""
        found, count = record.negatives, min(self.plan.negatives_kept, len(record.negatives))
        return replace(record, negatives=tuple(found[place * len(found) // count] for place in range(count)))

    # Their parts

    @property
    def _is_latent(self) -> bool:
        return self.plan.order == "latent"

    @property
    def _dtype(self) -> torch.dtype | None:
        return _DTYPES[self.plan.training.precision]

    def _ranker(self, turn: int) -> str:
        if not self._is_latent:
            return "start"
        return f"retriever-{turn if self.plan.per_hop else 1}"

    def _train(self, records: Sequence[Supervised], steps: int, folder: Path) -> dict[str, Any]:
        """Train a copy of the start."""
        self.release()
        encoder = self._load("start", trainable=True)
        usable = _usable(records)
        training = replace(self.plan.training, steps=steps)
        outcome = train_retriever(
            encoder,
            usable,
            self.world.passage,
            folder / "training",
            training,
            self.plan.learning,
            weights=self.world.weights,
            tokens=self._corpora.by_pid,
            resume=True,
        )
        encoder.notes.pop(AVERAGED, None)  # what it started from may be a mean, what came of it is none
        self.run.save(encoder, folder)
        return {"records": len(usable), **outcome.report()}

    def _load(self, stage: str, trainable: bool = False) -> Encoder:
        return Encoder.load(self.run.folder(stage) / CHECKPOINT, self.device, self._dtype, trainable=trainable)

    @cached_property
    def _corpora(self) -> Corpora:
        inputs = self._load(self.run.stages[0]).inputs  # which all retrievers of a run have in common
        with self._clock("tokenise"):
            return Corpora.of(inputs, self.world)

    def haystacks(self, stage: str) -> MiningIndex:
        """The corpora as the retriever of a stage encodes them, kept until another's are asked for or one is trained."""
        if self._kept is None or self._kept[0] != stage:
            self.release()
            self._kept = stage, MiningIndex(self._load(stage), self._corpora, self.run.processes, self._clock)
        return self._kept[1]

    def mining_seconds(self) -> dict[str, float]:
        """What tokenising, encoding and searching corpora took since this was last asked."""
        spent = {part: round(seconds, 2) for part, seconds in self._clock.seconds.items()}
        self._clock.seconds.clear()
        return spent

    def release(self) -> None:
        """Forget the encoded corpora: what is trained next may need their place."""
        self._kept = None
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _ranked(self, stage: str, states: Sequence[State]) -> Iterator[tuple[State, Ranking]]:
        """Every state with the ranking of its query; a part of them at a time is held."""
        if not states:
            return
        haystacks = self.haystacks(stage)
        for first in range(0, len(states), RANKED_AT_ONCE):
            part = states[first : first + RANKED_AT_ONCE]
            collections = [self._collection[state.example.qid] for state in part]
            rankings = haystacks.rank([state.query for state in part], collections, self.plan.negative_depth)
            yield from zip(part, rankings, strict=True)

    def _steps(self, turn: int) -> Iterator[Step]:
        return read_records(self.run.folder(f"hop-{turn}") / "steps.jsonl.gz", Step)

    def _dev(self) -> dict[str, list[Question]]:
        """Questions to measure on, by dataset."""
        found: dict[str, list[Question]] = {}
        for question in self.world.dev:
            if question.example.gold:
                found.setdefault(question.dataset, []).append(question)
        return found

    def _reach(self, haystacks: MiningIndex, questions: Sequence[Question]) -> list[Reach]:
        collection = {question.example.qid: question.collection for question in questions}

        def search(states: Sequence[State], depth: int, seen: Sequence[Sequence[str]]) -> list[Ranking]:
            collections = [collection[state.example.qid] for state in states]
            return haystacks.rank([state.query for state in states], collections, depth, seen)

        return oracle_hops(
            [question.example for question in questions],
            search,
            self.world.passage,
            self.plan.depths,
            self.sentences,
        )


def _usable(records: Iterable[Supervised]) -> list[Supervised]:
    return [record for record in records if record.positives and record.negatives]
