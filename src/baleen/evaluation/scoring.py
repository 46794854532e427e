"""Score predictions against gold passages that a corpus has."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from baleen.core.errors import ConfigError
from baleen.core.types import Lookup
from baleen.data.example import Example
from baleen.data.gold import Catalogue, Resolved, resolve_gold
from baleen.evaluation.datasets import find_dataset
from baleen.evaluation.measures import answer_recall
from baleen.evaluation.results import Prediction, Result

CUTOFFS = (2, 5, 10, 20, 100)


def match_gold(
    examples: Sequence[Example], catalogue: Catalogue, missing: Literal["fail", "drop"] = "fail"
) -> Resolved:
    """`resolve_gold`, and remove the gold sentences of a question unless the corpus has all of them."""
    expected = {example.qid: len(set(example.facts)) for example in examples}
    resolved, report = resolve_gold(examples, catalogue, missing)
    matched = [
        example if _has_all_facts(example, expected[example.qid]) else dataclasses.replace(example, facts=())
        for example in resolved
    ]
    return Resolved(matched, report)


def _has_all_facts(example: Example, expected: int) -> bool:
    return len(example.facts) == expected and {pid for pid, _ in example.facts} == set(example.gold)


class Scorer:
    """Scores predictions by the measures of one dataset; `passage` finds a passage by its pid."""

    def __init__(self, dataset: str, cutoffs: Sequence[int], passage: Lookup) -> None:
        if not cutoffs or min(cutoffs) < 1:
            raise ConfigError(f"cutoffs = {list(cutoffs)}; expected whole numbers of at least 1")
        self.dataset, self.cutoffs, self._passage = find_dataset(dataset), tuple(sorted(set(cutoffs))), passage

    @property
    def headline(self) -> str:
        """The metric shown while an evaluation runs."""
        return f"all@{20 if 20 in self.cutoffs else self.cutoffs[-1]}"

    def score(self, example: Example, prediction: Prediction) -> Result:
        metrics = self.dataset.measures(example, prediction, self.cutoffs)
        if self.dataset.answer_recall:
            metrics |= answer_recall(example, prediction, self.cutoffs, self._passage)
        return Result(example, prediction, metrics)
