"""`baleen card`: what it prints and writes, how it refuses, and a card of a run and an evaluation that were made here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from baleen.errors import CheckpointError, ConfigError, DatasetError, TrainingError
from card_fakes import digest_of, document, write_document, write_run
from cli_fakes import Baleen, command_line
from run_fakes import small_world, write_plan

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def baleen(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Baleen]:
    yield from command_line(monkeypatch, capfd)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run")


def test_a_card_is_printed_or_written(run: Path, baleen: Baleen, tmp_path: Path) -> None:
    results = write_document(tmp_path / "res" / "hover.json", document(model=digest_of(run)))
    printed = baleen("card", run, "--results", results, "--name", "small")
    assert (printed.code, printed.err) == (0, "")
    assert printed.out.startswith("---\nlicense: mit\n")
    written = baleen("card", run, "--results", results.parent, "--name", "small", "--out", tmp_path / "README.md")
    assert (written.code, written.out) == (0, f"{tmp_path / 'README.md'}\n")
    assert (tmp_path / "README.md").read_text() == printed.out


def test_what_is_left_out_and_passed_over_is_said(run: Path, baleen: Baleen, tmp_path: Path) -> None:
    write_document(tmp_path / "res" / "main.json", document(model=digest_of(run)))
    write_document(tmp_path / "res" / "bench.json", {})
    (run / "environment.json").unlink()
    done = baleen("card", run, "--results", tmp_path / "res", "--json")
    assert done.err.splitlines() == [
        "passed over, as `baleen eval ... --json` does not print such: bench.json",
        "left out: hardware and versions: there is no environment.json, as an older Baleen made the run",
    ]
    told = json.loads(done.out)
    assert told["card"].startswith("---\n")
    assert (told["out"], len(told["left_out"]), told["passed_over"]) == (
        None,
        1,
        [str(tmp_path / "res" / "bench.json")],
    )


def test_the_licence_and_the_model_can_be_named(run: Path, baleen: Baleen, tmp_path: Path) -> None:
    (run / "model").rename(tmp_path / "tiny")
    done = baleen("card", run, "--model", tmp_path / "tiny", "--license", "apache-2.0")
    assert "license: apache-2.0\n" in done.out
    assert "\n# tiny\n" in done.out
    assert "## Components" in done.out


def test_whatever_is_wrong_is_one_line_and_nothing_is_written(run: Path, baleen: Baleen, tmp_path: Path) -> None:
    (tmp_path / "mine.md").write_text("mine")
    (tmp_path / "broken.json").write_text("{")
    out = ("--out", tmp_path / "card.md")
    for arguments, error, fault in (
        ((tmp_path, *out), TrainingError, "not the folder of a run"),
        ((run, "--results", tmp_path / "broken.json", *out), DatasetError, "not valid JSON"),
        ((run, "--results", tmp_path / "absent", *out), DatasetError, "cannot be read"),
        ((run, "--model", tmp_path / "absent", *out), CheckpointError, "absent"),
        ((run, "--out", tmp_path / "mine.md"), ConfigError, "something other than a card"),
    ):
        done = baleen("card", *arguments)
        last = done.err.splitlines()[-1]
        assert (done.code, done.out) == (error.exit_code, "")
        assert last.startswith("error: ")
        assert fault in last
        assert not (tmp_path / "card.md").exists()
    assert (tmp_path / "mine.md").read_text() == "mine"


def test_a_run_and_an_evaluation_make_a_card(baleen: Baleen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From files to a model, from its index to figures, and from all of these to a card."""
    monkeypatch.setenv("BALEEN_COMMIT", "abc123")
    toy = small_world(tmp_path / "toy")
    plan, run, index = write_plan(toy.folder, "tiny"), toy.folder / "tiny", tmp_path / "index"
    on_cpu = ("--model", run / "model", "--device", "cpu")
    assert baleen("train", plan, "--device", "cpu").code == 0
    assert baleen("index", toy.folder / "corpus.jsonl", "--out", index, *on_cpu).code == 0
    evaluated = baleen("eval", "own", toy.folder / "dev.jsonl", "--index", index, *on_cpu, "--json")
    assert evaluated.code == 0, evaluated.err
    (tmp_path / "dev.json").write_text(evaluated.out)
    done = baleen("card", run, "--results", tmp_path / "dev.json")
    assert (done.code, done.err) == (0, ""), "nothing is left out, and the figures are of this very model"
    for part in (
        "license: other",
        "| own | `train.jsonl` | training | 12 | 1 | - | plan |",
        "| toy | `corpus.jsonl` | 30 |",
        "| device | cpu |",
        "| commit | `abc123` |",
        "### own: `toy/dev.jsonl` over 30 passages",
        "--model tiny --pipeline condense --hops 2 -k 3,4 ",
        "| reading | 6 | 4 | 0.001 | 0 | ",
    ):
        assert part in done.out, part
    assert str(tmp_path) not in done.out
