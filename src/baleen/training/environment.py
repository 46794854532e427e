"""`environment.json` beside the plan of a run: machine, versions and commit.

    {"environments": [{"date": "2026-11-15", "cpu": ..., "device": "NVIDIA H200", "torch": ..., "commit": ..., ...}]}

A run that resumes in another environment adds an entry.  Entries never keep a run from resuming.
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
COMMIT = "BALEEN_COMMIT"  # environment variable: the commit of sources without a repository
_SOURCES = Path(__file__).resolve().parents[1]
_GIT_TIMEOUT = 10  # seconds

Environment = Mapping[str, Any]


def environment(device: torch.device, processes: int = 1) -> dict[str, Any]:
    """The machine, the device, the versions, and the commit of the code.

    `changed` says whether the sources differ from the commit.  `commit` and `changed` are None if unknown.
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
    """The commit of `sources`, and whether they changed since; BALEEN_COMMIT comes first.

    The commit of a repository that does not track the sources, such as the project of a virtual environment, is ignored.
    """
    if os.environ.get(COMMIT):
        return {"commit": os.environ[COMMIT], "changed": None}
    if not _git(sources, "ls-files", "--", "."):
        return {"commit": None, "changed": None}
    changes = _git(sources, "status", "--porcelain", "--", ".")
    return {"commit": _git(sources, "rev-parse", "HEAD"), "changed": None if changes is None else bool(changes)}


def _git(folder: Path, *arguments: str) -> str | None:
    """Output of git, or None if it fails or takes too long."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_GIT_TIMEOUT)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def note_environment(root: Path, found: Environment) -> None:
    """Add an environment to the run in `root`, unless the last one differs only in its date."""
    known = read_environments(root)
    if known and _without_date(known[-1]) == _without_date(found):
        return
    write_json(root / ENVIRONMENT, {"environments": [*known, found]})


def read_environments(root: Path) -> list[Environment]:
    """The environments of a run, in order; none if the file is missing or broken."""
    try:
        found = read_json(root / ENVIRONMENT).get("environments", [])
    except CheckpointError:
        return []
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _without_date(found: Environment) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key != "date"}
