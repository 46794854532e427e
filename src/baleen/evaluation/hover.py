"""HoVer's own measures.

    retrieval@k     every gold passage among the first k, over supported claims alone
    hover_score     for a claim of h hops: among the first h + 1 documents of the evidence and the first two sentences of
                    each, at least one gold sentence of every gold document; and the right label

Passages and sentences are compared as sets whose names are in Unicode's NFD, so that titles which are spelt in
different ways are one.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Sequence

from baleen.datasets import Example
from baleen.datasets.example import SUPPORTED
from baleen.evaluation import measures
from baleen.evaluation.measures import Measures
from baleen.evaluation.prediction import Prediction

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


def judge(example: Example, prediction: Prediction, cutoffs: Sequence[int]) -> Measures:
    """Every measure of HoVer that applies to a claim."""
    found = measures.retrieval(example, prediction, cutoffs)
    if example.label == SUPPORTED:
        found |= {f"retrieval@{k}": found[f"all@{k}"] for k in cutoffs if f"all@{k}" in found}
    return found | _evidence(example, prediction) | measures.outcome(example, prediction) | _score(example, prediction)


def _evidence(example: Example, prediction: Prediction) -> Measures:
    if not prediction.condensed:
        return {}
    passages = frozenset(map(key, prediction.passages)), frozenset(map(key, example.gold))
    found = measures.passage_measures(*passages)
    if prediction.has_sentences:
        sentences = frozenset(keyed(prediction.evidence)), frozenset(keyed(example.facts))
        found |= measures.sentence_measures(*sentences)
    return found


def _score(example: Example, prediction: Prediction) -> Measures:
    label = prediction.label
    if not example.facts or not prediction.has_sentences or label is None or example.label is None:
        return {}
    hops = example.hops or len(example.gold)
    right = measures.same_label(label, example.label) and covers(prediction.evidence, example.facts, hops)
    return {"hover_score": float(right)}
