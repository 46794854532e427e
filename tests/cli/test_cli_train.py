"""`baleen train`: logs, summary, exit codes, explained questions."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from baleen.cli.train import count_records, format_agreement, format_report, format_sentence_agreement
from baleen.core.errors import ConfigError, TrainingError
from cli_fakes import Baleen, command_line
from run_fakes import small_toy_data, without, write_plan
from toy_data import ToyData

pytestmark = pytest.mark.usefixtures("one_thread")

USAGE = 2


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> ToyData:
    toy = small_toy_data(tmp_path_factory.mktemp("toy"))
    write_plan(toy.folder, "small", without("[reading]"))
    return toy


@pytest.fixture
def baleen(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Baleen]:
    yield from command_line(monkeypatch, capfd, "train")


@pytest.fixture
def trained(toy: ToyData, baleen: Baleen) -> Path:
    """The run in its default folder, beside its plan."""
    if not (toy.folder / "small" / "summary.json").exists():
        assert baleen(toy.folder / "small.toml", "--device", "cpu").code == 0
    return toy.folder / "small"


def test_a_run_logs_its_stages_and_prints_a_table(toy: ToyData, baleen: Baleen, tmp_path: Path) -> None:
    done = baleen(toy.folder / "small.toml", "--out", tmp_path / "run", "--device", "cpu")
    assert done.code == 0, done.err
    for line in ("[1/6] start: starting", "[3/6] hop-1: starting", "[3/6] hop-1: done in ", "[6/6] model: done in "):
        assert line in done.err
    assert "toy: 30 passages" in done.err
    table, compared, where = done.out.strip().split("\n\n")
    stages = [line.split()[0] for line in table.splitlines() if not line.startswith(" ")]
    assert stages == ["stage", "start", "retriever-1", "hop-1", "hop-2", "retriever", "model"]
    header, start, first, *_ = table.splitlines()
    assert header.split() == ["stage", "time", "records", "result"]
    assert start.rstrip().endswith("backbone")
    assert first.split()[3] == "12", "a record of every question"
    assert "3 steps, loss " in table
    assert table.count(" tokens/s, ") == 2
    assert "encoded in " in table
    assert "searched in " in table
    assert "dev own: all gold passages found of " in table
    assert compared.startswith("Agreement with the heuristic order: ")
    assert where == f"The model is in {tmp_path / 'run' / 'model'}"
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["agreement"]["heuristic"]["claims"] == 12


def test_json_prints_the_summary(toy: ToyData, trained: Path, baleen: Baleen) -> None:
    done = baleen(toy.folder / "small.toml", "--json")
    assert done.code == 0
    assert json.loads(done.out) == json.loads((trained / "summary.json").read_text())
    assert "every stage is done" in done.err


def test_a_stage_is_done_anew(toy: ToyData, trained: Path, baleen: Baleen) -> None:
    done = baleen(toy.folder / "small.toml", "--stage", "retriever", "--device", "cpu")
    assert done.code == 0
    assert "[4/6] hop-2: already done" in done.err
    assert "[5/6] retriever: starting" in done.err
    assert (trained / "summary.json").exists()


@pytest.mark.usefixtures("trained")
def test_an_unknown_stage_lists_the_known_ones(toy: ToyData, baleen: Baleen) -> None:
    done = baleen(toy.folder / "small.toml", "--stage", "hop-7")
    assert done.code == ConfigError.exit_code
    assert done.err.startswith("error: there is no stage 'hop-7'; the stages are start, retriever-1, hop-1")


def test_an_existing_run_is_not_overwritten(toy: ToyData, trained: Path, baleen: Baleen) -> None:
    done = baleen(toy.folder / "small.toml", "--no-resume")
    assert done.code == TrainingError.exit_code
    assert done.err == f"error: {trained}: holds a run already; resume it, or choose another folder with --out\n"


def test_a_misspelt_key_is_refused_before_training(toy: ToyData, baleen: Baleen) -> None:
    file = write_plan(toy.folder, "misspelt", without("[reading]"), ("final_steps", "final_step"))
    done = baleen(file)
    assert done.code == ConfigError.exit_code
    assert done.err == f"error: {file}: retriever: there is no setting 'final_step'; did you mean 'final_steps'?\n"
    assert not (toy.folder / "misspelt").exists()


def test_a_missing_plan_is_refused(baleen: Baleen, tmp_path: Path) -> None:
    done = baleen(tmp_path / "none.toml")
    assert (done.code, done.err) == (ConfigError.exit_code, f"error: {tmp_path / 'none.toml'}: no such file\n")


def test_a_plan_without_an_ending_needs_a_folder(baleen: Baleen, tmp_path: Path) -> None:
    done = baleen(tmp_path / "plan")
    assert done.code == USAGE
    assert "has no suffix to leave out for the folder of its run: use --out" in done.said


def test_of_several_processes_only_the_first_talks(
    toy: ToyData, trained: Path, baleen: Baleen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("BALEEN_QUIET", "")
    level = logging.getLogger("baleen").level
    try:
        done = baleen(toy.folder / "small.toml", "--no-resume")
    finally:
        logging.getLogger("baleen").setLevel(level)
    assert (done.code, done.out, done.err) == (0, "", ""), "nor does it complain of what the first one has begun"
    assert trained.exists()


# --explain


@pytest.mark.parametrize("qid", ["q4", "own/q4", "toy/own/q4"])
def test_a_question_is_explained(qid: str, toy: ToyData, trained: Path, baleen: Baleen) -> None:
    done = baleen("--explain", trained, qid)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].endswith("   [toy/own/q4]")
    assert lines[2].startswith("Hop 1")
    titles = {passage.pid: passage.title for passage in toy.passages}
    gold = [titles[pid] for pid in toy.order["q4"]]
    assert all(any(line.startswith(f"  {title}  [toy/p") for line in lines) for title in gold)
    assert sum(line.startswith("    + ") for line in lines) == len(gold), "a gold sentence of each"
    assert [line for line in lines if line.startswith("  not found yet: ")]


def test_an_explanation_is_json_too(trained: Path, baleen: Baleen) -> None:
    hops = json.loads(baleen("--explain", trained, "q4", "--json").out)
    assert [hop["hop"] for hop in hops] == [1, 2]
    assert hops[-1]["remaining"] == []


def test_an_unknown_question_is_refused(trained: Path, baleen: Baleen) -> None:
    done = baleen("--explain", trained, "q99")
    assert done.code == TrainingError.exit_code
    assert done.err == f"error: {trained}: no training question has the id 'q99'\n"


@pytest.mark.parametrize("arguments", [("--explain", "run"), ("plan.toml", "q1")])
def test_a_question_goes_with_explain(arguments: tuple[str, ...], baleen: Baleen) -> None:
    done = baleen(*arguments)
    assert done.code == USAGE
    assert "baleen train --explain RUN QID" in done.said


# Lines of the table


@pytest.mark.parametrize(
    ("report", "lines"),
    [
        ({"records": 0}, ["nothing to train on"]),
        ({"trained": []}, ["nothing to train on"]),
        ({"hops": []}, ["no question gets here"]),
        ({"queries": {"train": 1200, "dev": 30}}, ["queries 1,200 of train and 30 of dev"]),
        ({"components": {"retriever": "retriever", "facts": "reading"}}, ["retriever, facts"]),
        (
            {"ready": "small/model", "dev own": [{"all_found": 0.5}, {"all_found": 0.75}]},
            ["small/model, as it is", "dev own: all gold passages found of 50.0 75.0 % after each hop"],
        ),
        (
            {
                "steps": 3000,
                "records": {"facts": 1200, "verifier": 34},
                "loss": 0.123456,
                "dev": {"metric": 0.9, "facts_metric": 0.95, "facts_exact": 0.9, "verifier_metric": 0.85},
            },
            [
                "3,000 steps, loss 0.1235 at the last",
                "dev facts: f1 0.950, exact 0.900",
                "dev verifier: accuracy 0.850",
            ],
        ),
        (
            {
                "golds": 9736,
                "hops": [
                    {
                        "claims": 4454,
                        "golds": 7347,
                        "facts": 7000,
                        "fallbacks": 5,
                        "without": 0,
                        "median_rank": 1.0,
                    }
                ],
            },
            [
                "7,347 of 9,736 gold passages found, median rank 1",
                "7,000 facts, 5 beyond the depth, 0 found none",
            ],
        ),
    ],
)
def test_reports_are_formatted(report: dict[str, Any], lines: list[str]) -> None:
    assert format_report({**report, "seconds": 1.0}) == lines


def test_speeds_are_shown_if_known() -> None:
    speeds = {"steps_per_second": 14.5, "tokens_per_second": 444_000.4, "padding": 0.012, "utilisation": 0.061}
    report = {"steps": 5, "records": 7, "loss": 1.0, **speeds, "mining_seconds": {"encode": 40.0, "search": 3.25}}
    assert format_report(report) == [
        "5 steps, loss 1 at the last",
        "14.5 steps/s, 444,000 tokens/s, 1.2 % padding, 6.1 % utilisation",
        "encoded in 40.0 s, searched in 3.2 s",
    ]
    assert format_report({**report, "utilisation": None})[1] == "14.5 steps/s, 444,000 tokens/s, 1.2 % padding"


@pytest.mark.parametrize(
    ("report", "count"),
    [
        ({"backbone": "any"}, None),
        ({"ready": "any"}, None),
        ({"records": 7}, 7),
        ({"records": {"facts": 3, "verifier": 4}, "queries": 1}, 7),
        ({"queries": {"train": 5, "dev": 1}}, 6),
        ({"hops": [], "claims": 9}, 9),
        ({"hops": [{}], "claims": 12}, 12),
    ],
)
def test_records_of_every_stage_are_counted(report: dict[str, Any], count: int | None) -> None:
    assert count_records(report) == count


def test_agreement_is_one_line() -> None:
    found = {"claims": 1200, "identical": 900, "golds": 3000, "same_hop": 2500, "pairs": 3000, "same_pairs": 2700}
    assert format_agreement("heuristic", found) == (
        "Agreement with the heuristic order: 900 of 1,200 questions have the same hops, and 90.0 % of 3,000 pairs of "
        "gold passages the same order."
    )


def test_sentence_agreement_is_shown_if_gold_is_known() -> None:
    known = {"passages": 1200, "inferred": 900, "likely": 600, "first": 300}
    none = dict.fromkeys(known, 0)
    assert format_sentence_agreement({"train": known, "dev": none}) == [
        "train, 1,200 gold passages with gold sentences: the inferred sentence is gold in 75.0 %, the best by words in "
        "50.0 %, the first in 25.0 %."
    ]
    assert format_sentence_agreement({}) == []
