"""What a run writes for people: log.jsonl, TensorBoard's events and curves.png where their packages are installed.

A line of log.jsonl is one JSON object with its `step`; lines past the step that a run is taken up at are cut, so that
an interrupted run and an undisturbed one leave the same steps behind.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from baleen.errors import TrainingError

LOG = "log.jsonl"
CURVES = "curves.png"
LEAST_DRAWN = 8  # records: fewer are sooner read than drawn
_EVENTS = "tensorboard"

Record = Mapping[str, Any]


def read_log(folder: str | Path) -> list[dict[str, Any]]:
    """The records of a run, oldest first; a last line that was cut short is left out."""
    path = Path(folder) / LOG
    return list(_records(path.read_bytes())) if path.exists() else []


def _records(content: bytes) -> Iterator[dict[str, Any]]:
    for line in content.splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return


class TrainLog:
    """Appends records to a run's log, beginning after `step`; a `silent` one writes nothing."""

    def __init__(self, folder: Path, step: int, *, silent: bool = False) -> None:
        self._folder, self._silent, self._events = folder, silent, None
        if not silent:
            with writing(folder / LOG):
                _cut(folder, step)
            self._events = _event_writer(folder / _EVENTS, step)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._events is not None:
            self._events.close()

    def write(self, record: Record) -> None:
        if self._silent:
            return
        with writing(self._folder / LOG), (self._folder / LOG).open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        if self._events is not None:
            for name in _numbers(record):
                self._events.add_scalar(name, record[name], record["step"])

    def draw(self) -> None:
        """Draw the whole log to curves.png, where matplotlib is installed."""
        if not self._silent:
            draw_curves(read_log(self._folder), self._folder / CURVES)


def _cut(folder: Path, step: int) -> None:
    """Keep the records up to `step`; the log is replaced at once, never cut in place."""
    kept = [record for record in read_log(folder) if record["step"] <= step]
    aside = folder / f"{LOG}.new"
    aside.write_text("".join(json.dumps(record) + "\n" for record in kept), encoding="utf-8")
    os.replace(aside, folder / LOG)


def _numbers(record: Record) -> list[str]:
    return [key for key, value in record.items() if isinstance(value, (int, float)) and key != "step"]


def _event_writer(folder: Path, step: int) -> Any:
    """TensorBoard's writer, which hides events past `step` that an earlier run left; None where it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=step + 1)  # type: ignore[no-untyped-call,unused-ignore]


def draw_curves(records: list[dict[str, Any]], path: Path) -> bool:
    """One panel for each of the loss's parts and of the dev metrics over steps; False where there is too little to draw.

    That is fewer than LEAST_DRAWN records, or no matplotlib to draw them with.
    """
    if len(records) < LEAST_DRAWN:
        return False
    try:
        from matplotlib.figure import Figure  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return False
    names = [name for name in dict.fromkeys(n for r in records for n in _numbers(r)) if name not in UNDRAWN]
    if not names:
        return False
    figure = Figure(figsize=(7, 2.5 * len(names)), layout="constrained")
    for panel, name in zip(figure.subplots(len(names), 1, squeeze=False)[:, 0], names, strict=True):
        known = [record for record in records if name in record]
        panel.plot([record["step"] for record in known], [record[name] for record in known])
        panel.set(xlabel="step", ylabel=name)
    with writing(path):
        figure.savefig(path)
    return True


UNDRAWN = ("seconds", "steps_per_second", "tokens_per_second", "examples_per_second", "padding", "utilisation")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """A failure to write, a full disk above all, as a TrainingError that says what to do."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise TrainingError(f"{path}: cannot be written: {reason}; mend that and resume the run") from error
