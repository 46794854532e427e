"""The mean of checkpoints: numbers, what it says of itself, and what does not average."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from baleen.averaging import average
from baleen.checkpoint import Checkpoint, read, write
from baleen.encoder import Encoder
from baleen.errors import CheckpointError, ConfigError
from baleen.model_folder import write_model
from cli_fakes import Baleen, command_line
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
    write(folder, dataclasses.replace(SAMPLE, **changes))
    return folder


def weighing(*numbers: float) -> dict[str, torch.Tensor]:
    return {"a": torch.tensor(numbers, dtype=torch.float16), "n": torch.tensor([7])}


@pytest.fixture
def two(tmp_path: Path) -> list[Path]:
    return [saved(tmp_path / "one"), saved(tmp_path / "two", tensors=weighing(3.0, -3.0), notes={"trained": "there"})]


def test_a_mean_is_between_its_parts(two: list[Path]) -> None:
    assert average(two).tensors["a"].tolist() == [2.0, 1.0]
    assert average(two, [3, 1]).tensors["a"].tolist() == [1.5, 3.0]


def test_only_proportions_count(two: list[Path]) -> None:
    assert torch.equal(average(two, [0.2, 0.6]).tensors["a"], average(two, [1, 3]).tensors["a"])


def test_types_stay_and_whole_numbers_are_left_alone(two: list[Path]) -> None:
    found = average(two).tensors
    assert (found["a"].dtype, found["n"].tolist()) == (torch.float16, [7])


def test_many_small_parts_are_not_lost_to_rounding(tmp_path: Path) -> None:
    parts = [saved(tmp_path / str(i), tensors=weighing(1.0, 2048.0 + 2 * (i % 2))) for i in range(10)]
    assert average(parts).tensors["a"].tolist() == [1.0, 2048.0]  # 2049, as near as float16 has it


def test_it_says_whose_mean_it_is(two: list[Path], tmp_path: Path) -> None:
    made = average(two, [3, 1])
    assert made.notes["trained"] == "here"
    hashes = [read(folder, "flipr").weights_sha256 for folder in two]
    assert made.notes["averaged"] == [
        {"share": 0.75, "weights_sha256": hashes[0]},
        {"share": 0.25, "weights_sha256": hashes[1]},
    ]
    write(tmp_path / "mean", made)
    again = average([two[0], tmp_path / "mean"])
    assert again.notes["averaged"][1]["averaged"] == made.notes["averaged"], "a mean of means tells all of it"


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0], [1.0, -1.0], [1.0, float("nan")], [1.0, 1.0, 1.0]])
def test_weights_that_make_no_sense_are_refused(two: list[Path], weights: list[float]) -> None:
    with pytest.raises(ConfigError, match="weights"):
        average(two, weights)


def test_one_has_no_mean(two: list[Path]) -> None:
    with pytest.raises(ConfigError, match="two or more"):
        average(two[:1])


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
        ({"tensors": {**weighing(1.0, 2.0), "n": torch.tensor([8])}}, "n has other whole numbers"),
    ],
)
def test_what_is_not_alike_does_not_average(two: list[Path], tmp_path: Path, changes: Any, said: str) -> None:
    with pytest.raises(CheckpointError, match=said):
        average([two[0], saved(tmp_path / "other", **changes)])


def test_a_whole_model_is_told_from_a_component(two: list[Path], tmp_path: Path) -> None:
    write_model(tmp_path, {"retriever": "one"})
    for folders in ([tmp_path, two[1]], [two[0], tmp_path]):
        with pytest.raises(CheckpointError, match="a whole model; name the folders of one component"):
            average(folders)


@pytest.mark.parametrize("content", ["{", "{}", '{"format": "baleen-checkpoint"}', '{"model_type": "bert"}'])
def test_what_is_no_checkpoint_is_refused(two: list[Path], tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(CheckpointError, match="not valid JSON|not a Baleen checkpoint"):
        average([tmp_path, two[1]])


def test_the_mean_of_a_model_with_itself_is_the_model(tmp_path: Path) -> None:
    encoder = tiny_encoder(tmp_path / "backbone")
    encoder.save(tmp_path / "one")
    write(tmp_path / "mean", average([tmp_path / "one"] * 2))
    mean = Encoder.load(tmp_path / "mean", dtype=torch.float32)
    for name, tensor in encoder.model.state_dict().items():
        torch.testing.assert_close(mean.model.state_dict()[name], tensor)


@pytest.fixture
def baleen(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Baleen]:
    yield from command_line(monkeypatch, capfd, "average")


def test_the_command_writes_the_mean(baleen: Baleen, two: list[Path], tmp_path: Path) -> None:
    done = baleen(*two, "--weight", 1, "--weight", 3, "--out", tmp_path / "mean", "--json")
    written = read(tmp_path / "mean", "flipr")
    assert done.json == {
        "out": str(tmp_path / "mean"),
        "weights_sha256": written.weights_sha256,
        "shares": [0.25, 0.75],
    }
    assert written.tensors["a"].tolist() == [2.5, -1.0]
    again = baleen(*two, "--out", tmp_path / "mean")
    assert (again.code, "replace it with --overwrite" in again.err) == (ConfigError.exit_code, True)
    assert baleen(*two, "--out", tmp_path / "mean", "--overwrite").out.endswith("50%\n")


def test_the_command_leaves_what_is_no_checkpoint(baleen: Baleen, two: list[Path], tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
    done = baleen(*two, "--out", tmp_path / "thesis")
    assert done.code == CheckpointError.exit_code
    assert "something other than a Baleen checkpoint" in done.err
    assert json.loads((two[0] / "config.json").read_text())["kind"] == "flipr"


def test_the_command_does_not_write_over_a_whole_model(baleen: Baleen, two: list[Path], tmp_path: Path) -> None:
    write_model(tmp_path, {"retriever": "one"})
    done = baleen(*two, "--out", tmp_path)
    assert done.code == CheckpointError.exit_code
    assert "a whole model, all of which would be lost; name a folder in it" in done.err
    assert read(two[0], "flipr").notes == {"trained": "here"}
