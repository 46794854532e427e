"""The cross-encoder stages of a run: the heads learn from what the trained retriever finds.

    rankings        every question taken through its hops by the final retriever, with the gold facts of what it found
    sentences       stage 1 of the condenser, and the reranker with it if the heads share a backbone
    scores          every sentence found, scored by stage 1; gold sentences inferred where a dataset names passages alone
    reading         all heads on one shared backbone; or else facts, reranker, verifier, answerer, one stage each

A head without usable examples is left out of the model.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from baleen.core.errors import DatasetError
from baleen.data.example import Example
from baleen.models.checkpoint import AVERAGED, FORMATS, read_json, resolve_folder
from baleen.models.cross_encoder import HEADS, CrossEncoder
from baleen.models.folder import component_folder
from baleen.training.cross_encoder.condenser_examples import ExampleSet, gold_facts
from baleen.training.cross_encoder.examples import PARTS, UNSEARCHED, RunExamples
from baleen.training.cross_encoder.heads import AnswerTask, FactTask, RerankTask, SentenceTask, VerdictTask
from baleen.training.cross_encoder.inference import QuestionFacts, found_sentences, infer_sentence_scores, with_hops
from baleen.training.cross_encoder.likely_sentences import add_agreements, facts_without_search, sentence_agreement
from baleen.training.cross_encoder.metrics import (
    DevMetrics,
    Metrics,
    answer_metrics,
    fact_metrics,
    rerank_metrics,
    sentence_metrics,
    verdict_metrics,
)
from baleen.training.cross_encoder.task import CrossEncoderTask, SharedTask, train_heads
from baleen.training.data import Question, TitleMentions
from baleen.training.hop_order.algorithm import FINAL, HopOrderTraining
from baleen.training.hop_order.strategies import supervise_by_ranking
from baleen.training.hop_order.supervision import Step, start
from baleen.training.loop.config import TrainConfig
from baleen.training.plan import SEPARATE_HEADS, CrossEncoderPlan
from baleen.training.stages import CHECKPOINT

log = logging.getLogger(__name__)

Task = CrossEncoderTask[Any, Any]


@dataclass(frozen=True)
class HeadRecipe:
    """How a head is trained: its examples for a part of the data, its task, and its metrics on dev.

    If it `reads_passages`, its task and metrics take a function from a pid to a passage after the records.
    """

    examples: Callable[[RunExamples, str, CrossEncoder], ExampleSet[Any]]
    task: Callable[..., Task]
    metrics: Callable[..., Mapping[str, float]]
    reads_passages: bool = False


RECIPES = {
    "sentences": HeadRecipe(RunExamples.sentences, SentenceTask, sentence_metrics, reads_passages=True),
    "facts": HeadRecipe(RunExamples.facts, FactTask, fact_metrics),
    "reranker": HeadRecipe(RunExamples.reranker, RerankTask, rerank_metrics, reads_passages=True),
    "verifier": HeadRecipe(RunExamples.verifier, VerdictTask, verdict_metrics),
    "answerer": HeadRecipe(RunExamples.answerer, AnswerTask, answer_metrics),
}


class CrossEncoderTraining:
    """The cross-encoder stages, after the retriever stages of the same run."""

    def __init__(self, plan: CrossEncoderPlan, hop_order: HopOrderTraining) -> None:
        self.plan, self.hop_order, self.hops = plan, hop_order, hop_order.hops
        self.data, self.run = hop_order.data, hop_order.run
        self.examples = RunExamples(plan, self.data, self.run)

    def train(self) -> None:
        """Run every stage that is not done."""
        plan = self.plan
        self.run.run_stage("rankings", self._rankings)
        self.hop_order.indexes.release()
        first = ["sentences", "reranker"] if plan.shared else ["sentences"]
        self.run.run_stage("sentences", self._train, first, plan.backbone, plan.first)
        self.run.run_stage("scores", self._scores)
        if plan.shared:
            origin = self.run.folder("sentences") / CHECKPOINT
            self.run.run_stage("reading", self._train, list(HEADS), origin, plan.training)
        else:
            for head in SEPARATE_HEADS:
                self.run.run_stage(head, self._train, [head], plan.backbone, plan.training_of(head))

    # Stages

    def _rankings(self, folder: Path) -> Mapping[str, Any]:
        counts = {}
        for part, questions in (("train", self.data.train), ("dev", self.data.dev)):
            steps = self._take_hops(questions)
            self.run.write(steps, folder / f"{part}.jsonl.gz")
            counts[part] = len(steps)
        return {"queries": counts, "mining_seconds": self.hop_order.indexes.seconds()}

    def _take_hops(self, questions: Sequence[Question]) -> list[Step]:
        """Steps of the pipeline with a perfect condenser, which does not retrieve a passage twice.

        As in the pipeline, there is one more hop after the last gold passage is found: it has only facts that the condenser
        should reject.  The last hop counts all gold passages left as found, so that the condenser learns from them too.
        """
        index, depth, boost = self.hop_order.indexes.of(FINAL), self.plan.depth, self.plan.mention_boost
        mentions = TitleMentions(self.data) if boost else None
        collection = {question.example.qid: question.collection for question in questions}
        seen: dict[str, list[str]] = {qid: [] for qid in collection}
        states, steps = [start(question.example) for question in questions], list[Step]()
        for hop in range(1, self.hops + 1):
            qids, queries = [state.example.qid for state in states], [state.query for state in states]
            collections, exclude = [collection[qid] for qid in qids], [seen[qid] for qid in qids]
            boosted = [mentions.mentioned(*each) for each in zip(queries, collections, strict=True)] if mentions else ()
            rankings = index.rank(queries, collections, depth, exclude, boosted=boosted, boost=boost)
            for qid, ranking in zip(qids, rankings, strict=True):
                seen[qid] += ranking.pids
            within = depth if hop < self.hops else None
            supervise = supervise_by_ranking(within, self.data.passage, depth, self.hop_order.sentences)
            taken = [supervise(state, ranking) for state, ranking in zip(states, rankings, strict=True)]
            steps += taken
            states = [step.state for step in taken if step.supervised.positives or not step.state.done]
        return steps

    def _scores(self, folder: Path) -> Mapping[str, Any]:
        """Score every sentence found with stage 1, and infer gold sentences that the data does not name."""
        cross_encoder = CrossEncoder.load(self.run.folder("sentences") / CHECKPOINT, device=self.hop_order.device)
        processes, counts, agreement = self.run.processes, {}, {}
        unsearched = [question.example for question in self.data.unsearched]
        make = facts_without_search(self.data.passage, self.plan.infer)
        self.run.write_each(make, unsearched, folder / f"{UNSEARCHED}.jsonl.gz", "preparing")
        for part in PARTS:
            own = processes.shard(self.examples.searched(part))
            steps = self.examples.steps_of(part, own)
            records = processes.gather(self._score_questions(cross_encoder, own, steps))
            self.run.write(records, folder / f"{part}.jsonl.gz")
            counts[part] = sum(len(record.found) for record in records)
            if self.plan.infer:
                known = sentence_agreement(cross_encoder, steps, self.data.passage)
                agreement[part] = add_agreements(processes.gather([known])).to_json()
        return {"sentences": counts, "agreement": agreement, "unsearched": len(unsearched)}

    def _score_questions(
        self, cross_encoder: CrossEncoder, examples: Sequence[Example], steps: Sequence[Step]
    ) -> list[QuestionFacts]:
        passage = self.data.passage
        found = found_sentences(cross_encoder, steps, passage)
        scorer = infer_sentence_scores(cross_encoder, steps, passage) if self.plan.infer else None
        gold = with_hops(gold_facts(passage, scorer), steps)
        return [QuestionFacts(each.qid, tuple(found.get(each.qid, ())), tuple(gold(each))) for each in examples]

    def _train(self, folder: Path, heads: Sequence[str], origin: str | Path, config: TrainConfig) -> Mapping[str, Any]:
        cross_encoder = self._origin(origin, heads)
        made = {head: self._task(cross_encoder, head) for head in heads}
        tasks = {head: task for head, (task, _) in made.items() if task.records}
        if "sentences" in heads and "sentences" not in tasks:
            raise DatasetError(
                "stage 1 of the condenser has no examples: no training question has gold sentences and retrieved passages "
                "that are not gold; annotate some gold sentences, set infer = true, or leave [reading] out"
            )
        if not tasks:
            return {"trained": []}
        metrics = {head: measure for head, (_, measure) in made.items() if head in tasks and measure is not None}
        measure = DevMetrics(metrics) if metrics else None
        task = shared_task(tasks, self.plan.weights)
        outcome = train_heads(cross_encoder, task, config, folder / "training", evaluate=measure)
        cross_encoder.notes["trained"] = list(tasks)
        cross_encoder.notes.pop(AVERAGED, None)  # the origin may be a mean of checkpoints, the trained model is not
        self.run.save(cross_encoder, folder)
        dev = measure.of_weights(unchanged=outcome.best_step == outcome.step) if measure else {}
        return {
            "trained": list(tasks),
            "records": {head: len(task.records) for head, task in tasks.items()},
            **outcome.report(),
            "dev": {name: round(value, 4) for name, value in dev.items()},
        }

    def _origin(self, origin: str | Path, heads: Sequence[str]) -> CrossEncoder:
        """A backbone with new heads, or a trained cross-encoder to go on from."""
        source = resolve_folder(origin)
        if read_json(source / "config.json").get("format") in FORMATS:
            return CrossEncoder.load(component_folder(source, heads[0]), device=self.hop_order.device, trainable=True)
        chosen = {head: self.plan.heads[head] for head in (HEADS if self.plan.shared else heads)}
        return CrossEncoder.from_backbone(source, chosen, self.plan.inputs, device=self.hop_order.device)

    def _task(self, cross_encoder: CrossEncoder, head: str) -> tuple[Task, Metrics | None]:
        """The task of a head, and its metrics if there are dev examples."""
        recipe = RECIPES[head]
        train, dev = (recipe.examples(self.examples, part, cross_encoder) for part in PARTS)
        for reason, count in train.left_out.items():
            log.info("%s: %s records are left out: %s", head, f"{count:,}", reason)
        if not train.records:
            log.warning("%s: no usable examples, so the model will not have this head", head)
        passages = (self.data.passage,) if recipe.reads_passages else ()
        task = recipe.task(cross_encoder, train.records, *passages, self.plan.learning)
        task.weights = self.data.weights
        return task, partial(recipe.metrics, cross_encoder, dev.records, *passages) if dev.records else None


def shared_task(tasks: Mapping[str, Task], weights: Mapping[str, int]) -> SharedTask | Task:
    """One task for all heads; a single head keeps its own."""
    if len(tasks) == 1:
        return next(iter(tasks.values()))
    return SharedTask(list(tasks.values()), [weights.get(head, 1) for head in tasks])
