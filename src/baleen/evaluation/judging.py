"""Questions of a dataset matched to a corpus, and predictions for them judged by the dataset's own measures."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from baleen.datasets import Catalogue, Example, Resolved, resolve_gold
from baleen.errors import ConfigError
from baleen.evaluation import hotpotqa, hover, measures
from baleen.evaluation.measures import Measures
from baleen.evaluation.prediction import Prediction, Result
from baleen.types import Lookup

CUTOFFS = (2, 5, 10, 20, 100)
CLAIMS = ("hover", "exfever")
QUESTIONS = ("hotpotqa", "2wiki", "musique")


def match_gold(
    examples: Sequence[Example], catalogue: Catalogue, missing: Literal["fail", "drop"] = "fail"
) -> Resolved:
    """`resolve_gold`, with gold sentences left out of a question that has one which the corpus does not have.

    A set of gold sentences that is not whole is none to compare with.
    """
    known = {example.qid: len(set(example.facts)) for example in examples}
    resolved, report = resolve_gold(examples, catalogue, missing)
    whole = [
        example if _whole(example, known[example.qid]) else dataclasses.replace(example, facts=())
        for example in resolved
    ]
    return Resolved(whole, report)


def _whole(example: Example, known: int) -> bool:
    return len(example.facts) == known and {pid for pid, _ in example.facts} == set(example.gold)


class Judge:
    """Judges predictions for questions of one dataset; `passage` looks a passage up by its pid."""

    def __init__(self, dataset: str, cutoffs: Sequence[int], passage: Lookup) -> None:
        if not cutoffs or min(cutoffs) < 1:
            raise ConfigError(f"the cutoffs {list(cutoffs)} should be whole numbers of at least 1")
        self.dataset, self.cutoffs, self._passage = dataset, tuple(sorted(set(cutoffs))), passage

    @property
    def depth(self) -> int:
        """How many passages of a ranking matter."""
        return self.cutoffs[-1]

    @property
    def headline(self) -> str:
        """The metric that is shown while a run goes on."""
        return f"all@{20 if 20 in self.cutoffs else self.depth}"

    def result(self, example: Example, prediction: Prediction) -> Result:
        return Result(example, prediction, self._measure(example, prediction))

    def _measure(self, example: Example, prediction: Prediction) -> Measures:
        if self.dataset == "hover":
            return hover.judge(example, prediction, self.cutoffs)
        if self.dataset == "hotpotqa":
            return hotpotqa.judge(example, prediction, self.cutoffs, self._answer_rank(example, prediction))
        return (
            measures.retrieval(example, prediction, self.cutoffs)
            | measures.evidence(example, prediction)
            | measures.outcome(example, prediction)
        )

    def _answer_rank(self, example: Example, prediction: Prediction) -> int | None:
        if example.answer is None or not hotpotqa.seeks_span(example):
            return None
        ranked = (self._passage(pid) for pid in prediction.ranking.pids[: self.depth])
        return hotpotqa.answer_rank(example.answer, ranked)
