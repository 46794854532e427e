"""What a leaderboard is sent.

    hotpotqa    {"answer": {_id: answer}, "sp": {_id: [[title, sid], ...]}}
    hover       {uid: {"claim": claim, "predicted_label": label, "predicted_sp": [[title, sid], ...]}}

HoVer's is what the evaluation in its authors' repository reads: `predicted_sp` and `predicted_label` of each uid.
Evidence stands best first: the HoVer score looks at the first documents and sentences alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from baleen.core import files
from baleen.core.errors import ConfigError
from baleen.data.example import SUPPORTED
from baleen.evaluation.results import Prediction, Result, refuse_compressed

DATASETS = ("hover", "hotpotqa")


def submission(dataset: str, results: Sequence[Result]) -> Any:
    """The document of a dataset that has a leaderboard."""
    if dataset == "hotpotqa":
        return {
            "answer": {result.example.qid: result.prediction.answer or "" for result in results},
            "sp": {result.example.qid: _evidence(result.prediction) for result in results},
        }
    if dataset == "hover":
        return {
            result.example.qid: {
                "claim": result.example.text,
                "predicted_label": "SUPPORTED" if result.prediction.label == SUPPORTED else "NOT_SUPPORTED",
                "predicted_sp": _evidence(result.prediction),
            }
            for result in results
        }
    raise ConfigError(f"there is no submission format for {dataset}; there is one for {' and '.join(DATASETS)}")


def write_submission(dataset: str, results: Sequence[Result], path: Path) -> None:
    """Write the document to a file that is there whole or not at all."""
    refuse_compressed(path)
    with files.replacing(path) as aside:
        aside.write_text(json.dumps(submission(dataset, results), ensure_ascii=False) + "\n", "utf-8")


def _evidence(prediction: Prediction) -> list[list[str | int]]:
    return [[fact.title, fact.sid] for fact in prediction.sentences]
