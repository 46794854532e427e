"""Files for the leaderboards of datasets that have one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from baleen.core import files
from baleen.core.errors import ConfigError
from baleen.evaluation.datasets import LEADERBOARDS, find_dataset
from baleen.evaluation.results import Result, refuse_compressed


def submission(dataset: str, results: Sequence[Result]) -> Any:
    """Make the document that a dataset's leaderboard takes; a dataset without one is a ConfigError."""
    make = find_dataset(dataset).submission
    if make is None:
        known = " and ".join(LEADERBOARDS)
        raise ConfigError(f"there is no submission format for {dataset}; there is one for {known}")
    return make(results)


def write_submission(dataset: str, results: Sequence[Result], path: Path) -> None:
    """Write the document atomically."""
    refuse_compressed(path)
    with files.replacing(path) as aside:
        aside.write_text(json.dumps(submission(dataset, results), ensure_ascii=False) + "\n", "utf-8")
