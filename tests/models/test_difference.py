"""Checkpoints stored as a difference to a base: round trips, refusals, and their size."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from baleen.core.errors import CheckpointError, ConfigError
from baleen.models.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from baleen.models.cross_encoder import KIND, CrossEncoder
from baleen.models.difference import restore
from baleen.models.folder import write_model
from difference import factored, main, write_difference
from fakes import bert_folder


def tensors(seed: int) -> dict[str, torch.Tensor]:
    chance = torch.Generator().manual_seed(seed)
    return {
        "backbone.embeddings.word.weight": torch.randn(50, 8, generator=chance),
        "backbone.embeddings.LayerNorm.weight": torch.randn(8, generator=chance),
        "backbone.dense.weight": torch.randn(12, 10, generator=chance),
        "heads.verifier.weight": torch.randn(2, 8, generator=chance),
        "positions": torch.arange(5),
    }


def sample(seed: int, **changes: Any) -> Checkpoint:
    made = Checkpoint(
        kind=KIND,
        settings={"length": 64},
        backbone={"model_type": "bert"},
        tokens={"cls": "[CLS]"},
        tokenizer="{}",
        tensors=tensors(seed),
        notes={"seed": seed},
    )
    return dataclasses.replace(made, **changes)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder with a whole checkpoint, `reading`, and a difference of rank 3 to it, `readers`."""
    write_checkpoint(tmp_path / "reading", sample(1))
    write_difference(tmp_path / "readers", sample(2), tmp_path / "reading", rank=3)
    return tmp_path


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


# Storing and restoring


def test_enough_directions_bring_all_of_a_matrix_back() -> None:
    base, wanted = tensors(1), tensors(2)
    found = restore(base, factored(base, wanted, rank=5))
    assert found.keys() == wanted.keys()
    torch.testing.assert_close(found["heads.verifier.weight"], wanted["heads.verifier.weight"])
    low = base["backbone.dense.weight"] + torch.outer(torch.arange(12.0), torch.arange(10.0))
    found = restore(base, factored(base, {**wanted, "backbone.dense.weight": low}, rank=1))
    torch.testing.assert_close(found["backbone.dense.weight"], low, atol=1e-3, rtol=1e-4)


def test_restored_tensors_are_as_near_as_the_rank_allows() -> None:
    base, wanted = tensors(1), tensors(2)
    name = "backbone.dense.weight"
    strengths = torch.linalg.svdvals(wanted[name] - base[name])
    for rank in (1, 3, 5):
        left = wanted[name] - restore(base, factored(base, wanted, rank))[name]
        torch.testing.assert_close(left.norm(), strengths[rank:].norm())


def test_embeddings_come_from_the_base_and_small_tensors_whole() -> None:
    base, wanted = tensors(1), tensors(2)
    stored = factored(base, wanted, rank=3)
    assert set(stored) == {
        "backbone.embeddings.LayerNorm.weight",
        "backbone.dense.weight.left",
        "backbone.dense.weight.right",
        "heads.verifier.weight",
    }
    found = restore(base, stored)
    assert torch.equal(found["backbone.embeddings.word.weight"], base["backbone.embeddings.word.weight"])
    assert torch.equal(found["heads.verifier.weight"], wanted["heads.verifier.weight"])


def test_no_difference_stores_nothing() -> None:
    assert factored(tensors(1), tensors(1), rank=4) == {}
    assert all(torch.equal(found, tensors(1)[name]) for name, found in restore(tensors(1), {}).items())


def test_rank_zero_is_refused() -> None:
    with pytest.raises(ConfigError, match="rank = 0"):
        factored(tensors(1), tensors(2), rank=0)


@pytest.mark.parametrize(
    "stored",
    [
        {"elsewhere": torch.ones(2)},
        {"heads.verifier.weight": torch.ones(3, 8)},
        {"backbone.dense.weight.left": torch.ones(12, 2)},
        {"backbone.dense.weight.right": torch.ones(2, 10)},
        {"backbone.dense.weight.left": torch.ones(12, 2), "backbone.dense.weight.right": torch.ones(3, 10)},
        {"backbone.dense.weight.left": torch.ones(12), "backbone.dense.weight.right": torch.ones(2, 10)},
        {"elsewhere.left": torch.ones(12, 2), "elsewhere.right": torch.ones(2, 10)},
    ],
)
def test_tensors_that_do_not_fit_the_base_are_refused(stored: dict[str, torch.Tensor]) -> None:
    with pytest.raises(CheckpointError, match="fits no tensor of the base model"):
        restore(tensors(1), stored)


# On disk


def test_a_difference_is_read_as_its_checkpoint(model: Path) -> None:
    found, wanted = read_checkpoint(model / "readers", KIND), sample(2)
    for name in ("settings", "backbone", "tokens", "tokenizer", "notes"):
        assert getattr(found, name) == getattr(wanted, name)
    expected = restore(tensors(1), factored(tensors(1), tensors(2), rank=3))
    assert found.tensors.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found.tensors[name], tensor)


def test_both_may_move_together(model: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    for name in ("reading", "readers"):
        shutil.move(model / name, tmp_path / "elsewhere" / name)
    assert read_checkpoint(tmp_path / "elsewhere" / "readers", KIND).notes == {"seed": 2}


REFUSALS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no base": (lambda f: shutil.rmtree(f / "reading"), "is a difference to .*reading, which is missing"),
    "another base": (
        lambda f: write_checkpoint(f / "reading", sample(3)),
        "a difference to other weights than those in",
    ),
    "a base of another kind": (lambda f: write_checkpoint(f / "reading", sample(1, kind="flipr")), "kind 'flipr'"),
    "a base of other settings": (
        lambda f: write_checkpoint(f / "reading", sample(1, settings={"length": 32})),
        "settings: length = 64, and 32 in the first",
    ),
    "a base that says nothing": (lambda f: edit(f / "readers", base={}), "base should have a folder"),
    "a base that is one itself": (
        lambda f: edit(f / "reading", format_version=2, base={"folder": "x", "weights_sha256": "y"}),
        "which is a difference itself",
    ),
}


@pytest.mark.parametrize("fault", REFUSALS)
def test_refusals_say_what_is_wrong(model: Path, fault: str) -> None:
    spoil, said = REFUSALS[fault]
    spoil(model)
    with pytest.raises(CheckpointError, match=said) as error:
        read_checkpoint(model / "readers", KIND)
    assert "\n" not in str(error.value)


def test_a_difference_has_its_own_format_version(model: Path) -> None:
    versions = [
        json.loads((model / name / "config.json").read_text())["format_version"] for name in ("reading", "readers")
    ]
    assert versions == [1, 2]


def test_checkpoints_that_fit_no_base_are_not_written(model: Path) -> None:
    with pytest.raises(CheckpointError, match="settings: length"):
        write_difference(model / "other", sample(2, settings={"length": 8}), model / "reading", 3)
    with pytest.raises(CheckpointError, match="is the base itself, which would be overwritten"):
        write_difference(model / "reading", sample(2), model / "reading", 3)
    assert read_checkpoint(model / "reading", KIND).notes == {"seed": 1}
    with pytest.raises(CheckpointError, match="is a difference itself"):
        write_difference(model / "other", sample(2), model / "readers", 3)
    assert not (model / "other").exists()


def test_a_cross_encoder_is_loaded_from_its_difference(tmp_path: Path) -> None:
    for seed, name in ((1, "reading"), (2, "apart")):
        CrossEncoder.from_backbone(bert_folder(tmp_path / f"bert-{name}", seed=seed)).save(tmp_path / name)
    write_difference(tmp_path / "readers", read_checkpoint(tmp_path / "apart", KIND), tmp_path / "reading", rank=1000)
    found, apart, base = (
        CrossEncoder.load(tmp_path / name, dtype=torch.float32).model.state_dict()
        for name in ("readers", "apart", "reading")
    )
    for name, tensor in found.items():
        words = "embeddings" in name and tensor.dim() == 2
        torch.testing.assert_close(tensor, (base if words else apart)[name])


# The script


@pytest.fixture
def apart(model: Path) -> list[str]:
    """The script's arguments for a checkpoint in the folder `apart`, without --out."""
    write_checkpoint(model / "apart", sample(2))
    return [str(model / "apart"), "--base", str(model / "reading"), "--rank", "3", "--out"]


def test_the_script_writes_a_difference(apart: list[str], model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = model / "new"
    assert main([*apart, str(out)]) == 0
    assert capsys.readouterr().out == f"{out}: {sum(file.stat().st_size for file in out.iterdir()):,} bytes\n"
    assert read_checkpoint(out, KIND).notes == {"seed": 2}
    assert main([*apart, str(out)]) == ConfigError.exit_code
    assert "replace it with --overwrite" in capsys.readouterr().err
    assert main([*apart, str(out), "--overwrite"]) == 0


@pytest.mark.parametrize(
    ("out", "said"), [("apart", "the checkpoint itself"), ("reading", "the base itself"), (".", "a whole model")]
)
def test_the_script_does_not_overwrite_what_it_reads(
    apart: list[str], model: Path, out: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_model(model, {"verifier": "reading"})
    assert main([*apart, str(model / out), "--overwrite"]) == CheckpointError.exit_code
    assert said in capsys.readouterr().err
    assert [read_checkpoint(model / name, KIND).notes["seed"] for name in ("reading", "apart", "readers")] == [1, 2, 2]


def test_the_script_takes_no_retriever(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_checkpoint(model / "retriever", sample(2, kind="flipr"))
    out = model / "new"
    assert (
        main([str(model / "retriever"), "--base", str(model / "reading"), "--out", str(out)])
        == CheckpointError.exit_code
    )
    assert "holds a model of kind 'flipr', expected 'cross-encoder'" in capsys.readouterr().err
    assert not out.exists()
