"""The datasets: how each is scored, shown in tables, read by a model, and submitted to its leaderboard.

To add a dataset, write its reader in `baleen.data.formats` and its `Dataset` here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from baleen.data.example import SUPPORTED, Example
from baleen.evaluation.measures import Measures, common_measures, hotpotqa_measures, hover_measures
from baleen.evaluation.results import Prediction, Result

_EVIDENCE = ("passage_em", "passage_f1", "sentence_em", "sentence_f1")
_CLAIMS = (*_EVIDENCE, "label_accuracy")
_QUESTIONS = (*_EVIDENCE, "answer_em", "answer_f1")


@dataclass(frozen=True)
class Dataset:
    """`columns` are the metrics of its tables, the most important first.

    `reader` is the component that reads all its questions; None if each question's label or answer decides.
    `answer_recall` adds the measure of that name.  `submission` makes a leaderboard's document.  `license` and `hub`
    (the name on the Hugging Face hub) are for model cards.
    """

    title: str
    columns: tuple[str, ...]
    reader: Literal["verifier", "answerer"] | None = None
    measures: Callable[[Example, Prediction, Sequence[int]], Measures] = common_measures
    answer_recall: bool = False
    submission: Callable[[Sequence[Result]], Any] | None = None
    license: str | None = None
    hub: str | None = None


def hover_submission(results: Sequence[Result]) -> dict[str, dict[str, Any]]:
    """{uid: {"claim": claim, "predicted_label": label, "predicted_sp": [[title, sid], ...]}}

    The evaluation in the authors' repository reads this.  Evidence is best first: the HoVer score only counts the first
    documents and sentences.
    """
    return {
        result.example.qid: {
            "claim": result.example.text,
            "predicted_label": "SUPPORTED" if result.prediction.label == SUPPORTED else "NOT_SUPPORTED",
            "predicted_sp": _titled_evidence(result.prediction),
        }
        for result in results
    }


def hotpotqa_submission(results: Sequence[Result]) -> dict[str, dict[str, Any]]:
    """{"answer": {_id: answer}, "sp": {_id: [[title, sid], ...]}}"""
    return {
        "answer": {result.example.qid: result.prediction.answer or "" for result in results},
        "sp": {result.example.qid: _titled_evidence(result.prediction) for result in results},
    }


def _titled_evidence(prediction: Prediction) -> list[list[str | int]]:
    return [[fact.title, fact.sid] for fact in prediction.sentences]


DATASETS: Mapping[str, Dataset] = {
    "hover": Dataset(
        "HoVer", ("retrieval@100", "all@100", "all@20", *_CLAIMS, "hover_score"), "verifier",
        measures=hover_measures, submission=hover_submission, license="CC BY-SA 4.0", hub="hover-nlp/hover",
    ),
    "hotpotqa": Dataset(
        "HotPotQA", ("passage_recall@20", "answer_recall@20", *_QUESTIONS, "joint_em", "joint_f1"), "answerer",
        measures=hotpotqa_measures, answer_recall=True, submission=hotpotqa_submission, license="CC BY-SA 4.0",
        hub="hotpotqa/hotpot_qa",
    ),
    "2wiki": Dataset(
        "2WikiMultiHopQA", ("mean@5", "mean@2", "all@20", *_QUESTIONS), "answerer", license="Apache-2.0",
        hub="xanhho/2WikiMultihopQA",
    ),
    "musique": Dataset("MuSiQue", ("mean@5", "mean@2", "all@20", *_QUESTIONS), "answerer", license="CC BY 4.0"),
    "exfever": Dataset("EX-FEVER", ("all@100", "all@20", *_CLAIMS), "verifier", license="MIT"),
    "own": Dataset("own", ("all@20", "all@100", "mean@5", *_CLAIMS, "answer_em", "answer_f1")),
}  # fmt: skip

LEADERBOARDS = tuple(name for name, dataset in DATASETS.items() if dataset.submission)


def find_dataset(name: str) -> Dataset:
    """The dataset of a name; any other name, as results files may hold, is treated as "own"."""
    return DATASETS.get(name, DATASETS["own"])
