"""A writer killed at any moment leaves the index in the state before or after its change."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = Path(__file__).parents[2] / "benchmarks" / "kills.py"


def run_benchmark(*arguments: str) -> str:
    """Output of the benchmark, run in a process of its own because it forks."""
    run = subprocess.run([sys.executable, str(KILLS), *arguments], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def kill(kills: int, seed: int) -> dict[str, int]:
    """The benchmark's table, summed over the kinds of change."""
    printed = run_benchmark("--kills", str(kills), "--seed", str(seed))
    rows = re.findall(r"^\| \w+ \| (\d+) \| (\d+) \| (\d+) \|$", printed, re.MULTILINE)
    assert len(rows) == 5
    before, after, broken = (sum(map(int, column)) for column in zip(*rows, strict=True))
    return {"before": before, "after": after, "broken": broken}


def test_a_killed_writer_leaves_a_committed_state() -> None:
    found = kill(8, seed=1)
    assert found["broken"] == 0
    assert found["before"] + found["after"] == 8


@pytest.mark.slow
def test_two_hundred_killed_writers_leave_committed_states() -> None:
    found = kill(200, seed=0)
    assert found["broken"] == 0
    assert found["before"] > 0


def test_opening_during_a_write_finds_a_committed_state() -> None:
    run_benchmark("--opens", "800")
