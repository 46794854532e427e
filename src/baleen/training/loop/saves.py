"""A run's state on disk, from which it can be taken up again as if nothing had happened.

    step-000500/            written aside and renamed into place: it is there whole or not at all
        state.json          format, format_version, step, what the run was told, counters
        weights.safetensors     every parameter and buffer
        optimizer.safetensors   the optimizer's moments; dropped from a save that is kept for its weights only

The latest save and the one with the best dev metric are kept.  Nothing is pickled, and no state of a random generator is
needed: every step seeds them anew (see loop.py).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from baleen.core.errors import TrainingError
from baleen.core.files import sync_folder

FORMAT = "baleen-training"
FORMAT_VERSION = 1
STATE, WEIGHTS, OPTIMIZER = "state.json", "weights.safetensors", "optimizer.safetensors"
_NAME = re.compile(r"step-(\d{6,})")

Tensors = Mapping[str, Tensor]
Writer = Callable[[dict[str, Tensor], Path], None]


@dataclass(frozen=True, eq=False)
class Save:
    """What one save holds: `told` is what the run was told, `counters` where it stood."""

    step: int
    told: Mapping[str, Any]
    counters: Mapping[str, Any]
    weights: Tensors
    moments: Tensors


def write_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """As safetensors, down to the disk; what the system refuses is an OSError."""
    try:
        save_file(tensors, path)
    except SafetensorError as error:  # how the library reports a full disk
        raise OSError(str(error)) from error
    with path.open("rb+") as file:
        os.fsync(file.fileno())


class Saves:
    """The saves of one run in `folder`; `write` stands for how tensors get to the disk."""

    def __init__(self, folder: str | Path, write: Writer = write_tensors) -> None:
        self.folder = Path(folder)
        self._write = write

    def steps(self) -> list[int]:
        """The steps that can be taken up again, in order."""
        return sorted(step for step, path in self._found().items() if (path / OPTIMIZER).exists())

    def latest(self) -> int | None:
        return max(self.steps(), default=None)

    def _found(self) -> dict[int, Path]:
        paths = self.folder.glob("step-*")
        return {int(match[1]): path for path in paths if (match := _NAME.fullmatch(path.name))}

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:06d}"

    def write(self, save: Save, best: int | None = None) -> None:
        """Add `save`, then drop all others but the `best`; whatever goes wrong, the former ones stay."""
        latest = self.latest()
        try:
            self._write_aside(save)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            intact = "nothing was saved before" if latest is None else f"the save of step {latest} is intact"
            raise TrainingError(
                f"{self.folder}: step {save.step} could not be saved ({reason}); {intact}: make room and resume the run"
            ) from error
        self._drop(keep=save.step, best=best)

    def _write_aside(self, save: Save) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=".step-", dir=self.folder))
        try:
            self._write(_contiguous(save.weights), aside / WEIGHTS)
            self._write(_contiguous(save.moments), aside / OPTIMIZER)
            _write_json(aside / STATE, _state(save))
            aside.chmod(0o755)
            sync_folder(aside)
            shutil.rmtree(self._path(save.step), ignore_errors=True)  # the same step, without what it takes to go on
            aside.rename(self._path(save.step))
            sync_folder(self.folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def _drop(self, keep: int, best: int | None) -> None:
        for step, path in self._found().items():
            if step == best and step != keep:
                (path / OPTIMIZER).unlink(missing_ok=True)
            elif step != keep:
                shutil.rmtree(path, ignore_errors=True)
        for left in self.folder.glob(".step-*"):
            shutil.rmtree(left, ignore_errors=True)

    def read(self, step: int, told: Mapping[str, Any], module: nn.Module) -> Save:
        """The save of `step`, which must be of a run that was told the same and trained a module of the same shape."""
        path = self._path(step)
        state = _read_state(path / STATE)
        _refuse(path, "another run", differences(state["told"], told))
        weights, moments = _read_tensors(path / WEIGHTS), _read_tensors(path / OPTIMIZER)
        _refuse(path, "another architecture", differences(_shapes(weights), _shapes(tensors_of(module))))
        return Save(step, told, state["counters"], weights, moments)

    def load_weights(self, step: int, module: nn.Module) -> None:
        """Give `module` the weights that were saved at `step`."""
        copy_weights(_read_tensors(self._path(step) / WEIGHTS), module)


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """Every parameter and buffer of `module` by name; those that are shared, once."""
    named = [*module.named_parameters(), *module.named_buffers()]
    return {name: tensor.detach() for name, tensor in named}


def copy_weights(weights: Tensors, module: nn.Module) -> None:
    for name, tensor in tensors_of(module).items():
        tensor.copy_(weights[name])


def differences(saved: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """A phrase for each name whose values are not the same."""
    names = [name for name in {**saved, **given} if saved.get(name) != given.get(name)]
    return [f"{name} was {saved.get(name, 'absent')} and is {given.get(name, 'absent')}" for name in names]


def _refuse(path: Path, what: str, found: list[str]) -> None:
    if found:
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        raise TrainingError(f"{path}: saved by {what}: {', '.join(found[:3])}{more}; choose another folder")


def _shapes(tensors: Tensors) -> dict[str, list[int]]:
    return {name: list(tensor.shape) for name, tensor in tensors.items()}


def _contiguous(tensors: Tensors) -> dict[str, Tensor]:
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def _state(save: Save) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "step": save.step,
        "told": dict(save.told),
        "counters": dict(save.counters),
    }


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    with path.open("w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def _read_state(path: Path) -> dict[str, Any]:
    try:
        state: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise TrainingError(f"{path}: cannot be read ({error}); remove that folder to start again") from None
    if state.get("format") != FORMAT or state.get("format_version") != FORMAT_VERSION:
        found = f"{state.get('format')!r} version {state.get('format_version')!r}"
        raise TrainingError(f"{path}: {found}, and this Baleen reads {FORMAT!r} version {FORMAT_VERSION}")
    return state


def _read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise TrainingError(f"{path}: cannot be read ({error}); remove that folder to start again") from None
