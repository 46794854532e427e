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
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

Item = TypeVar("Item")


@dataclass
class Pace:
    """How long the rest of a loop will take, by the mean of all that is done.

    What comes first also pays for loading and compiling: as soon as more is done, the mean is taken without it.
    """

    total: int | None
    first: tuple[int, float] = (0, 0.0)
    last: tuple[int, float] = (0, 0.0)

    def mark(self, done: int, seconds: float) -> None:
        """So many are done, so many seconds after the start."""
        if done > self.last[0]:
            self.first = (done, seconds) if not self.first[0] else self.first
            self.last = (done, seconds)

    def left(self, seconds: float) -> float | None:
        """Seconds to go at this moment, never below 0; None while nothing is done, or no total is known."""
        done, at = self.last
        if self.total is None or not done:
            return None
        since, began = self.first if self.first[0] < done else (0, 0.0)
        expected = at + (self.total - done) * (at - began) / (done - since)
        return max(0.0, expected - seconds)


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
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    start, pace = time.monotonic(), Pace(total)
    rate, note = TextColumn("{task.fields[rate]}"), TextColumn("{task.fields[note]}")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), rate)
    left = _left_column(lambda: pace.left(time.monotonic() - start))
    with Progress(*columns, TimeElapsedColumn(), left, note, console=Console(stderr=True)) as display:
        task = display.add_task(description, total=total, rate="", note="")

        def show(done: int, text: str) -> None:
            pace.mark(done, time.monotonic() - start)
            display.update(task, completed=done, rate=throughput(done, time.monotonic() - start, unit), note=text)

        yield Bar(show)


def _left_column(left: Callable[[], float | None]) -> ProgressColumn:
    """A column of the time left that counts down between one report and the next."""
    from rich.progress import ProgressColumn, Task
    from rich.table import Column
    from rich.text import Text

    class Left(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text("" if task.finished else time_left(left()), style="progress.remaining")

    return Left(Column(no_wrap=True))


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


def time_left(seconds: float | None) -> str:
    """`1:02:03 left`, or `-:--:-- left` where nobody can tell yet."""
    if seconds is None:
        return "-:--:-- left"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02} left"


def _wanted() -> bool:
    return sys.stderr.isatty() and not os.environ.get("BALEEN_QUIET")
