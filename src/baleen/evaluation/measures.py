"""What every dataset is measured by: pure functions over a ranking, facts and an outcome, from 0 to 1 for one question.

    all@k, mean@k               whether every gold passage is among the first k, and which share of them is
    passage_em, passage_f1      the set of passages that carry facts against the set of gold passages
    sentence_em, sentence_f1    the set of facts against the set of gold sentences, where those are known
    label_accuracy              the verdict against the label
    answer_em, answer_f1        the answer against the gold answer, as SQuAD compares them

A measure is left out of what comes back where it does not apply: no gold to compare with, or nothing predicted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from baleen.datasets import Example
from baleen.datasets.answers import exact_match, token_f1
from baleen.datasets.example import NOT_SUPPORTED, SUPPORTED
from baleen.evaluation.prediction import Prediction

Measures = dict[str, float]
Sentences = AbstractSet[tuple[str, int]]


class Overlap(NamedTuple):
    """How two sets agree."""

    precision: float
    recall: float

    @property
    def f1(self) -> float:
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def overlap(found: AbstractSet[object], gold: AbstractSet[object]) -> Overlap:
    """Precision and recall of one set against another; an empty one has neither."""
    common = len(found & gold)
    return Overlap(common / len(found) if found else 0.0, common / len(gold) if gold else 0.0)


def share_found(pids: Sequence[str], gold: Collection[str], k: int) -> float:
    """The share of the gold passages that are among the first k."""
    wanted = set(gold)
    return len(wanted & set(pids[:k])) / len(wanted)


def all_found(pids: Sequence[str], gold: Collection[str], k: int) -> float:
    """1 where every gold passage is among the first k."""
    return float(set(gold) <= set(pids[:k]))


def same_label(label: str, gold: str) -> bool:
    """Whether a verdict is right; where one side has two kinds of label, both are compared as supported or not."""
    if NOT_SUPPORTED in (label, gold):
        return (label == SUPPORTED) == (gold == SUPPORTED)
    return label == gold


def retrieval(example: Example, prediction: Prediction, cutoffs: Sequence[int]) -> Measures:
    if not example.gold:
        return {}
    pids = prediction.ranking.pids
    return {f"all@{k}": all_found(pids, example.gold, k) for k in cutoffs} | {
        f"mean@{k}": share_found(pids, example.gold, k) for k in cutoffs
    }


def evidence(example: Example, prediction: Prediction) -> Measures:
    """Passages and sentences of the facts; nothing for a system that only ranks."""
    if not prediction.condensed:
        return {}
    found = passage_measures(prediction.passages, frozenset(example.gold))
    if prediction.has_sentences:
        found |= sentence_measures(frozenset(prediction.evidence), frozenset(example.facts))
    return found


def passage_measures(found: AbstractSet[str], gold: AbstractSet[str]) -> Measures:
    return {"passage_em": float(found == gold), "passage_f1": overlap(found, gold).f1} if gold else {}


def sentence_measures(found: Sentences, gold: Sentences) -> Measures:
    return {"sentence_em": float(found == gold), "sentence_f1": overlap(found, gold).f1} if gold else {}


def outcome(example: Example, prediction: Prediction) -> Measures:
    found: Measures = {}
    if example.label is not None and prediction.label is not None:
        found["label_accuracy"] = float(same_label(prediction.label, example.label))
    if example.answer is not None and prediction.answer is not None:
        found["answer_em"] = float(exact_match(prediction.answer, example.answer))
        found["answer_f1"] = token_f1(prediction.answer, example.answer)
    return found
