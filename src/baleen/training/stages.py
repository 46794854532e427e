"""The folder of a run: each stage has a subfolder, which counts as done once it holds `done.json`.

    runs/small/
        plan.json               the resolved settings
        retriever-1/            a stage: its outputs, and done.json, written last and by rename
        ...

With several processes, all do the work of a stage and the first one writes.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from baleen.core.config import refuse_removed
from baleen.core.errors import ConfigError, TrainingError
from baleen.core.files import lock, write_each, write_records
from baleen.core.records import Record
from baleen.training.loop.distributed import Processes

log = logging.getLogger(__name__)

Item = TypeVar("Item")
Report = Mapping[str, Any]
DataSettings = Callable[[Mapping[str, Any]], Any]

DONE, PLAN, CHECKPOINT, LOCK = "done.json", "plan.json", "checkpoint", "lock"


class Saveable(Protocol):
    """An encoder or a cross-encoder."""

    def save(self, folder: Path, /) -> None: ...


class RunFolder:
    """The stages of a run, in order.  All `processes` call every method alike."""

    def __init__(self, root: Path, stages: Sequence[str], processes: Processes | None = None) -> None:
        self.root, self.stages, self.processes = root, tuple(stages), processes or Processes()

    def folder(self, stage: str) -> Path:
        return self.root / stage

    def report(self, stage: str) -> dict[str, Any] | None:
        """The report of a finished stage, or None."""
        file = self.folder(stage) / DONE
        return json.loads(file.read_text("utf-8")) if file.exists() else None

    def run_stage(
        self, stage: str, work: Callable[..., Report], *arguments: Any, first_process_only: bool = False
    ) -> dict[str, Any]:
        """Run `work(folder, *arguments)` unless the stage is done; return its report with the seconds it took.

        The folder of an interrupted stage keeps its files.
        """
        assert stage in self.stages, f"{stage} is not among the stages"
        known, place = self._shared_report(stage), f"[{self.stages.index(stage) + 1}/{len(self.stages)}] {stage}"
        if known is not None:
            log.info("%s: already done", place)
            return known
        folder, start = self.folder(stage), time.monotonic()
        log.info("%s: %s", place, "resuming" if folder.exists() else "starting")
        folder.mkdir(parents=True, exist_ok=True)
        report = work(folder, *arguments) if self.processes.first or not first_process_only else {}
        self.processes.wait()
        if self.processes.first:
            write_json(folder / DONE, {**report, "seconds": round(time.monotonic() - start, 2)})
        report = self._shared_report(stage) or {}
        log.info("%s: done in %s", place, format_duration(report["seconds"]))
        return report

    def _shared_report(self, stage: str) -> dict[str, Any] | None:
        return self.processes.broadcast(self.report(stage) if self.processes.first else None)

    def write(self, records: Iterable[Record], file: Path) -> None:
        """Write records in the first process; the others exhaust theirs, because making them may take all processes."""
        if self.processes.first:
            write_records(records, file)
        else:
            deque(records, maxlen=0)
        self.processes.wait()

    def write_each(self, make: Callable[[Item], Record], items: Sequence[Item], file: Path, doing: str) -> None:
        """Write `make(item)` for each item in the first process."""
        if self.processes.first:
            write_each(make, items, file, doing)
        self.processes.wait()

    def save(self, model: Saveable, folder: Path) -> None:
        """Save a model as the checkpoint of the stage with this folder."""
        if self.processes.first:
            model.save(folder / CHECKPOINT)
        self.processes.wait()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Lock the folder: a second run would take files that are being written for leftovers."""
        if not self.processes.first:
            yield
            return
        self._refuse_foreign_folder()
        created = not self.root.exists()
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / LOCK).open("a") as file:
            refusal = TrainingError(f"{self.root}: another process is training here; wait for it to end")
            lock(file, refusal, shared_with_forks=False)  # forked workers may outlive the run
            try:
                yield
            finally:
                if not self._content():  # nothing was started: leave no trace
                    (self.root / LOCK).unlink(missing_ok=True)
                    if created:
                        self.root.rmdir()

    def _refuse_foreign_folder(self) -> None:
        if not (self.root / PLAN).exists() and self.root.exists() and self._content():
            raise TrainingError(f"{self.root}: holds something other than a run; choose a new or an empty folder")

    def _content(self) -> list[Path]:
        return [path for path in self.root.iterdir() if path.name != LOCK]

    def start(self, plan: Mapping[str, Any], first: str | None = None, data: DataSettings = lambda _: None) -> None:
        """Start or resume the run of a plan; refuse a folder of another plan, or of anything else.

        With `first`, redo that stage and those after it under this plan.  The stages before it are kept, so
        `data(plan)` must be the same as when they were made.
        """
        if first is not None and first not in self.stages:
            raise ConfigError(f"there is no stage '{first}'; the stages are {', '.join(self.stages)}")
        if self.processes.first:
            self._start(json.loads(json.dumps(plan)), first, data)
        self.processes.wait()

    def _start(self, plan: Mapping[str, Any], first: str | None, data: DataSettings) -> None:
        self._refuse_foreign_folder()
        if first is None:
            self._refuse_changed_plan(plan)
        else:
            self._refuse_changed_data(plan, first, data)
            self._remove(self.stages[self.stages.index(first) :])
        self.root.mkdir(parents=True, exist_ok=True)
        write_json(self.root / PLAN, plan)

    def _refuse_changed_plan(self, plan: Mapping[str, Any]) -> None:
        """A plan may change until a stage has started, for example after its data could not be read."""
        file = self.root / PLAN
        started = file.exists() and any(path.is_dir() for path in self.root.iterdir())
        before = self._saved_plan() if started else plan
        changed = sorted(key for key in {*before, *plan} if before.get(key) != plan.get(key))
        if changed:
            raise TrainingError(
                f"{self.root}: holds a run with other settings ({', '.join(changed)} differ); choose another folder, "
                "or name the stage to start from"
            )

    def _refuse_changed_data(self, plan: Mapping[str, Any], first: str, data: DataSettings) -> None:
        """Stages that are kept and stages that are redone must use the same data."""
        kept = self.stages[: self.stages.index(first)]
        if kept and (self.root / PLAN).exists() and data(self._saved_plan()) != data(plan):
            raise TrainingError(
                f"{self.root}: the stages before '{first}' were made with other collections than the plan has now; "
                f"start from '{self.stages[0]}', or choose another folder"
            )

    def _saved_plan(self) -> dict[str, Any]:
        plan: dict[str, Any] = json.loads((self.root / PLAN).read_text("utf-8"))
        refuse_removed(plan, str(self.root / PLAN))
        return plan

    def _remove(self, stages: Sequence[str]) -> None:
        """Remove stages; no stage counts as done from the first deletion on, even if the removal is interrupted."""
        for stage in stages:
            (self.folder(stage) / DONE).unlink(missing_ok=True)
        for stage in stages:
            shutil.rmtree(self.folder(stage), ignore_errors=True)


def format_duration(seconds: float) -> str:
    """`7.3 s`, `12 min 5 s`, `3 h 20 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def write_json(file: Path, value: Mapping[str, Any]) -> None:
    """Write indented JSON; the file is complete or absent."""
    write_text(file, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_text(file: Path, text: str) -> None:
    """Write text aside and rename it into place: the file is complete or absent."""
    aside = file.with_name(f"{file.name}.{os.getpid()}.new")  # others may write the same file
    aside.write_text(text, "utf-8")
    os.replace(aside, file)
