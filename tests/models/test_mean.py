"""The mean of checkpoints: numbers, notes and refusals."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from baleen.core.errors import CheckpointError, ConfigError
from baleen.models.checkpoint import Checkpoint, mean, read_checkpoint, write_checkpoint
from baleen.models.encoder import Encoder
from baleen.models.folder import write_model
from fakes import tiny_encoder

SAMPLE = Checkpoint(
    kind="flipr",
    settings={"dim": 2},
    backbone={"model_type": "bert"},
    tokens={"cls": "[CLS]", "mask": None},
    tokenizer='{"version": "1.0"}',
    tensors={"a": torch.tensor([1.0, 5.0], dtype=torch.float16), "n": torch.tensor([7])},
    notes={"trained": "here"},
)


def saved(folder: Path, **changes: Any) -> Path:
    write_checkpoint(folder, dataclasses.replace(SAMPLE, **changes))
    return folder


def weighing(*numbers: float) -> dict[str, torch.Tensor]:
    return {"a": torch.tensor(numbers, dtype=torch.float16), "n": torch.tensor([7])}


@pytest.fixture
def two(tmp_path: Path) -> list[Path]:
    return [saved(tmp_path / "one"), saved(tmp_path / "two", tensors=weighing(3.0, -3.0), notes={"trained": "there"})]


def test_a_mean_is_between_its_parts(two: list[Path]) -> None:
    assert mean(two, "flipr").tensors["a"].tolist() == [2.0, 1.0]
    assert mean(two, "flipr", [3, 1]).tensors["a"].tolist() == [1.5, 3.0]


def test_only_proportions_count(two: list[Path]) -> None:
    assert torch.equal(mean(two, "flipr", [0.2, 0.6]).tensors["a"], mean(two, "flipr", [1, 3]).tensors["a"])


def test_types_and_integers_stay(two: list[Path]) -> None:
    found = mean(two, "flipr").tensors
    assert (found["a"].dtype, found["n"].tolist()) == (torch.float16, [7])


def test_sums_are_in_float32(tmp_path: Path) -> None:
    parts = [saved(tmp_path / str(i), tensors=weighing(1.0, 2048.0 + 2 * (i % 2))) for i in range(10)]
    assert mean(parts, "flipr").tensors["a"].tolist() == [1.0, 2048.0]  # 2049, as near as float16 has it


def test_notes_name_the_parts_of_a_mean(two: list[Path], tmp_path: Path) -> None:
    made = mean(two, "flipr", [3, 1])
    assert made.notes["trained"] == "here"
    hashes = [read_checkpoint(folder, "flipr").weights_sha256 for folder in two]
    assert made.notes["averaged"] == [
        {"share": 0.75, "weights_sha256": hashes[0]},
        {"share": 0.25, "weights_sha256": hashes[1]},
    ]
    write_checkpoint(tmp_path / "mean", made)
    again = mean([two[0], tmp_path / "mean"], "flipr")
    assert again.notes["averaged"][1]["averaged"] == made.notes["averaged"]


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0], [1.0, -1.0], [1.0, float("nan")], [1.0, 1.0, 1.0]])
def test_wrong_weights_are_refused(two: list[Path], weights: list[float]) -> None:
    with pytest.raises(ConfigError, match="weights"):
        mean(two, "flipr", weights)


def test_one_checkpoint_has_no_mean(two: list[Path]) -> None:
    with pytest.raises(ConfigError, match="two or more"):
        mean(two[:1], "flipr")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"settings": {"dim": 3}}, "settings: dim = 3, and 2 in the first"),
        ({"settings": {"dim": 2, "query_focus": 8}}, "settings: query_focus = 8, and None in the first"),
        ({"backbone": {"model_type": "electra"}}, "backbone: model_type = 'electra', and 'bert' in the first"),
        ({"tokens": {"cls": "[CLS]", "mask": "[MASK]"}}, "tokens: mask = '.MASK.', and None"),
        ({"tokenizer": "{}"}, "another tokenizer"),
        ({"kind": "cross-encoder"}, "kind 'cross-encoder'"),
        ({"tensors": {"a": torch.ones(3)}}, "tensors missing: n"),
        ({"tensors": weighing(1.0)}, "another shape"),
        ({"tensors": {**weighing(1.0, 2.0), "n": torch.tensor([8])}}, "the integers of n differ"),
    ],
)
def test_checkpoints_of_other_models_are_refused(two: list[Path], tmp_path: Path, changes: Any, said: str) -> None:
    with pytest.raises(CheckpointError, match=said):
        mean([two[0], saved(tmp_path / "other", **changes)], "flipr")


def test_a_whole_model_is_refused(two: list[Path], tmp_path: Path) -> None:
    write_model(tmp_path, {"retriever": "one"})
    for folders in ([tmp_path, two[1]], [two[0], tmp_path]):
        with pytest.raises(CheckpointError, match="not a Baleen checkpoint .format 'baleen-model'"):
            mean(folders, "flipr")


@pytest.mark.parametrize("content", ["{", "{}", '{"format": "baleen-checkpoint"}', '{"model_type": "bert"}'])
def test_other_folders_are_refused(two: list[Path], tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(CheckpointError, match="not valid JSON|not a Baleen checkpoint|format version None"):
        mean([tmp_path, two[1]], "flipr")


def test_the_mean_of_a_model_with_itself_is_the_model(tmp_path: Path) -> None:
    encoder = tiny_encoder(tmp_path / "backbone")
    encoder.save(tmp_path / "one")
    write_checkpoint(tmp_path / "mean", mean([tmp_path / "one"] * 2, "flipr"))
    found = Encoder.load(tmp_path / "mean", dtype=torch.float32)
    for name, tensor in encoder.model.state_dict().items():
        torch.testing.assert_close(found.model.state_dict()[name], tensor)
