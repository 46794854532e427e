"""HotPotQA's own measures, under the names of the official script or of the papers.

passage_em              P-EM: exactly the two gold passages; of a system that only ranks, its first two
passage_recall@k        P-R@k: both among the first k
answer_recall@k         Ans-R@k: the answer's words in one of the first k passages; yes/no questions are left out
answer_em, answer_f1    of the answer
sentence_em, sentence_f1    of the supporting facts
joint_em, joint_f1      of both: exact if both are, and the F1 of the products of their precisions and recalls
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from baleen.datasets import Example
from baleen.datasets.answers import exact_match, normalized
from baleen.evaluation import measures
from baleen.evaluation.measures import Measures, Overlap, overlap
from baleen.evaluation.prediction import Prediction
from baleen.types import Passage

PASSAGES = 2
VERDICTS = frozenset({"yes", "no"})


def seeks_span(example: Example) -> bool:
    """Whether the answer is a string that could stand in a passage: neither unknown nor yes or no."""
    return example.answer is not None and normalized(example.answer) not in VERDICTS | {""}


def answer_rank(answer: str, passages: Iterable[Passage]) -> int | None:
    """The rank, from 1, of the first passage that holds the answer's words in a row; None where none does."""
    wanted = f" {normalized(answer)} "
    for rank, passage in enumerate(passages, start=1):
        if wanted in f" {normalized(passage.title)} " or wanted in f" {normalized(passage.text)} ":
            return rank
    return None


def answer_overlap(answer: str, gold: str) -> Overlap:
    """Precision and recall of an answer's words; yes and no are right or wrong as a whole."""
    ours, theirs = normalized(answer), normalized(gold)
    if ours != theirs and not (VERDICTS | {"noanswer"}).isdisjoint({ours, theirs}):
        return Overlap(0.0, 0.0)
    words, expected = Counter(ours.split()), Counter(theirs.split())
    common = (words & expected).total()
    return Overlap(common / max(1, words.total()), common / max(1, expected.total()))


def judge(
    example: Example, prediction: Prediction, cutoffs: Sequence[int], answer_found: int | None = None
) -> Measures:
    """Every measure of HotPotQA that applies to a question; `answer_found` is the `answer_rank` in its ranking."""
    found = measures.retrieval(example, prediction, cutoffs)
    found |= {f"passage_recall@{k}": found[f"all@{k}"] for k in cutoffs if f"all@{k}" in found}
    if seeks_span(example):
        found |= {f"answer_recall@{k}": float(answer_found is not None and answer_found <= k) for k in cutoffs}
    if prediction.condensed:
        found |= measures.evidence(example, prediction)
    elif example.gold:
        found["passage_em"] = float(set(prediction.ranking.pids[:PASSAGES]) == set(example.gold))
    return found | measures.outcome(example, prediction) | joint(example, prediction)


def joint(example: Example, prediction: Prediction) -> Measures:
    """Answer and supporting facts together, where both are known and predicted."""
    if example.answer is None or prediction.answer is None or not example.facts or not prediction.has_sentences:
        return {}
    facts, gold = frozenset(prediction.evidence), frozenset(example.facts)
    answer, support = answer_overlap(prediction.answer, example.answer), overlap(facts, gold)
    both = Overlap(answer.precision * support.precision, answer.recall * support.recall)
    exact = exact_match(prediction.answer, example.answer) and facts == gold
    return {"joint_em": float(exact), "joint_f1": both.f1}
