"""A teacher reads what a retriever is to tell apart, and the final retriever of a run learns from its scores."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from baleen.cli.training import told
from baleen.crossencoder import HEADS, CrossEncoder
from baleen.crossinputs import CrossConfig
from baleen.errors import CheckpointError, ConfigError
from baleen.model_folder import write_model
from baleen.training.losses import distillation_loss
from baleen.training.retriever_batches import RetrieverBatches
from baleen.training.retriever_plan import RetrieverPlan
from baleen.training.retriever_task import RetrieverTask, RetrieverTraining
from baleen.training.rounds import Rounds
from baleen.training.run_folder import read_records
from baleen.training.supervision import Step, Supervised
from baleen.training.teaching import Taught, load_teacher, scores_of, teach
from baleen.types import Query
from hop_fakes import facts_of
from rounds_fakes import passing_plan, taken_up, toy_collection
from toy_world import ToyWorld, make_world

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> ToyWorld:
    return make_world(tmp_path_factory.mktemp("toy"), people=30, train=18, dev=6)


@pytest.fixture(scope="module")
def backbone(toy: ToyWorld) -> Path:
    return toy.backbone(toy.folder / "backbone")


@pytest.fixture(scope="module")
def teacher(toy: ToyWorld, backbone: Path) -> Path:
    """A model whose only component is a reranker that was never trained: its scores are as good as any."""
    root = toy.folder / "teacher"
    reading = CrossEncoder.from_backbone(
        backbone, {"reranker": HEADS["reranker"]}, CrossConfig(length=96, query_length=48), device="cpu"
    )
    reading.save(root / "reading")
    write_model(root, {"reranker": "reading"})
    return root


def taught_plan(backbone: Path, teacher: Path, weight: float = 4.0, **changes: Any) -> RetrieverPlan:
    plan = passing_plan(backbone, **changes)
    return replace(plan, teacher=str(teacher), learning=replace(plan.learning, distillation=weight))


@pytest.fixture(scope="module")
def rounds(toy: ToyWorld, backbone: Path, teacher: Path, tmp_path_factory: pytest.TempPathFactory) -> Rounds:
    plan = taught_plan(backbone, teacher, partial=True)
    run = taken_up(plan, 2, toy_collection(toy.folder), tmp_path_factory.mktemp("taught"))
    run.train()
    return run


def found(rounds: Rounds) -> list[Supervised]:
    steps = [
        step for turn in (1, 2) for step in read_records(rounds.run.folder(f"hop-{turn}") / "steps.jsonl.gz", Step)
    ]
    return [step.supervised for step in steps]


def test_every_passage_of_a_record_is_scored_as_the_reranker_scores_it_alone(rounds: Rounds, teacher: Path) -> None:
    reranker, passage = load_teacher(str(teacher), "cpu"), rounds.world.passage
    records = found(rounds)[:5]
    for record, taught in zip(records, teach(reranker, records, passage), strict=True):
        assert taught.query == record.query
        assert set(taught.scores) == {*record.positives, *record.negatives}
        for pid, score in taught.scores.items():
            ((alone,),) = reranker.rank([record.query], [[passage(pid)]])
            assert score == pytest.approx(alone.score, abs=1e-5)


def test_nothing_to_teach_is_no_error(teacher: Path, rounds: Rounds) -> None:
    assert list(teach(load_teacher(str(teacher), "cpu"), [], rounds.world.passage)) == []


def test_a_teacher_without_a_reranker_is_refused(rounds: Rounds, toy: ToyWorld, backbone: Path) -> None:
    reading = CrossEncoder.from_backbone(backbone, {"facts": HEADS["facts"]}, CrossConfig(length=96, query_length=48))
    reading.save(toy.folder / "facts")
    with pytest.raises(CheckpointError, match="no head 'reranker'"):
        load_teacher(str(toy.folder / "facts"), "cpu")
    with pytest.raises(CheckpointError):
        load_teacher(str(rounds.run.folder("retriever") / "checkpoint"), "cpu")


def test_a_teacher_that_is_none_is_told_before_anything_is_trained(
    toy: ToyWorld, backbone: Path, tmp_path: Path
) -> None:
    run = taken_up(taught_plan(backbone, tmp_path / "nowhere"), 2, toy_collection(toy.folder), tmp_path / "run")
    with pytest.raises(CheckpointError, match="nowhere"):
        run.train()
    assert not run.run.folder("retriever-1").exists()


def test_scores_go_by_the_query_with_its_facts_not_by_the_hop() -> None:
    """Queries that know a part of what a hop found are of the same question and hop, and are not the same query."""
    bare, knowing = Query("q"), Query("q", facts_of(("p0", 1)))
    assert scores_of([Taught(bare, {"a": 1.0}), Taught(knowing, {"a": 2.0})]) == {
        Query("q"): {"a": 1.0},
        Query("q", facts_of(("p0", 1))): {"a": 2.0},
    }


def test_records_of_one_query_are_taught_together() -> None:
    taught = [Taught(Query("q"), {"a": 1.0, "b": 2.0}), Taught(Query("q"), {"b": 2.0, "c": 3.0})]
    assert scores_of(taught) == {Query("q"): {"a": 1.0, "b": 2.0, "c": 3.0}}


def test_a_run_has_its_teacher_read_all_that_the_final_retriever_learns_from(rounds: Rounds) -> None:
    taught = scores_of(read_records(rounds.run.folder("retriever") / "taught.jsonl.gz", Taught))
    for record in found(rounds):
        if record.positives and record.negatives:
            assert set(taught[record.query]) == {*record.positives, *record.negatives}
    report = rounds.run.report("retriever") or {}
    assert len(taught) <= report["records"]
    assert report["partial"] > 0
    assert report["mining_seconds"]["teach"] > 0
    assert "read by the teacher in" in told(report)[-1], "what the table at the end of a run says"


def logged(rounds: Rounds, stage: str) -> list[dict[str, Any]]:
    file = rounds.run.folder(stage) / "training" / "log.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_only_the_final_retriever_is_taught(rounds: Rounds) -> None:
    assert all("distillation" not in line for line in logged(rounds, "retriever-1"))
    assert all(line["distillation"] > 0 for line in logged(rounds, "retriever"))


def test_a_run_that_goes_on_does_not_ask_its_teacher_again(rounds: Rounds) -> None:
    file = rounds.run.folder("retriever") / "taught.jsonl.gz"
    before = file.stat().st_mtime_ns
    (rounds.run.folder("retriever") / "done.json").unlink()
    taken_up(rounds.plan, 2, rounds.world, rounds.run.root).train()
    assert file.stat().st_mtime_ns == before


def test_who_is_taught_comes_nearer_to_the_teacher(
    toy: ToyWorld, backbone: Path, teacher: Path, tmp_path: Path
) -> None:
    world = toy_collection(toy.folder)
    apart = {}
    for name, plan in (
        ("alone", passing_plan(backbone, final_steps=30)),
        ("taught", taught_plan(backbone, teacher, weight=20.0, final_steps=30)),
    ):
        run = taken_up(plan, 2, world, tmp_path / name)
        run.train()
        apart[name] = divergence(run, teacher)
    assert apart["taught"] < 0.8 * apart["alone"]


def divergence(rounds: Rounds, teacher: Path) -> float:
    """From the teacher, of the final retriever over one batch of what it learnt from."""
    encoder = rounds._load("retriever", trainable=True)
    records = [record for record in found(rounds) if record.positives and record.negatives]
    scores = scores_of(teach(load_teacher(str(teacher), "cpu"), records, rounds.world.passage))
    learning = RetrieverTraining(negatives=3, distillation=1.0)
    batches = RetrieverBatches(
        encoder.inputs, records, rounds.world.passage, learning, batch_size=len(records), seed=0, teacher=scores
    )
    batch = batches.batch(0)
    with torch.no_grad():
        return float(distillation_loss(RetrieverTask(encoder, learning).scores(batch), batch.teacher))


@pytest.mark.parametrize("changes", [{"teacher": "some"}, {"learning": RetrieverTraining(distillation=0.5)}])
def test_a_teacher_and_its_weight_are_set_together(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="are set together or not at all"):
        RetrieverPlan("any", **changes)
