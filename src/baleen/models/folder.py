"""A whole model on disk: a config.json that maps components to checkpoints.

    config.json         format, format_version, components: name -> subfolder, settings of the stages
    retriever/          a checkpoint (see checkpoint.py), for one component or for several that share a backbone
    reading/            ...

The checkpoint of a retriever is also a model, with that one component.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from baleen.core.errors import CheckpointError
from baleen.models.checkpoint import FORMAT as CHECKPOINT_FORMAT
from baleen.models.checkpoint import MODEL_FORMAT as FORMAT
from baleen.models.checkpoint import read_json

FORMAT_VERSION = 2

# Settings that had another name in format version 1.
RENAMED = {"least_passages": "min_passages", "named_bonus": "mention_boost", "stand_in": "untrained"}

# What each component does, in the order of training.
COMPONENTS: Mapping[str, str] = {
    "retriever": "finds passages",
    "sentences": "scores the sentences of a passage (the condenser's first stage)",
    "facts": "weighs all candidate facts together (the condenser's second stage)",
    "reranker": "scores whole passages",
    "verifier": "reads a verdict off the facts",
    "answerer": "reads an answer off the facts",
}


@dataclass(frozen=True)
class ModelFolder:
    """The components of a model by name, with their subfolders; components of one folder share its backbone."""

    root: Path
    components: Mapping[str, str]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __contains__(self, component: str) -> bool:
        return component in self.components

    def folder(self, component: str) -> Path:
        """Return the checkpoint folder of a component; CheckpointError if the model has none."""
        if component not in self.components:
            raise CheckpointError(
                f"{self.root}: has no {component}, which {COMPONENTS[component]}; it has {', '.join(self.components)}. "
                f"`baleen train CONFIG.toml --stage {component}` makes one"
            )
        return self.root / self.components[component]


def read_model(root: Path) -> ModelFolder:
    """Read the model in `root`; CheckpointError if a component is unknown or its folder is missing."""
    config = read_json(root / "config.json")
    if config.get("format") == CHECKPOINT_FORMAT:
        return ModelFolder(root, {"retriever": "."})
    if config.get("format") != FORMAT:
        raise CheckpointError(f"{root}: not a Baleen model (format {config.get('format')!r}, expected {FORMAT!r})")
    version = config.get("format_version")
    if not isinstance(version, int) or not 1 <= version <= FORMAT_VERSION:
        raise CheckpointError(
            f"{root}: format version {version!r}, expected at most {FORMAT_VERSION}; install a newer Baleen"
        )
    components, settings = config.get("components", {}), config.get("settings", {})
    if not isinstance(components, dict) or not all(isinstance(place, str) for place in components.values()):
        raise CheckpointError(f"{root / 'config.json'}: components should map names to folders")
    if not isinstance(settings, dict) or not all(isinstance(stage, dict) for stage in settings.values()):
        raise CheckpointError(f"{root / 'config.json'}: settings should map stages to their settings")
    model = ModelFolder(root, components, settings if version > 1 else migrate_settings(settings))
    for component in model.components:
        if component not in COMPONENTS:
            raise CheckpointError(f"{root}: unknown component '{component}'; expected one of {', '.join(COMPONENTS)}")
        if not (model.folder(component) / "config.json").is_file():
            raise CheckpointError(f"{root}: the folder of its {component}, {model.folder(component)}, is missing")
    return model


def migrate_settings(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Settings of format version 1 under their names of today; a setting given by both names is left to be refused."""
    migrated = {
        stage: {key if RENAMED.get(key) in own else RENAMED.get(key, key): value for key, value in own.items()}
        for stage, own in settings.items()
    }
    condenser, run = migrated.get("condenser", {}), migrated.get("run", {})
    if "threshold" in condenser and condenser.keys().isdisjoint(("keep", "read", "final")):
        condenser |= _thresholds(condenser.pop("threshold"))
    if run.get("ranked_by") == "reading":
        run["ranked_by"] = "evidence"
    return migrated


def _thresholds(given: Any) -> dict[str, Any]:
    """One number, or a list of two or three; anything else stays as it is, to be refused."""
    if not isinstance(given, list):
        return {"keep": given}
    names = {2: ("keep", "final"), 3: ("keep", "read", "final")}.get(len(given))
    return {"threshold": given} if names is None else dict(zip(names, given, strict=True))


def write_model(root: Path, components: Mapping[str, str], settings: Mapping[str, Any] | None = None) -> None:
    """Write config.json atomically; the checkpoints must be in their subfolders already."""
    config = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "components": dict(components),
        "settings": dict(settings or {}),
    }
    aside = root / "config.json.new"
    aside.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", "utf-8")
    os.replace(aside, root / "config.json")


def component_folder(folder: Path, component: str) -> Path:
    """Return the folder of a component's checkpoint: a subfolder if `folder` is a whole model, otherwise `folder`."""
    config = folder / "config.json"
    if config.is_file() and read_json(config).get("format") == FORMAT:
        return read_model(folder).folder(component)
    return folder
