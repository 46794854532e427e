"""Whole runs on a toy corpus of thirty people: from files to a model, with kills, resumes and refusals."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import run_fakes
from baleen.core.errors import CheckpointError, ConfigError, DatasetError, TrainingError
from baleen.core.files import read_lines, read_records
from baleen.core.types import Answer, Verdict
from baleen.data import corpus
from baleen.index.index import Index
from baleen.models.checkpoint import read_json
from baleen.models.cross_encoder import HEADS, CrossEncoder
from baleen.models.encoder import Encoder
from baleen.models.folder import read_model
from baleen.system import Baleen
from baleen.training.cross_encoder.inference import QuestionFacts
from baleen.training.environment import read_environments
from baleen.training.hop_order.report import HopReport
from baleen.training.plan import read_plan
from baleen.training.run import explain, train
from baleen.training.stages import DONE
from fakes import electra_folder
from run_fakes import small_toy_data, without, write_plan
from toy_data import ToyData

pytestmark = pytest.mark.usefixtures("one_thread")

APART = ("shared = true", "shared = false")
ALONE = without("[reading]")


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> ToyData:
    return small_toy_data(tmp_path_factory.mktemp("toy"), train=18)


def done(folder: Path) -> list[str]:
    return sorted(file.parent.name for file in folder.glob(f"*/{DONE}"))


def stamps(folder: Path) -> dict[str, int]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "plan.json")
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in files}


def run(plan: Path, folder: Path, **options: Any) -> dict[str, Any]:
    return train(read_plan(plan), folder, device="cpu", **options)


@pytest.fixture(scope="module")
def shared(toy: ToyData) -> Path:
    folder = toy.folder / "shared"
    run(write_plan(toy.folder, "shared"), folder)
    return folder


@pytest.fixture(scope="module")
def apart(toy: ToyData) -> Path:
    folder = toy.folder / "apart"
    run(
        write_plan(
            toy.folder,
            "apart",
            APART,
            ("[reading.training]\nsteps = 6", "[reading.training]\nsteps = 2"),
            ("depth = 4\n", "depth = 4\nmention_boost = 2.0\n"),
        ),
        folder,
    )
    return folder


@pytest.fixture
def copied(shared: Path, tmp_path: Path) -> Path:
    shutil.copytree(shared, tmp_path / "run")
    return tmp_path / "run"


# What comes out


@pytest.mark.parametrize("kind", ["shared", "apart"])
def test_a_run_ends_in_a_model_that_verifies_and_answers(
    kind: str, toy: ToyData, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder: Path = request.getfixturevalue(kind) / "model"
    encoder = Encoder.load(folder, "cpu")
    Index.build(tmp_path / "index", corpus.read_passages(toy.folder / "corpus.jsonl"), encoder, bits=4)
    baleen = Baleen.load(folder, tmp_path / "index", device="cpu")
    assert baleen.config.depths == (3, 4), "the plan's hops and depths come with the model"
    name = toy.passages[0].title
    verdict, answer = (
        baleen.verify(f"{name} hired someone who sails."),
        baleen.ask(f"{name} hired someone who does what?"),
    )
    assert isinstance(verdict.outcome, Verdict)
    assert isinstance(answer.outcome, Answer)
    assert [len(hop.ranking) for hop in verdict.hops] == [3, 4]
    assert verdict.untrained == ()


def test_the_model_has_the_mention_boost_of_its_training(shared: Path, apart: Path) -> None:
    assert "mention_boost" not in read_model(shared / "model").settings["run"]
    assert read_model(apart / "model").settings["run"]["mention_boost"] == 2.0


def test_heads_share_one_backbone_or_have_one_each(shared: Path, apart: Path) -> None:
    assert read_model(shared / "model").components == {"retriever": "retriever", **dict.fromkeys(HEADS, "reading")}
    assert read_model(apart / "model").components == {"retriever": "retriever", **{head: head for head in HEADS}}
    assert sorted(CrossEncoder.load(apart / "model" / "facts", "cpu").model.heads) == ["facts"]


def test_every_stage_has_a_report(shared: Path, apart: Path) -> None:
    summary = read_json(shared / "summary.json")
    assert list(summary["stages"]) == [
        *("start", "retriever-1", "hop-1", "hop-2", "retriever", "rankings", "sentences", "scores", "reading", "model")
    ]
    reading = summary["stages"]["reading"]
    assert reading["trained"] == list(HEADS)
    assert (reading["records"]["verifier"], reading["records"]["answerer"], reading["steps"]) == (9, 9, 6)
    assert {"sentences_best", "facts_exact", "reranker_metric", "verifier_metric", "answerer_em"} < reading[
        "dev"
    ].keys()
    for stage in ("retriever-1", "retriever", "sentences", "reading"):
        report = summary["stages"][stage]
        assert report["steps_per_second"] > 0
        assert report["tokens_per_second"] > report["examples_per_second"] > 0
        assert 0 <= report["padding"] < 1
        assert report["utilisation"] is None, "what a CPU could do is not known"
    mined = {stage: set(report.get("mining_seconds", {})) for stage, report in summary["stages"].items()}
    assert mined["retriever-1"] == {"tokenise", "encode", "search"}
    assert mined["hop-1"] == mined["retriever"] == {"encode", "search"}
    assert mined["hop-2"] == mined["rankings"] == {"search"}, "the corpora are encoded already"
    assert read_json(apart / "verifier" / DONE)["dev"].keys() == {"metric", "verifier_metric"}


def test_a_run_records_its_environment_and_data(shared: Path) -> None:
    (found,) = read_environments(shared)
    assert (found["device"], found["processes"]) == ("cpu", 1)
    assert read_json(shared / "summary.json")["data"] == {
        "toy": {"passages": 30, "train": {"own": 18}, "read": {}, "dev": {"own": 6}}
    }


def test_scores_hold_the_best_and_the_gold_sentences(shared: Path, toy: ToyData) -> None:
    asked = [json.loads(line) for line in (toy.folder / "train.jsonl").read_text().splitlines()]
    scored = list(read_records(shared / "scores" / "train.jsonl.gz", QuestionFacts))
    assert [record.qid for record in scored] == [f"toy/own/{line['id']}" for line in asked]
    for record, line in zip(scored, asked, strict=True):
        assert {(fact.pid, fact.sid) for fact in record.gold} == {(f"toy/{pid}", sid) for pid, sid in line["facts"]}
        assert {fact.hop for fact in record.gold} <= {1, 2}
        assert list(record.found) == sorted(record.found, key=lambda fact: (fact.hop, -fact.score))


def test_the_latent_order_is_compared_with_the_heuristic_one(shared: Path, toy: ToyData, tmp_path: Path) -> None:
    compared = read_json(shared / "summary.json")["agreement"]
    assert list(compared) == ["heuristic"], "these questions come without an order"
    assert (compared["heuristic"]["claims"], compared["heuristic"]["golds"]) == (18, 54)
    ordered = write_plan(toy.folder, "ordered", ALONE, ("train.jsonl", "ordered.jsonl"))
    assert list(run(ordered, tmp_path / "ordered")["agreement"]) == ["heuristic", "given"]
    settled = write_plan(toy.folder, "settled", ALONE, ("per_hop = false", 'order = "heuristic"'))
    assert run(settled, tmp_path / "settled")["agreement"] == {}, "there is nothing to compare"


def test_inferred_sentences_are_compared_with_those_that_are_known(toy: ToyData, shared: Path, tmp_path: Path) -> None:
    """Every gold passage of the toy corpus has one gold sentence; a file may name those of some questions only."""
    compared = read_json(shared / "summary.json")["sentence_agreement"]
    assert compared["train"]["passages"] == 54
    assert 0 < compared["train"]["inferred"] <= 54
    assert compared["dev"]["passages"] == sum(len(line["gold"]) for line in lines_of(toy, "dev"))
    some = rewritten(toy, "some", lambda line: line if line["id"] < "q15" else {**line, "facts": []})
    passages = sum(len(line["facts"]) for line in lines_of(toy, "some"))
    for name, changes in {"inferring": [], "trusting": [("depth = 4\n", "depth = 4\ninfer = false\n")]}.items():
        file = write_plan(toy.folder, name, some, ("steps = 6", "steps = 2"), *changes)
        found = run(file, tmp_path / name)["sentence_agreement"]
        assert found.get("train", {}).get("passages") == (None if changes else passages)


def test_unsearched_questions_train_the_readers_alone(toy: ToyData, shared: Path, tmp_path: Path) -> None:
    more = rewritten(toy, "more", lambda line: {**line, "id": f"more-{line['id']}"})[1]
    source = '{ dataset = "own", file = "train.jsonl" }'
    both = source, f'{source}, {{ dataset = "own", file = "{more}", searched = false }}'
    summary = run(write_plan(toy.folder, "more", both, ("steps = 6", "steps = 2")), tmp_path / "run")
    before, after = read_json(shared / "summary.json")["stages"], summary["stages"]
    assert after["hop-1"]["claims"] == before["hop-1"]["claims"]
    assert after["rankings"]["queries"]["dev"] == before["rankings"]["queries"]["dev"]
    assert after["scores"]["unsearched"] == len(lines_of(toy, "train"))
    for head in ("facts", "verifier", "answerer"):
        assert after["reading"]["records"][head] > before["reading"]["records"][head], head


def test_a_retriever_alone_makes_a_model(toy: ToyData, tmp_path: Path) -> None:
    assert run(write_plan(toy.folder, "alone", ALONE), tmp_path / "run")["sentence_agreement"] == {}
    assert read_model(tmp_path / "run" / "model").components == {"retriever": "retriever"}


# Going on


def test_a_finished_run_is_not_repeated(toy: ToyData, shared: Path) -> None:
    before, summary = stamps(shared), read_json(shared / "summary.json")
    assert run(toy.folder / "shared.toml", shared) == summary
    assert stamps(shared) == before


def test_a_stage_can_be_redone(toy: ToyData, copied: Path) -> None:
    before, loss = stamps(copied), read_json(copied / "reading" / DONE)["loss"]
    run(toy.folder / "shared.toml", copied, stage="verifier")
    after = stamps(copied)
    anew = {name.partition("/")[0] for name in after if after[name] != before.get(name)}
    assert anew == {"reading", "model", "summary.json"}, "with a shared backbone the verifier is made by `reading`"
    assert read_json(copied / "reading" / DONE)["loss"] == loss


def test_an_unknown_stage_is_refused_before_any_change(toy: ToyData, copied: Path) -> None:
    before = stamps(copied)
    with pytest.raises(
        ConfigError, match="there is no stage 'raeding'; the stages are start, retriever-1, .*reading, model"
    ):
        run(toy.folder / "shared.toml", copied, stage="raeding")
    assert stamps(copied) == before


def test_another_plan_is_refused_and_nothing_is_overwritten(toy: ToyData, copied: Path) -> None:
    before = stamps(copied)
    other = write_plan(toy.folder, "other", ("final_steps = 3", "final_steps = 4"))
    with pytest.raises(TrainingError, match="holds a run with other settings .retriever differ.*name the stage"):
        run(other, copied)
    assert stamps(copied) == before


def test_a_run_with_a_removed_setting_is_refused(toy: ToyData, copied: Path) -> None:
    plan = read_json(copied / "plan.json")
    plan["retriever"]["learning"]["rounding"] = None
    (copied / "plan.json").write_text(json.dumps(plan))
    before = stamps(copied)
    for stage in (None, "reading"):
        with pytest.raises(
            ConfigError, match=r"plan\.json: retriever: learning: the setting 'rounding' is gone.*0\.1\.0"
        ):
            run(toy.folder / "shared.toml", copied, stage=stage)
    assert stamps(copied) == before


FILE = 'file = "train.jsonl" }'


def test_redoing_a_stage_on_other_questions_is_refused(toy: ToyData, copied: Path) -> None:
    before = stamps(copied)
    other = write_plan(toy.folder, "fewer", (FILE, 'file = "train.jsonl", limit = 5 }'))
    with pytest.raises(TrainingError, match="before 'reading' were made with other collections.*start from 'start'"):
        run(other, copied, stage="reading")
    assert stamps(copied) == before
    assert run(other, copied, stage="start")["stages"]["hop-1"]["claims"] == 5


def test_a_stage_can_be_redone_with_other_weights(toy: ToyData, copied: Path) -> None:
    heavier = write_plan(toy.folder, "heavier", (FILE, 'file = "train.jsonl", weight = 3.0 }'))
    run(heavier, copied, stage="reading")
    assert read_json(copied / "plan.json")["collections"][0]["train"][0]["weight"] == 3


def test_hops_of_an_earlier_plan_are_not_explained(toy: ToyData, tmp_path: Path) -> None:
    run(write_plan(toy.folder, "long", ALONE, ("hops = 2", "hops = 3")), tmp_path / "run")
    summary = run(write_plan(toy.folder, "short", ALONE), tmp_path / "run", stage="hop-2")
    (left, *_) = read_records(tmp_path / "run" / "hop-3" / "inspected.jsonl", HopReport)  # which stays where it lies
    alone = run(toy.folder / "short.toml", tmp_path / "alone")
    assert summary["agreement"] == alone["agreement"]
    assert max(line.hop for line in explain(tmp_path / "run", left.qid)) == 2


def test_a_foreign_folder_is_left_alone(toy: ToyData, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.txt").write_text("mine")
    with pytest.raises(TrainingError, match="holds something other than a run"):
        run(write_plan(toy.folder), tmp_path)
    assert list(stamps(tmp_path)) == ["model/mine.txt"]


def test_a_kill_during_cross_encoder_training_changes_nothing(toy: ToyData, shared: Path, copied: Path) -> None:
    file = toy.folder / "shared.toml"
    for stage in ("reading", "model"):
        shutil.rmtree(copied / stage)
    command = [sys.executable, run_fakes.__file__, str(file), str(copied), "reading", "1"]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert killed.returncode == -9, killed.stderr
    assert "reading" not in done(copied)
    assert [path.name for path in copied.glob("reading/training/step-*")] == ["step-000002"]
    run(file, copied)
    for name in ("reading/checkpoint/model.safetensors", "model/reading/model.safetensors"):
        assert (copied / name).read_bytes() == (shared / name).read_bytes(), name
    assert read_json(copied / "reading" / DONE)["loss"] == read_json(shared / "reading" / DONE)["loss"]


# What the data lacks


def rewritten(toy: ToyData, name: str, change: Any) -> tuple[str, str]:
    """A change of the plan to changed training questions."""
    lines = lines_of(toy, "train")
    (toy.folder / f"{name}.jsonl").write_text("".join(json.dumps(change(line)) + "\n" for line in lines))
    return "train.jsonl", f"{name}.jsonl"


def lines_of(toy: ToyData, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (toy.folder / f"{name}.jsonl").read_text().splitlines()]


def without_keys(*keys: str) -> Any:
    return lambda line: {key: value for key, value in line.items() if key not in keys}


@pytest.mark.parametrize("way", [("shared = true", "shared = true"), APART], ids=["shared", "apart"])
def test_heads_without_training_data_are_left_out(
    way: tuple[str, str], toy: ToyData, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Like HoVer, whose claims have no answers."""
    changes = rewritten(toy, "unanswered", without_keys("answer")), ("steps = 6", "steps = 2")
    summary = run(write_plan(toy.folder, "unanswered", way, *changes), tmp_path / "run")
    model = read_model(tmp_path / "run" / "model")
    assert list(model.components) == ["retriever", *(head for head in HEADS if head != "answerer")]
    assert "answerer: no usable examples, so the model will not have this head" in caplog.text
    if way == APART:
        assert summary["stages"]["answerer"]["trained"] == []


def test_without_gold_sentences_the_condenser_learns_from_likely_ones(toy: ToyData, tmp_path: Path) -> None:
    changes = rewritten(toy, "unnumbered", without_keys("facts")), ("steps = 6", "steps = 2")
    summary = run(write_plan(toy.folder, "unnumbered", *changes), tmp_path / "run")
    assert summary["stages"]["sentences"]["records"]["sentences"] > 0
    assert {"sentences", "facts", "verifier"} <= set(read_model(tmp_path / "run" / "model").components)


def test_without_gold_or_inferred_sentences_training_is_refused(toy: ToyData, tmp_path: Path) -> None:
    trusting = ("depth = 4\n", "depth = 4\ninfer = false\n")
    file = write_plan(toy.folder, "passages", rewritten(toy, "passages", without_keys("facts")), trusting)
    with pytest.raises(DatasetError, match="stage 1 of the condenser has no examples.*or leave .reading. out"):
        run(file, tmp_path / "run")
    assert "sentences" not in done(tmp_path / "run")


def test_a_dataset_without_training_questions_starts_no_stage(toy: ToyData, tmp_path: Path) -> None:
    (toy.folder / "empty.jsonl").write_text("")
    file = write_plan(toy.folder, "empty", ALONE, ("train.jsonl", "empty.jsonl"))
    with pytest.raises(DatasetError, match=r"empty\.jsonl|nothing to train on"):
        run(file, tmp_path / "run")
    run(write_plan(toy.folder, "mended", ALONE), tmp_path / "run")  # the plan may be mended in the same folder


def test_questions_without_gold_passages_are_refused(toy: ToyData, tmp_path: Path) -> None:
    bare = rewritten(toy, "bare", lambda line: {**without_keys("facts")(line), "gold": []})
    with pytest.raises(DatasetError, match="no question can be trained on with order = 'latent'"):
        run(write_plan(toy.folder, "bare", ALONE, bare), tmp_path / "run")


def test_a_missing_gold_passage_fails_a_run_or_drops_its_question(toy: ToyData, tmp_path: Path) -> None:
    def lost(line: dict[str, Any]) -> dict[str, Any]:
        return {**line, "gold": ["Atlantis"], "facts": []} if line["id"] in ("q0", "q1") else line

    change = rewritten(toy, "lost", lost)
    with pytest.raises(DatasetError, match="Atlantis"):
        run(write_plan(toy.folder, "lost", ALONE, change), tmp_path / "run")
    assert done(tmp_path / "run") == []
    dropping = write_plan(toy.folder, "dropping", ALONE, change, ("hops = 2", 'hops = 2\nmissing = "drop"'))
    assert run(dropping, tmp_path / "run")["stages"]["hop-1"]["claims"] == 16


def test_a_missing_file_is_named(toy: ToyData, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"absent\.jsonl"):
        run(write_plan(toy.folder, "absent", ALONE, ("train.jsonl", "absent.jsonl")), tmp_path / "run")


def test_without_dev_questions_nothing_is_measured(toy: ToyData, tmp_path: Path) -> None:
    changes = (('dev = [{ dataset = "own", file = "dev.jsonl" }]', ""), ("steps = 6", "steps = 2"))
    stages = run(write_plan(toy.folder, "no-dev", *changes), tmp_path / "run")["stages"]
    assert stages["reading"]["dev"] == stages["sentences"]["dev"] == {}
    assert not [key for key in stages["retriever"] if key.startswith("dev")]


# Faults in a folder


def test_a_checkpoint_of_another_architecture_is_refused(toy: ToyData, copied: Path, tmp_path: Path) -> None:
    other = CrossEncoder.from_backbone(electra_folder(tmp_path / "electra"), {"sentences": HEADS["sentences"]})
    shutil.rmtree(copied / "sentences" / "checkpoint")
    other.save(copied / "sentences" / "checkpoint")
    with pytest.raises(CheckpointError, match="this cross-encoder has no head 'facts', only sentences"):
        run(toy.folder / "shared.toml", copied, stage="reading")


def test_saves_of_another_architecture_are_refused(toy: ToyData, copied: Path, tmp_path: Path) -> None:
    other = CrossEncoder.from_backbone(electra_folder(tmp_path / "electra"))
    shutil.rmtree(copied / "sentences" / "checkpoint")
    other.save(copied / "sentences" / "checkpoint")
    for file in (copied / "reading" / DONE, copied / "model" / DONE):
        file.unlink()
    with pytest.raises(TrainingError, match="reading"):
        run(toy.folder / "shared.toml", copied)
    assert "reading" not in done(copied)


def test_a_loss_of_nan_names_its_step_and_can_be_resumed(toy: ToyData, tmp_path: Path) -> None:
    wild = (
        "[reading.first]\nsteps = 2\nbatch_size = 4\nlr = 1e-3",
        "[reading.first]\nsteps = 9\nbatch_size = 4\nlr = 1e30",
    )
    with pytest.raises(TrainingError, match=r"step \d: loss is nan.* at learning rate .*lower lr"):
        run(write_plan(toy.folder, "wild", wild), tmp_path / "run")
    assert "sentences" not in done(tmp_path / "run")
    run(write_plan(toy.folder, "tame"), tmp_path / "run", stage="sentences")
    assert "model" in done(tmp_path / "run")


def test_files_are_mixed_by_weight_and_limit(toy: ToyData, tmp_path: Path) -> None:
    """With a second file of another dataset, which keeps its own hop order."""
    lines = [{**line, "id": f"made{line['id']}", "made_by": "hand"} for line in lines_of(toy, "ordered")]
    (toy.folder / "made.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    mixed = (
        'train = [{ dataset = "own", file = "train.jsonl" }]',
        'train = [{ dataset = "own", file = "train.jsonl" }, '
        '{ dataset = "own", file = "made.jsonl", weight = 0.25, limit = 8, order = "given" }]',
    )
    summary = run(write_plan(toy.folder, "mixed", mixed, ("steps = 6", "steps = 2")), tmp_path / "run")
    assert summary["stages"]["hop-1"]["claims"] == 18 + 8
    assert summary["agreement"]["heuristic"]["claims"] == 18, "given orders do not count as inferred"
    found = explain(tmp_path / "run", next(each.qid for each in scored(tmp_path / "run") if "made" in each.qid))
    order = toy.order[found[0].qid.rpartition("made")[2]]
    assert [each.pid for each in found[0].found] == [f"toy/{order[0]}"]


def scored(folder: Path) -> list[QuestionFacts]:
    return list(read_records(folder / "scores" / "train.jsonl.gz", QuestionFacts))


# Several processes


def in_two(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run under torchrun with gloo."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def mined(folder: Path) -> dict[str, list[Any]]:
    """All records that mining wrote, by file."""
    files = [*folder.glob("*/*.jsonl.gz"), *folder.glob("*/inspected.jsonl")]
    names = {str(file.relative_to(folder)): file for file in files if file.parent.name != "scores"}
    return {name: [json.loads(line) for line in read_lines(file)] for name, file in names.items()}


def scores(folder: Path) -> list[dict[tuple[str, str, int], float]]:
    """The score of every sentence that stage 1 scored."""
    files = sorted((folder / "scores").glob("*.jsonl.gz"))
    scored = [list(read_records(file, QuestionFacts)) for file in files]
    return [{(each.qid, fact.pid, fact.sid): fact.score for each in part for fact in each.found} for part in scored]


@pytest.mark.slow
def test_two_processes_give_the_results_of_one(toy: ToyData, tmp_path: Path) -> None:
    """The single process takes the same parts of a batch in two passes, so losses differ by rounding only."""
    in_passes = ("batch_size = 4", "batch_size = 4\naccumulate = 2")
    one = run(write_plan(toy.folder, "passes", in_passes), tmp_path / "one")
    done_by_two = in_two(run_fakes.__file__, str(write_plan(toy.folder, "pair")), str(tmp_path / "two"))
    assert done_by_two.returncode == 0, done_by_two.stderr
    two = read_json(tmp_path / "two" / "summary.json")
    assert mined(tmp_path / "two") == mined(tmp_path / "one")
    for ours, theirs in zip(scores(tmp_path / "two"), scores(tmp_path / "one"), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-3)
    for stage, report in one["stages"].items():
        other = two["stages"][stage]
        assert report.keys() == other.keys()
        if "loss" in report:
            assert other["loss"] == pytest.approx(report["loss"], rel=1e-4), stage
            assert (other["steps"], other["records"]) == (report["steps"], report["records"])
        for name in report.keys() & {"dev", "queries", "sentences"}:
            assert other[name] == pytest.approx(report[name], abs=1e-3), stage
    assert two["agreement"] == one["agreement"]
    names = [{path.relative_to(tmp_path / which) for path in (tmp_path / which).rglob("*")} for which in ("one", "two")]
    assert names[0] == names[1], "only one of them writes"


def test_an_indivisible_batch_is_refused_before_any_work(
    toy: ToyData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(ConfigError, match="retriever.training: batch_size = 4 does not divide into 1 passes of 3"):
        run(write_plan(toy.folder), tmp_path / "run")
    assert not (tmp_path / "run").exists()


# What was inferred


def test_a_question_is_explained_by_any_end_of_its_id(shared: Path) -> None:
    lines = explain(shared, "toy/own/q3")
    assert [line.hop for line in lines] == list(range(1, len(lines) + 1))
    assert {line.qid for line in lines} == {"toy/own/q3"}
    assert explain(shared, "own/q3") == explain(shared, "q3") == lines


def test_an_unknown_or_ambiguous_id_is_refused(toy: ToyData, shared: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="no training question has the id '3'"):
        explain(shared, "3")
    with pytest.raises(TrainingError, match="no hop of this run is done yet"):
        explain(tmp_path, "q3")
    twice = (
        "[[collections]]",
        '[[collections]]\nname = "two"\ncorpus = ["corpus.jsonl"]\ntrain = [{ dataset = "own", file = "train.jsonl" }]\n\n[[collections]]',
    )
    run(write_plan(toy.folder, "twice", ALONE, twice), tmp_path / "twice")
    with pytest.raises(TrainingError, match="'q3' may be any of two/own/q3, toy/own/q3; give more of the id"):
        explain(tmp_path / "twice", "q3")
    assert explain(tmp_path / "twice", "two/own/q3")[0].qid == "two/own/q3"
