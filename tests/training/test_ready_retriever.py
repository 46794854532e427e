"""Runs whose retriever is ready: it is taken as it is and measured, and condenser and readers are trained on what it finds."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from ablation import read_ablation
from baleen.core.errors import CheckpointError, ConfigError, TrainingError
from baleen.core.types import Verdict
from baleen.data import corpus
from baleen.index.index import Index
from baleen.models.checkpoint import read_json
from baleen.models.cross_encoder import HEADS
from baleen.models.encoder import Encoder
from baleen.models.folder import read_model
from baleen.system import Baleen
from baleen.training.hop_order.algorithm import HopOrderTraining
from baleen.training.hop_order.fixed import oracle_hops
from baleen.training.hop_order.mining import MiningIndex, TokenisedCorpora
from baleen.training.plan import RetrieverPlan, read_plan
from baleen.training.run import explain, stage_names, train
from baleen.training.stages import DONE
from card_fakes import load_script
from hop_order_fakes import start_run, toy_collection
from run_fakes import PLAN, small_toy_data, write_plan
from toy_data import ToyData

pytestmark = pytest.mark.usefixtures("one_thread")

READING = PLAN.index("[reading]")
RETRIEVER = PLAN[PLAN.index("[retriever]") : READING]
QUICK = ("[reading.training]\nsteps = 6", "[reading.training]\nsteps = 2")
STAGES = ["retriever", "rankings", "sentences", "scores", "reading", "model"]


def taking(ready: str, *lines: str) -> tuple[str, str]:
    """A change of a plan to one whose retriever is ready."""
    return RETRIEVER, "\n".join(["[retriever]", f'ready = "{ready}"', "depths = [3, 4]", *lines, "", ""])


def run(plan: Path, folder: Path, **options: Any) -> dict[str, Any]:
    return train(read_plan(plan), folder, device="cpu", **options)


def stamps(folder: Path) -> dict[str, int]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "plan.json")
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in files}


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> ToyData:
    return small_toy_data(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def trained(toy: ToyData) -> Path:
    """A run that trained its retriever, and nothing else; its model lies beside the plans that take it."""
    run(write_plan(toy.folder, "trained", (PLAN[READING:], "")), toy.folder / "trained")
    return toy.folder / "trained"


@pytest.fixture(scope="module")
def ready(toy: ToyData, trained: Path) -> Path:
    """A run that took it."""
    run(write_plan(toy.folder, "ready", taking(f"{trained.name}/model"), QUICK), toy.folder / "ready")
    return toy.folder / "ready"


@pytest.fixture
def copied(ready: Path, tmp_path: Path) -> Path:
    shutil.copytree(ready, tmp_path / "run")
    return tmp_path / "run"


# The ready retriever


def test_nothing_of_the_retriever_is_trained(toy: ToyData, ready: Path) -> None:
    assert stage_names(read_plan(toy.folder / "ready.toml")) == STAGES
    summary = read_json(ready / "summary.json")
    assert list(summary["stages"]) == STAGES
    assert not (ready / "retriever" / "training").exists()
    assert (summary["order"], summary["agreement"]) == (None, {})
    assert summary["stages"]["reading"]["trained"] == list(HEADS)
    assert summary["stages"]["retriever"]["mining_seconds"].keys() == {"tokenise", "encode", "search"}


def test_its_reach_is_measured_as_that_of_a_trained_one(toy: ToyData, ready: Path, trained: Path) -> None:
    data, encoder = toy_collection(toy.folder), Encoder.load(trained / "model", "cpu")
    mining_index = MiningIndex(encoder, TokenisedCorpora.of(encoder.inputs, data))
    reached = oracle_hops(
        [question.example for question in data.dev],
        lambda states, depth, seen: mining_index.rank(
            [each.query for each in states], ["toy"] * len(states), depth, seen
        ),
        data.passage,
        (3, 4),
    )
    found = read_json(ready / "retriever" / DONE)["dev own"]
    assert found == [each.to_json() for each in reached]
    before = read_json(trained / "retriever" / DONE)["dev own"]
    assert [each.keys() for each in found] == [each.keys() for each in before]
    assert found[-1]["all_found"] == pytest.approx(before[-1]["all_found"], abs=1 / 6), (
        "a question may fall to rounding"
    )


def test_a_ready_retriever_has_one_stage(toy: ToyData, trained: Path, tmp_path: Path) -> None:
    plan = RetrieverPlan(ready=str(trained / "model"), depths=(3, 4))
    assert HopOrderTraining.stages(plan, 2) == HopOrderTraining.stages(plan, 4) == ["retriever"]
    hop_order = start_run(plan, 2, toy_collection(toy.folder), tmp_path)
    hop_order.train()
    before = stamps(tmp_path)
    start_run(plan, 2, hop_order.data, tmp_path).train()
    assert stamps(tmp_path) == before, "finished stages are not repeated"
    assert sorted(path.name for path in (tmp_path / "retriever").iterdir()) == ["checkpoint", DONE]


@pytest.mark.parametrize("place", ["model", "model/retriever", "retriever/checkpoint"])
def test_an_index_of_the_ready_retriever_is_one_of_the_new_model(
    place: str, ready: Path, trained: Path, toy: ToyData, tmp_path: Path
) -> None:
    given = Encoder.load(trained / place, "cpu")
    made = ready
    if place == "retriever/checkpoint":  # whose weights are float32
        file = write_plan(toy.folder, "whole", taking(f"{trained.name}/{place}"), (PLAN[READING:], ""))
        run(file, made := tmp_path / "run")
    for new in (made / "retriever" / "checkpoint", made / "model"):
        taken = Encoder.load(new, "cpu")
        assert taken.fingerprint == given.fingerprint
        assert (taken.config, taken.stored_dtype) == (given.config, given.stored_dtype)
    assert read_json(made / "retriever" / DONE)["fingerprint"] == given.fingerprint
    assert given.config.query_focus == 3, "which is not what a plan without [retriever.encoder] says"
    Index.build(tmp_path / "index", corpus.read_passages(toy.folder / "corpus.jsonl"), given, bits=4)
    Baleen.load(made / "model", tmp_path / "index", device="cpu")


def test_the_new_model_verifies_with_the_readers_of_the_run(
    ready: Path, trained: Path, toy: ToyData, tmp_path: Path
) -> None:
    assert read_model(ready / "model").components == {"retriever": "retriever", **dict.fromkeys(HEADS, "reading")}
    Index.build(
        tmp_path / "index", corpus.read_passages(toy.folder / "corpus.jsonl"), Encoder.load(trained / "model", "cpu")
    )
    baleen = Baleen.load(ready / "model", tmp_path / "index", device="cpu")
    trace = baleen.verify(f"{toy.passages[0].title} hired someone who sails.")
    assert isinstance(trace.outcome, Verdict)
    assert [len(hop.ranking) for hop in trace.hops] == [3, 4], "the depths of the plan"


def test_a_retriever_lies_beside_the_plan_or_goes_by_a_name(
    trained: Path, toy: ToyData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(trained / "model", tmp_path / "known" / "a-model")
    monkeypatch.setenv("BALEEN_CHECKPOINTS", str(tmp_path / "known"))
    plan = write_plan(toy.folder, "named", taking("a-model"), (PLAN[READING:], ""))
    assert read_plan(plan).resolved_retriever.ready == "a-model"
    summary = run(plan, tmp_path / "run")
    assert summary["stages"]["retriever"]["ready"] == "a-model"
    assert read_plan(toy.folder / "ready.toml").resolved_retriever.ready == str(toy.folder / "trained" / "model")


@pytest.mark.parametrize(
    ("place", "said"),
    [("backbone", "a plain Hugging Face model, not a Baleen checkpoint"), ("no such/place", "no model folder")],
)
def test_a_folder_without_a_retriever_is_refused(place: str, said: str, toy: ToyData, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=said):
        run(write_plan(toy.folder, "wrong", taking(place)), tmp_path / "run")
    assert not (tmp_path / "run" / "retriever" / DONE).exists()


# Going on


def test_a_run_goes_on_without_the_retriever_that_it_took(toy: ToyData, copied: Path, ready: Path) -> None:
    shutil.copytree(toy.folder / "trained", toy.folder / "passing")
    plan = write_plan(toy.folder, "passing-plan", taking("passing/model"), QUICK)
    run(plan, copied, stage="retriever")
    shutil.rmtree(toy.folder / "passing")
    for stage in ("reading", "model"):
        shutil.rmtree(copied / stage)
    before = stamps(copied)
    run(plan, copied)
    after = stamps(copied)
    assert all(after[name] == before[name] for name in before if name.partition("/")[0] in STAGES)
    for name in ("model/reading/model.safetensors", "model/retriever/model.safetensors"):
        assert (copied / name).read_bytes() == (ready / name).read_bytes(), name


def test_finished_stages_are_skipped(toy: ToyData, ready: Path) -> None:
    before, summary = stamps(ready), read_json(ready / "summary.json")
    assert run(toy.folder / "ready.toml", ready) == summary
    assert stamps(ready) == before


def test_another_retriever_is_refused_unless_replaced(toy: ToyData, copied: Path) -> None:
    before = stamps(copied)
    other = write_plan(toy.folder, "another", taking("trained/retriever/checkpoint"), QUICK)
    with pytest.raises(TrainingError, match="holds a run with other settings .retriever differ.*name the stage"):
        run(other, copied)
    assert stamps(copied) == before
    summary = run(other, copied, stage="retriever")
    assert summary["stages"]["retriever"]["ready"].endswith("trained/retriever/checkpoint")
    taken, given = (
        Encoder.load(each, "cpu") for each in (copied / "model", toy.folder / "trained/retriever/checkpoint")
    )
    assert taken.fingerprint == given.fingerprint


def test_a_run_may_replace_its_trained_retriever(toy: ToyData, trained: Path, tmp_path: Path) -> None:
    """Hops that were ordered before say nothing of a retriever that came from elsewhere."""
    shutil.copytree(trained, tmp_path / "run")
    plan = write_plan(toy.folder, "replaced", taking("trained/model"), (PLAN[READING:], ""))
    summary = run(plan, tmp_path / "run", stage="retriever")
    assert (tmp_path / "run" / "hop-1" / "inspected.jsonl").exists()
    assert (list(summary["stages"]), summary["agreement"]) == (["retriever", "model"], {})
    with pytest.raises(TrainingError, match="took a ready retriever, so it inferred no order of hops"):
        explain(tmp_path / "run", "q1")


def test_a_plan_without_a_ready_retriever_says_nothing_of_it(trained: Path) -> None:
    assert "ready" not in read_json(trained / "plan.json")["retriever"]


# Plans


def test_a_plan_names_a_backbone_or_a_retriever() -> None:
    with pytest.raises(ConfigError, match="neither backbone nor ready is given: name an encoder to train from, or a"):
        RetrieverPlan()
    assert RetrieverPlan(ready="any", depths=(5,)).depths == (5,)


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (['backbone = "backbone"'], "backbone"),
        (["steps = [5]"], "steps"),
        (["final_steps = 5"], "final_steps"),
        (['order = "oracle"', "partial = true"], "order, partial"),
        (["[retriever.encoder]", "query_focus = 3"], "encoder"),
        (["[retriever.training]", "lr = 1e-3", "", "[retriever.learning]", "in_batch = true"], "training, learning"),
    ],
)
def test_retriever_training_is_refused_with_a_ready_retriever(lines: list[str], named: str, tmp_path: Path) -> None:
    file = write_plan(tmp_path, "plan", taking("some/model", *lines))
    said = f"{file}: retriever: ready = 'some/model' is used unchanged, but {named} would train a retriever"
    with pytest.raises(ConfigError) as refusal:
        read_plan(file)
    assert str(refusal.value).startswith(said)


def test_settings_that_are_as_they_would_be_anyway_do_no_harm(tmp_path: Path) -> None:
    assert (
        read_plan(write_plan(tmp_path, "plan", taking("some/model", 'order = "latent"'))).retriever.ready
        == "some/model"
    )


def test_batches_of_a_training_that_is_not_done_need_not_divide(tmp_path: Path) -> None:
    plan = read_plan(write_plan(tmp_path, "plan", taking("some/model"), ("batch_size = 4", "batch_size = 5")))
    assert plan.retriever.training.batch_size % 5
    plan.check_processes(5)
    with pytest.raises(ConfigError, match="reading.first: batch_size = 5"):
        plan.check_processes(4)


def test_an_ablation_takes_the_rows_that_train_no_other_retriever(tmp_path: Path) -> None:
    file = write_plan(tmp_path, "plan", taking("some/model"))
    with pytest.raises(
        ConfigError, match="the plan's retriever is ready, and rows other than A, B, C, G train another"
    ):
        read_ablation(file)
    plan = read_ablation(file, ["A", "B", "C"])
    assert {row.variant.of(plan.train).retriever for row in plan.rows} == {plan.train.retriever}


# Its card


def test_a_card_names_ready_and_trained_parts(ready: Path) -> None:
    card = load_script().make_card(ready)
    assert "The retriever was trained earlier and used unchanged: `trained/model`." in card
    assert "starting from `backbone`." in card
    assert "| sentences | 2 | 4 |" in card
    assert "| retriever | " not in card.partition("## Training")[2].partition("All stages:")[0]
    assert "| own | " in card.partition("all gold passages retrieved by each hop")[2]
    assert "Hop order:" not in card
    assert "`trained/model` (licence unknown)" in card


def test_a_card_of_a_run_that_trained_nothing_can_be_written(toy: ToyData, trained: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run(write_plan(toy.folder, "measured", taking(f"{trained.name}/model"), (PLAN[READING:], "")), folder)
    card = load_script().make_card(folder)
    assert "Trained with" not in card
    assert "used unchanged: `trained/model`." in card
