"""Where a run keeps what its stages made: each in a folder of its own, which counts once `done.json` stands in it.

runs/small/
    plan.json               the settings, resolved
    retriever-1/            a stage: its outputs, and done.json, written last and by rename
    ...

Of several processes all do the work of a stage, and the first one writes; a stage that takes one process is done `alone`.
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
Data = Callable[[Mapping[str, Any]], Any]

DONE, PLAN, CHECKPOINT, LOCK = "done.json", "plan.json", "checkpoint", "lock"


class Saved(Protocol):
    """What a stage trains: an encoder or a cross-encoder."""

    def save(self, folder: Path, /) -> None: ...


class RunFolder:
    """The stages of a run, in order; one that is done is skipped.  Every method is called by all `processes` alike."""

    def __init__(self, root: Path, stages: Sequence[str], processes: Processes | None = None) -> None:
        self.root, self.stages, self.processes = root, tuple(stages), processes or Processes()

    def folder(self, stage: str) -> Path:
        return self.root / stage

    def report(self, stage: str) -> dict[str, Any] | None:
        """What a stage said when it was done; None while it is not."""
        file = self.folder(stage) / DONE
        return json.loads(file.read_text("utf-8")) if file.exists() else None

    def run_stage(
        self, stage: str, work: Callable[..., Report], *arguments: Any, first_process_only: bool = False
    ) -> dict[str, Any]:
        """Run `work(folder, *arguments)` unless the stage is done; its report, with the seconds that it took.

        A stage that was broken off finds its folder as it left it.  `alone` leaves the work to the first process.
        """
        assert stage in self.stages, f"{stage} is not among the stages"
        known, place = self._agreed_report(stage), f"[{self.stages.index(stage) + 1}/{len(self.stages)}] {stage}"
        if known is not None:
            log.info("%s: done before", place)
            return known
        folder, start = self.folder(stage), time.monotonic()
        log.info("%s: %s", place, "goes on" if folder.exists() else "starts")
        folder.mkdir(parents=True, exist_ok=True)
        report = work(folder, *arguments) if self.processes.first or not first_process_only else {}
        self.processes.wait()
        if self.processes.first:
            write_json(folder / DONE, {**report, "seconds": round(time.monotonic() - start, 2)})
        report = self._agreed_report(stage) or {}
        log.info("%s: done in %s", place, format_duration(report["seconds"]))
        return report

    def _agreed_report(self, stage: str) -> dict[str, Any] | None:
        return self.processes.broadcast(self.report(stage) if self.processes.first else None)

    def write(self, records: Iterable[Record], file: Path) -> None:
        """`write_records` by the first process; the others make their records too, as that may take all of them."""
        if self.processes.first:
            write_records(records, file)
        else:
            deque(records, maxlen=0)
        self.processes.wait()

    def write_each(self, make: Callable[[Item], Record], items: Sequence[Item], file: Path, doing: str) -> None:
        """`write_each` of files.py by the first process."""
        if self.processes.first:
            write_each(make, items, file, doing)
        self.processes.wait()

    def save(self, model: Saved, folder: Path) -> None:
        """A model as the checkpoint of the stage of this folder, written by the first process."""
        if self.processes.first:
            model.save(folder / CHECKPOINT)
        self.processes.wait()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Be the one run in this folder: a second would take what the first is writing for what was left behind."""
        if not self.processes.first:
            yield
            return
        self._refuse_strange()
        fresh = not self.root.exists()
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / LOCK).open("a") as file:
            refusal = TrainingError(f"{self.root}: another process is training here; wait for it to end")
            lock(file, refusal, shared_with_forks=False)  # forked workers may outlive the run
            try:
                yield
            finally:
                if not self._content():  # where nothing was begun, nothing stays
                    (self.root / LOCK).unlink(missing_ok=True)
                    if fresh:
                        self.root.rmdir()

    def _refuse_strange(self) -> None:
        if not (self.root / PLAN).exists() and self.root.exists() and self._content():
            raise TrainingError(f"{self.root}: holds something other than a run: choose a new or an empty folder")

    def _content(self) -> list[Path]:
        return [path for path in self.root.iterdir() if path.name != LOCK]

    def start(self, plan: Mapping[str, Any], first: str | None = None, data: Data = lambda _: None) -> None:
        """Take up the run of a plan; the folder of another plan, or of anything else, is refused.

        With `first`, that stage and those after it start anew, under this plan, on what the stages before it made:
        `data(plan)`, which all stages look up what they are about in, must be the same then.
        """
        if first is not None and first not in self.stages:
            raise ConfigError(f"there is no stage '{first}'; the stages are {', '.join(self.stages)}")
        if self.processes.first:
            self._begin(json.loads(json.dumps(plan)), first, data)
        self.processes.wait()

    def _begin(self, plan: Mapping[str, Any], first: str | None, data: Data) -> None:
        self._refuse_strange()
        if first is None:
            self._refuse_another(plan)
        else:
            self._refuse_other_data(plan, first, data)
            self._forget(self.stages[self.stages.index(first) :])
        self.root.mkdir(parents=True, exist_ok=True)
        write_json(self.root / PLAN, plan)

    def _refuse_another(self, plan: Mapping[str, Any]) -> None:
        """A plan of which no stage has begun, say because its data could not be read, may still be mended."""
        file = self.root / PLAN
        begun = file.exists() and any(path.is_dir() for path in self.root.iterdir())
        before = self._known_plan() if begun else plan
        changed = sorted(key for key in {*before, *plan} if before.get(key) != plan.get(key))
        if changed:
            raise TrainingError(
                f"{self.root}: holds a run of other settings ({', '.join(changed)} differ): choose another folder, "
                "or name the stage to start from"
            )

    def _refuse_other_data(self, plan: Mapping[str, Any], first: str, data: Data) -> None:
        """Where a stage is kept that was made of other data than those after it would be."""
        kept = self.stages[: self.stages.index(first)]
        if kept and (self.root / PLAN).exists() and data(self._known_plan()) != data(plan):
            raise TrainingError(
                f"{self.root}: the stages before '{first}' were made of other collections than the plan has now: "
                f"start from '{self.stages[0]}', or choose another folder"
            )

    def _known_plan(self) -> dict[str, Any]:
        """The plan that the stages here were made by."""
        plan: dict[str, Any] = json.loads((self.root / PLAN).read_text("utf-8"))
        refuse_removed(plan, str(self.root / PLAN))
        return plan

    def _forget(self, stages: Sequence[str]) -> None:
        """Before anything is removed no stage counts as done: a removal that is broken off leaves no half of one."""
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
    write_text(file, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_text(file: Path, text: str) -> None:
    """By rename: it is there whole or not at all."""
    aside = file.with_name(f"{file.name}.{os.getpid()}.new")  # others may write the same file
    aside.write_text(text, "utf-8")
    os.replace(aside, file)
