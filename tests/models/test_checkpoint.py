from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from baleen.core.errors import CheckpointError
from baleen.models import checkpoint
from baleen.models.checkpoint import (
    Checkpoint,
    check_names,
    read_checkpoint,
    resolve_folder,
    search_roots,
    write_checkpoint,
)

SAMPLE = Checkpoint(
    kind="flipr",
    settings={"dim": 2},
    backbone={"model_type": "bert"},
    tokens={"cls": "[CLS]", "mask": None},
    tokenizer='{"version": "1.0"}',
    tensors={"b": torch.arange(6.0).reshape(2, 3), "a": torch.ones(2, dtype=torch.float16)},
    notes={"trained": "never"},
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_checkpoint(tmp_path / "model", SAMPLE)
    return tmp_path / "model"


def edit_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_checkpoint_survives_a_round_trip(folder: Path) -> None:
    found = read_checkpoint(folder, "flipr")
    for field in dataclasses.fields(Checkpoint):
        if field.name != "tensors":
            assert getattr(found, field.name) == getattr(SAMPLE, field.name)
    assert found.tensors.keys() == SAMPLE.tensors.keys()
    assert all(torch.equal(found.tensors[name], tensor) for name, tensor in SAMPLE.tensors.items())
    assert sorted(path.name for path in folder.parent.iterdir()) == ["model"], "nothing is left beside it"


def test_a_checkpoint_replaces_a_checkpoint_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    write_checkpoint(folder, dataclasses.replace(SAMPLE, settings={"dim": 3}))
    assert read_checkpoint(folder, "flipr").settings == {"dim": 3}
    (tmp_path / "empty").mkdir()
    write_checkpoint(tmp_path / "empty", SAMPLE)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
    with pytest.raises(CheckpointError, match="something other than a Baleen checkpoint"):
        write_checkpoint(tmp_path / "thesis", SAMPLE)
    assert (tmp_path / "thesis" / "chapter.tex").exists()


def test_a_write_that_fails_leaves_the_old_one(folder: Path) -> None:
    broken = dataclasses.replace(SAMPLE, notes={"unserialisable": object()})
    with pytest.raises(TypeError):
        write_checkpoint(folder, broken)
    assert read_checkpoint(folder, "flipr").notes == SAMPLE.notes


def test_weights_hash_covers_names_types_shapes_and_values() -> None:
    variants = [
        SAMPLE.tensors,
        {**SAMPLE.tensors, "b": torch.arange(6.0).reshape(3, 2)},
        {**SAMPLE.tensors, "b": torch.arange(6.0).reshape(2, 3).half()},
        {**SAMPLE.tensors, "b": torch.zeros(2, 3)},
        {"a": SAMPLE.tensors["a"], "c": SAMPLE.tensors["b"]},
    ]
    assert len({dataclasses.replace(SAMPLE, tensors=tensors).weights_sha256 for tensors in variants}) == len(variants)
    reordered = dict(reversed(list(SAMPLE.tensors.items())))
    assert dataclasses.replace(SAMPLE, tensors=reordered).weights_sha256 == SAMPLE.weights_sha256


def truncate(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-4])


def flip(folder: Path) -> None:
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


REFUSALS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "newer format": (lambda f: edit_config(f, format_version=99), "format version 99, expected at most 2"),
    "another format": (lambda f: edit_config(f, format="other"), "not a Baleen checkpoint"),
    "another kind": (lambda f: edit_config(f, kind="reader"), "kind 'reader', expected 'flipr'"),
    "lost hash": (lambda f: edit_config(f, tokenizer_sha256=""), "tokenizer were altered"),
    "edited tokenizer": (lambda f: (f / "tokenizer.json").write_text("{}"), "tokenizer were altered"),
    "truncated weights": (truncate, "truncated or not a safetensors file"),
    "altered weights": (flip, "weights were altered"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "incomplete"),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "incomplete"),
    "no config": (lambda f: (f / "config.json").unlink(), "incomplete"),
    "broken config": (lambda f: (f / "config.json").write_text("{"), "not valid JSON"),
    "config that is a list": (lambda f: (f / "config.json").write_text("[]"), "JSON object"),
    "plain model": (lambda f: (f / "config.json").write_text('{"model_type": "bert"}'), "Encoder.from_backbone"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_say_what_is_wrong_on_one_line(folder: Path, case: str) -> None:
    damage, message = REFUSALS[case]
    damage(folder)
    with pytest.raises(CheckpointError, match=message) as caught:
        read_checkpoint(folder, "flipr")
    assert "\n" not in str(caught.value)


def test_a_config_without_settings_is_refused(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    del config["settings"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="lacks settings"):
        read_checkpoint(folder, "flipr")


def test_tensors_must_be_the_models() -> None:
    model = {"a": torch.ones(2), "b": torch.ones(3)}
    check_names(model, model, "model")
    with pytest.raises(CheckpointError, match="missing: b"):
        check_names({"a": torch.ones(2)}, model, "model")
    with pytest.raises(CheckpointError, match="unexpected: c, d, e and 1 more"):
        check_names(model | dict.fromkeys("cdef", torch.ones(1)), model, "model")
    with pytest.raises(CheckpointError, match="another shape than the model's: b"):
        check_names({"a": torch.ones(2), "b": torch.ones(4)}, model, "model")


def unreachable(name: str) -> Path:
    raise ConnectionError(f"no network\nand a long tale of {name}")


def test_resolve_tries_folder_then_checkpoints_then_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BALEEN_CHECKPOINTS", str(tmp_path / "mine"))
    monkeypatch.chdir(tmp_path)
    for place in ("mine/tiny", "checkpoints/tiny", "checkpoints/other"):
        (tmp_path / place).mkdir(parents=True)
    assert resolve_folder(tmp_path / "mine") == tmp_path / "mine"
    assert resolve_folder("tiny") == tmp_path / "mine" / "tiny"
    assert resolve_folder("other").resolve() == tmp_path / "checkpoints" / "other"
    assert resolve_folder("owner/model", download=lambda name: tmp_path / name) == tmp_path / "owner/model"


def test_an_unknown_name_lists_the_searched_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match=r"checkpoints/nowhere.*hub \(no network\)$"):
        resolve_folder("nowhere", download=unreachable)
    with pytest.raises(CheckpointError, match="no model folder"):
        resolve_folder("./not/a/hub/name", download=unreachable)


def test_the_repository_and_the_users_cache_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BALEEN_CHECKPOINTS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    roots = search_roots()
    assert roots[0] == Path("checkpoints")
    assert roots[-1] == tmp_path / "baleen" / "checkpoints"
    if Path(checkpoint.__file__).parents[1].name == "src":
        assert Path(checkpoint.__file__).parents[2] / "checkpoints" in roots


def test_names_resolve_without_torch() -> None:
    program = "import sys, baleen.models.checkpoint, baleen.models.markup, baleen.core.progress; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
