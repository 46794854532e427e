"""Parameters and bytes of a model's checkpoints, against tensors that were counted by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from baleen.card.weights import Weights, read_weights
from baleen.errors import CheckpointError
from baleen.model_folder import read_model
from card_fakes import HEADS, write_fake_model


def test_checkpoints_are_weighed_each_once(tmp_path: Path) -> None:
    retriever, reading = read_weights(read_model(write_fake_model(tmp_path)))
    assert (retriever.folder, retriever.components, retriever.parameters, retriever.heads) == (
        *("retriever", ("retriever",), 12, {}),
    )
    assert (reading.components, reading.parameters, reading.heads) == (HEADS, 15, {"facts": 3, "verifier": 4})
    assert retriever.types == reading.types == ("F16",)
    assert retriever.shape == "bert, 12 x 384"


def test_the_size_is_of_all_files_of_a_checkpoint_and_of_no_other(tmp_path: Path) -> None:
    folder = write_fake_model(tmp_path)
    expected = sum(path.stat().st_size for path in (folder / "reading").iterdir())
    (folder / "reading" / "notes.txt").write_text("not of the checkpoint")
    assert read_weights(read_model(folder))[1].size == expected


def test_of_a_mean_the_parts_are_known(tmp_path: Path) -> None:
    folder = write_fake_model(tmp_path)
    config = folder / "reading" / "config.json"
    parts = [{"share": 0.6, "weights_sha256": "a" * 64}, {"share": 0.4, "weights_sha256": "b" * 64}]
    config.write_text(json.dumps({**json.loads(config.read_text()), "notes": {"averaged": parts}}))
    retriever, reading = read_weights(read_model(folder))
    assert (retriever.averaged, reading.averaged) == ((), ((0.6, "a" * 64), (0.4, "b" * 64)))
    config.write_text(json.dumps({**json.loads(config.read_text()), "notes": {"averaged": [{"share": 0.6}]}}))
    with pytest.raises(CheckpointError, match="'averaged' or 'base' is not as `baleen average`"):
        read_weights(read_model(folder))


def test_of_a_difference_the_base_is_known(tmp_path: Path) -> None:
    folder = write_fake_model(tmp_path)
    config = folder / "reading" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "base": {"folder": "../whole"}}))
    assert [each.base for each in read_weights(read_model(folder))] == [None, "../whole"]
    config.write_text(json.dumps({**json.loads(config.read_text()), "base": "../whole"}))
    with pytest.raises(CheckpointError, match="'averaged' or 'base' is not as"):
        read_weights(read_model(folder))


def test_a_backbone_that_says_little_is_told_as_far_as_it_does() -> None:
    def shape(**backbone: object) -> str:
        return Weights("x", (), backbone, 0, (), 0).shape

    assert shape(model_type="odd") == "odd"
    assert shape(num_hidden_layers=2, hidden_size=8) == "2 x 8"
    assert shape() == ""


def test_weights_that_are_missing_or_cut_off_are_refused(tmp_path: Path) -> None:
    folder = write_fake_model(tmp_path)
    file = folder / "reading" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:20])
    with pytest.raises(CheckpointError, match="model.safetensors: truncated or not a safetensors file"):
        read_weights(read_model(folder))
    file.unlink()
    with pytest.raises(CheckpointError, match="model.safetensors: no such file; the checkpoint is incomplete"):
        read_weights(read_model(folder))
