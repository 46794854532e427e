"""Commands of the scripts in runs/ and benchmarks/: the command line accepts them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from ablation import read_ablation
from baleen.cli.app import app
from baleen.data.corpus import read_passages, write_passages
from baleen.data.formats import read_examples
from baleen.training.plan import read_plan
from fakes import CORPUS

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ("runs/hover.sh", "runs/hotpotqa.sh", "runs/figures.sh", "benchmarks/run.sh")
DEV = ["hover", "hotpotqa", "exfever", "2wiki", "musique"]


def dry_run(script: str, *parts: str, **environment: str) -> list[list[str]]:
    """The commands that a script prints and does not run."""
    settings = {**os.environ, "DRY_RUN": "1", "BALEEN": "baleen", **environment}
    done = subprocess.run([ROOT / script, *parts], env=settings, cwd="/", capture_output=True, text=True, check=True)
    assert done.stdout == ""
    return [shlex.split(line.removeprefix("+ ")) for line in done.stderr.splitlines()]


def parsed(command: list[str]) -> dict[str, Any]:
    """What the command line makes of a command; a flag or value that it does not know is an error."""
    group = typer.main.get_command(app)
    assert command[0] == "baleen"
    with group.make_context("baleen", command[1:], resilient_parsing=True) as context:
        _, subcommand, rest = group.resolve_command(context, command[1:])  # type: ignore[attr-defined]
    with subcommand.make_context(command[1], rest) as context:
        return dict(context.params)


def ours(script: str, tmp_path: Path, *parts: str, **environment: str) -> list[dict[str, Any]]:
    folders = {
        "CACHE": str(tmp_path / "cache"),
        "FIGURES": str(tmp_path / "figures"),
        "KIT": str(tmp_path),
        **environment,
    }
    commands = dry_run(script, *parts, **folders)
    return [{"command": command[1], **parsed(command)} for command in commands if command[0] == "baleen"]


@pytest.mark.parametrize("script", [*SCRIPTS, "runs/steps.sh"])
def test_scripts_stop_at_errors(script: str) -> None:
    subprocess.run(["bash", "-n", ROOT / script], check=True)
    if script != "runs/steps.sh":
        assert "set -euo pipefail" in (ROOT / script).read_text()


def test_hover_runs_from_downloads_to_three_rows(tmp_path: Path) -> None:
    steps = ours("runs/hover.sh", tmp_path)
    assert [step["command"] for step in steps] == ["train", "index", "eval", "eval", "eval", "table"]
    assert [step["pipeline"] for step in steps[2:5]] == ["condense", "rerank", "hybrid"]
    assert {(step["hops"], step["k"]) for step in steps[2:5]} == {(4, "25")}


def test_hotpotqa_runs_from_downloads_to_two_rows(tmp_path: Path) -> None:
    steps = ours("runs/hotpotqa.sh", tmp_path)
    assert [step["command"] for step in steps] == ["train", "index", "eval", "eval", "table"]
    assert [step["k"] for step in steps[2:4]] == ["10", "10,40"]


def test_ablations_run_on_request(tmp_path: Path) -> None:
    commands = dry_run("runs/hover.sh", ABLATION="1", PYTHON="python", WIKI=str(tmp_path / "wiki"))
    assert commands[-1] == ["python", "experiments/ablation.py", "runs/hover.toml"]


def test_figures_cover_every_dev_file_over_its_index(tmp_path: Path) -> None:
    steps = ours("runs/figures.sh", tmp_path, "index", "dev")
    assert [step["out"].name for step in steps[:3]] == ["wiki", "2wiki", "musique"]
    evaluated = [(step["dataset"], step["index"].name) for step in steps[3:]]
    assert evaluated[:5] == [*((name, "wiki") for name in DEV[:3]), ("2wiki", "2wiki"), ("musique", "musique")]
    assert (steps[-1]["dataset"], steps[-1]["hops"], steps[-1]["k"]) == ("hotpotqa", 2, "10")


def test_figures_by_hops_and_by_pipeline(tmp_path: Path) -> None:
    steps = ours("runs/figures.sh", tmp_path, "hops", "pipelines")
    assert [(step["dataset"], step["hops"]) for step in steps[:15]] == [(name, n) for name in DEV for n in (1, 2, 3)]
    assert {(step["dataset"], step["pipeline"]) for step in steps[15:]} == {
        (name, pipeline) for name in DEV[:3] for pipeline in ("rerank", "hybrid")
    }


def test_figures_by_mention_boost(tmp_path: Path) -> None:
    steps = ours("runs/figures.sh", tmp_path, "names")
    assert [(step["dataset"], step["mention_boost"]) for step in steps] == [
        (name, bonus) for bonus in (0, 1, 2, 4, 16) for name in ("hover", "exfever")
    ]
    assert len({step["out"] for step in steps}) == 10


def test_figures_by_focus(tmp_path: Path) -> None:
    steps = ours("runs/figures.sh", tmp_path, "focus", FOCUS="8 16")
    assert [(step["dataset"], Path(step["model"]).name) for step in steps] == [
        (name, focus) for focus in ("8", "16") for name in DEV
    ]
    assert {step["index"].parent for step in steps} == {tmp_path / "figures" / "index"}, "passages are the same for all"
    for edited in (each for each in dry_run("runs/figures.sh", "focus", FIGURES=str(tmp_path)) if each[0] == "sed"):
        focus = int(Path(edited[-1]).parents[1].name)
        settings = (ROOT / "checkpoints/baleen-small/retriever/config.json").read_text()
        made = subprocess.run(
            ["sed", "-E", edited[3]], input=settings, capture_output=True, text=True, check=True
        ).stdout
        assert json.loads(made) == json.loads(settings) | {
            "settings": json.loads(settings)["settings"] | {"query_focus": focus}
        }


def test_figures_over_small_corpora(tmp_path: Path) -> None:
    steps = ours("runs/figures.sh", tmp_path, "near")
    near = [each[1:] for each in dry_run("runs/figures.sh", "near", FIGURES=str(tmp_path)) if "near_corpus" in each[1]]
    assert [Path(command[-1]).name for command in near] == ["claims.jsonl.gz", "corpus.jsonl.gz"]
    assert near[1][near[1].index("--beside") + 1] == near[0][-1], "one corpus for all three files"
    assert [step["out"].name for step in steps[:3]] == ["near", "2wiki", "musique"]
    assert [(step["dataset"], step["index"].name, step["hops"], step["k"]) for step in steps[3:]] == [
        ("hover", "near", 3, "10"),
        ("exfever", "near", 3, "10"),
        ("hotpotqa", "near", 2, "10"),
        ("2wiki", "2wiki", 3, "10"),
        ("musique", "musique", None, None),
    ]


@pytest.mark.parametrize("part", ["focus", "synthesis"])
def test_derived_models_have_all_readers(part: str, tmp_path: Path) -> None:
    commands = dry_run("runs/figures.sh", part, FIGURES=str(tmp_path), FOCUS="8", SYNTHESIS="human")
    copied = {Path(word).name for command in commands if command[:2] == ["cp", "-r"] for word in command[2:-1]}
    shipped = json.loads((ROOT / "checkpoints/baleen-small/config.json").read_text())
    assert set(shipped["components"].values()) <= copied


def test_near_corpus_has_gold_and_bm25_passages(tmp_path: Path) -> None:
    write_passages(CORPUS, tmp_path / "all.jsonl")
    (tmp_path / "questions.jsonl").write_text(
        json.dumps({"id": "q", "text": CORPUS[5].sentences[0], "gold": [CORPUS[0].title]}) + "\n"
    )
    write_passages([replace(CORPUS[7], pid="before")], tmp_path / "before.jsonl")
    command = [sys.executable, ROOT / "benchmarks/near_corpus.py", "all.jsonl", "--questions", "own:questions.jsonl"]
    options = ["--sample", "1", "--near", "1", "--beside", "before.jsonl", "--out", "near.jsonl.gz"]
    subprocess.run([*command, *options], cwd=tmp_path, check=True, capture_output=True)
    assert [passage.pid for passage in read_passages([tmp_path / "near.jsonl.gz"])] == [
        "before",
        CORPUS[0].pid,
        CORPUS[5].pid,
    ]


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        ("dev.json", "'dev.json': expected DATASET:FILE"),
        ("own:none.jsonl", "none.jsonl"),
        ("own:bad.jsonl", "bad.jsonl"),
    ],
)
def test_near_corpus_refuses_unreadable_questions(questions: str, message: str, tmp_path: Path) -> None:
    write_passages(CORPUS, tmp_path / "all.jsonl")
    (tmp_path / "bad.jsonl").write_text("{\n")
    command = [sys.executable, ROOT / "benchmarks/near_corpus.py", "all.jsonl", "--questions", questions]
    done = subprocess.run([*command, "--out", "near.jsonl"], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode != 0
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "near.jsonl").exists()


def test_synthesis_part_trains_indexes_and_evaluates(tmp_path: Path) -> None:
    steps = ours("runs/figures.sh", tmp_path, "synthesis", SYNTHESIS="human")
    assert [step["command"] for step in steps] == ["train", *["index"] * 3, *["eval"] * 5]
    assert read_plan(ROOT / steps[0]["plan"]).reading is None


def test_existing_figures_are_skipped(tmp_path: Path) -> None:
    done = tmp_path / "figures" / "dev"
    done.mkdir(parents=True)
    for name in DEV:
        (done / f"{name}.json").write_text("{}")
    (left,) = ours("runs/figures.sh", tmp_path, "dev")
    assert left["out"] == done / "hotpotqa-10.jsonl"


def test_an_unknown_part_is_an_error() -> None:
    done = subprocess.run([ROOT / "runs/figures.sh", "colour"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "error: there is no part 'colour'\n")


@pytest.mark.parametrize("name", ["hover", "hotpotqa"])
def test_a_plan_reads_the_files_that_its_script_fetches(name: str, tmp_path: Path) -> None:
    commands = dry_run(f"runs/{name}.sh", WIKI=str(tmp_path / "wiki"))
    made = {ROOT / command[-1] for command in commands if command[0] in ("mv", "ln")}
    (collection,) = read_plan(ROOT / "runs" / f"{name}.toml").collections
    needed = [*collection.corpus, *(source.file for source in (*collection.train, *collection.dev))]
    paths = [ROOT / "runs" / name for name in needed]
    assert all(path in made or path.exists() for path in paths), paths


def test_existing_downloads_and_indexes_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "wiki").mkdir()
    commands = dry_run("runs/hover.sh", WIKI=str(tmp_path / "wiki"))
    assert not any("tar" in command for command in commands)
    cache = tmp_path / "cache" / "2wiki-untrained.index"
    cache.mkdir(parents=True)
    (cache / "manifest.json").write_text("{}")
    steps = ours("benchmarks/run.sh", tmp_path, UNTRAINED="1", CHECKPOINT="none")
    assert [str(step["out"].name) for step in steps if step["command"] == "index"] == ["musique-untrained.index"]


def test_a_damaged_download_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("half of it")
    command = f". runs/steps.sh && check_md5 {tmp_path / 'file'} 0123"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "expected 0123; remove it" in done.stderr


def test_the_benchmark_needs_only_committed_files(tmp_path: Path) -> None:
    steps = ours("benchmarks/run.sh", tmp_path, CHECKPOINT="none")
    assert [step["command"] for step in steps] == ["eval", "table"] * 2
    assert all((ROOT / step["file"]).is_file() for step in steps if step["command"] == "eval")


@pytest.mark.parametrize(("dataset", "questions"), [("2wiki", 163), ("musique", 56)])
def test_benchmark_data_has_the_number_of_questions_in_its_readme(dataset: str, questions: int) -> None:
    examples = read_examples(dataset, ROOT / "benchmarks" / "data" / dataset / "dev.json.gz")
    assert len(examples) == questions
    assert all(example.gold and example.answer for example in examples)


def test_the_plan_of_the_ablation_has_every_row() -> None:
    plan = read_ablation(ROOT / "runs" / "ablation.toml")
    assert [row.letter for row in plan.rows] == list("ABCDEFG")
    assert plan.questions
