"""The cross-encoder's stages of a run: condenser, reranker and readers, on what the final retriever finds.

rankings        every question taken through its hops by the final retriever, with the gold facts of what it found
sentences       stage 1 of the condenser, and the reranker beside it where they share a backbone
scores          every sentence that was found, scored by stage 1; and, where a dataset names no gold sentences, which
                of a gold passage's sentences stage 1 takes for them
reading         all heads of one shared backbone; or else facts, reranker, verifier, answerer, one by one
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from baleen.condenser import best, score_sentences
from baleen.crossencoder import HEADS, THREE_LABELS, TWO_LABELS, CrossEncoder, HeadConfig
from baleen.datasets import Example
from baleen.errors import ConfigError
from baleen.progress import progress
from baleen.stopwatch import Stopwatch
from baleen.training.condenser_examples import (
    FactsOf,
    Scorer,
    fact_examples,
    gold_facts,
    rerank_examples,
    sentence_examples,
)
from baleen.training.inspection import write_jsonl
from baleen.training.loop import Outcome, TrainConfig
from baleen.training.reader_examples import Evidence, answer_examples, verdict_examples
from baleen.training.reading_batches import ReadingTraining
from baleen.training.reading_heads import AnswerTask, FactTask, RerankTask, SentenceTask, VerdictTask
from baleen.training.reading_metrics import (
    answer_metrics,
    fact_metrics,
    rerank_metrics,
    sentence_metrics,
    together,
    verdict_metrics,
)
from baleen.training.reading_task import ReadingTask, SharedTask, train_heads
from baleen.training.rounds import Rounds
from baleen.training.run_folder import RunFolder, read_records
from baleen.training.supervision import Step, latent_hop, start, unfinished
from baleen.training.world import Question, World
from baleen.types import Fact, Passage, Query, Record

PARTS = ("train", "dev")
SCORED = 30  # sentences of each question that are kept with their scores
AT_ONCE = 64  # questions whose passages are scored together

Labels = Mapping[tuple[str, str], Sequence[float]]
Metrics = Callable[[], Mapping[str, float]]
Task = ReadingTask[Any, Any]


@dataclass(frozen=True)
class ReadingPlan:
    """How the cross-encoder is trained.

    With `shared` all heads have one backbone, and take turns by `weights`.  `depth` passages of each hop are read.
    `infer` takes the sentence that stage 1 likes best of a gold passage whose sentences are not known for gold.
    `labels` are 2 or 3.  `first` is how stage 1 is trained before the others, `training` how the rest is.
    """

    backbone: str
    shared: bool = True
    depth: int = 25
    infer: bool = True
    labels: int = 2
    weights: Mapping[str, int] = field(default_factory=dict)
    first: TrainConfig = field(default_factory=TrainConfig)
    training: TrainConfig = field(default_factory=TrainConfig)
    learning: ReadingTraining = field(default_factory=ReadingTraining)

    def __post_init__(self) -> None:
        if self.labels not in (2, 3):
            raise ConfigError(f"labels = {self.labels}, which should be 2 or 3")
        unknown = sorted(self.weights.keys() - HEADS.keys())
        if unknown:
            raise ConfigError(f"weights: there is no head '{unknown[0]}'; known are {', '.join(HEADS)}")

    @property
    def heads(self) -> dict[str, HeadConfig]:
        verifier = HeadConfig(TWO_LABELS if self.labels == 2 else THREE_LABELS, pooled=True)
        return {**HEADS, "verifier": verifier}


@dataclass(frozen=True, slots=True)
class Scored(Record):
    """A question's best sentences by stage 1, and its gold facts, known or inferred."""

    qid: str
    found: tuple[Fact, ...]
    gold: tuple[Fact, ...]


class ReadingRun:
    """The stages, over a world and the final retriever of its rounds."""

    def __init__(self, plan: ReadingPlan, rounds: Rounds) -> None:
        self.plan, self.rounds, self.hops = plan, rounds, rounds.hops
        self.world: World = rounds.world
        self.run: RunFolder = rounds.run

    @staticmethod
    def stages(plan: ReadingPlan) -> list[str]:
        last = ["reading"] if plan.shared else ["facts", "reranker", "verifier", "answerer"]
        return ["rankings", "sentences", "scores", *last]

    @staticmethod
    def components(plan: ReadingPlan) -> dict[str, str]:
        """The stage that each component's checkpoint is of."""
        return {head: "reading" if plan.shared else head for head in HEADS}

    def train(self) -> None:
        """Every stage that is not done yet."""
        self.run.do("rankings", self._rankings)
        first = ["sentences", "reranker"] if self.plan.shared else ["sentences"]
        self.run.do("sentences", self._train, first, self.plan.backbone, self.plan.first)
        self.run.do("scores", self._scores)
        if self.plan.shared:
            start_from = self.run.folder("sentences") / "checkpoint"
            self.run.do("reading", self._train, list(HEADS), start_from, self.plan.training)
        else:
            for head in ("facts", "reranker", "verifier", "answerer"):
                self.run.do(head, self._train, [head], self.plan.backbone, self.plan.training)

    # What is read

    def _rankings(self, folder: Path) -> Mapping[str, Any]:
        report = {}
        haystacks = self.rounds.haystacks("retriever")
        for part in PARTS:
            questions: list[Question] = getattr(self.world, part)
            where = {question.example.qid: question.collection for question in questions}
            states, steps = [start(question.example) for question in questions], []
            for _ in range(self.hops):
                collections = [where[state.example.qid] for state in states]
                rankings = haystacks.rank([state.query for state in states], collections, self.plan.depth)
                pairs = zip(states, rankings, strict=True)
                depth = self.plan.depth
                made = [latent_hop(s, r, self.world.passage, depth=depth, negative_depth=depth) for s, r in pairs]
                steps += made
                states = unfinished(made)
            write_jsonl(steps, folder / f"{part}.jsonl.gz")
            report[part] = len(steps)
        return report

    def _steps(self, part: str) -> list[Step]:
        return list(read_records(self.run.folder("rankings") / f"{part}.jsonl.gz", Step))

    def _scores(self, folder: Path) -> Mapping[str, Any]:
        """Stage 1 over all that was found, and over the gold passages whose sentences are not known."""
        reading = CrossEncoder.load(self.run.folder("sentences") / "checkpoint", device=self.rounds.device)
        report = {}
        for part in PARTS:
            steps = self._steps(part)
            found = self._found(reading, steps)
            examples = {question.example.qid: question.example for question in getattr(self.world, part)}
            gold = self._gold(reading, examples.values() if self.plan.infer else ())
            records = [Scored(qid, tuple(found.get(qid, ())), tuple(gold(examples[qid]))) for qid in examples]
            write_jsonl(records, folder / f"{part}.jsonl.gz")
            report[part] = sum(len(record.found) for record in records)
        return report

    def _found(self, reading: CrossEncoder, steps: Sequence[Step]) -> dict[str, list[Fact]]:
        found: dict[str, list[Fact]] = {}
        with progress("scoring", len(steps), "questions") as bar:
            for first in range(0, len(steps), AT_ONCE):
                some = [step.supervised for step in steps[first : first + AT_ONCE]]
                passages = [[self.world.passage(pid) for pid in (*one.positives, *one.negatives)] for one in some]
                scored = score_sentences(reading, [one.query for one in some], passages, 1, Stopwatch(len(some)))
                for one, facts in zip(some, scored, strict=True):
                    found[one.qid] = best([*found.get(one.qid, []), *facts], SCORED)
                bar.advance(len(some))
        return found

    def _gold(self, reading: CrossEncoder, examples: Any) -> FactsOf:
        """Gold facts of an example; those that a dataset does not name are what stage 1 likes best."""
        unclear = [
            (example, self.world.passage(pid))
            for example in examples
            for pid in dict.fromkeys(example.gold)
            if not any(known == pid for known, _ in example.facts)
        ]
        scores: dict[tuple[str, str], list[float]] = {}
        for first in range(0, len(unclear), 4 * AT_ONCE):
            some = unclear[first : first + 4 * AT_ONCE]
            queries, passages = [Query(example.text) for example, _ in some], [[passage] for _, passage in some]
            scored = score_sentences(reading, queries, passages, 1, Stopwatch(len(some)))
            for (example, passage), facts in zip(some, scored, strict=True):
                scores[example.text, passage.pid] = _by_sid(passage, facts)
        return gold_facts(self.world.passage, _lookup(scores) if scores else None)

    # What is trained

    def _train(self, folder: Path, heads: Sequence[str], origin: str | Path, config: TrainConfig) -> Mapping[str, Any]:
        reading = self._origin(origin, heads)
        made = {head: self._task(reading, head) for head in heads}
        usable = {head: task for head, (task, _) in made.items() if task.records}
        if not usable:
            raise ConfigError(f"nothing to train {', '.join(heads)} on: the data has no labels for it")
        evaluate = partial(together, {head: made[head][1] for head in usable})
        weights = [self.plan.weights.get(head, 1) for head in usable]
        task = SharedTask(list(usable.values()), weights) if len(usable) > 1 else next(iter(usable.values()))
        outcome: Outcome = train_heads(reading, task, config, folder / "training", evaluate=evaluate)
        reading.notes["trained"] = list(usable)
        reading.save(folder / "checkpoint")
        told = {f"{head} records": len(task.records) for head, task in usable.items()}
        measured = {name: round(value, 4) for name, value in evaluate().items()}
        return {**told, **measured, "steps": outcome.step, "loss": outcome.loss, "training_seconds": outcome.seconds}

    def _origin(self, origin: str | Path, heads: Sequence[str]) -> CrossEncoder:
        if (Path(origin) / "backbone.json").exists():
            return CrossEncoder.load(origin, device=self.rounds.device, trainable=True)
        wanted = HEADS if self.plan.shared else heads
        chosen = {head: self.plan.heads[head] for head in wanted}
        return CrossEncoder.from_backbone(origin, chosen, device=self.rounds.device)

    def _task(self, reading: CrossEncoder, head: str) -> tuple[Task, Metrics]:
        """A head's training records as a task, and its measure on dev."""
        made: dict[str, Callable[[CrossEncoder], tuple[Task, Metrics]]] = {
            "sentences": self._sentences,
            "facts": self._facts,
            "reranker": self._reranker,
            "verifier": self._verifier,
            "answerer": self._answerer,
        }
        return made[head](reading)

    def _sentences(self, reading: CrossEncoder) -> tuple[Task, Metrics]:
        train, dev = (sentence_examples(self._steps(part), self.world.passage).records for part in PARTS)
        task = SentenceTask(reading, train, self._lookup, self.plan.learning)
        return task, partial(sentence_metrics, reading, dev, self._lookup)

    def _reranker(self, reading: CrossEncoder) -> tuple[Task, Metrics]:
        train, dev = (rerank_examples(self._steps(part), self.world.passage).records for part in PARTS)
        task = RerankTask(reading, train, self._lookup, self.plan.learning)
        return task, partial(rerank_metrics, reading, dev, self._lookup)

    def _facts(self, reading: CrossEncoder) -> tuple[Task, Metrics]:
        train, dev = (
            fact_examples(self._examples(part), self._kept(part, "gold"), self._kept(part, "found"), copies=2).records
            for part in PARTS
        )
        return FactTask(reading, train, self.plan.learning), partial(fact_metrics, reading, dev)

    def _verifier(self, reading: CrossEncoder) -> tuple[Task, Metrics]:
        labels = reading.outputs("verifier")
        train, dev = (verdict_examples(self._examples(part), self._evidence(part), labels).records for part in PARTS)
        return VerdictTask(reading, train, self.plan.learning), partial(verdict_metrics, reading, dev)

    def _answerer(self, reading: CrossEncoder) -> tuple[Task, Metrics]:
        train, dev = (answer_examples(self._examples(part), self._evidence(part)).records for part in PARTS)
        return AnswerTask(reading, train, self.plan.learning), partial(answer_metrics, reading, dev)

    @property
    def _lookup(self) -> Callable[[str], Passage]:
        return self.world.passages.__getitem__

    def _examples(self, part: str) -> list[Example]:
        return [question.example for question in getattr(self.world, part)]

    def _evidence(self, part: str) -> Evidence:
        return Evidence(self._kept(part, "gold"), self._kept(part, "found"))

    def _kept(self, part: str, which: str) -> FactsOf:
        table = self._scored[part]
        return lambda example: getattr(table[example.qid], which)

    @cached_property
    def _scored(self) -> dict[str, dict[str, Scored]]:
        folder = self.run.folder("scores")
        return {part: {one.qid: one for one in read_records(folder / f"{part}.jsonl.gz", Scored)} for part in PARTS}


def _by_sid(passage: Passage, facts: Sequence[Fact]) -> list[float]:
    scores = [-torch.inf] * len(passage.sentences)
    for fact in facts:
        scores[fact.sid] = fact.score
    return scores


def _lookup(scores: Mapping[tuple[str, str], Sequence[float]]) -> Scorer:
    return lambda query, passage: scores[query.text, passage.pid]
