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
from baleen.models.checkpoint import AVERAGED, OURS, read_json, resolve_folder
from baleen.models.cross_encoder import HEADS, CrossEncoder
from baleen.models.folder import component_folder
from baleen.training.cross_encoder.condenser_examples import (
    ExampleSet,
    FactsOf,
    RerankExample,
    SentenceExample,
    draw_fixed,
    fact_sources,
    gold_facts,
    rerank_examples,
    sentence_examples,
)
from baleen.training.cross_encoder.heads import AnswerTask, FactTask, RerankTask, SentenceTask, VerdictTask
from baleen.training.cross_encoder.inference import QuestionFacts, found_sentences, infer_sentence_scores, with_hops
from baleen.training.cross_encoder.likely_sentences import (
    add_agreements,
    facts_without_search,
    likelihood_scorer,
    sentence_agreement,
)
from baleen.training.cross_encoder.metrics import (
    DevMetrics,
    Metrics,
    answer_metrics,
    fact_metrics,
    rerank_metrics,
    sentence_metrics,
    verdict_metrics,
)
from baleen.training.cross_encoder.reader_examples import EvidencePools, answer_sources, verdict_sources
from baleen.training.cross_encoder.task import CrossEncoderTask, SharedTask, train_heads
from baleen.training.data import Question, TitleMentions, TrainingData
from baleen.training.hop_order.algorithm import HopOrderTraining
from baleen.training.hop_order.supervision import Step, latent_hop, start
from baleen.training.loop.config import TrainConfig
from baleen.training.plan import SEPARATE_HEADS, CrossEncoderPlan
from baleen.training.stages import CHECKPOINT, RunFolder

log = logging.getLogger(__name__)

PARTS = ("train", "dev")
READ = "read"  # questions to train on that are not searched for
POOLS = 2  # of each question, for stage 2 to be measured on

Task = CrossEncoderTask[Any, Any]


class CrossEncoderTraining:
    """The stages, over a world and the final retriever of its rounds."""

    def __init__(self, plan: CrossEncoderPlan, hop_order: HopOrderTraining) -> None:
        self.plan, self.hop_order, self.hops = plan, hop_order, hop_order.hops
        self.data: TrainingData = hop_order.data
        self.run: RunFolder = hop_order.run
        self._known_steps: dict[str, list[Step]] = {}

    def train(self) -> None:
        """Every stage that is not done yet."""
        plan = self.plan
        self.run.run_stage("rankings", self._rankings)
        self.hop_order.release()
        first = ["sentences", "reranker"] if plan.shared else ["sentences"]
        self.run.run_stage("sentences", self._train, first, plan.backbone, plan.first)
        self.run.run_stage("scores", self._scores)
        if plan.shared:
            start_from = self.run.folder("sentences") / CHECKPOINT
            self.run.run_stage("reading", self._train, list(HEADS), start_from, plan.training)
        else:
            for head in SEPARATE_HEADS:
                self.run.run_stage(head, self._train, [head], plan.backbone, plan.training_of(head))

    # What is read

    def _rankings(self, folder: Path) -> Mapping[str, Any]:
        counts = {}
        for part in PARTS:
            steps = self._taken_through(getattr(self.data, part))
            self.run.write(steps, folder / f"{part}.jsonl.gz")
            counts[part] = len(steps)
        return {"queries": counts, "mining_seconds": self.hop_order.mining_seconds()}

    def _taken_through(self, questions: Sequence[Question]) -> list[Step]:
        """As the pipeline goes, with a perfect condenser: what a hop saw does not come again.

        It goes on for one hop after the last gold passage was found, as the pipeline does, which cannot know: what comes
        then is what the condenser has to leave.  The last hop counts all the gold passages that are left as found, so that
        the condenser learns from them too.
        """
        mining_index, depth, bonus = self.hop_order.mining_index("retriever"), self.plan.depth, self.plan.mention_boost
        names = TitleMentions(self.data) if bonus else None
        where = {question.example.qid: question.collection for question in questions}
        seen: dict[str, list[str]] = {qid: [] for qid in where}
        states, steps = [start(question.example) for question in questions], []
        for hop in range(1, self.hops + 1):
            qids = [state.example.qid for state in states]
            queries, collections = [state.query for state in states], [where[qid] for qid in qids]
            named = [names.mentioned(*asked) for asked in zip(queries, collections, strict=True)] if names else ()
            rankings = mining_index.rank(
                queries, collections, depth, [seen[qid] for qid in qids], boosted=named, bonus=bonus
            )
            for qid, ranking in zip(qids, rankings, strict=True):
                seen[qid] += ranking.pids
            within = depth if hop < self.hops else None
            hop_of = partial(
                latent_hop,
                passages=self.data.passage,
                depth=within,
                negative_depth=depth,
                sentences=self.hop_order.sentences,
            )
            made = [hop_of(state, ranking) for state, ranking in zip(states, rankings, strict=True)]
            steps += made
            states = [step.state for step in made if step.supervised.positives or not step.state.done]
        return steps

    def _scores(self, folder: Path) -> Mapping[str, Any]:
        """Stage 1 over all that was found, and over the gold passages whose sentences are not known."""
        cross_encoder = CrossEncoder.load(self.run.folder("sentences") / CHECKPOINT, device=self.hop_order.device)
        processes, counts, agreement = self.run.processes, {}, {}
        read, made = (
            [each.example for each in self.data.unsearched],
            facts_without_search(self.data.passage, self.plan.infer),
        )
        self.run.write_each(made, read, folder / f"{READ}.jsonl.gz", "laying out")
        for part in PARTS:
            own = processes.shard(self._examples(part))
            steps = self._steps_of(part, own)
            records = processes.gather(self._scored_by(cross_encoder, own, steps))
            self.run.write(records, folder / f"{part}.jsonl.gz")
            counts[part] = sum(len(record.found) for record in records)
            if self.plan.infer:
                known = sentence_agreement(cross_encoder, steps, self.data.passage)
                agreement[part] = add_agreements(processes.gather([known])).to_json()
        return {"sentences": counts, "agreement": agreement, "unsearched": len(read)}

    def _scored_by(
        self, cross_encoder: CrossEncoder, examples: Sequence[Example], steps: Sequence[Step]
    ) -> list[QuestionFacts]:
        """These examples, with the best sentences of all that their hops found."""
        passage = self.data.passage
        found = found_sentences(cross_encoder, steps, passage)
        gold = with_hops(
            gold_facts(passage, infer_sentence_scores(cross_encoder, steps, passage) if self.plan.infer else None),
            steps,
        )
        return [QuestionFacts(each.qid, tuple(found.get(each.qid, ())), tuple(gold(each))) for each in examples]

    # What is trained

    def _train(self, folder: Path, heads: Sequence[str], origin: str | Path, config: TrainConfig) -> Mapping[str, Any]:
        cross_encoder = self._origin(origin, heads)
        made = {head: self._task(cross_encoder, head) for head in heads}
        tasks = {head: task for head, (task, _) in made.items() if task.records}
        if "sentences" in heads and "sentences" not in tasks:
            raise DatasetError(
                "no question to train on has gold sentences and other passages beside its gold ones, which stage 1 of "
                "the condenser learns from: name the sentences of some of them, set infer = true, or leave [reading] out"
            )
        if not tasks:
            return {"trained": []}
        measures = {head: measure for head, (_, measure) in made.items() if head in tasks and measure is not None}
        measure = DevMetrics(measures) if measures else None
        task = _together(tasks, self.plan.weights)
        outcome = train_heads(cross_encoder, task, config, folder / "training", evaluate=measure)
        cross_encoder.notes["trained"] = list(tasks)
        cross_encoder.notes.pop(AVERAGED, None)  # what it started from may be a mean, what came of it is none
        self.run.save(cross_encoder, folder)
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
        if read_json(source / "config.json").get("format") in OURS:
            return CrossEncoder.load(component_folder(source, heads[0]), device=self.hop_order.device, trainable=True)
        chosen = {head: self.plan.heads[head] for head in (HEADS if self.plan.shared else heads)}
        return CrossEncoder.from_backbone(source, chosen, self.plan.inputs, device=self.hop_order.device)

    def _task(self, cross_encoder: CrossEncoder, head: str) -> tuple[Task, Metrics | None]:
        """A head's training records as a task, and its measure on dev, if there is anything to measure on."""
        make: Callable[[CrossEncoder, str], ExampleSet[Any]] = getattr(self, f"_{head}")
        train, dev = (make(cross_encoder, part) for part in PARTS)
        for reason, count in train.left_out.items():
            log.info("%s: %s records are left out: %s", head, f"{count:,}", reason)
        if not train.records:
            log.warning("%s: nothing to learn from, so the model will not have it", head)
        kinds: dict[str, tuple[Callable[..., Task], Callable[..., Mapping[str, float]], tuple[Any, ...]]] = {
            "sentences": (SentenceTask, sentence_metrics, (self.data.passage,)),
            "facts": (FactTask, fact_metrics, ()),
            "reranker": (RerankTask, rerank_metrics, (self.data.passage,)),
            "verifier": (VerdictTask, verdict_metrics, ()),
            "answerer": (AnswerTask, answer_metrics, ()),
        }
        kind, metrics, passages = kinds[head]
        measure = partial(metrics, cross_encoder, dev.records, *passages) if dev.records else None
        task = kind(cross_encoder, train.records, *passages, self.plan.learning)
        task.weights = self.data.weights
        return task, measure

    def _sentences(self, _: CrossEncoder, part: str) -> ExampleSet[Any]:
        most, passage = max(self.plan.negatives), self.data.passage
        scorer = likelihood_scorer(self._examples(part), passage) if self.plan.infer else None
        return self._within(sentence_examples(self._steps(part), passage, negatives=most, scorer=scorer))

    def _reranker(self, _: CrossEncoder, part: str) -> ExampleSet[Any]:
        most = max(self.plan.negatives)
        return self._within(rerank_examples(self._steps(part), self.data.passage, negatives=most))

    def _within(self, made: ExampleSet[Any]) -> ExampleSet[Any]:
        """With the negatives that the plan allows to each hop."""
        records: Sequence[SentenceExample | RerankExample] = made.records
        made.records = [replace(each, negatives=each.negatives[: self.plan.negatives_at(each.hop)]) for each in records]
        return made

    def _facts(self, _: CrossEncoder, part: str) -> ExampleSet[Any]:
        gold, found = self._kept(part, "gold"), self._kept(part, "found")
        sources = fact_sources(self._readable(part), gold, found)
        return sources if part == "train" else draw_fixed(sources, POOLS)

    def _verifier(self, cross_encoder: CrossEncoder, part: str) -> ExampleSet[Any]:
        labels = cross_encoder.outputs("verifier")
        if part != "train":
            return draw_fixed(verdict_sources(self._readable(part), self._evidence(part), labels))
        evidence = replace(self._evidence(part), incomplete=self.plan.incomplete)
        return verdict_sources(self._readable(part), evidence, labels)

    def _answerer(self, _: CrossEncoder, part: str) -> ExampleSet[Any]:
        sources = answer_sources(self._readable(part), self._evidence(part))
        return sources if part == "train" else draw_fixed(sources)

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
        return [question.example for question in getattr(self.data, part)]

    def _readable(self, part: str) -> list[Example]:
        """Those whose facts are known: what was searched for, and in training what is only read."""
        return [*self._examples(part), *(each.example for each in self.data.unsearched if part == "train")]

    def _evidence(self, part: str) -> EvidencePools:
        return EvidencePools(self._kept(part, "gold"), self._kept(part, "found"))

    def _kept(self, part: str, which: str) -> FactsOf:
        table = self._scored[part]
        return lambda example: getattr(table[example.qid], which)

    @cached_property
    def _scored(self) -> dict[str, dict[str, QuestionFacts]]:
        train, dev, read = (
            {one.qid: one for one in read_all_records(self.run.folder("scores") / f"{part}.jsonl.gz", QuestionFacts)}
            for part in (*PARTS, READ)
        )
        return {"train": {**train, **read}, "dev": dev}


def _together(tasks: Mapping[str, Task], weights: Mapping[str, int]) -> SharedTask | Task:
    if len(tasks) == 1:
        return next(iter(tasks.values()))
    return SharedTask(list(tasks.values()), [weights.get(head, 1) for head in tasks])
