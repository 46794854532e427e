from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from baleen.core.errors import CheckpointError
from baleen.models.checkpoint import MODEL_FORMAT
from baleen.models.encoder import Encoder
from baleen.models.folder import COMPONENTS, component_folder, read_model, write_model
from fakes import tiny_encoder


def checkpoints(root: Path, *names: str) -> Path:
    """Make subfolders with the config.json of a checkpoint and nothing else."""
    for name in names:
        (root / name).mkdir(parents=True)
        (root / name / "config.json").write_text('{"format": "baleen-checkpoint"}')
    return root


def described(root: Path, **config: Any) -> Path:
    (root / "config.json").write_text(json.dumps({"format": MODEL_FORMAT, "format_version": 1, **config}))
    return root


def test_components_may_share_a_folder_or_have_one_each(tmp_path: Path) -> None:
    root = checkpoints(tmp_path, "retriever", "reading", "verdicts")
    components = {"retriever": "retriever", "sentences": "reading", "facts": "reading", "verifier": "verdicts"}
    write_model(root, components, {"condenser": {"keep": 0.5}})
    model = read_model(root)
    assert model.folder("retriever") == root / "retriever"
    assert model.folder("sentences") == model.folder("facts") == root / "reading"
    assert model.folder("verifier") == root / "verdicts"
    assert model.settings == {"condenser": {"keep": 0.5}}
    assert "facts" in model
    assert "answerer" not in model
    assert component_folder(root, "facts") == root / "reading"


def test_a_missing_component_is_named_with_its_command(tmp_path: Path) -> None:
    root = checkpoints(tmp_path, "retriever", "reading")
    write_model(root, {"retriever": "retriever", "reranker": "reading"})
    message = r"has no verifier, which reads a verdict.*it has retriever, reranker\. `baleen train .*--stage verifier`"
    with pytest.raises(CheckpointError, match=message):
        read_model(root).folder("verifier")
    for component in COMPONENTS.keys() - {"retriever", "reranker"}:
        with pytest.raises(CheckpointError, match=f"--stage {component}"):
            component_folder(root, component)


def test_an_unknown_component_is_refused(tmp_path: Path) -> None:
    root = described(checkpoints(tmp_path, "retriever"), components={"retreiver": "retriever"})
    with pytest.raises(
        CheckpointError, match="unknown component 'retreiver'; expected one of retriever, sentences, facts"
    ):
        read_model(root)


def test_a_component_whose_folder_is_missing_is_refused(tmp_path: Path) -> None:
    root = described(checkpoints(tmp_path, "retriever"), components={"retriever": "retriever", "facts": "reading"})
    with pytest.raises(CheckpointError, match="the folder of its facts, .*reading, is missing"):
        read_model(root)


@pytest.mark.parametrize(
    ("given", "thresholds"),
    [
        (0.5, {"keep": 0.5}),
        ([-2, 1.0], {"keep": -2, "final": 1.0}),
        ([-2.0, -0.5, 1.0], {"keep": -2.0, "read": -0.5, "final": 1.0}),
        ([1.0], {"threshold": [1.0]}),
    ],
)
def test_settings_of_format_version_1_get_their_new_names(tmp_path: Path, given: Any, thresholds: Any) -> None:
    condenser = {"pool": 3, "threshold": given, "least_passages": 2}
    run = {"stand_in": True, "named_bonus": 8.0, "ranked_by": "reading", "hops": 2}
    root = described(tmp_path, components={}, settings={"condenser": condenser, "run": run})
    assert read_model(root).settings == {
        "condenser": {"pool": 3, "min_passages": 2, **thresholds},
        "run": {"untrained": True, "mention_boost": 8.0, "ranked_by": "evidence", "hops": 2},
    }
    as_they_are = {"condenser": condenser, "run": run}
    assert (
        read_model(described(tmp_path, format_version=2, components={}, settings=as_they_are)).settings == as_they_are
    )


def test_old_names_beside_new_ones_are_kept_to_be_refused(tmp_path: Path) -> None:
    settings = {
        "condenser": {"threshold": 0.5, "keep": 1.0, "least_passages": 2, "min_passages": 1},
        "run": {"named_bonus": 8.0, "mention_boost": 2.0},
    }
    assert read_model(described(tmp_path, components={}, settings=settings)).settings == settings


@pytest.mark.parametrize("version", [3, 0, "1", None])
def test_another_version_of_the_format_is_refused(tmp_path: Path, version: Any) -> None:
    with pytest.raises(CheckpointError, match=f"format version {version!r}, expected at most 2"):
        read_model(described(tmp_path, format_version=version))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"components": ["retriever"]}, "components should map names to folders"),
        ({"components": {"retriever": 1}}, "components should map names to folders"),
        ({"settings": [1]}, "settings should map stages"),
        ({"settings": {"run": 4}}, "settings should map stages"),
        ({"format": "other"}, "not a Baleen model \\(format 'other'"),
    ],
)
def test_a_description_that_cannot_be_read_is_refused(tmp_path: Path, config: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        read_model(described(tmp_path, **config))


def test_a_folder_without_a_description_is_no_model(tmp_path: Path) -> None:
    for root in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(CheckpointError, match="config.json"):
            read_model(root)


def test_write_model_replaces_config_atomically(tmp_path: Path) -> None:
    root = checkpoints(tmp_path, "retriever", "reading")
    write_model(root, {"retriever": "retriever"})
    write_model(root, {"retriever": "retriever", "facts": "reading"})
    assert list(read_model(root).components) == ["retriever", "facts"]
    assert sorted(path.name for path in root.iterdir()) == ["config.json", "reading", "retriever"]


def test_a_retriever_loads_alone_and_from_a_whole_model(tmp_path: Path) -> None:
    encoder = tiny_encoder(tmp_path / "fake")
    encoder.save(tmp_path / "model" / "first")
    bare = read_model(tmp_path / "model" / "first")
    assert list(bare.components) == ["retriever"]
    assert bare.folder("retriever") == component_folder(bare.root, "retriever") == tmp_path / "model" / "first"
    with pytest.raises(CheckpointError, match="has no facts"):
        bare.folder("facts")
    write_model(tmp_path / "model", {"retriever": "first"})
    for folder in (tmp_path / "model", tmp_path / "model" / "first"):
        assert Encoder.load(folder).fingerprint == encoder.fingerprint


def test_a_model_without_a_retriever_has_no_encoder_to_load(tmp_path: Path) -> None:
    write_model(checkpoints(tmp_path, "reading"), {"facts": "reading"})
    with pytest.raises(CheckpointError, match="has no retriever, which finds passages"):
        Encoder.load(tmp_path)
