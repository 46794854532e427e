"""Measures of one question, from 0 to 1: pure functions over a ranking, facts and an outcome.

    every dataset
    all@k, mean@k               whether all gold passages are among the first k, and their share
    passage_em, passage_f1      passages with facts against gold passages
    sentence_em, sentence_f1    facts against gold sentences
    label_accuracy              verdict against label
    answer_em, answer_f1        answer against gold answer, normalised as for SQuAD

    HoVer
    retrieval@k                 all@k of supported claims only
    hover_score                 the right label and, for a claim of h hops, a gold sentence of every gold document within
                                the first h + 1 documents of the evidence and the first two sentences of each
    Titles are compared in Unicode's NFD.

    HotPotQA
    passage_em                  of a system that only ranks: of its first two passages
    passage_recall@k            all@k under the papers' name
    answer_recall@k             the answer's words in one of the first k passages, unless it is yes or no
    joint_em, joint_f1          answer and sentences both exact; F1 of the products of their precisions and recalls

A measure that does not apply is left out: no gold to compare with, or nothing predicted.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from baleen.core.types import Lookup, Passage
from baleen.data.example import NOT_SUPPORTED, SUPPORTED, Example, exact_match, normalize_answer, token_f1
from baleen.evaluation.results import Prediction

Measures = dict[str, float]
Sentence = tuple[str, int]  # the id or title of a passage, and the number of a sentence in it

HOVER_SENTENCES = 2  # sentences of each document that the HoVer score counts
HOTPOTQA_PASSAGES = 2  # gold passages of each question
YES_NO = frozenset({"yes", "no"})


class Overlap(NamedTuple):
    """Agreement of two sets."""

    precision: float
    recall: float

    @property
    def f1(self) -> float:
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def overlap(found: AbstractSet[object], gold: AbstractSet[object]) -> Overlap:
    """Precision and recall of a set; 0 where a set is empty."""
    common = len(found & gold)
    return Overlap(common / len(found) if found else 0.0, common / len(gold) if gold else 0.0)


def share_found(pids: Sequence[str], gold: Collection[str], k: int) -> float:
    """Share of the gold passages among the first k."""
    wanted = set(gold)
    return len(wanted & set(pids[:k])) / len(wanted)


def all_found(pids: Sequence[str], gold: Collection[str], k: int) -> float:
    """1 if all gold passages are among the first k, else 0."""
    return float(set(gold) <= set(pids[:k]))


def same_label(label: str, gold: str) -> bool:
    """Compare labels; if one side does not tell refuted from not enough information, only as supported or not."""
    if NOT_SUPPORTED in (label, gold):
        return (label == SUPPORTED) == (gold == SUPPORTED)
    return label == gold


# Every dataset


def common_measures(example: Example, prediction: Prediction, cutoffs: Sequence[int]) -> Measures:
    return (
        retrieval_measures(example, prediction, cutoffs)
        | evidence_measures(example, prediction)
        | outcome_measures(example, prediction)
    )


def retrieval_measures(example: Example, prediction: Prediction, cutoffs: Sequence[int]) -> Measures:
    if not example.gold:
        return {}
    pids = prediction.ranking.pids
    return {f"all@{k}": all_found(pids, example.gold, k) for k in cutoffs} | {
        f"mean@{k}": share_found(pids, example.gold, k) for k in cutoffs
    }


def evidence_measures(example: Example, prediction: Prediction) -> Measures:
    """Measures of the facts' passages and sentences; empty for a system that only ranks."""
    if not prediction.condensed:
        return {}
    found = passage_measures(prediction.passages, frozenset(example.gold))
    if prediction.has_sentences:
        found |= sentence_measures(frozenset(prediction.evidence), frozenset(example.facts))
    return found


def passage_measures(found: AbstractSet[str], gold: AbstractSet[str]) -> Measures:
    return {"passage_em": float(found == gold), "passage_f1": overlap(found, gold).f1} if gold else {}


def sentence_measures(found: AbstractSet[Sentence], gold: AbstractSet[Sentence]) -> Measures:
    return {"sentence_em": float(found == gold), "sentence_f1": overlap(found, gold).f1} if gold else {}


def outcome_measures(example: Example, prediction: Prediction) -> Measures:
    found: Measures = {}
    if example.label is not None and prediction.label is not None:
        found["label_accuracy"] = float(same_label(prediction.label, example.label))
    if example.answer is not None and prediction.answer is not None:
        found["answer_em"] = float(exact_match(prediction.answer, example.answer))
        found["answer_f1"] = token_f1(prediction.answer, example.answer)
    return found


# HoVer


def hover_measures(example: Example, prediction: Prediction, cutoffs: Sequence[int]) -> Measures:
    found = retrieval_measures(example, prediction, cutoffs)
    if example.label == SUPPORTED:
        found |= {f"retrieval@{k}": found[f"all@{k}"] for k in cutoffs if f"all@{k}" in found}
    found |= _hover_evidence(example, prediction) | outcome_measures(example, prediction)
    return found | _hover_score(example, prediction)


def covers(evidence: Iterable[Sentence], gold: Collection[Sentence], hops: int) -> bool:
    """Whether the part of ranked evidence that the HoVer score counts has a gold sentence of every gold document."""
    documents: dict[str, list[int]] = {}
    for name, sid in _nfd_sentences(evidence):
        documents.setdefault(name, []).append(sid)
    first = list(documents)[: hops + 1]
    counted = {(name, sid) for name in first for sid in documents[name][:HOVER_SENTENCES]}
    hit = {name for name, _ in counted & set(_nfd_sentences(gold))}
    return bool(gold) and hit == {_nfd(name) for name, _ in gold}


def _hover_evidence(example: Example, prediction: Prediction) -> Measures:
    if not prediction.condensed:
        return {}
    found = passage_measures(frozenset(map(_nfd, prediction.passages)), frozenset(map(_nfd, example.gold)))
    if prediction.has_sentences:
        sentences = frozenset(_nfd_sentences(prediction.evidence)), frozenset(_nfd_sentences(example.facts))
        found |= sentence_measures(*sentences)
    return found


def _hover_score(example: Example, prediction: Prediction) -> Measures:
    label = prediction.label
    if not example.facts or not prediction.has_sentences or label is None or example.label is None:
        return {}
    hops = example.hops or len(example.gold)
    right = same_label(label, example.label) and covers(prediction.evidence, example.facts, hops)
    return {"hover_score": float(right)}


def _nfd(name: str) -> str:
    return unicodedata.normalize("NFD", name)


def _nfd_sentences(sentences: Iterable[Sentence]) -> list[Sentence]:
    return [(_nfd(name), sid) for name, sid in sentences]


# HotPotQA


def hotpotqa_measures(example: Example, prediction: Prediction, cutoffs: Sequence[int]) -> Measures:
    """All but `answer_recall`, which needs the texts of passages."""
    found = common_measures(example, prediction, cutoffs)
    found |= {f"passage_recall@{k}": found[f"all@{k}"] for k in cutoffs if f"all@{k}" in found}
    if not prediction.condensed and example.gold:
        found["passage_em"] = float(set(prediction.ranking.pids[:HOTPOTQA_PASSAGES]) == set(example.gold))
    return found | joint_measures(example, prediction)


def joint_measures(example: Example, prediction: Prediction) -> Measures:
    if example.answer is None or prediction.answer is None or not example.facts or not prediction.has_sentences:
        return {}
    facts, gold = frozenset(prediction.evidence), frozenset(example.facts)
    answer, support = answer_overlap(prediction.answer, example.answer), overlap(facts, gold)
    both = Overlap(answer.precision * support.precision, answer.recall * support.recall)
    exact = exact_match(prediction.answer, example.answer) and facts == gold
    return {"joint_em": float(exact), "joint_f1": both.f1}


def answer_recall(example: Example, prediction: Prediction, cutoffs: Sequence[int], passage: Lookup) -> Measures:
    if example.answer is None or normalize_answer(example.answer) in YES_NO | {""}:
        return {}
    ranked = (passage(pid) for pid in prediction.ranking.pids[: max(cutoffs)])
    rank = answer_rank(example.answer, ranked)
    return {f"answer_recall@{k}": float(rank is not None and rank <= k) for k in cutoffs}


def answer_rank(answer: str, passages: Iterable[Passage]) -> int | None:
    """Rank, from 1, of the first passage that contains the answer's words in a row."""
    wanted = f" {normalize_answer(answer)} "
    for rank, passage in enumerate(passages, start=1):
        if wanted in f" {normalize_answer(passage.title)} " or wanted in f" {normalize_answer(passage.text)} ":
            return rank
    return None


def answer_overlap(answer: str, gold: str) -> Overlap:
    """Precision and recall of an answer's words; yes and no are right or wrong as a whole."""
    ours, theirs = normalize_answer(answer), normalize_answer(gold)
    if ours != theirs and not (YES_NO | {"noanswer"}).isdisjoint({ours, theirs}):
        return Overlap(0.0, 0.0)
    words, expected = Counter(ours.split()), Counter(theirs.split())
    common = (words & expected).total()
    return Overlap(common / max(1, words.total()), common / max(1, expected.total()))
