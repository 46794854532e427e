"""The machine that something is done on, and what does it: written beside every figure and every run."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from baleen.cores import cores

ABSENT = "not installed"
PACKAGES = ("baleen", "numpy", "numba", "torch")


def machine() -> dict[str, Any]:
    """The processor, how many of its cores may be used, the memory, the date and the versions of what did the work."""
    return {
        "cpu": _cpu(),
        "cores": cores(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


def version(package: str) -> str:
    """Of a package as it is installed here."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ABSENT


def _cpu(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name; its architecture where the system does not tell."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
