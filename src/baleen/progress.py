"""One way to show progress: a bar on standard error with count, throughput, time spent and time left.

    with progress("encoding", total=len(corpus), unit="passages") as bar:
        for part in parts:
            bar.advance(len(part))

It shows nothing where standard error is no terminal, or where the environment sets BALEEN_QUIET.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")


class Bar:
    """What a loop reports to; `done` counts whether or not anything is shown."""

    def __init__(self, show: Callable[[int, str], None] | None = None) -> None:
        self.done = 0
        self._text = ""
        self._show = show

    def advance(self, amount: int = 1) -> None:
        self.done += amount
        self._update()

    def note(self, text: str) -> None:
        """Show `text` beside the bar from now on."""
        self._text = text
        self._update()

    def _update(self) -> None:
        if self._show is not None:
            self._show(self.done, self._text)


@contextmanager
def progress(
    description: str, total: int | None = None, unit: str = "items", *, visible: bool | None = None
) -> Iterator[Bar]:
    """A bar for as long as the block runs; `visible` None lets the terminal and the environment decide."""
    if not (_wanted() if visible is None else visible):
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

    rate, note = TextColumn("{task.fields[rate]}"), TextColumn("{task.fields[note]}")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), rate)
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), note, console=Console(stderr=True)) as display:
        task = display.add_task(description, total=total, rate="", note="")
        start = time.monotonic()

        def show(done: int, text: str) -> None:
            display.update(task, completed=done, rate=throughput(done, time.monotonic() - start, unit), note=text)

        yield Bar(show)


def track(items: Iterable[Item], description: str, total: int | None = None, unit: str = "items") -> Iterator[Item]:
    """The items themselves, with a bar beside them while they are taken."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    with progress(description, total, unit) as bar:
        for item in items:
            yield item
            bar.advance()


def throughput(done: int, seconds: float, unit: str) -> str:
    """`1,234 passages/s`, with a decimal where the rate is small."""
    rate = done / seconds if seconds > 0 else 0.0
    return f"{rate:,.0f} {unit}/s" if rate >= 10 else f"{rate:.1f} {unit}/s"


def _wanted() -> bool:
    return sys.stderr.isatty() and not os.environ.get("BALEEN_QUIET")
