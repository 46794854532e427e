"""The checkpoints of a model: how many parameters, of which type, how many bytes on disk.

Only the headers of the weights are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from baleen.checkpoint import AVERAGED as NOTE
from baleen.checkpoint import BASE, read_json
from baleen.errors import CheckpointError
from baleen.model_folder import ModelFolder

WEIGHTS = "model.safetensors"
_FILES = (WEIGHTS, "config.json", "backbone.json", "tokenizer.json")
_HEADS = "heads."


@dataclass(frozen=True)
class Weights:
    """A checkpoint: its folder, the components that lie in it, and what they weigh.

    `heads` are the parameters of each head, which are among `parameters` too; `size` is of all its files, in bytes.
    Of a mean of several trainings, `averaged` has the share and the hash of the weights of each.  One that is written as
    its difference to another has that one's folder, from its own on, as its `base`; `parameters` are what is written.
    """

    folder: str
    components: tuple[str, ...]
    backbone: Mapping[str, Any]
    parameters: int
    types: tuple[str, ...]
    size: int
    heads: Mapping[str, int] = field(default_factory=dict)
    averaged: tuple[tuple[float, str], ...] = ()
    base: str | None = None

    @property
    def shape(self) -> str:
        """`bert, 12 x 384`: the architecture, its layers and its width, as far as its configuration tells."""
        layers, width = self.backbone.get("num_hidden_layers"), self.backbone.get("hidden_size")
        known = f"{layers} x {width}" if layers and width else ""
        return ", ".join(part for part in (str(self.backbone.get("model_type", "")), known) if part)


def read_weights(model: ModelFolder) -> list[Weights]:
    """Each checkpoint once, in the order of the components; one that cannot be read is a CheckpointError."""
    folders: dict[str, list[str]] = {}
    for component, place in model.components.items():
        folders.setdefault(place, []).append(component)
    return [_weights(model.root / place, place, tuple(components)) for place, components in folders.items()]


def _weights(folder: Path, place: str, components: tuple[str, ...]) -> Weights:
    counts, types = _tensors(folder / WEIGHTS)
    heads: dict[str, int] = {}
    for name, count in counts.items():
        if name.startswith(_HEADS):
            head = name.removeprefix(_HEADS).partition(".")[0]
            heads[head] = heads.get(head, 0) + count
    size = sum((folder / name).stat().st_size for name in _FILES if (folder / name).is_file())
    backbone = read_json(folder / "backbone.json")
    averaged, base = _origin(folder / "config.json")
    return Weights(place, components, backbone, sum(counts.values()), types, size, heads, averaged, base)


def _origin(file: Path) -> tuple[tuple[tuple[float, str], ...], str | None]:
    """What `baleen average` and `baleen difference` noted in a checkpoint that they wrote."""
    config = read_json(file)
    try:
        parts = config.get("notes", {}).get(NOTE, ())
        averaged = tuple((float(part["share"]), str(part["weights_sha256"])) for part in parts)
        return averaged, str(config[BASE]["folder"]) if BASE in config else None
    except (AttributeError, KeyError, TypeError, ValueError):
        raise CheckpointError(
            f"{file}: '{NOTE}' or '{BASE}' is not as `baleen average` and `baleen difference` write them"
        ) from None


def _tensors(file: Path) -> tuple[dict[str, int], tuple[str, ...]]:
    """How many numbers each tensor has, and of which types they are."""
    if not file.is_file():
        raise CheckpointError(f"{file}: no such file; the checkpoint is incomplete")
    try:
        with safe_open(file, framework="numpy") as tensors:
            slices = {name: tensors.get_slice(name) for name in tensors.keys()}  # noqa: SIM118
            counts = {name: prod(each.get_shape()) for name, each in slices.items()}
            return counts, tuple(sorted({each.get_dtype() for each in slices.values()}))
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{file}: truncated or not a safetensors file: {error}") from None
