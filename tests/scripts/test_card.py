"""tools/card.py: what a card contains, what it leaves out, and which input it refuses."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from baleen.core.errors import CheckpointError, ConfigError, DatasetError, TrainingError
from card_fakes import ENVIRONMENT, PLAN, SUMMARY, digest_of, document, load_script, write_document, write_run

SECTIONS = [
    *("Use", "Components", "Data", "Training", "Hardware and versions", "Results", "Intended use", "Out of scope"),
    *("Limits and biases", "Licences"),
]
card = load_script()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run")


def metadata(text: str) -> dict[str, Any]:
    found = yaml.safe_load(text.split("---\n")[1])
    assert isinstance(found, dict)
    return found


def titles(text: str) -> list[str]:
    return [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]


def write_plan(root: Path, **retriever: Any) -> Path:
    return write_run(root, plan={**PLAN, "retriever": retriever})


# What a card says


def test_a_card_has_all_sections_and_metadata_for_the_hub(run: Path, tmp_path: Path) -> None:
    results = write_document(tmp_path / "hover.json", document(model=digest_of(run)))
    text = card.make_card(run, [results], name="small")
    assert titles(text) == SECTIONS
    assert "\n# small\n" in text
    assert "\n\n\n" not in text
    assert "Undefined" not in text
    assert "None " not in text
    assert "somebody/" not in text, "private folders stay private"
    assert metadata(text) == {
        "license": "mit",
        "language": "en",
        "library_name": "baleen",
        "tags": ["multi-hop", "retrieval", "late-interaction", "fact-checking", "question-answering", "reranking"],
        "base_model": ["BAAI/bge-small-en-v1.5", "cross-encoder/ms-marco-MiniLM-L-12-v2"],
        "datasets": ["hover-nlp/hover"],
    }


@pytest.mark.parametrize(
    "row",
    [
        "| verifier | reads a verdict off the facts | `reading` |",
        "| `reading` | bert, 12 x 384 | 15 | F16 | ",
        "| wiki | `wiki/part-0.jsonl.gz`, `wiki/part-1.jsonl.gz` | 354,282 |",
        "| made | `wiki/part-0.jsonl.gz` | 80,000 (`sample = 80000`) |",
        "| EX-FEVER | `exfever/train.json` | training | 1,200 | 0.5 | 1,200 | plan |",
        "| synthetic | `synthetic.jsonl.gz` | training | 8,000 | 0.3 | 8,000 | given |",
        "| synthetic | `synthetic-2.jsonl.gz` | training of facts, verifier and answerer only | 20,000 | 0.1 | - | plan |",
        "| HoVer | `hover/dev.json` | measuring | 377 | 1 | - | plan |",
        "| retriever | 3,000 | 64 | 4e-05 | 7 | 9,000 | 0:03:20 | 14.5 | 444,000 | 0.123 |",
        "| sentences | 8 | 32 | 4e-05 | 7 | 5 | 0:00:01 | - | - | 2 |",
        "| reading | 4,000 | 24 | 5e-05 | 7 | 1,034 | 0:01:01 | - | - | 1 |",
        "| HoVer | 60.5 | 90.0 |",
        "| reading | verifier_metric | 70.1 |",
        "| processor | Some Processor, 16 cores, 128 GB |",
        "| commit | `0123456789abcdef` |",
        "- Weights: MIT, made from `BAAI/bge-small-en-v1.5` (MIT) and `cross-encoder/ms-marco-MiniLM-L-12-v2` (Apache-2.0).",
        "- HoVer: CC BY-SA 4.0.",
        "- **Two labels**: supported and not supported.",
        "- **Small encoders** (0.0M and 0.0M parameters).",
        "- **Synthetic training questions**",
    ],
)
def test_parts_data_settings_and_licences_come_from_the_run(row: str, run: Path) -> None:
    assert row in card.make_card(run)


def test_results_have_intervals_and_conditions_and_share_a_table(run: Path, tmp_path: Path) -> None:
    ours = document(model=digest_of(run))
    baseline = document(run={"system": "bm25", "settings": {"k1": 1.5}}, gold={"dropped": ["q1"]}, intervals={})
    for name, content in {"ours": ours, "bm25": baseline, "small": {**ours, "passages": 5}}.items():
        write_document(tmp_path / "res" / f"{name}.json", content)
    text = card.make_card(run, [tmp_path / "res", tmp_path / "res" / "ours.json"])
    assert text.count("### HoVer: `hover/dev.json` over 354,282 passages") == 1
    assert text.count("### HoVer: `hover/dev.json` over 5 passages") == 1
    assert "| bm25 | 377 | 88.2 (of 200) | 61.0 |\n| ours | 377 | 88.2 (of 200) | 61.0 |" in text
    assert "| ours | 88.2 (of 200) | 88.2 (of 200) | 70.0 (of 90) |" in text
    assert '| ours | 84.0 to 92.5 | at [20, 100], system "condense", pipeline "condense", k [25, 10], ' in text
    assert '| bm25 | - | system "bm25", settings {"k1": 1.5}, 1 questions dropped' in text


@pytest.mark.parametrize(
    ("file", "warning"),
    [
        ("/elsewhere/hover/dev.json.gz", "as its dev set"),
        ("kit/hover/train.json", "**The model was trained on a file of this name.**"),
        ("kit/hover/test.json", None),
    ],
)
def test_results_on_files_of_the_run_are_marked(file: str, warning: str | None, run: Path, tmp_path: Path) -> None:
    results = write_document(tmp_path / "x.json", document(model=digest_of(run), file=file))
    text = card.make_card(run, [results])
    assert ("of this name" in text) == (warning is not None)
    assert warning is None or warning in text


def test_a_retriever_alone_has_its_own_example_and_advice(tmp_path: Path) -> None:
    collection = {"name": "mine", "corpus": ["mine.jsonl"], "train": [{"dataset": "own", "file": "mine.jsonl"}]}
    plan = {"hops": 1, "collections": [collection], "retriever": {"backbone": "/a/my-own"}, "reading": None}
    stages = {"model": {"components": {"retriever": "retriever"}, "seconds": 1.0}}
    run = write_run(tmp_path, plan=plan, summary={"stages": stages}, environment=None)
    config = json.loads((run / "model" / "config.json").read_text())
    (run / "model" / "config.json").write_text(json.dumps({**config, "components": {"retriever": "retriever"}}))
    text = card.make_card(run)
    assert titles(text) == [each for each in SECTIONS if each not in ("Hardware and versions", "Results")]
    code = text.partition("```python\n")[2].partition("```")[0]
    compile(code, "card", "exec")
    assert "retriever.search(" in code
    assert "| own | `mine.jsonl` | training | - | 1 | - | plan |" in text
    for absent in ("verdict", "ynthetic", "Two labels", "Answers", "Wikipedia", "English"):
        assert absent not in text
    assert "`my-own` (licence unknown)" in text
    assert "Other question files: licence unknown" in text


def test_the_examples_are_code_and_commands_that_exist(run: Path) -> None:
    text = card.make_card(run)
    compile(text.partition("```python\n")[2].partition("```")[0], "card", "exec")
    for line in re.findall(r"^from baleen.*$", card.TEMPLATE.read_text("utf-8"), re.MULTILINE):
        exec(line)
    commands = [shlex.split(line)[1] for line in text.partition("```sh\n")[2].partition("```")[0].splitlines()]
    assert commands == ["index", "verify"]


def test_files_counted_together_and_restated_claims_are_marked(tmp_path: Path) -> None:
    first, made = PLAN["collections"]
    more = [{"dataset": "own", "file": "restated-a.jsonl"}, {"dataset": "own", "file": "restated-b.jsonl"}]
    run = write_run(tmp_path, plan={**PLAN, "collections": [first, {**made, "train": more}]})
    text = card.make_card(run)
    assert "| restated | `restated-a.jsonl` | training | 8,000 (all `own` files) | 1 |" in text
    assert "Restated claims: the licence of the questions" in text
    assert "ynthetic" not in text


def test_unknown_backbones_leave_the_licence_open(tmp_path: Path) -> None:
    run = write_plan(tmp_path, backbone="my-own")
    text = card.make_card(run)
    assert metadata(text)["license"] == "other"
    assert "language" not in metadata(text)
    assert "Weights: not settled, made from" in text
    assert metadata(card.make_card(run, licence="odd: yes"))["license"] == "odd: yes"


@pytest.mark.parametrize(
    ("readme", "bases"),
    [
        ("---\nlicense: mit\nbase_model:\n  - BAAI/bge-small-en-v1.5\n---\n\n# It\n", ["BAAI/bge-small-en-v1.5"]),
        ('---\nbase_model: "BAAI/bge-small-en-v1.5"\n---\n', ["BAAI/bge-small-en-v1.5"]),
        ("No metadata.\n", []),
        (None, []),
    ],
)
def test_a_ready_retriever_has_the_bases_of_its_card(readme: str | None, bases: list[str], tmp_path: Path) -> None:
    run = write_plan(tmp_path, ready="runs/first/model")
    if readme is not None:
        (run / "model" / "retriever" / "README.md").write_text(readme)
    text = card.make_card(run)
    assert "The retriever was trained earlier and used unchanged: `first/model`" in text
    assert ("described on [its own card](retriever/README.md)" in text) == (readme is not None)
    assert metadata(text)["base_model"] == [*bases, "cross-encoder/ms-marco-MiniLM-L-12-v2"]
    assert ("`first/model` (licence unknown)" in text) == (not bases)


def test_averages_differences_settings_and_an_index_are_described(run: Path) -> None:
    model, reading = run / "model", run / "model" / "reading" / "config.json"
    parts = [{"share": 0.6, "weights_sha256": "a" * 64}, {"share": 0.4, "weights_sha256": "b" * 64}]
    reading.write_text(json.dumps({"base": {"folder": "../whole"}, "notes": {"averaged": parts}}))
    config = json.loads((model / "config.json").read_text())
    write_document(model / "config.json", {**config, "settings": {"condenser": {"keep": -2.0}, "run": {"k": [25, 10]}}})
    write_document(model / "demo-index" / "manifest.json", {})
    text = card.make_card(run)
    assert "`reading` is stored as a difference to `../whole`" in text
    assert "average of checkpoints: 60% of sha256 `aaaaaaaaaaaa`, 40% of" in text
    assert "| `condenser.keep` | `-2.0` |" in text
    assert "| `run.k` | `[25, 10]` |" in text
    assert "An index in the model folder contains the text" in text
    assert "**Small encoders** (0.0M parameters)" in text, "a difference is no encoder of its own"


def test_every_environment_of_a_run_is_listed(run: Path) -> None:
    again = {**ENVIRONMENT, "changed": True, "processes": 4, "cuda": None}
    write_document(run / "environment.json", {"environments": [ENVIRONMENT, again, {"commit": None}]})
    text = card.make_card(run)
    assert text.count("| since ") == 3
    assert "NVIDIA H200, 4 processes" in text
    assert "`0123456789abcdef`, with uncommitted changes" in text
    assert "| commit | unknown |" in text


# The command, and what it refuses


def test_a_card_is_printed_or_replaces_an_older_card(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_document(tmp_path / "res" / "hover.json", document(model=digest_of(run)))
    write_document(tmp_path / "res" / "bench.json", {})
    arguments = [str(run), "--results", str(tmp_path / "res"), "--license", "apache-2.0"]
    assert card.main(arguments) == 0
    printed, warned = capsys.readouterr()
    assert metadata(printed)["license"] == "apache-2.0"
    assert warned.startswith("skipped ")
    assert "bench.json" in warned
    for _ in range(2):
        assert card.main([*arguments, "--out", str(tmp_path / "README.md")]) == 0
    assert (tmp_path / "README.md").read_text() == printed
    assert not list(tmp_path.glob("*.new"))


def test_another_model_folder_and_its_name_can_be_given(run: Path, tmp_path: Path) -> None:
    (run / "model").rename(tmp_path / "tiny")
    assert "\n# tiny\n" in card.make_card(run, model=tmp_path / "tiny")
    with pytest.raises(CheckpointError, match="model"):
        card.make_card(run)


def test_bad_input_is_one_line_and_nothing_is_written(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "mine.md").write_text("mine")
    other = write_document(tmp_path / "other.json", document(model="another"))
    out = tmp_path / "card.md"
    for arguments, error, fault in (
        ((tmp_path, "--out", out), TrainingError, "no plan.json; expected the folder of a"),
        ((tmp_path / "absent", "--out", out), TrainingError, "no plan.json"),
        ((run, "--results", tmp_path / "broken.json", "--out", out), DatasetError, "broken.json: not valid JSON"),
        ((run, "--results", tmp_path / "absent", "--out", out), DatasetError, "absent: cannot be read: no such file"),
        ((run, "--results", other, "--out", out), DatasetError, "other.json: results of model another, but this card"),
        ((run, "--results", run / "model", "--out", out), DatasetError, "no results in this folder"),
        ((run, "--model", tmp_path / "absent", "--out", out), CheckpointError, "absent"),
        ((run, "--out", tmp_path / "mine.md"), ConfigError, "mine.md: exists and is not a card"),
        ((run, "--out", tmp_path), ConfigError, "expected a file name in an existing folder"),
        ((run, "--out", tmp_path / "absent" / "card.md"), ConfigError, "expected a file name in an existing folder"),
    ):
        assert card.main([str(each) for each in arguments]) == error.exit_code
        printed, said = capsys.readouterr()
        assert printed == ""
        assert said.splitlines()[-1].startswith("error: ")
        assert fault in said.splitlines()[-1]
        assert not out.exists()
    assert (tmp_path / "mine.md").read_text() == "mine"


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("[]", "expected a JSON object"),
        (json.dumps({**document(), "passages": "many"}), "'passages' is missing or malformed"),
        (json.dumps({key: value for key, value in document().items() if key != "run"}), "'run' is missing"),
        (json.dumps(document(run={"system": "bm25"}, by_hops={"two": document()})), "malformed figures"),
        (json.dumps(document(run={"system": "bm25"}, by_hops={"2": {}})), "malformed figures"),
    ],
)
def test_malformed_results_are_refused(content: str, fault: str, run: Path, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(DatasetError, match=f"x.json: {fault}"):
        card.make_card(run, [tmp_path / "x.json"])


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("plan", "{}", "'collections' is missing"),
        ("plan", json.dumps({"collections": [], "retriever": {}}), "'backbone' is missing"),
        ("plan", json.dumps({**PLAN, "collections": [{"name": "x"}]}), "'corpus' is missing"),
        ("plan", json.dumps({**PLAN, "collections": [{"name": "x", "corpus": [], "dev": [{"dataset": "own"}]}]}), "'file'"),
        ("summary", '{"stages": []}', "'stages' is missing"),
        ("summary", '{"stages": ', "not valid JSON"),
        ("environment", "[]", "expected a JSON object"),
    ],
)  # fmt: skip
def test_malformed_runs_are_refused(name: str, content: str, fault: str, run: Path) -> None:
    (run / f"{name}.json").write_text(content)
    with pytest.raises(TrainingError, match=f"{name}.json: {fault}"):
        card.make_card(run)


def test_an_unfinished_run_is_refused_with_its_progress(tmp_path: Path) -> None:
    run = write_run(tmp_path, summary=None)
    write_document(run / "start" / "done.json", {})
    with pytest.raises(TrainingError, match="the run is not finished .1 stages done.; start `baleen train` again"):
        card.make_card(run)


def test_missing_truncated_or_malformed_weights_are_refused(run: Path) -> None:
    folder = run / "model" / "reading"
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[:20])
    with pytest.raises(CheckpointError, match="model.safetensors: truncated or not a safetensors file"):
        card.make_card(run)
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="model.safetensors: no such file; the checkpoint is incomplete"):
        card.make_card(run)
    for origin in ({"base": "../whole"}, {"notes": {"averaged": [{"share": 0.6}]}}):
        write_document(folder / "config.json", origin)
        with pytest.raises(CheckpointError, match="config.json: 'base' or 'averaged' is malformed"):
            card.make_card(run)


def test_runs_of_older_versions_have_a_card(tmp_path: Path) -> None:
    summary = {key: value for key, value in SUMMARY.items() if key != "data"}
    text = card.make_card(write_run(tmp_path, summary=summary, environment=None))
    assert "| HoVer | `hover/train.json` | training | - | 1 | - | plan |" in text
    assert "Hardware" not in text
