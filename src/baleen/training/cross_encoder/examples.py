"""Examples of every head, from what the stages `rankings` and `scores` of a run saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from baleen.core.files import read_all_records
from baleen.data.example import Example
from baleen.models.cross_encoder import CrossEncoder
from baleen.training.cross_encoder.condenser_examples import (
    ExampleSet,
    FactsOf,
    RerankExample,
    SentenceExample,
    draw_fixed,
    fact_sources,
    rerank_examples,
    sentence_examples,
)
from baleen.training.cross_encoder.inference import QuestionFacts
from baleen.training.cross_encoder.likely_sentences import likelihood_scorer
from baleen.training.cross_encoder.reader_examples import EvidencePools, answer_sources, verdict_sources
from baleen.training.data import TrainingData
from baleen.training.hop_order.supervision import Step
from baleen.training.plan import CrossEncoderPlan
from baleen.training.stages import RunFolder

PARTS = ("train", "dev")
UNSEARCHED = "read"  # file of the training questions that are not searched for
DEV_POOLS = 2  # pools of each dev question, for stage 2 of the condenser


class RunExamples:
    """Examples of each head for a part of the data: "train" or "dev".

    Training sources are drawn from anew each time they come up; dev examples are drawn once.
    """

    def __init__(self, plan: CrossEncoderPlan, data: TrainingData, run: RunFolder) -> None:
        self._plan, self._data, self._run = plan, data, run
        self._steps: dict[str, list[Step]] = {}

    def sentences(self, part: str, _: CrossEncoder) -> ExampleSet[SentenceExample]:
        most, passage = max(self._plan.negatives), self._data.passage
        scorer = likelihood_scorer(self.searched(part), passage) if self._plan.infer else None
        made = sentence_examples(self.steps(part), passage, negatives=most, scorer=scorer)
        made.records = [replace(each, negatives=self._limited(each)) for each in made.records]
        return made

    def reranker(self, part: str, _: CrossEncoder) -> ExampleSet[RerankExample]:
        made = rerank_examples(self.steps(part), self._data.passage, negatives=max(self._plan.negatives))
        made.records = [replace(each, negatives=self._limited(each)) for each in made.records]
        return made

    def facts(self, part: str, _: CrossEncoder) -> ExampleSet[Any]:
        sources = fact_sources(self._with_facts(part), self._facts(part, "gold"), self._facts(part, "found"))
        return sources if part == "train" else draw_fixed(sources, DEV_POOLS)

    def verifier(self, part: str, cross_encoder: CrossEncoder) -> ExampleSet[Any]:
        evidence, labels = self._evidence(part), cross_encoder.outputs("verifier")
        if part == "train":
            evidence = replace(evidence, incomplete=self._plan.incomplete)
        sources = verdict_sources(self._with_facts(part), evidence, labels)
        return sources if part == "train" else draw_fixed(sources)

    def answerer(self, part: str, _: CrossEncoder) -> ExampleSet[Any]:
        sources = answer_sources(self._with_facts(part), self._evidence(part))
        return sources if part == "train" else draw_fixed(sources)

    def steps(self, part: str) -> list[Step]:
        """Steps of the stage `rankings`, read once."""
        if part not in self._steps:
            self._steps[part] = read_all_records(self._run.folder("rankings") / f"{part}.jsonl.gz", Step)
        return self._steps[part]

    def steps_of(self, part: str, examples: Sequence[Example]) -> list[Step]:
        qids = {example.qid for example in examples}
        return [step for step in self.steps(part) if step.supervised.qid in qids]

    def searched(self, part: str) -> list[Example]:
        """Questions that are searched for."""
        return [question.example for question in (self._data.train if part == "train" else self._data.dev)]

    def _limited(self, example: SentenceExample | RerankExample) -> tuple[str, ...]:
        """Negatives within the depth that the plan has for the hop."""
        return example.negatives[: self._plan.negatives_at(example.hop)]

    def _with_facts(self, part: str) -> list[Example]:
        """Questions with scored facts; training has those that are not searched for as well."""
        unsearched = [question.example for question in self._data.unsearched] if part == "train" else []
        return [*self.searched(part), *unsearched]

    def _evidence(self, part: str) -> EvidencePools:
        return EvidencePools(self._facts(part, "gold"), self._facts(part, "found"))

    def _facts(self, part: str, field: str) -> FactsOf:
        """The facts of the stage `scores` in a field of `QuestionFacts`."""
        known = self._scored[part]
        return lambda example: getattr(known[example.qid], field)

    @cached_property
    def _scored(self) -> dict[str, dict[str, QuestionFacts]]:
        train, dev, unsearched = (
            {
                each.qid: each
                for each in read_all_records(self._run.folder("scores") / f"{part}.jsonl.gz", QuestionFacts)
            }
            for part in (*PARTS, UNSEARCHED)
        )
        return {"train": {**train, **unsearched}, "dev": dev}
