"""Saves of a training run, from which it resumes as if it had not been interrupted.

    step-000500/                written aside and renamed into place: complete or absent
        state.json              format, format_version, step, settings, counters
        weights.safetensors     every parameter and buffer
        optimizer.safetensors   the optimizer's state; removed from a save that is kept for its weights only

The latest save and the one with the best dev metric are kept.  Nothing is pickled.  Random generators need no state:
the trainer seeds them at every step.
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
_SETTINGS = "told"  # key of the settings in state.json, format version 1
_NAME = re.compile(r"step-(\d{6,})")

Tensors = Mapping[str, Tensor]
Writer = Callable[[dict[str, Tensor], Path], None]


@dataclass(frozen=True, eq=False)
class Save:
    """One save: `settings` that a resumed run must share, `counters` of the progress, and tensors."""

    step: int
    settings: Mapping[str, Any]
    counters: Mapping[str, Any]
    weights: Tensors
    optimizer: Tensors


def write_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Write a safetensors file and sync it; a failure is an OSError."""
    try:
        save_file(tensors, path)
    except SafetensorError as error:  # raised for a full disk
        raise OSError(str(error)) from error
    with path.open("rb+") as file:
        os.fsync(file.fileno())


class Saves:
    """The saves of one run in `folder`; `write` writes a file of tensors."""

    def __init__(self, folder: str | Path, write: Writer = write_tensors) -> None:
        self.folder = Path(folder)
        self._write = write

    def steps(self) -> list[int]:
        """The steps that a run can resume from, in order."""
        return sorted(step for step, path in self._found().items() if (path / OPTIMIZER).exists())

    def latest(self) -> int | None:
        return max(self.steps(), default=None)

    def _found(self) -> dict[int, Path]:
        paths = self.folder.glob("step-*")
        return {int(match[1]): path for path in paths if (match := _NAME.fullmatch(path.name))}

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:06d}"

    def write(self, save: Save, best: int | None = None) -> None:
        """Write `save`, then remove all others but the `best`; after an error the older ones are intact."""
        latest = self.latest()
        try:
            self._write_aside(save)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            intact = "nothing was saved before" if latest is None else f"the save of step {latest} is intact"
            raise TrainingError(
                f"{self.folder}: step {save.step} could not be saved ({reason}); {intact}; free some space and resume the run"
            ) from error
        self._remove_others(keep=save.step, best=best)

    def _write_aside(self, save: Save) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=".step-", dir=self.folder))
        try:
            self._write(_contiguous(save.weights), aside / WEIGHTS)
            self._write(_contiguous(save.optimizer), aside / OPTIMIZER)
            _write_json(aside / STATE, _state(save))
            aside.chmod(0o755)
            sync_folder(aside)
            shutil.rmtree(self._path(save.step), ignore_errors=True)  # the same step, without its optimizer
            aside.rename(self._path(save.step))
            sync_folder(self.folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def _remove_others(self, keep: int, best: int | None) -> None:
        for step, path in self._found().items():
            if step == best and step != keep:
                (path / OPTIMIZER).unlink(missing_ok=True)
            elif step != keep:
                shutil.rmtree(path, ignore_errors=True)
        for left in self.folder.glob(".step-*"):
            shutil.rmtree(left, ignore_errors=True)

    def read(self, step: int, settings: Mapping[str, Any], module: nn.Module) -> Save:
        """Read the save of `step`; refuse other settings, and weights of other shapes."""
        path = self._path(step)
        state = _read_state(path / STATE)
        _refuse(path, "another run", differences(state[_SETTINGS], settings))
        weights, optimizer = _read_tensors(path / WEIGHTS), _read_tensors(path / OPTIMIZER)
        _refuse(path, "another architecture", differences(_shapes(weights), _shapes(tensors_of(module))))
        return Save(step, settings, state["counters"], weights, optimizer)

    def load_weights(self, step: int, module: nn.Module) -> None:
        copy_weights(_read_tensors(self._path(step) / WEIGHTS), module)


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """Every parameter and buffer of `module` by name; shared ones once."""
    named = [*module.named_parameters(), *module.named_buffers()]
    return {name: tensor.detach() for name, tensor in named}


def copy_weights(weights: Tensors, module: nn.Module) -> None:
    for name, tensor in tensors_of(module).items():
        tensor.copy_(weights[name])


def differences(saved: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """A phrase for each name with different values."""
    names = [name for name in {**saved, **given} if saved.get(name) != given.get(name)]
    return [f"{name} was {saved.get(name, 'absent')} and is {given.get(name, 'absent')}" for name in names]


def _refuse(path: Path, what: str, found: list[str]) -> None:
    if found:
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        raise TrainingError(f"{path}: was saved by {what}: {', '.join(found[:3])}{more}; choose another folder")


def _shapes(tensors: Tensors) -> dict[str, list[int]]:
    return {name: list(tensor.shape) for name, tensor in tensors.items()}


def _contiguous(tensors: Tensors) -> dict[str, Tensor]:
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def _state(save: Save) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "step": save.step,
        _SETTINGS: dict(save.settings),
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
        raise TrainingError(f"{path}: cannot be read ({error}); remove that folder to start over") from None
    if state.get("format") != FORMAT or state.get("format_version") != FORMAT_VERSION:
        found = f"{state.get('format')!r} version {state.get('format_version')!r}"
        raise TrainingError(f"{path}: holds {found}; this Baleen reads {FORMAT!r} version {FORMAT_VERSION}")
    return state


def _read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise TrainingError(f"{path}: cannot be read ({error}); remove that folder to start over") from None
