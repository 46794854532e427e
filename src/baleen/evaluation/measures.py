"""What every dataset is measured by: pure functions over a ranking, facts and an outcome, from 0 to 1 for one question.

    all@k, mean@k               whether every gold passage is among the first k, and which share of them is
    passage_em, passage_f1      the set of passages that carry facts against the set of gold passages
    sentence_em, sentence_f1    the set of facts against the set of gold sentences, where those are known
    label_accuracy              the verdict against the label
    answer_em, answer_f1        the answer against the gold answer, as SQuAD compares them

A measure is left out of what comes back where it does not apply: no gold to compare with, or nothing predicted.

HoVer's own measures.

    retrieval@k     every gold passage among the first k, over supported claims alone
    hover_score     for a claim of h hops: among the first h + 1 documents of the evidence and the first two sentences of
                    each, at least one gold sentence of every gold document; and the right label

Passages and sentences are compared as sets whose names are in Unicode's NFD, so that titles which are spelt in
different ways are one.

HotPotQA's own measures, under the names of the official script or of the papers.

passage_em              P-EM: exactly the two gold passages; of a system that only ranks, its first two
passage_recall@k        P-R@k: both among the first k
answer_recall@k         Ans-R@k: the answer's words in one of the first k passages; yes/no questions are left out
answer_em, answer_f1    of the answer
sentence_em, sentence_f1    of the supporting facts
joint_em, joint_f1      of both: exact if both are, and the F1 of the products of their precisions and recalls

Questions of a dataset matched to a corpus, and predictions for them judged by the dataset's own measures.
"""

from __future__ import annotations

import dataclasses
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal, NamedTuple

from baleen.core.errors import ConfigError
from baleen.core.types import Lookup, Passage
from baleen.data.example import NOT_SUPPORTED, SUPPORTED, Example, exact_match, normalize_answer, token_f1
from baleen.data.gold import Catalogue, Resolved, resolve_gold
from baleen.evaluation.results import Prediction, Result

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


SENTENCES_OF_A_DOCUMENT = 2

Pair = tuple[str, int]


def key(name: str) -> str:
    return unicodedata.normalize("NFD", name)


def keyed(pairs: Iterable[Pair]) -> list[Pair]:
    return [(key(name), sid) for name, sid in pairs]


def covers(evidence: Iterable[Pair], gold: Collection[Pair], hops: int) -> bool:
    """Whether ranked evidence holds a gold sentence of every gold document, within what the HoVer score looks at."""
    documents: dict[str, list[int]] = {}
    for name, sid in keyed(evidence):
        documents.setdefault(name, []).append(sid)
    first = list(documents)[: hops + 1]
    seen = {(name, sid) for name in first for sid in documents[name][:SENTENCES_OF_A_DOCUMENT]}
    hit = {name for name, _ in seen & set(keyed(gold))}
    return bool(gold) and hit == {key(name) for name, _ in gold}


def hover_measures(example: Example, prediction: Prediction, cutoffs: Sequence[int]) -> Measures:
    """Every measure of HoVer that applies to a claim."""
    found = retrieval(example, prediction, cutoffs)
    if example.label == SUPPORTED:
        found |= {f"retrieval@{k}": found[f"all@{k}"] for k in cutoffs if f"all@{k}" in found}
    return found | _evidence(example, prediction) | outcome(example, prediction) | _score(example, prediction)


def _evidence(example: Example, prediction: Prediction) -> Measures:
    if not prediction.condensed:
        return {}
    passages = frozenset(map(key, prediction.passages)), frozenset(map(key, example.gold))
    found = passage_measures(*passages)
    if prediction.has_sentences:
        sentences = frozenset(keyed(prediction.evidence)), frozenset(keyed(example.facts))
        found |= sentence_measures(*sentences)
    return found


def _score(example: Example, prediction: Prediction) -> Measures:
    label = prediction.label
    if not example.facts or not prediction.has_sentences or label is None or example.label is None:
        return {}
    hops = example.hops or len(example.gold)
    right = same_label(label, example.label) and covers(prediction.evidence, example.facts, hops)
    return {"hover_score": float(right)}


PASSAGES = 2
VERDICTS = frozenset({"yes", "no"})


def seeks_span(example: Example) -> bool:
    """Whether the answer is a string that could stand in a passage: neither unknown nor yes or no."""
    return example.answer is not None and normalize_answer(example.answer) not in VERDICTS | {""}


def answer_rank(answer: str, passages: Iterable[Passage]) -> int | None:
    """The rank, from 1, of the first passage that holds the answer's words in a row; None where none does."""
    wanted = f" {normalize_answer(answer)} "
    for rank, passage in enumerate(passages, start=1):
        if wanted in f" {normalize_answer(passage.title)} " or wanted in f" {normalize_answer(passage.text)} ":
            return rank
    return None


def answer_overlap(answer: str, gold: str) -> Overlap:
    """Precision and recall of an answer's words; yes and no are right or wrong as a whole."""
    ours, theirs = normalize_answer(answer), normalize_answer(gold)
    if ours != theirs and not (VERDICTS | {"noanswer"}).isdisjoint({ours, theirs}):
        return Overlap(0.0, 0.0)
    words, expected = Counter(ours.split()), Counter(theirs.split())
    common = (words & expected).total()
    return Overlap(common / max(1, words.total()), common / max(1, expected.total()))


def hotpotqa_measures(
    example: Example, prediction: Prediction, cutoffs: Sequence[int], answer_found: int | None = None
) -> Measures:
    """Every measure of HotPotQA that applies to a question; `answer_found` is the `answer_rank` in its ranking."""
    found = retrieval(example, prediction, cutoffs)
    found |= {f"passage_recall@{k}": found[f"all@{k}"] for k in cutoffs if f"all@{k}" in found}
    if seeks_span(example):
        found |= {f"answer_recall@{k}": float(answer_found is not None and answer_found <= k) for k in cutoffs}
    if prediction.condensed:
        found |= evidence(example, prediction)
    elif example.gold:
        found["passage_em"] = float(set(prediction.ranking.pids[:PASSAGES]) == set(example.gold))
    return found | outcome(example, prediction) | joint(example, prediction)


def joint(example: Example, prediction: Prediction) -> Measures:
    """Answer and supporting facts together, where both are known and predicted."""
    if example.answer is None or prediction.answer is None or not example.facts or not prediction.has_sentences:
        return {}
    facts, gold = frozenset(prediction.evidence), frozenset(example.facts)
    answer, support = answer_overlap(prediction.answer, example.answer), overlap(facts, gold)
    both = Overlap(answer.precision * support.precision, answer.recall * support.recall)
    exact = exact_match(prediction.answer, example.answer) and facts == gold
    return {"joint_em": float(exact), "joint_f1": both.f1}


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


class Scorer:
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
            return hover_measures(example, prediction, self.cutoffs)
        if self.dataset == "hotpotqa":
            return hotpotqa_measures(example, prediction, self.cutoffs, self._answer_rank(example, prediction))
        return (
            retrieval(example, prediction, self.cutoffs) | evidence(example, prediction) | outcome(example, prediction)
        )

    def _answer_rank(self, example: Example, prediction: Prediction) -> int | None:
        if example.answer is None or not seeks_span(example):
            return None
        ranked = (self._passage(pid) for pid in prediction.ranking.pids[: self.depth])
        return answer_rank(example.answer, ranked)
