"""How many processor cores this process may use."""

from __future__ import annotations

import os


def cores() -> int:
    """Those it is bound to where the system tells, else all."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
