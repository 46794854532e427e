"""The folder of a run: a stage counts once its done.json exists, and an interrupted one never counts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from baleen.core.errors import ConfigError, TrainingError
from baleen.training.stages import DONE, RunFolder, format_duration, write_json

STAGES = ("first", "second", "third")
PLAN = {"hops": 2, "steps": (5, 6)}


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return begun(tmp_path / "run")


def begun(root: Path, plan: Mapping[str, Any] = PLAN, first: str | None = None) -> RunFolder:
    run = RunFolder(root, STAGES)
    run.start(plan, first)
    return run


def work(folder: Path, said: str = "well") -> dict[str, Any]:
    (folder / "output").write_text(said)
    return {"said": said}


def done(run: RunFolder) -> list[str]:
    return [stage for stage in STAGES if run.report(stage) is not None]


def test_a_stage_is_done_once(run: RunFolder) -> None:
    report = run.run_stage("first", work)
    assert report["said"] == "well"
    assert report["seconds"] >= 0
    assert run.run_stage("first", work, "otherwise") == report == run.report("first")
    assert (run.folder("first") / "output").read_text() == "well"


def test_a_second_run_in_the_same_folder_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run", STAGES)
    with run.exclusive():
        assert train_in_another_process(run.root) == "refused"
        run.start(PLAN)
        assert train_in_another_process(run.root) == "refused"
    assert train_in_another_process(run.root) == "begun"
    with run.exclusive():
        run.start(PLAN)


def test_forked_workers_do_not_hold_the_lock(tmp_path: Path) -> None:
    """Workers may outlive a killed run."""
    run = RunFolder(tmp_path / "run", STAGES)
    forked = get_context("fork").Event()
    with run.exclusive():
        run.start(PLAN)
        worker = get_context("fork").Process(target=forked.wait, args=(60,))
        worker.start()
    try:
        assert train_in_another_process(run.root) == "begun"
    finally:
        forked.set()
        worker.join()


def train_in_another_process(root: Path) -> str:
    script = (
        "import sys, pathlib\n"
        "from baleen.core.errors import TrainingError\n"
        "from baleen.training.stages import RunFolder\n"
        "try:\n"
        "    with RunFolder(pathlib.Path(sys.argv[1]), ('first',)).exclusive():\n"
        "        print('begun')\n"
        "except TrainingError as error:\n"
        "    assert 'another process is training here' in str(error)\n"
        "    print('refused')\n"
    )
    run = subprocess.run([sys.executable, "-c", script, str(root)], capture_output=True, text=True, check=True)
    return run.stdout.strip()


@pytest.mark.parametrize("there", [False, True])
def test_a_refused_run_leaves_the_folder_unchanged(tmp_path: Path, there: bool) -> None:
    run = RunFolder(tmp_path / "run", STAGES)
    if there:
        run.root.mkdir()
    with pytest.raises(ConfigError, match="there is no stage 'fourth'"), run.exclusive():
        run.start(PLAN, "fourth")
    assert run.root.exists() is there
    assert not there or not list(run.root.iterdir())
    with run.exclusive():
        run.start(PLAN)
    thesis = RunFolder(tmp_path / "thesis", STAGES)
    thesis.root.mkdir()
    (thesis.root / "chapter.tex").touch()
    with pytest.raises(TrainingError, match="something other than a run"), thesis.exclusive():
        pass
    assert [path.name for path in thesis.root.iterdir()] == ["chapter.tex"]


def test_a_failed_stage_is_not_done_and_keeps_its_folder(run: RunFolder) -> None:
    def fail(folder: Path) -> dict[str, Any]:
        work(folder, "half")
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk is full"):
        run.run_stage("first", fail)
    assert run.report("first") is None
    assert run.run_stage("first", lambda folder: {"found": (folder / "output").read_text()})["found"] == "half"


def test_done_is_written_completely_or_not_at_all(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", killed)
        with pytest.raises(KeyboardInterrupt):
            run.run_stage("first", work)
    assert run.report("first") is None
    run.run_stage("first", work)
    assert [path.name for path in sorted(run.folder("first").iterdir())] == [DONE, "output"]


def test_an_unknown_stage_is_refused(run: RunFolder) -> None:
    with pytest.raises(ConfigError, match="no stage 'fourth'; the stages are first, second, third"):
        run.start(PLAN, "fourth")
    with pytest.raises(AssertionError):
        run.run_stage("fourth", work)


def test_the_same_plan_resumes_the_run(run: RunFolder) -> None:
    run.run_stage("first", work)
    assert done(begun(run.root)) == ["first"]
    assert json.loads((run.root / "plan.json").read_text()) == {"hops": 2, "steps": [5, 6]}


def test_a_plan_may_change_until_a_stage_has_started(run: RunFolder) -> None:
    begun(run.root, {**PLAN, "hops": 3})
    assert json.loads((run.root / "plan.json").read_text())["hops"] == 3


def test_a_foreign_folder_is_refused_and_unchanged(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "thesis.tex").write_text("years of work")
    for first in (None, "first"):
        with pytest.raises(TrainingError, match="holds something other than a run; choose a new or an empty folder"):
            begun(tmp_path, first=first)
    assert [path.name for path in sorted(tmp_path.rglob("*"))] == ["first", "thesis.tex"]


def test_stages_log_their_start_and_end(run: RunFolder, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    run.run_stage("first", work)
    run.run_stage("first", work)
    assert caplog.messages == ["[1/3] first: starting", "[1/3] first: done in 0.0 s", "[1/3] first: already done"]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.04, "0.0 s"), (59.94, "59.9 s"), (61, "1 min 1 s"), (3599.7, "1 h 0 min"), (12000, "3 h 20 min")],
)
def test_durations_are_formatted_for_people(seconds: float, said: str) -> None:
    assert format_duration(seconds) == said


def test_another_plan_is_refused_and_changes_nothing(run: RunFolder) -> None:
    run.run_stage("first", work)
    with pytest.raises(TrainingError, match="run: holds a run with other settings .hops, seed differ."):
        begun(run.root, {**PLAN, "hops": 3, "seed": 1})
    assert json.loads((run.root / "plan.json").read_text())["hops"] == 2


def test_redoing_a_stage_removes_it_and_later_ones(run: RunFolder) -> None:
    for stage in STAGES:
        run.run_stage(stage, work)
    again = begun(run.root, {**PLAN, "hops": 3}, "second")
    assert done(again) == ["first"]
    assert not again.folder("third").exists()
    assert json.loads((run.root / "plan.json").read_text())["hops"] == 3


def test_an_interrupted_removal_leaves_no_stage_half_done(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    for stage in STAGES:
        run.run_stage(stage, work)

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        begun(run.root, PLAN, "second")
    assert done(RunFolder(run.root, STAGES)) == ["first"]


def test_json_is_indented(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"where": "Grüner Fjord"})
    assert (tmp_path / "a.json").read_text("utf-8") == '{\n  "where": "Grüner Fjord"\n}\n'
