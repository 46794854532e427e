"""A run's folder as a card reads it: what it holds, and what is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from baleen.card.run_record import read_run
from baleen.errors import TrainingError
from card_fakes import ENVIRONMENT, HEADS, PLAN, SUMMARY, TRAINING, write_run


def without(mapping: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key not in keys}


def test_a_run_has_its_plan_its_reports_and_its_environments(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path))
    assert (run.plan, run.summary, run.environments) == (PLAN, SUMMARY, [ENVIRONMENT])
    assert list(run.stages) == ["start", "retriever", "sentences", "reading", "model"]
    assert run.components == {"retriever": "retriever", **dict.fromkeys(HEADS, "reading")}
    assert run.backbones == ["bge-small-en-v1.5", "/home/somebody/ms-marco-MiniLM-L-12-v2"]
    assert run.labels == 2


def test_files_come_part_by_part_with_what_the_plan_says_and_the_run_counted(tmp_path: Path) -> None:
    files = list(read_run(write_run(tmp_path)).files())
    assert [(each.part, each.dataset, each.questions) for each in files] == [
        ("train", "hover", 229),
        ("train", "exfever", 1200),
        ("train", "own", 8000),
        ("train", "own", 20_000),
        ("dev", "hover", 377),
    ]
    synthetic, read = files[2:4]
    assert (synthetic.weight, synthetic.limit, synthetic.order, synthetic.searched) == (0.3, 8000, "given", True)
    assert (read.weight, read.limit, read.order, read.searched) == (0.1, None, "plan", False)
    assert not synthetic.shared, "those that are searched for are counted apart from those that are not"
    assert [each.synthetic for each in files] == [False, False, True, True, False]


def test_a_collection_may_be_called_synthetic_as_well_as_a_file(tmp_path: Path) -> None:
    source = {"dataset": "own", "file": "synthetic/claims.jsonl"}
    plan = {**PLAN, "collections": [{"name": name, "corpus": [], "train": [source]} for name in ("a", "Synthesised")]}
    files = read_run(write_run(tmp_path, plan=plan)).files()
    assert [each.synthetic for each in files] == [False, True], "a folder's name says nothing of the file"


def test_files_of_one_dataset_are_counted_together(tmp_path: Path) -> None:
    twice = [{"dataset": "own", "file": name} for name in ("a.jsonl", "b.jsonl")]
    plan = {**PLAN, "collections": [{"name": "made", "corpus": [], "train": twice}]}
    files = list(read_run(write_run(tmp_path, plan=plan)).files())
    assert [(each.questions, each.shared) for each in files] == [(8000, True)] * 2


def test_a_file_of_which_nothing_was_usable_has_none_and_measuring_is_always_searched_for(tmp_path: Path) -> None:
    sources = {
        "train": [{"dataset": "musique", "file": "a"}],
        "dev": [{"dataset": "hover", "file": "b", "searched": False}],
    }
    plan = {**PLAN, "collections": [{"name": "wiki", "corpus": [], **sources}]}
    files = read_run(write_run(tmp_path, plan=plan)).files()
    assert [(each.questions, each.searched) for each in files] == [(0, True), (377, True)]


def test_what_an_older_run_did_not_count_is_not_known(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path, summary=without(SUMMARY, "data"), environment=None))
    assert {each.questions for each in run.files()} == {None}
    assert run.counted("wiki") == {}
    assert run.environments == []


def test_each_stage_has_the_settings_that_it_was_trained_with(tmp_path: Path) -> None:
    own = {**TRAINING, "batch_size": 16}
    plan = {**PLAN, "reading": {**PLAN["reading"], "verifier": own}}
    run = read_run(write_run(tmp_path, plan=plan))
    sizes = {stage: run.settings_of(stage).get("batch_size") for stage in ("retriever-1", "retriever", "hop-1")}
    assert sizes == {"retriever-1": 64, "retriever": 64, "hop-1": None}
    sizes = {stage: run.settings_of(stage)["batch_size"] for stage in ("sentences", "reading", "facts", "verifier")}
    assert sizes == {"sentences": 32, "reading": 24, "facts": 24, "verifier": 16}


def test_a_retriever_alone_has_no_labels(tmp_path: Path) -> None:
    stages = {**SUMMARY["stages"], "model": {"components": {"retriever": "retriever"}, "seconds": 1.0}}
    run = read_run(write_run(tmp_path, plan={**PLAN, "reading": None}, summary={**SUMMARY, "stages": stages}))
    assert (run.labels, run.backbones, run.settings_of("reading")) == (None, ["bge-small-en-v1.5"], {})


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(TrainingError, match="not the folder of a run, as it has no plan.json; expected what"):
            read_run(folder)


def test_a_run_that_is_not_finished_is_told_with_how_far_it_got(tmp_path: Path) -> None:
    write_run(tmp_path, summary=None)
    (tmp_path / "start").mkdir()
    (tmp_path / "start" / "done.json").write_text("{}")
    with pytest.raises(TrainingError, match="the run is not finished .1 stages are done, .*start `baleen train` again"):
        read_run(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "lacking"),
    [
        ("plan", {}, "collections"),
        ("plan", {"collections": [], "retriever": {}}, "backbone"),
        ("plan", {**PLAN, "collections": [{"name": "x"}]}, "corpus"),
        ("plan", {**PLAN, "collections": [{"name": "x", "corpus": [], "dev": [{"dataset": "own"}]}]}, "file"),
        ("summary", {"stages": []}, "stages"),
    ],
)
def test_what_training_does_not_write_is_refused(name: str, value: Any, lacking: str, tmp_path: Path) -> None:
    write_run(tmp_path)
    (tmp_path / f"{name}.json").write_text(json.dumps(value))
    with pytest.raises(TrainingError, match=f"{name}.json: has no '{lacking}', so that it is not what `baleen train`"):
        read_run(tmp_path)


def test_half_a_file_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path)
    (tmp_path / "summary.json").write_text('{"stages": ')
    with pytest.raises(TrainingError, match="summary.json: not valid JSON"):
        read_run(tmp_path)
