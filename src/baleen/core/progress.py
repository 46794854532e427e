"""Progress bars on standard error, with count, throughput, elapsed and remaining time.

    with progress("encoding", total=len(corpus), unit="passages") as bar:
        for part in parts:
            bar.advance(len(part))

Silent if standard error is not a terminal, or if BALEEN_QUIET is set.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
_SPEED_WINDOW = 3600.0  # seconds; rich's default of 30 loses the remaining time if a batch takes longer


class Bar:
    """A counter; `done` counts even without a visible bar."""

    def __init__(self, show: Callable[[int, str], None] | None = None) -> None:
        self.done = 0
        self._text = ""
        self._show = show

    def advance(self, amount: int = 1) -> None:
        self.done += amount
        self._update()

    def note(self, text: str) -> None:
        """Show `text` beside the bar."""
        self._text = text
        self._update()

    def _update(self) -> None:
        if self._show is not None:
            self._show(self.done, self._text)


@contextmanager
def progress(
    description: str, total: int | None = None, unit: str = "items", *, visible: bool | None = None
) -> Iterator[Bar]:
    """Show a bar while the block runs; `visible` None: on a terminal, unless BALEEN_QUIET is set."""
    if not (sys.stderr.isatty() and not os.environ.get("BALEEN_QUIET") if visible is None else visible):
        yield Bar()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}")),
        *(TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("{task.fields[note]}")),
    )
    start = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), speed_estimate_period=_SPEED_WINDOW) as display:
        task = display.add_task(description, total=total, rate="", note="")

        def show(done: int, text: str) -> None:
            rate = throughput(done, time.monotonic() - start, unit)
            display.update(task, completed=done, rate=rate, note=text)

        yield Bar(show)


def track(items: Iterable[Item], description: str, total: int | None = None, unit: str = "items") -> Iterator[Item]:
    """Yield the items under a progress bar."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    with progress(description, total, unit) as bar:
        for item in items:
            yield item
            bar.advance()


def throughput(done: int, seconds: float, unit: str) -> str:
    """Format a rate such as `1,234 passages/s`, with one decimal below 10."""
    rate = done / seconds if seconds > 0 else 0.0
    return f"{rate:,.0f} {unit}/s" if rate >= 10 else f"{rate:.1f} {unit}/s"
