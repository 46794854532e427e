"""Several trainings of one model into one: the mean of their weights.

    average(["run 4/reading", "run 6/reading"], [2, 3])         a Checkpoint, as `checkpoint.write` takes it

Trainings that start from the same weights end near enough to each other for what lies between them to be a model too, and it
is often better than either: what one of them learnt by chance the other did not.  Their data and settings of training may
differ; what they are, a backbone's shape, a tokenizer, heads and lengths, may not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baleen.checkpoint import FORMAT, MODEL_FORMAT, Checkpoint, check_alike, read, read_json
from baleen.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from torch import Tensor

NOTE = "averaged"  # where a checkpoint says what it is the mean of


def average(folders: Sequence[str | Path], weights: Sequence[float] | None = None) -> Checkpoint:
    """The mean of the checkpoints in `folders`, each as heavy as its number in `weights` (None: all alike).

    Numbers are added up in float32 and come out in the type that the first checkpoint has them in.  The notes are those of
    the first one, and say under "averaged" whose mean it is.
    """
    shares = _shares(folders, weights)
    kind, *_ = [_kind(Path(folder)) for folder in folders]  # each is found to be a checkpoint before any is read
    total: dict[str, Tensor] = {}
    first, parts = None, []
    for folder, share in zip(folders, shares, strict=True):  # one at a time: they may be large
        found = read(folder, kind)
        first = first or found
        check_alike(first, found, str(folder))
        for name, tensor in found.tensors.items():
            total[name] = _added(total.get(name), tensor, share, f"{folder}: {name}")
        parts.append({"share": round(share, 6), "weights_sha256": found.weights_sha256, **_history(found.notes)})
    assert first is not None
    tensors = {name: tensor.to(first.tensors[name].dtype) for name, tensor in total.items()}
    return replace(first, tensors=tensors, notes={**first.notes, NOTE: parts})


def _shares(folders: Sequence[str | Path], weights: Sequence[float] | None) -> list[float]:
    """Numbers that add up to 1."""
    if len(folders) < 2:
        raise ConfigError(f"{len(folders)} checkpoint: a mean is of two or more")
    heavy = [1.0] * len(folders) if weights is None else list(weights)
    if len(heavy) != len(folders):
        raise ConfigError(f"{len(heavy)} weights for {len(folders)} checkpoints: expected one for each, or none at all")
    if not all(math.isfinite(weight) and weight > 0 for weight in heavy):
        raise ConfigError(f"weights = {heavy}: each should be above 0; leave out a checkpoint that is not to count")
    return [weight / sum(heavy) for weight in heavy]


def _kind(folder: Path) -> str:
    config = read_json(folder / "config.json")
    if config.get("format") == MODEL_FORMAT:
        raise CheckpointError(
            f"{folder}: a whole model; name the folders of one component, such as {folder / 'reading'}"
        )
    if config.get("format") != FORMAT or not isinstance(config.get("kind"), str):
        raise CheckpointError(f"{folder}: not a Baleen checkpoint; expected a folder that `baleen train` wrote")
    return str(config["kind"])


def _added(total: Tensor | None, tensor: Tensor, share: float, source: str) -> Tensor:
    """With a part more; whole numbers, such as positions, are the same in all parts."""
    if tensor.is_floating_point():
        return tensor.float() * share if total is None else total + tensor.float() * share
    if total is not None and not total.equal(tensor):
        raise CheckpointError(f"{source} has other whole numbers than the first; only trainings of one model average")
    return tensor


def _history(notes: Mapping[str, Any]) -> dict[str, Any]:
    """Whose mean a part is itself, if it is one."""
    return {NOTE: notes[NOTE]} if NOTE in notes else {}
