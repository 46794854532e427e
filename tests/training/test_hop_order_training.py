"""Algorithm 1 on data small enough to learn: it finds the order of hops, and resumes after kills."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import hop_order_fakes
from baleen.core.errors import ConfigError, DatasetError, TrainingError
from baleen.core.files import read_records
from baleen.core.types import Query
from baleen.models.encoder import Encoder
from baleen.training.data import TrainingData
from baleen.training.hop_order.algorithm import HopOrderTraining
from baleen.training.hop_order.fixed import HopOrder, oracle_hops
from baleen.training.hop_order.mining import MiningIndex, TokenisedCorpora
from baleen.training.hop_order.report import HopReport, agreement, orders
from baleen.training.hop_order.supervision import Step, Supervised, partly_found
from baleen.training.plan import RetrieverPlan
from baleen.training.retriever.batches import RetrieverBatches, RetrieverTraining
from baleen.training.retriever.task import train_retriever
from baleen.training.stages import DONE
from hop_order_fakes import learning_plan, passing_plan, start_run, toy_collection
from toy_data import ToyData, make_toy_data

pytestmark = pytest.mark.usefixtures("one_thread")

HOPS = 4


# Learning


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> ToyData:
    return make_toy_data(tmp_path_factory.mktemp("toy"), people=240, train=600, dev=60)


@pytest.fixture(scope="module")
def data(toy: ToyData) -> TrainingData:
    return toy_collection(toy.folder)


@pytest.fixture(scope="module")
def plan(toy: ToyData) -> RetrieverPlan:
    return learning_plan(toy.backbone(toy.folder / "backbone"))


@pytest.fixture(scope="module")
def learnt(plan: RetrieverPlan, data: TrainingData, tmp_path_factory: pytest.TempPathFactory) -> HopOrderTraining:
    hop_order = start_run(plan, HOPS, data, tmp_path_factory.mktemp("learnt"))
    hop_order.train()
    return hop_order


def inspected(hop_order: HopOrderTraining) -> list[HopReport]:
    files = (hop_order.run.folder(f"hop-{turn}") / "inspected.jsonl" for turn in range(1, hop_order.hops + 1))
    return [line for file in files for line in read_records(file, HopReport)]


def steps(hop_order: HopOrderTraining, turn: int) -> list[Step]:
    return list(read_records(hop_order.run.folder(f"hop-{turn}") / "steps.jsonl.gz", Step))


def true_orders(toy: ToyData, data: TrainingData) -> dict[str, HopOrder]:
    """The true orders, one passage a hop."""
    asked = {question.example.qid: toy.order[question.example.qid.rpartition("/")[2]] for question in data.train}
    return {qid: tuple((f"toy/{pid}",) for pid in order) for qid, order in asked.items()}


def share_of_complete(encoder: Encoder, data: TrainingData, depths: tuple[int, ...]) -> float:
    """The share of dev questions with all gold passages after the last hop."""
    mining_index = MiningIndex(encoder, TokenisedCorpora.of(encoder.inputs, data))
    reached = oracle_hops(
        [question.example for question in data.dev],
        lambda states, depth, seen: mining_index.rank(
            [each.query for each in states], ["toy"] * len(states), depth, seen
        ),
        data.passage,
        depths,
    )
    return reached[-1].all_found


def test_latent_hop_ordering_finds_the_true_order(learnt: HopOrderTraining, toy: ToyData, data: TrainingData) -> None:
    found = agreement(orders(inspected(learnt)), true_orders(toy, data))
    assert found.claims == len(data.train)
    assert found.identical >= 0.9 * found.claims
    assert found.same_pairs >= 0.9 * found.pairs


def test_final_retriever_beats_one_trained_without_hops(
    learnt: HopOrderTraining, plan: RetrieverPlan, data: TrainingData, tmp_path: Path
) -> None:
    """The same start, steps and negatives, but no hops and so no facts in the queries."""
    records = [
        Supervised(step.supervised.qid, 1, Query(step.supervised.query.text), step.state.example.gold, negatives)
        for step in steps(learnt, 1)
        if (negatives := step.supervised.negatives)
    ]
    other = Encoder.load(learnt.run.folder("start") / "checkpoint", "cpu", torch.float32, trainable=True)
    untrained = share_of_complete(other, data, plan.depths)
    training = replace(plan.training, steps=plan.final_steps)
    train_retriever(other, records, data.passage, tmp_path, training, config=plan.learning)
    at_once = share_of_complete(other, data, plan.depths)
    report = learnt.run.report("retriever")
    assert report is not None
    ordered = report["dev own"][-1]["all_found"]
    assert untrained <= 0.3, "words alone should not do"
    assert ordered >= max(0.85, at_once + 0.4)


def test_reports_of_hops_are_readable(learnt: HopOrderTraining, data: TrainingData) -> None:
    lines = {(line.qid, line.hop): line for line in inspected(learnt)}
    question = next(q.example for q in data.train if len(q.example.gold) == 2)
    first, second = lines[question.qid, 1], lines[question.qid, 2]
    assert first.text == second.text == question.text
    assert first.found[0].title == question.text.split()[0]
    assert first.found[0].rank is not None
    assert (first.facts[0].title, first.facts[0].hop) == (first.found[0].title, 1)
    assert second.found[0].title in first.facts[0].text
    assert first.remaining == (second.found[0].pid,)
    assert second.remaining == ()
    assert f'"title": "{first.found[0].title}"' in (learnt.run.folder("hop-1") / "inspected.jsonl").read_text()


def test_reports_of_stages_are_consistent(learnt: HopOrderTraining, data: TrainingData) -> None:
    reports = {stage: learnt.run.report(stage) or {} for stage in learnt.run.stages}
    assert reports["hop-1"]["claims"] == len(data.train)
    assert sum(reports[f"hop-{turn}"]["found"] for turn in range(1, 5)) == sum(len(q.example.gold) for q in data.train)
    assert [reach["depth"] for reach in reports["retriever"]["dev own"]] == [3, 3, 3, 3]
    assert all(report["seconds"] >= 0 for report in reports.values())


# How it runs


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> ToyData:
    return make_toy_data(tmp_path_factory.mktemp("small"), people=30, train=18, dev=6)


@pytest.fixture(scope="module")
def backbone(small: ToyData) -> Path:
    return small.backbone(small.folder / "backbone")


@pytest.fixture(scope="module")
def passed(small: ToyData, backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> HopOrderTraining:
    hop_order = start_run(passing_plan(backbone), 2, toy_collection(small.folder), tmp_path_factory.mktemp("passed"))
    hop_order.train()
    return hop_order


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file, with its time and content."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "plan.json")
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def test_stage_names_follow_the_plan() -> None:
    plan = RetrieverPlan("any")
    assert HopOrderTraining.stages(plan, 2) == ["start", "retriever-1", "hop-1", "retriever-2", "hop-2", "retriever"]
    assert HopOrderTraining.stages(replace(plan, per_hop=False), 2) == [
        "start",
        "retriever-1",
        "hop-1",
        "hop-2",
        "retriever",
    ]
    assert HopOrderTraining.stages(replace(plan, order="heuristic"), 2) == ["start", "hop-1", "hop-2", "retriever"]


def test_finished_stages_are_skipped(passed: HopOrderTraining) -> None:
    before = contents(passed.run.root)
    start_run(passed.plan, 2, passed.data, passed.run.root).train()
    assert contents(passed.run.root) == before


def test_starting_at_a_stage_redoes_it_and_later_ones(passed: HopOrderTraining) -> None:
    before, loss = contents(passed.run.root), (passed.run.report("retriever") or {})["loss"]
    again = start_run(passed.plan, 2, passed.data, passed.run.root, first="hop-1")
    assert [stage for stage in again.run.stages if again.run.report(stage)] == ["start", "retriever-1"]
    again.train()
    after = contents(passed.run.root)
    for name in before:
        stage = name.partition("/")[0]
        assert (after[name][0] == before[name][0]) == (stage in ("start", "retriever-1")), name
    assert (again.run.report("retriever") or {})["loss"] == loss


def test_the_folder_of_another_plan_is_refused(passed: HopOrderTraining) -> None:
    with pytest.raises(TrainingError, match="holds a run with other settings .first_depth differ.*name the stage"):
        start_run(replace(passed.plan, first_depth=5), 2, passed.data, passed.run.root)


def test_killed_runs_resume_to_the_same_result(small: ToyData, backbone: Path, tmp_path: Path) -> None:
    script = str(Path(hop_order_fakes.__file__))
    command = [sys.executable, script, str(small.folder), str(backbone), str(tmp_path), "3"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    at_work = run.stdout.split()
    assert len(at_work) == hop_order_fakes.KILLS
    assert sum(stage != "none" for stage in at_work) >= 3
    whole, killed = (
        {name: data for name, (_, data) in contents(tmp_path / each).items()} for each in ("whole", "killed")
    )
    assert json.loads(whole[f"retriever/{DONE}"])["loss"] == json.loads(killed[f"retriever/{DONE}"])["loss"]
    same = [name for name in whole if name.endswith(("model.safetensors", "steps.jsonl.gz", "inspected.jsonl"))]
    assert len(same) == 2 * 2 + 4
    assert all(whole[name] == killed[name] for name in same)


def test_one_retriever_can_rank_all_hops(small: ToyData, backbone: Path, tmp_path: Path) -> None:
    hop_order = start_run(passing_plan(backbone, per_hop=False), 3, toy_collection(small.folder), tmp_path)
    hop_order.train()
    assert not (tmp_path / "retriever-2").exists()
    assert (hop_order.run.report("retriever") or {})["records"] > 18


def test_partial_contexts_add_records_deterministically(small: ToyData, backbone: Path, tmp_path: Path) -> None:
    data = toy_collection(small.folder)
    without, first, again = (
        start_run(passing_plan(backbone, per_hop=False, partial=partial), 2, data, tmp_path / name)
        for name, partial in (("without", False), ("first", True), ("again", True))
    )
    for hop_order in (without, first, again):
        hop_order.train()
    reports = [hop_order.run.report("retriever") or {} for hop_order in (without, first, again)]
    steps = [step for turn in (1, 2) for step in first._steps(turn)]
    expected = sum(len(partly_found(step, data.passage, first.sentences)) for step in steps)
    assert [report["partial"] for report in reports] == [0, expected, expected]
    assert expected > 0
    assert reports[1]["records"] == reports[0]["records"] + expected
    assert reports[1]["loss"] == reports[2]["loss"]


def test_a_given_order_is_followed(small: ToyData, backbone: Path, tmp_path: Path) -> None:
    data = toy_collection(small.folder, "ordered")
    hop_order = start_run(passing_plan(backbone, order="oracle"), HOPS, data, tmp_path)
    hop_order.train()
    assert orders(inspected(hop_order)) == true_orders(small, data)
    assert all(step.supervised.negatives for step in steps(hop_order, 1))


def test_last_hop_takes_all_remaining_passages(small: ToyData, backbone: Path, tmp_path: Path) -> None:
    data = toy_collection(small.folder, "ordered")
    hop_order = start_run(passing_plan(backbone, order="oracle"), 2, data, tmp_path)
    hop_order.train()
    true = true_orders(small, data)
    for qid, (first, rest) in orders(inspected(hop_order)).items():
        assert first == true[qid][0]
        assert {(pid,) for pid in rest} == set(true[qid][1:])


def test_heuristic_order_mostly_finds_the_true_order(small: ToyData, backbone: Path, tmp_path: Path) -> None:
    data = toy_collection(small.folder)
    hop_order = start_run(passing_plan(backbone, order="heuristic"), HOPS, data, tmp_path)
    hop_order.train()
    found = agreement(orders(inspected(hop_order)), true_orders(small, data))
    assert found.claims == 18
    assert found.identical >= 0.6 * found.claims


def test_oracle_order_without_given_orders_is_refused(passed: HopOrderTraining, backbone: Path, tmp_path: Path) -> None:
    hop_order = start_run(passing_plan(backbone, order="oracle"), 2, passed.data, tmp_path)
    with pytest.raises(DatasetError, match="no question can be trained on with order = 'oracle'"):
        hop_order.train()


def test_hops_that_no_question_reaches_finish_at_once(passed: HopOrderTraining, backbone: Path, tmp_path: Path) -> None:
    short = [question for question in passed.data.train if len(question.example.gold) == 2]
    hop_order = start_run(passing_plan(backbone), HOPS, replace(passed.data, train=short), tmp_path)
    hop_order.train()
    reports = {stage: hop_order.run.report(stage) or {} for stage in hop_order.run.stages}
    assert (reports["retriever-4"]["records"], reports["hop-4"]["claims"]) == (0, 0)
    assert reports["retriever"]["records"] == 2 * len(short)


def test_questions_without_gold_passages_are_left_out(
    passed: HopOrderTraining, backbone: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bare = [replace(q, example=replace(q.example, gold=(), facts=())) for q in passed.data.train[:5]]
    data = replace(passed.data, train=[*bare, *passed.data.train[5:]], dev=[*bare, *passed.data.dev])
    hop_order = start_run(passing_plan(backbone), 2, data, tmp_path)
    hop_order.train()
    assert (hop_order.run.report("hop-1") or {})["claims"] == 13
    assert "5 of 18 questions" in caplog.text


def test_training_continues_from_a_trained_retriever(passed: HopOrderTraining, tmp_path: Path) -> None:
    source = passed.run.folder("retriever") / "checkpoint"
    encoder = replace(passed.plan.encoder, query_focus=5)
    hop_order = start_run(replace(passed.plan, backbone=str(source), encoder=encoder), 2, passed.data, tmp_path)
    hop_order.train()
    start, trained = (Encoder.load(path, "cpu") for path in (tmp_path / "start" / "checkpoint", source))
    assert start.fingerprint == trained.fingerprint
    assert start.focus == (5, 2)


def test_kept_negatives_are_spread_over_all_ranks(passed: HopOrderTraining, tmp_path: Path) -> None:
    plan = replace(passed.plan, negatives_kept=4, negative_depth=20)
    hop_order = start_run(plan, 2, passed.data, tmp_path)
    hop_order.train()
    ranked = hop_order.indexes.of("retriever-1")
    for step in steps(hop_order, 1):
        (ranking,) = ranked.rank([step.supervised.query], ["toy"], 20)
        others = [pid for pid in ranking.pids if pid not in step.state.example.gold]
        assert step.supervised.negatives == tuple(others[len(others) * place // 4] for place in range(4))


def data_with_given_orders(small: ToyData) -> TrainingData:
    """Every third question keeps the order that the file gives."""
    data = toy_collection(small.folder, "ordered")
    train = [replace(question, ordered=number % 3 == 0) for number, question in enumerate(data.train)]
    return replace(data, train=train)


@pytest.mark.parametrize("order", ["latent", "heuristic"])
def test_given_orders_are_kept_under_any_plan(order: str, small: ToyData, backbone: Path, tmp_path: Path) -> None:
    data = data_with_given_orders(small)
    hop_order = start_run(passing_plan(backbone, order=order), HOPS, data, tmp_path)
    hop_order.train()
    truth, found = true_orders(small, data), orders(inspected(hop_order))
    kept = [question.example.qid for question in data.train if question.ordered]
    assert [found[qid] for qid in kept] == [truth[qid] for qid in kept]
    if order == "latent":
        first = {each.qid: each for each in read_records(tmp_path / "retriever-1/records.jsonl.gz", Supervised)}
        assert [first[qid].positives for qid in kept] == [truth[qid][0] for qid in kept]
        weak = {each.qid: each.positives for each in hop_order._weak_targets(2)}
        assert [weak[qid] for qid in kept] == [truth[qid][1] for qid in kept]


def test_weights_reach_the_batches_of_the_retriever(small: ToyData, backbone: Path) -> None:
    """With tiny weights of all questions but one, nearly all records drawn are of that one."""
    data = toy_collection(small.folder)
    only = data.train[0].example.qid
    train = [replace(question, weight=1.0 if question.example.qid == only else 1e-9) for question in data.train]
    records = [
        Supervised(each.example.qid, 1, Query(each.example.text), each.example.gold[:1], ("toy/p1", "toy/p2"))
        for each in train
    ]
    encoder = Encoder.from_backbone(backbone, None, passing_plan(backbone).encoder, device="cpu")
    batches = RetrieverBatches(
        *(encoder.inputs, records, data.passage, RetrieverTraining()),
        batch_size=4,
        seed=0,
        weights=replace(data, train=train).weights,
    )
    drawn = [batches._order.row(place) for step in range(5) for place in batches._order.places(step)]
    assert [records[row].qid for row in drawn].count(only) >= 19


@pytest.mark.gpu
def test_training_uses_the_gpu(passed: HopOrderTraining, tmp_path: Path) -> None:
    training = replace(passed.plan.training, precision="auto")
    hop_order = start_run(replace(passed.plan, training=training), 2, passed.data, tmp_path, device=None)
    hop_order.train()
    assert torch.cuda.max_memory_allocated() > 0
    claims = [(each.run.report("hop-1") or {})["claims"] for each in (hop_order, passed)]
    assert claims == [18, 18]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"steps": ()}, r"steps = \[\], which should be numbers of at least 1"),
        ({"depths": (5, 0)}, r"depths = \[5, 0\], which should be numbers of at least 1"),
        ({"positive_depth": 0}, "positive_depth = 0, which should be at least 1"),
    ],
)
def test_invalid_plans_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        RetrieverPlan("any", **changes)
