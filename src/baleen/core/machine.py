"""The machine behind a figure, and the time and tokens of each stage of a run."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from baleen.core.parallel import available_cores
from baleen.core.types import Condensed

ABSENT = "not installed"
PACKAGES = ("baleen", "numpy", "numba", "torch")


def machine_info() -> dict[str, Any]:
    """Processor, usable cores, memory, date, and versions of Python and packages."""
    return {
        "cpu": _cpu(),
        "cores": available_cores(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        **{name: package_version(name) for name in PACKAGES},
    }


def package_version(package: str) -> str:
    """The installed version of a package, or ABSENT."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ABSENT


def _cpu(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name, or else its architecture."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


class StageTimer:
    """Seconds and tokens by stage of a batch of `count` claims; seconds are shared evenly, tokens counted per claim."""

    def __init__(self, count: int) -> None:
        self.seconds: dict[str, float] = {}
        self.tokens: list[dict[str, int]] = [{} for _ in range(count)]

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = (time.perf_counter() - start) / max(1, len(self.tokens))
            self.seconds[stage] = self.seconds.get(stage, 0.0) + spent

    def read(self, number: int, stage: str, tokens: int) -> None:
        """Add the tokens that a stage read for claim `number`."""
        self.tokens[number][stage] = self.tokens[number].get(stage, 0) + tokens

    def stamp(self, number: int, condensed: Condensed) -> Condensed:
        """Set the seconds and tokens of a claim's result."""
        return replace(condensed, seconds=dict(self.seconds), tokens=dict(self.tokens[number]))
