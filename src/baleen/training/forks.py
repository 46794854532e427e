"""Forks of a process that has threads, tokenizers and perhaps a GPU: where they are safe, and without a word of theirs."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from baleen.cores import cores

_TOKENIZERS = "TOKENIZERS_PARALLELISM"


def forks_are_safe() -> bool:
    """Where the system has them, and its own libraries take a fork of a process with threads."""
    return hasattr(os, "fork") and sys.platform != "darwin"


def cores_each() -> int:
    """The cores that this process has beside others of its run on this machine."""
    return max(1, cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


@contextmanager
def quiet_forks() -> Iterator[None]:
    """Tokenizers that are forked here use one thread each: those of the parent do not come along."""
    before = os.environ.get(_TOKENIZERS)
    os.environ[_TOKENIZERS] = "false"
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
            yield
    finally:
        if before is None:
            del os.environ[_TOKENIZERS]
        else:
            os.environ[_TOKENIZERS] = before
