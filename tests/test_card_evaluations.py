"""Documents of `baleen eval --json`: how they are read, which are refused, and the command of each."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from baleen.card.evaluations import read_evaluation, read_evaluations
from baleen.cli.app import app
from baleen.errors import DatasetError
from card_fakes import document, write_document

BASE = {"command": "eval", "dataset": "hover", "at": [20, 100]}


def test_a_document_is_called_as_its_file_is(tmp_path: Path) -> None:
    found = read_evaluation(write_document(tmp_path / "hover-main.json", document(model="abc")))
    assert (found.name, found.dataset, found.passages, found.model) == ("hover-main", "hover", 354_282, "abc")
    assert found.entry.whole.metrics["retrieval@100"] == 88.25
    assert tuple(found.entry.whole.intervals["all@20"]) == (57.0, 65.0)
    assert sorted(found.entry.hops) == [2, 3]


def test_files_and_folders_are_read_in_turn_and_none_twice(tmp_path: Path) -> None:
    for name in ("b", "a"):
        write_document(tmp_path / "res" / f"{name}.json", document())
    (tmp_path / "res" / "log.txt").write_text("not asked for")
    single = write_document(tmp_path / "single.json", document())
    found = read_evaluations([single, tmp_path / "res", tmp_path / "res" / "a.json"])
    assert [each.name for each in found.evaluations] == ["single", "a", "b"]
    assert found.passed_over == ()
    assert read_evaluations([]).evaluations == ()


def test_in_a_folder_other_documents_are_passed_over_unless_they_are_all(tmp_path: Path) -> None:
    other = write_document(tmp_path / "bench.json", {"machine": {}})
    with pytest.raises(DatasetError, match="no .json there is what `baleen eval ... --json` prints; expected at least"):
        read_evaluations([tmp_path])
    write_document(tmp_path / "main.json", document())
    assert read_evaluations([tmp_path]).passed_over == (other,)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("", "not valid JSON; expected what `baleen eval ... --json` prints"),
        ("[]", "has no 'system'; expected what"),
        (json.dumps({**document(), "passages": "many"}), "has no 'passages'; expected what"),
        (json.dumps({key: value for key, value in document().items() if key != "run"}), "has no 'run'; expected what"),
        (json.dumps({**document(), "by_hops": {"two": document()}}), "its figures are not as `baleen eval"),
        (json.dumps({**document(), "by_hops": {"2": {}}}), "its figures are not as `baleen eval"),
    ],
)
def test_a_file_that_is_named_must_be_one(content: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(DatasetError, match=f"x.json: {fault}"):
        read_evaluations([tmp_path / "x.json"])


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="absent.json: cannot be read: no such file or directory"):
        read_evaluations([tmp_path / "absent.json"])


# The commands


def command(tmp_path: Path, run: dict[str, Any] | None = None, **changes: Any) -> str:
    return read_evaluation(write_document(tmp_path / "x.json", document(run=run, **changes))).command("small")


def test_a_system_is_evaluated_again_with_the_settings_that_it_had(tmp_path: Path) -> None:
    assert command(tmp_path) == (
        "baleen eval hover hover/dev.json --index INDEX --model small --pipeline condense --hops 2 -k 25,10 "
        "--at 20,100 --json"
    )
    assert "-k 25,10 --threshold -1.25 --at" in command(tmp_path, {**document()["run"], "threshold": -1.25})
    unusual = {"pipeline": "hybrid", "k": [5], "stop_early": True, "stand_in": True, "precision": "int8"}
    assert command(tmp_path, {**BASE, "system": "hybrid", **unusual}, gold={"dropped": ["q1"]}) == (
        "baleen eval hover hover/dev.json --index INDEX --model small --pipeline hybrid --hops 1 -k 5 --stop-early "
        "--stand-in --precision int8 --at 20,100 --missing drop --json"
    )


OTHERS: list[tuple[dict[str, Any], str]] = [
    ({"system": "bm25", "settings": {"k1": 1.5}}, "--baseline bm25 --corpus CORPUS"),
    ({"system": "dense", "settings": {"model": "a"}}, "--baseline dense --corpus CORPUS --model MODEL"),
    ({"system": "colbert", "settings": {"exact": False, "model": "a"}}, "--baseline colbert --index INDEX --model MODEL"),
    ({"system": "bm25 + rerank", "settings": {"model": "a"}}, "--baseline rerank --first bm25 --corpus CORPUS --model MODEL"),
    ({"system": "run", "rankings": "a"}, "--corpus CORPUS --run RUN"),
    (
        {"system": "colbert-hop", "pipeline": "rerank", "k": [4, 4], "stand_in": True, "model": "a"},
        "--baseline colbert-hop --index INDEX --model small --hops 2 -k 4,4",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("run", "options"), OTHERS)
def test_baselines_and_rankings_have_their_own_options(run: dict[str, Any], options: str, tmp_path: Path) -> None:
    assert command(tmp_path, {**BASE, **run}) == f"baleen eval hover hover/dev.json {options} --at 20,100 --json"


def test_several_thresholds_are_told_as_the_command_takes_them(tmp_path: Path) -> None:
    assert "--threshold -2,-0.5 --at" in command(tmp_path, {**document()["run"], "threshold": [-2.0, -0.5]})
    assert "--threshold -2,-0.5,1 --at" in command(tmp_path, {**document()["run"], "threshold": [-2.0, -0.5, 1.0]})


@pytest.mark.parametrize(("bonus", "told"), [(2.0, "2"), (0.5, "0.5"), (1.23456789, "1.23456789"), (0.0, "0")])
def test_the_bonus_of_a_name_is_told_as_the_command_takes_it(bonus: float, told: str, tmp_path: Path) -> None:
    run = {**document()["run"], "ranked_by": "hops", "named_bonus": bonus, "threshold": -1.0}
    assert f"--ranked-by hops --named-bonus {told} --threshold -1 --at" in command(tmp_path, run)
    assert "--named-bonus" not in command(tmp_path, {**document()["run"], "ranked_by": "hops"})
    baseline = {**BASE, "system": "colbert-hop", "pipeline": "rerank", "k": [4], "named_bonus": 0.0}
    assert "--named-bonus" not in command(tmp_path, baseline), "which does not take it"


THRESHOLD = {"system": "condense", "pipeline": "condense", "k": [4], "threshold": -0.5, "ranked_by": "reading"}
NAMES = {"system": "hybrid", "pipeline": "hybrid", "k": [4], "named_bonus": 2.5}


@pytest.mark.parametrize("run", [None, THRESHOLD, NAMES, *(run for run, _ in OTHERS)])
def test_the_command_line_takes_every_command(run: dict[str, Any] | None, tmp_path: Path) -> None:
    made = shlex.split(
        command(tmp_path, None if run is None else {**BASE, **run}).replace("RUN", str(tmp_path / "x.json"))
    )
    evaluate = typer.main.get_command(app).commands["eval"]  # type: ignore[attr-defined]
    with evaluate.make_context("eval", made[2:]) as context:
        assert context.params["dataset"] == "hover"
