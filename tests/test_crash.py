"""A writer that is killed at any moment leaves the index as it was before its change, or as it is after it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = Path(__file__).parents[1] / "benchmarks" / "kills.py"


def kill(kills: int, seed: int) -> dict[str, int]:
    """Run the benchmark in a process of its own, since it forks; its table, summed over the kinds of change."""
    command = [sys.executable, str(KILLS), "--kills", str(kills), "--seed", str(seed)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    rows = re.findall(r"^\| \w+ \| (\d+) \| (\d+) \| (\d+) \|$", run.stdout, re.MULTILINE)
    assert len(rows) == 5
    return {name: sum(map(int, column)) for name, column in zip(("before", "after", "broken"), zip(*rows, strict=True), strict=True)}


def test_a_killed_writer_leaves_one_whole_state() -> None:
    found = kill(8, seed=1)
    assert found["broken"] == 0
    assert found["before"] + found["after"] == 8


@pytest.mark.slow
def test_two_hundred_killed_writers_leave_one_whole_state_each() -> None:
    found = kill(200, seed=0)
    assert found["broken"] == 0
    assert found["before"] > 0
