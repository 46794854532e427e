"""The registry of datasets."""

from __future__ import annotations

import pytest

from baleen.data import formats
from baleen.evaluation.datasets import DATASETS, LEADERBOARDS, find_dataset
from baleen.evaluation.statistics import KINDS


def test_every_dataset_with_a_reader_is_registered() -> None:
    assert set(DATASETS) == set(formats.DATASETS)


@pytest.mark.parametrize("name", DATASETS)
def test_columns_are_known_metrics(name: str) -> None:
    assert {column.partition("@")[0] for column in DATASETS[name].columns} <= set(KINDS)


def test_leaderboards_are_those_of_hover_and_hotpotqa() -> None:
    assert LEADERBOARDS == ("hover", "hotpotqa")


def test_an_unknown_name_is_treated_as_own() -> None:
    assert find_dataset("nothing") is DATASETS["own"]
