"""On which machine, with which versions and of which commit a run is done: `environment.json`, beside its plan.

    {"environments": [{"date": "2026-11-15", "cpu": ..., "device": "NVIDIA H200", "torch": ..., "commit": ..., ...}]}

A run that goes on elsewhere, or after a change of the code, gets another entry; one that goes on as it was gets none.
Nothing of this counts when a run is taken up again.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from baleen.core.errors import CheckpointError
from baleen.core.machine import machine_info, package_version
from baleen.models.checkpoint import read_json
from baleen.training.stages import write_json

ENVIRONMENT = "environment.json"
COMMIT = "BALEEN_COMMIT"  # of sources that were copied without their repository
_SOURCES = Path(__file__).resolve().parents[1]
_PATIENCE = 10  # seconds that git may take

Environment = Mapping[str, Any]


def environment(device: torch.device, processes: int = 1) -> dict[str, Any]:
    """Where this process runs: its machine, the device that it computes on, the versions, and the commit of its code.

    `changed` says whether the sources differ from the commit; None where that is not known, as is `commit`.
    """
    return {
        **machine_info(),
        "transformers": package_version("transformers"),
        "device": device_name(device),
        "processes": processes,
        "cuda": torch.version.cuda if device.type == "cuda" else None,
        **commit(),
    }


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def commit(sources: Path = _SOURCES) -> dict[str, Any]:
    """The commit that `sources` are of, and whether they were `changed` since; what BALEEN_COMMIT says comes first.

    A repository that the sources merely lie in, as an installed package lies in somebody's project, is not theirs.
    """
    if os.environ.get(COMMIT):
        return {"commit": os.environ[COMMIT], "changed": None}
    if not _git(sources, "ls-files", "--", "."):
        return {"commit": None, "changed": None}
    changes = _git(sources, "status", "--porcelain", "--", ".")
    return {"commit": _git(sources, "rev-parse", "HEAD"), "changed": None if changes is None else bool(changes)}


def _git(folder: Path, *arguments: str) -> str | None:
    """What git says there; None without git, without a repository, or without an answer in good time."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_PATIENCE)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def note_environment(root: Path, found: Environment) -> None:
    """Add an environment to those of the run in `root`, unless the last one is the same but for its date."""
    known = read_environments(root)
    if known and _undated(known[-1]) == _undated(found):
        return
    write_json(root / ENVIRONMENT, {"environments": [*known, found]})


def read_environments(root: Path) -> list[Environment]:
    """Where a run was done, in order; nothing where it does not say, or nothing that can be read."""
    try:
        found = read_json(root / ENVIRONMENT).get("environments", [])
    except CheckpointError:
        return []
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _undated(found: Environment) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key != "date"}
