"""A whole ablation of thirty people: six rows from four training runs, resumed, extended and reported."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ablation import (
    ROWS,
    WHOLE,
    WITHOUT_EITHER,
    WITHOUT_FOCUS,
    WITHOUT_ORDER,
    AblationPlan,
    AblationSettings,
    Questions,
    Report,
    ablate,
    main,
    read_ablation,
)
from baleen import cli
from baleen.core.errors import ConfigError, DatasetError, TrainingError
from baleen.core.types import Passage
from baleen.data import corpus
from baleen.evaluation.evaluate import read_results
from baleen.models.encoder import Encoder
from baleen.models.folder import read_model, write_model
from baleen.training.plan import read_plan
from plot import words_after_hops
from run_fakes import small_toy_data, without, write_plan
from toy_data import ToyData

pytestmark = pytest.mark.usefixtures("one_thread")

QUICK = (
    ("final_steps = 3", "final_steps = 2"),
    ("[reading.training]\nsteps = 6", "[reading.training]\nsteps = 2"),
)
FILE = "toy-own-dev"
PAPER = "ABCDEF"


def changed(*lines: str) -> tuple[str, str]:
    """A change that adds an [ablation] with these lines."""
    return "[retriever]\n", "\n".join(["[ablation]", *lines, "", "[retriever]\n"])


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> ToyData:
    return small_toy_data(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def plan(toy: ToyData) -> Path:
    return write_plan(toy.folder, "plan", *QUICK, changed("cutoffs = [3, 7]"))


@pytest.fixture(scope="module")
def folder(toy: ToyData) -> Path:
    return toy.folder / "ablation"


@pytest.fixture(scope="module")
def report(plan: Path, folder: Path) -> Report:
    return ablate(read_ablation(plan), folder, device="cpu")


def stamps(folder: Path, *patterns: str) -> dict[str, int]:
    files = {file for pattern in patterns for file in folder.glob(pattern) if file.is_file()}
    return {str(file.relative_to(folder)): file.stat().st_mtime_ns for file in files}


# Rows and plans


def test_each_row_leaves_out_what_the_paper_says(plan: Path) -> None:
    settings = read_plan(plan)
    of = {letter: row.variant.of(settings).retriever for letter, row in ROWS.items()}
    pipelines = ["condense", "rerank", "hybrid", "condense", "condense", "rerank", "condense"]
    assert [row.pipeline for row in ROWS.values()] == pipelines
    assert of["A"] == of["B"] == of["C"] == of["G"] == settings.retriever
    assert {of[letter].order for letter in "ABCD"} == {"latent"}
    assert {of[letter].order for letter in "EF"} == {"heuristic"}
    for letter, focus in (("A", (3, 2)), ("D", (None, None)), ("E", (3, 2)), ("F", (None, None))):
        assert (of[letter].encoder.query_focus, of[letter].encoder.facts_focus) == focus
    assert {(each.steps, each.final_steps, each.training) for each in of.values()} == {
        (settings.retriever.steps, settings.retriever.final_steps, settings.retriever.training)
    }
    assert all(row.variant.of(settings).reading == settings.reading for row in ROWS.values())
    assert [row.variant for row in ROWS.values()] == [
        *[WHOLE] * 3, WITHOUT_FOCUS, WITHOUT_ORDER, WITHOUT_EITHER, WHOLE
    ]  # fmt: skip
    assert WITHOUT_FOCUS.of(settings, reading=False).reading is None


def test_rows_come_in_the_order_of_the_table(plan: Path) -> None:
    assert [row.letter for row in read_ablation(plan, ["E", "A"]).rows] == ["A", "E"]
    assert ROWS["E"].name == "E without latent hop ordering"
    for rows, part in ((("A", "X"), "there is no row 'X'; the rows are A, B, C, D, E, F, G"), ((), "no row is named")):
        with pytest.raises(ConfigError, match=part):
            AblationSettings(rows=rows)


def test_only_row_g_boosts_mentions(plan: Path) -> None:
    assert "".join(row.letter for row in read_ablation(plan).rows) == PAPER
    assert [letter for letter, row in ROWS.items() if row.named] == ["G"]


def test_a_plan_needs_no_ablation_of_its_own(toy: ToyData) -> None:
    read = read_ablation(write_plan(toy.folder, "bare"), ["E"], 4)
    assert read.questions == (Questions("toy", "own", "dev.jsonl"),)
    assert read.depths(read.questions[0]) == (3, 4)
    assert (read.settings.rows, read.settings.limit) == (("E",), 4)
    with pytest.raises(ConfigError, match="limit = 0; expected at least 1"):
        read_ablation(toy.folder / "bare.toml", ["E"], 0)
    assert [*read.passages("toy")] == [*corpus.read_passages(toy.folder / "corpus.jsonl")]


def test_settings_outrank_the_plan_and_a_file_outranks_the_settings(toy: ToyData) -> None:
    lines = 'evaluate = [{ collection = "toy", dataset = "own", file = "dev.jsonl", k = [9] }]', "k = [5, 5, 5]"
    read = read_ablation(write_plan(toy.folder, "own", changed(*lines, 'rows = ["D"]', "limit = 3")))
    assert read.depths(read.questions[0]) == (9,)
    assert read.depths(Questions("toy", "own", "other.jsonl")) == (5, 5, 5)
    assert (read.rows, read.settings.limit) == ([ROWS["D"]], 3)
    assert read_ablation(toy.folder / "own.toml", ["A"]).rows == [ROWS["A"]]


def test_a_plan_can_extend_another(plan: Path) -> None:
    file = plan.with_name("alike.toml")
    file.write_text(f'like = "{plan.name}"\n[ablation]\nlimit = 7\n')
    own, alike = read_ablation(plan), read_ablation(file)
    assert replace(alike.settings, limit=own.settings.limit) == own.settings
    assert (alike.settings.limit, alike.train) == (7, own.train)


def test_training_leaves_the_ablation_alone(plan: Path, toy: ToyData) -> None:
    assert read_plan(plan).to_json() == read_plan(write_plan(toy.folder, "without", *QUICK)).to_json()


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (without("[reading]"), "the plan has no \\[reading\\]"),
        (("query_focus = 3\nfacts_focus = 2", ""), None),
        (changed('rows = ["X"]'), "there is no row 'X'"),
        (changed("limit = 0"), "limit = 0; expected at least 1"),
        (changed("k = [5, 0]"), "k = \\[5, 0\\]; expected numbers of at least 1"),
        (changed("bits = 3"), "bits = 3; expected one of 1, 2, 4, 16"),
        (changed("cutoffs = []"), "cutoffs = \\[0\\]; expected numbers of at least 1"),
        (changed("cutoffs = [0, 5]"), "cutoffs = \\[0, 5\\]; expected numbers of at least 1"),
        (
            changed('lender = "small"'),
            "lender = 'small' lends its readers to all rows: set readers = 'first' beside it",
        ),
        (changed('reader = "own"'), "there is no setting 'reader'; did you mean 'readers'?"),
        (
            changed('evaluate = [{ collection = "toys", dataset = "own", file = "dev.jsonl" }]'),
            "there is no collection 'toys'; the plan has toy",
        ),
        (('dev = [{ dataset = "own", file = "dev.jsonl" }]', ""), "there is nothing to evaluate on"),
        (
            changed(
                'evaluate = [{ collection = "toy", dataset = "own", file = "dev.jsonl" }, '
                '{ collection = "toy", dataset = "own", file = "a/dev.jsonl" }]'
            ),
            "two files have one name",
        ),
    ],
)
def test_conflicting_settings_are_refused(toy: ToyData, change: tuple[str, str], part: str | None) -> None:
    file = write_plan(toy.folder, "wrong", change)
    if part is None:
        assert read_ablation(file).train.retriever.encoder.query_focus == 32
        return
    with pytest.raises(ConfigError, match=part):
        read_ablation(file)


def test_questions_are_read_before_training(toy: ToyData, tmp_path: Path) -> None:
    lines = 'evaluate = [{ collection = "toy", dataset = "own", file = "absent.jsonl" }]'
    with pytest.raises(DatasetError, match="absent.jsonl: no such file"):
        ablate(read_ablation(write_plan(toy.folder, "absent", changed(lines))), tmp_path / "out", device="cpu")
    assert not (tmp_path / "out").exists()


def test_gold_passages_are_matched_before_training(toy: ToyData, tmp_path: Path) -> None:
    (toy.folder / "elsewhere.jsonl").write_text('{"id": "x", "text": "Of another world.", "gold": ["Nowhere"]}\n')
    lines = 'evaluate = [{ collection = "toy", dataset = "own", file = "elsewhere.jsonl" }]'
    file = write_plan(toy.folder, "elsewhere", changed(lines))
    with pytest.raises(DatasetError, match="Nowhere"):
        ablate(read_ablation(file), tmp_path / "out", device="cpu")
    dropping = write_plan(toy.folder, "elsewhere", changed(lines), ("hops = 2", 'hops = 2\nmissing = "drop"'))
    with pytest.raises(DatasetError, match="elsewhere.jsonl: no question has all its gold passages in 'toy'"):
        ablate(read_ablation(dropping), tmp_path / "out", device="cpu")
    assert not (tmp_path / "out").exists()


def test_torchrun_is_refused(plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="start it without torchrun"):
        ablate(read_ablation(plan), tmp_path / "out", device="cpu")


def test_rows_without_focus_need_a_plan_with_focus(plan: Path) -> None:
    bare = WITHOUT_FOCUS.of(read_plan(plan))
    with pytest.raises(ConfigError, match="rows D and F remove the focus"):
        AblationPlan(bare)
    assert AblationPlan(bare, AblationSettings(rows=("A", "E"))).rows == [ROWS["A"], ROWS["E"]]


# The whole of it


def test_the_table_has_every_row_by_hops(report: Report, folder: Path) -> None:
    (table,) = report.document["questions"]
    assert (table["name"], table["metric"]) == (FILE, "all@7")
    assert [row["row"] for row in table["rows"]] == list("ABCDEF")
    assert [row["trained"] for row in table["rows"]] == [row.variant.name for row in [ROWS[letter] for letter in PAPER]]
    for row in table["rows"]:
        assert row["questions"] == 6
        assert set(row["by_hops"]) == {"2", "3", "4"}
        assert {"all@7", "passage_em", "passage_f1", "label_accuracy", "answer_em"} <= set(row["metrics"])
        assert len(row["words"]) == 2
    assert json.loads((folder / "ablation.json").read_text()) == report.document
    assert (folder / "ablation.md").read_text() == report.page + "\n"
    for line in ("| run, all@7 | all | 2 hops | 3 hops | 4 hops |", "| F ColBERT-Hop |", "| run | hop 1 | hop 2 |"):
        assert line in report.page


def test_words_of_context_equal_those_of_the_results(report: Report, folder: Path) -> None:
    (table,) = report.document["questions"]
    for row in table["rows"]:
        results = read_results(folder / "results" / row["row"] / f"{FILE}.jsonl").results
        assert row["words"] == [words for _, words in words_after_hops(results)]
    reranked = table["rows"][1]["words"]
    assert reranked[1] > reranked[0] > 0  # one more passage after each hop


def test_rows_share_training_runs_through_relative_folders(report: Report, folder: Path) -> None:
    assert report.document
    runs = sorted(path.name for path in (folder / "runs").iterdir())
    assert runs == ["flipr-heuristic", "flipr-latent", "maxsim-heuristic", "maxsim-latent"]
    for row in [ROWS[letter] for letter in PAPER]:
        model = read_model(folder / "rows" / row.letter)
        assert model.settings["run"] == {"hops": 2, "k": [3, 4], "pipeline": row.pipeline}
        trained = folder / "runs" / row.variant.name / "model"
        assert {model.folder(name).resolve().parent for name in model.components} == {trained.resolve()}
        assert Encoder.load(model.root, device="cpu").focus == ((3, 2) if row.variant.focused else (None, None))


@pytest.mark.parametrize("letter", ["A", "C", "F"])
def test_metrics_equal_those_of_eval(
    letter: str, report: Report, toy: ToyData, folder: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = folder / "indexes" / ROWS[letter].variant.name / "toy"
    table = command(
        capfd, monkeypatch, "eval", "own", str(toy.folder / "dev.jsonl"), "--model", str(folder / "rows" / letter),
        "--index", str(index), "--device", "cpu", "--at", "3,7", "--json",
    )  # fmt: skip
    (row,) = (row for row in report.document["questions"][0]["rows"] if row["row"] == letter)
    assert {name: row[name] for name in ("metrics", "intervals", "counts", "by_hops")} == {
        name: table[name] for name in ("metrics", "intervals", "counts", "by_hops")
    }


def command(capfd: Any, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    capfd.readouterr()
    monkeypatch.setattr("sys.argv", ["baleen", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    printed = capfd.readouterr()
    assert not stop.value.code, printed.err
    return json.loads(printed.out) if "--json" in arguments else printed.out


def test_figures_are_drawn_for_each_file(report: Report, folder: Path) -> None:
    pytest.importorskip("matplotlib")
    assert report.document
    names = {path.name for path in (folder / "plots" / FILE).iterdir()}
    assert {"recall-at-k.png", "recall-at-k.svg", "recall-after-hops.png", "context-words.svg"} <= names


# Again


def test_finished_steps_are_skipped(report: Report, plan: Path, folder: Path) -> None:
    patterns = "runs/*/*/done.json", "runs/**/*.safetensors", "indexes/**/*", "results/**/*.jsonl"
    before = stamps(folder, *patterns)
    again = ablate(read_ablation(plan), folder, device="cpu")
    assert again == report
    after = stamps(folder, *patterns)
    kept = {name for name in before if not name.startswith("results")}
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert len(before) == len(after) > 20


def test_killed_evaluations_resume_and_lost_indexes_are_rebuilt(
    report: Report, plan: Path, folder: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    results = copy / "results" / "E" / f"{FILE}.jsonl"
    whole = results.read_bytes()
    results.write_bytes(whole[: len(whole) // 2])
    shutil.rmtree(copy / "indexes" / "flipr-heuristic")
    (copy / "results" / "B" / f"{FILE}.jsonl").unlink()
    assert ablate(read_ablation(plan), copy, device="cpu").document == report.document


@pytest.fixture
def moved(toy: ToyData, folder: Path, report: Report, tmp_path: Path) -> tuple[Path, Path]:
    """The data and its ablation once more, with another sentence in the corpus; the plan, and the folder."""
    assert report.document
    data, copy = tmp_path / "data", tmp_path / "copy"
    shutil.copytree(folder, copy)
    data.mkdir()
    for file in ("corpus.jsonl", "train.jsonl", "dev.jsonl", "backbone"):
        (data / file).symlink_to(toy.folder / file)
    passages = list(corpus.read_passages(data / "corpus.jsonl"))
    first = Passage.from_sentences(passages[0].pid, passages[0].title, ("Of this one nothing is known.",))
    (data / "corpus.jsonl").unlink()
    corpus.write_passages([first, *passages[1:]], data / "corpus.jsonl")
    return write_plan(data, "plan", *QUICK, changed("cutoffs = [3, 7]")), copy


def test_a_folder_of_other_passages_is_refused(moved: tuple[Path, Path]) -> None:
    plan, copy = moved
    before = stamps(copy, "**/*")
    with pytest.raises(ConfigError, match="holds an ablation over other passages than 'toy' has now"):
        ablate(read_ablation(plan, ["E"]), copy, device="cpu")
    assert stamps(copy, "**/*") == before


def test_later_rows_join_the_tables(plan: Path, folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    for letter in "BCDEF":
        shutil.rmtree(copy / "results" / letter)
    (table,) = ablate(read_ablation(plan, ["D"]), copy, device="cpu").document["questions"]
    assert [row["row"] for row in table["rows"]] == ["A", "D"]


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_incomplete_rows_are_left_out_of_the_tables(
    share: float, report: Report, plan: Path, folder: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    results = copy / "results" / "E" / f"{FILE}.jsonl"
    whole = results.read_bytes()
    results.write_bytes(whole[: int(share * len(whole))])
    (table,) = ablate(read_ablation(plan, ["A"]), copy, device="cpu").document["questions"]
    (whole_table,) = report.document["questions"]
    assert table["rows"] == [row for row in whole_table["rows"] if row["row"] != "E"]


@pytest.mark.parametrize(("line", "part"), [("bits = 4", "bits = 2"), ('readers = "first"', "readers = 'own'")])
def test_rows_with_other_readers_or_bits_are_refused(
    line: str, part: str, toy: ToyData, report: Report, folder: Path
) -> None:
    assert report.document
    other = write_plan(toy.folder, "mixed", *QUICK, changed("cutoffs = [3, 7]", line))
    with pytest.raises(ConfigError, match=f"holds an ablation of {part}, and the plan has .*another folder"):
        ablate(read_ablation(other, ["A"]), folder, device="cpu")


def test_a_smaller_limit_reuses_the_results(plan: Path, folder: Path) -> None:
    (table,) = ablate(read_ablation(plan, ["A"], 2), folder, device="cpu").document["questions"]
    assert {row["questions"] for row in table["rows"]} == {2}


def test_another_plan_is_refused(toy: ToyData, report: Report, folder: Path) -> None:
    assert report.document
    other = write_plan(toy.folder, "other", ("final_steps = 3", "final_steps = 4"))
    with pytest.raises(TrainingError, match="holds a run with other settings \\(.*retriever.* differ\\)"):
        ablate(read_ablation(other, ["A"]), folder, device="cpu")


def test_all_rows_can_use_the_first_models_readers(toy: ToyData, folder: Path, tmp_path: Path, report: Report) -> None:
    assert report.document
    file = write_plan(toy.folder, "lent", *QUICK, changed("cutoffs = [3, 7]", 'readers = "first"'))
    shutil.copytree(folder / "runs" / "flipr-latent", tmp_path / "runs" / "flipr-latent")
    (table,) = ablate(read_ablation(file, ["D"]), tmp_path, device="cpu").document["questions"]
    assert [row["row"] for row in table["rows"]] == ["D"]
    model = read_model(tmp_path / "rows" / "D")
    assert "maxsim-latent" in str(model.folder("retriever").resolve())
    assert "flipr-latent" in str(model.folder("sentences").resolve())
    assert not (tmp_path / "runs" / "maxsim-latent" / "reading").exists()


def test_a_lender_provides_readers_for_trained_retrievers(
    toy: ToyData, folder: Path, tmp_path: Path, report: Report
) -> None:
    home = folder / "runs" / "flipr-latent" / "model"
    parts, lender = read_model(home), tmp_path / "lender"
    lender.mkdir()
    places = {name: str(parts.folder(name)) for name in parts.components}
    write_model(lender, places, {"run": {**parts.settings["run"], "mention_boost": 1000.0}})
    lines = "cutoffs = [3, 7]", 'readers = "first"', f'lender = "{lender}"'
    file = write_plan(toy.folder, "lent", *QUICK, changed(*lines))
    (table,) = ablate(read_ablation(file, ["A", "G"]), tmp_path, device="cpu").document["questions"]
    (whole,) = report.document["questions"]
    assert table["rows"][:1] == whole["rows"][:1], "retriever and readers are the same"
    assert [row["row"] for row in table["rows"]] == ["A", "G"]
    bonuses = [read_model(tmp_path / "rows" / letter).settings["run"].get("mention_boost") for letter in "AG"]
    assert bonuses == [None, 1000.0], "for `baleen eval` to make the figures of the row"
    named = [read_results(tmp_path / "results" / letter / f"{FILE}.jsonl")[0].get("mention_boost") for letter in "AG"]
    assert named == [None, 1000.0]
    run = tmp_path / "runs" / "flipr-latent"
    assert (run / "retriever").is_dir()
    assert not (run / "reading").exists()
    model = read_model(tmp_path / "rows" / "A")
    assert model.folder("sentences").resolve() == read_model(home).folder("sentences").resolve()
    assert model.folder("retriever").resolve() == (run / "model" / "retriever").resolve()
    other = write_plan(toy.folder, "unlent", *QUICK, changed(*lines[:2]))
    with pytest.raises(ConfigError, match="holds an ablation of lender = "):
        ablate(read_ablation(other, ["A"]), tmp_path, device="cpu")


def test_without_matplotlib_there_are_tables_and_a_warning(
    plan: Path, folder: Path, report: Report, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with caplog.at_level(logging.WARNING, "ablation"):
        assert ablate(read_ablation(plan), folder, device="cpu") == report
    assert "no figures: drawing figures needs the package 'matplotlib'" in caplog.text


def test_the_script_prints_the_tables(plan: Path, folder: Path, report: Report, capsys: Any) -> None:
    arguments = [str(plan), "--out", str(folder), "--device", "cpu"]
    capsys.readouterr()
    main([*arguments, "--rows", "a, e", "--json"])
    assert json.loads(capsys.readouterr().out) == report.document
    main([*arguments, "--rows", "A"])
    assert capsys.readouterr().out == report.page + "\n"


# The command line, in float32 as everything here: a processor that has bfloat16 would take it.
IN_FLOAT32 = (
    "from baleen.models import device; device.cpu_has_bfloat16 = lambda *_: False; import ablation; ablation.main()"
)


@pytest.mark.slow
def test_an_ablation_killed_twice_equals_an_undisturbed_one(plan: Path, report: Report, tmp_path: Path) -> None:
    """Killed while the second model trains, and again once a row has results; the figures are the same in the end."""
    out = tmp_path / "killed"
    arguments = [sys.executable, "-c", IN_FLOAT32, str(plan), "--out", str(out), "--device", "cpu", "--json"]
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for mark in ("runs/maxsim-latent/retriever/done.json", f"results/B/{FILE}.jsonl"):
        process = subprocess.Popen(arguments, env=settings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and not (out / mark).exists():
            time.sleep(0.02)
        process.kill()
        process.wait()
        assert (out / mark).exists()
    done = subprocess.run(arguments, env=settings, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == json.loads(json.dumps(report.document))
