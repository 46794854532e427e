"""The cross-encoder's stages of a run: condenser, reranker and readers, on what the final retriever finds.

rankings        every question taken through its hops by the final retriever, with the gold facts of what it found
sentences       stage 1 of the condenser, and the reranker beside it where they share a backbone
scores          every sentence that was found, scored by stage 1; and, where a dataset names no gold sentences, which
                of a gold passage's sentences stage 1 takes for them; of questions that are only read, the sentences of
                their gold passages (unsearched.py)
reading         all heads of one shared backbone; or else facts, reranker, verifier, answerer, one by one

A head that the data has no labels for is left out, and the model will lack it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from baleen.core.errors import DatasetError
from baleen.core.files import read_all_records
from baleen.data.example import Example
from baleen.models.checkpoint import AVERAGED, FORMATS, read_json, resolve_folder
from baleen.models.cross_encoder import HEADS, CrossEncoder
from baleen.models.folder import component_folder
from baleen.training.cross_encoder.condenser_examples import (
    FactsOf,
    Made,
    RerankExample,
    SentenceExample,
    fact_sources,
    gold_facts,
    rerank_examples,
    sentence_examples,
    settled,
)
from baleen.training.cross_encoder.heads import AnswerTask, FactTask, RerankTask, SentenceTask, VerdictTask
from baleen.training.cross_encoder.inference import Scored, found_sentences, inferring, of_hops
from baleen.training.cross_encoder.likely_sentences import likelihood_scorer, sentence_agreement, total, unsearched
from baleen.training.cross_encoder.metrics import (
    Measure,
    Metrics,
    answer_metrics,
    fact_metrics,
    rerank_metrics,
    sentence_metrics,
    verdict_metrics,
)
from baleen.training.cross_encoder.reader_examples import Evidence, answer_sources, verdict_sources
from baleen.training.cross_encoder.task import CrossEncoderTask, SharedTask, train_heads
from baleen.training.data import Question, TitleMentions, TrainingData
from baleen.training.hop_order.algorithm import HopOrderTraining
from baleen.training.hop_order.supervision import Step, latent_hop, start
from baleen.training.loop.config import TrainConfig
from baleen.training.plan import APART, CrossEncoderPlan
from baleen.training.stages import CHECKPOINT, RunFolder

log = logging.getLogger(__name__)

PARTS = ("train", "dev")
READ = "read"  # questions to train on that are not searched for
POOLS = 2  # of each question, for stage 2 to be measured on

Task = CrossEncoderTask[Any, Any]


class CrossEncoderTraining:
    """The stages, over a world and the final retriever of its rounds."""

    def __init__(self, plan: CrossEncoderPlan, rounds: HopOrderTraining) -> None:
        self.plan, self.rounds, self.hops = plan, rounds, rounds.hops
        self.world: TrainingData = rounds.world
        self.run: RunFolder = rounds.run
        self._known_steps: dict[str, list[Step]] = {}

    def train(self) -> None:
        """Every stage that is not done yet."""
        plan = self.plan
        self.run.do("rankings", self._rankings)
        self.rounds.release()
        first = ["sentences", "reranker"] if plan.shared else ["sentences"]
        self.run.do("sentences", self._train, first, plan.backbone, plan.first)
        self.run.do("scores", self._scores)
        if plan.shared:
            start_from = self.run.folder("sentences") / CHECKPOINT
            self.run.do("reading", self._train, list(HEADS), start_from, plan.training)
        else:
            for head in APART:
                self.run.do(head, self._train, [head], plan.backbone, plan.training_of(head))

    # What is read

    def _rankings(self, folder: Path) -> Mapping[str, Any]:
        counts = {}
        for part in PARTS:
            steps = self._taken_through(getattr(self.world, part))
            self.run.write(steps, folder / f"{part}.jsonl.gz")
            counts[part] = len(steps)
        return {"queries": counts, "mining_seconds": self.rounds.mining_seconds()}

    def _taken_through(self, questions: Sequence[Question]) -> list[Step]:
        """As the pipeline goes, with a perfect condenser: what a hop saw does not come again.

        It goes on for one hop after the last gold passage was found, as the pipeline does, which cannot know: what comes
        then is what the condenser has to leave.  The last hop counts all the gold passages that are left as found, so that
        the condenser learns from them too.
        """
        haystacks, depth, bonus = self.rounds.haystacks("retriever"), self.plan.depth, self.plan.mention_boost
        names = TitleMentions(self.world) if bonus else None
        where = {question.example.qid: question.collection for question in questions}
        seen: dict[str, list[str]] = {qid: [] for qid in where}
        states, steps = [start(question.example) for question in questions], []
        for hop in range(1, self.hops + 1):
            qids = [state.example.qid for state in states]
            queries, collections = [state.query for state in states], [where[qid] for qid in qids]
            named = [names.named(*asked) for asked in zip(queries, collections, strict=True)] if names else ()
            rankings = haystacks.rank(
                queries, collections, depth, [seen[qid] for qid in qids], favoured=named, bonus=bonus
            )
            for qid, ranking in zip(qids, rankings, strict=True):
                seen[qid] += ranking.pids
            within = depth if hop < self.hops else None
            hop_of = partial(
                latent_hop,
                passages=self.world.passage,
                depth=within,
                negative_depth=depth,
                sentences=self.rounds.sentences,
            )
            made = [hop_of(state, ranking) for state, ranking in zip(states, rankings, strict=True)]
            steps += made
            states = [step.state for step in made if step.supervised.positives or not step.state.done]
        return steps

    def _scores(self, folder: Path) -> Mapping[str, Any]:
        """Stage 1 over all that was found, and over the gold passages whose sentences are not known."""
        reading = CrossEncoder.load(self.run.folder("sentences") / CHECKPOINT, device=self.rounds.device)
        processes, counts, agreement = self.run.processes, {}, {}
        read, made = [each.example for each in self.world.read], unsearched(self.world.passage, self.plan.infer)
        self.run.write_each(made, read, folder / f"{READ}.jsonl.gz", "laying out")
        for part in PARTS:
            own = processes.own(self._examples(part))
            steps = self._steps_of(part, own)
            records = processes.collected(self._scored_by(reading, own, steps))
            self.run.write(records, folder / f"{part}.jsonl.gz")
            counts[part] = sum(len(record.found) for record in records)
            if self.plan.infer:
                known = sentence_agreement(reading, steps, self.world.passage)
                agreement[part] = total(processes.collected([known])).to_json()
        return {"sentences": counts, "agreement": agreement, "unsearched": len(read)}

    def _scored_by(self, reading: CrossEncoder, examples: Sequence[Example], steps: Sequence[Step]) -> list[Scored]:
        """These examples, with the best sentences of all that their hops found."""
        passage = self.world.passage
        found = found_sentences(reading, steps, passage)
        gold = of_hops(gold_facts(passage, inferring(reading, steps, passage) if self.plan.infer else None), steps)
        return [Scored(each.qid, tuple(found.get(each.qid, ())), tuple(gold(each))) for each in examples]

    # What is trained

    def _train(self, folder: Path, heads: Sequence[str], origin: str | Path, config: TrainConfig) -> Mapping[str, Any]:
        reading = self._origin(origin, heads)
        made = {head: self._task(reading, head) for head in heads}
        tasks = {head: task for head, (task, _) in made.items() if task.records}
        if "sentences" in heads and "sentences" not in tasks:
            raise DatasetError(
                "no question to train on has gold sentences and other passages beside its gold ones, which stage 1 of "
                "the condenser learns from: name the sentences of some of them, set infer = true, or leave [reading] out"
            )
        if not tasks:
            return {"trained": []}
        measures = {head: measure for head, (_, measure) in made.items() if head in tasks and measure is not None}
        measure = Measure(measures) if measures else None
        task = _together(tasks, self.plan.weights)
        outcome = train_heads(reading, task, config, folder / "training", evaluate=measure)
        reading.notes["trained"] = list(tasks)
        reading.notes.pop(AVERAGED, None)  # what it started from may be a mean, what came of it is none
        self.run.save(reading, folder)
        measured = measure.again(outcome.best_step == outcome.step) if measure else {}
        return {
            "trained": list(tasks),
            "records": {head: len(task.records) for head, task in tasks.items()},
            **outcome.report(),
            "dev": {name: round(value, 4) for name, value in measured.items()},
        }

    def _origin(self, origin: str | Path, heads: Sequence[str]) -> CrossEncoder:
        """Heads of a backbone, or a cross-encoder to go on from."""
        source = resolve_folder(origin)
        if read_json(source / "config.json").get("format") in FORMATS:
            return CrossEncoder.load(component_folder(source, heads[0]), device=self.rounds.device, trainable=True)
        chosen = {head: self.plan.heads[head] for head in (HEADS if self.plan.shared else heads)}
        return CrossEncoder.from_backbone(source, chosen, self.plan.inputs, device=self.rounds.device)

    def _task(self, reading: CrossEncoder, head: str) -> tuple[Task, Metrics | None]:
        """A head's training records as a task, and its measure on dev, if there is anything to measure on."""
        make: Callable[[CrossEncoder, str], Made[Any]] = getattr(self, f"_{head}")
        train, dev = (make(reading, part) for part in PARTS)
        for reason, count in train.left_out.items():
            log.info("%s: %s records are left out: %s", head, f"{count:,}", reason)
        if not train.records:
            log.warning("%s: nothing to learn from, so the model will not have it", head)
        kinds: dict[str, tuple[Callable[..., Task], Callable[..., Mapping[str, float]], tuple[Any, ...]]] = {
            "sentences": (SentenceTask, sentence_metrics, (self.world.passage,)),
            "facts": (FactTask, fact_metrics, ()),
            "reranker": (RerankTask, rerank_metrics, (self.world.passage,)),
            "verifier": (VerdictTask, verdict_metrics, ()),
            "answerer": (AnswerTask, answer_metrics, ()),
        }
        kind, metrics, passages = kinds[head]
        measure = partial(metrics, reading, dev.records, *passages) if dev.records else None
        task = kind(reading, train.records, *passages, self.plan.learning)
        task.weights = self.world.weights
        return task, measure

    def _sentences(self, _: CrossEncoder, part: str) -> Made[Any]:
        most, passage = max(self.plan.negatives), self.world.passage
        scorer = likelihood_scorer(self._examples(part), passage) if self.plan.infer else None
        return self._within(sentence_examples(self._steps(part), passage, negatives=most, scorer=scorer))

    def _reranker(self, _: CrossEncoder, part: str) -> Made[Any]:
        most = max(self.plan.negatives)
        return self._within(rerank_examples(self._steps(part), self.world.passage, negatives=most))

    def _within(self, made: Made[Any]) -> Made[Any]:
        """With the negatives that the plan allows to each hop."""
        records: Sequence[SentenceExample | RerankExample] = made.records
        made.records = [replace(each, negatives=each.negatives[: self.plan.negatives_at(each.hop)]) for each in records]
        return made

    def _facts(self, _: CrossEncoder, part: str) -> Made[Any]:
        gold, found = self._kept(part, "gold"), self._kept(part, "found")
        sources = fact_sources(self._readable(part), gold, found)
        return sources if part == "train" else settled(sources, POOLS)

    def _verifier(self, reading: CrossEncoder, part: str) -> Made[Any]:
        labels = reading.outputs("verifier")
        if part != "train":
            return settled(verdict_sources(self._readable(part), self._evidence(part), labels))
        evidence = replace(self._evidence(part), incomplete=self.plan.incomplete)
        return verdict_sources(self._readable(part), evidence, labels)

    def _answerer(self, _: CrossEncoder, part: str) -> Made[Any]:
        sources = answer_sources(self._readable(part), self._evidence(part))
        return sources if part == "train" else settled(sources)

    # What earlier stages made

    def _steps(self, part: str) -> list[Step]:
        """What every head and the scores are made from, so that it is read once."""
        if part not in self._known_steps:
            self._known_steps[part] = read_all_records(self.run.folder("rankings") / f"{part}.jsonl.gz", Step)
        return self._known_steps[part]

    def _steps_of(self, part: str, examples: Sequence[Example]) -> list[Step]:
        qids = {example.qid for example in examples}
        return [step for step in self._steps(part) if step.supervised.qid in qids]

    def _examples(self, part: str) -> list[Example]:
        return [question.example for question in getattr(self.world, part)]

    def _readable(self, part: str) -> list[Example]:
        """Those whose facts are known: what was searched for, and in training what is only read."""
        return [*self._examples(part), *(each.example for each in self.world.read if part == "train")]

    def _evidence(self, part: str) -> Evidence:
        return Evidence(self._kept(part, "gold"), self._kept(part, "found"))

    def _kept(self, part: str, which: str) -> FactsOf:
        table = self._scored[part]
        return lambda example: getattr(table[example.qid], which)

    @cached_property
    def _scored(self) -> dict[str, dict[str, Scored]]:
        train, dev, read = (
            {one.qid: one for one in read_all_records(self.run.folder("scores") / f"{part}.jsonl.gz", Scored)}
            for part in (*PARTS, READ)
        )
        return {"train": {**train, **read}, "dev": dev}


def _together(tasks: Mapping[str, Task], weights: Mapping[str, int]) -> SharedTask | Task:
    if len(tasks) == 1:
        return next(iter(tasks.values()))
    return SharedTask(list(tasks.values()), [weights.get(head, 1) for head in tasks])
