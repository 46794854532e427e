"""Reading the plan of a run from TOML, and refusing bad ones."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from baleen.core.errors import ConfigError
from baleen.models.cross_encoder import THREE_LABELS
from baleen.training.data import CollectionPlan, Source
from baleen.training.loop.config import TrainConfig
from baleen.training.plan import CrossEncoderPlan, RetrieverPlan, RunPlan, read_plan
from baleen.training.run import stage_names
from run_fakes import without, write_plan

RUNS = Path(__file__).parents[2] / "runs"


def test_a_plan_is_read_with_all_settings(tmp_path: Path) -> None:
    plan = read_plan(write_plan(tmp_path))
    assert plan.root == tmp_path
    assert (plan.hops, plan.missing) == (2, "fail")
    sources = (Source("own", "train.jsonl"),), (Source("own", "dev.jsonl"),)
    assert plan.collections == (CollectionPlan("toy", ("corpus.jsonl",), *sources),)
    assert (plan.retriever.backbone, plan.retriever.depths) == ("backbone", (3, 4))
    assert (plan.retriever.encoder.dim, plan.retriever.training.batch_size) == (16, 4)
    assert plan.reading is not None
    assert (plan.reading.inputs.length, plan.reading.first.steps, plan.reading.training.save_every) == (96, 2, 2)
    assert plan.reading.learning.negatives == 1, "what is not set keeps its default"


def test_a_plan_can_train_a_retriever_alone(tmp_path: Path) -> None:
    plan = read_plan(write_plan(tmp_path, "alone", without("[reading]")))
    assert plan.reading is None
    assert stage_names(plan) == ["start", "retriever-1", "hop-1", "hop-2", "retriever", "model"]


def test_stages_of_shared_and_of_separate_backbones(tmp_path: Path) -> None:
    shared = read_plan(write_plan(tmp_path))
    apart = read_plan(write_plan(tmp_path, "apart", ("shared = true", "shared = false")))
    first = ["start", "retriever-1", "hop-1", "hop-2", "retriever", "rankings", "sentences", "scores"]
    assert stage_names(shared) == [*first, "reading", "model"]
    assert stage_names(apart) == [*first, "facts", "reranker", "verifier", "answerer", "model"]


def test_a_plan_goes_to_json_without_its_folder(tmp_path: Path) -> None:
    plan = read_plan(write_plan(tmp_path))
    saved = json.loads(json.dumps(plan.to_json()))
    assert "root" not in saved
    source = {"dataset": "own", "file": "train.jsonl", "weight": 1.0, "limit": None, "order": "plan"}
    assert saved["collections"][0]["train"] == [{**source, "searched": True}]
    assert saved["reading"]["first"]["steps"] == 2


def test_a_source_has_a_weight_a_limit_and_an_order(tmp_path: Path) -> None:
    source = '{ dataset = "own", file = "train.jsonl"'
    changed = read_plan(write_plan(tmp_path, "plan", (source, f'{source}, weight = 2, limit = 5, order = "given"')))
    assert changed.collections[0].train == (Source("own", "train.jsonl", 2, 5, "given"),)
    for wrong, message in {
        "weight = 0": "weight = 0, which should be above 0",
        "weight = inf": "weight = inf, which should be above 0",
        "limit = 0": "limit = 0, which should be at least 1",
        'order = "latent"': "should be one of 'plan', 'given'",
        "wieght = 1": "there is no setting 'wieght'; did you mean 'weight'?",
    }.items():
        with pytest.raises(ConfigError, match=re.escape(message)):
            read_plan(write_plan(tmp_path, "plan", (source, f"{source}, {wrong}")))


def test_a_backbone_is_a_folder_beside_the_plan_or_a_name(tmp_path: Path) -> None:
    plan = read_plan(write_plan(tmp_path))
    assert plan.resolve("backbone") == "backbone"
    (tmp_path / "backbone").mkdir()
    assert plan.resolve("backbone") == str(tmp_path / "backbone")
    assert plan.resolve("bert-base-uncased") == "bert-base-uncased"


def test_newer_defaults_are_left_out_of_the_saved_plan(tmp_path: Path) -> None:
    """So that a run older than these settings can be resumed."""
    bare = read_plan(write_plan(tmp_path, "bare")).to_json()
    assert "ready" not in bare["retriever"]
    assert "mention_boost" not in bare["reading"]
    named = read_plan(write_plan(tmp_path, "named", ("shared = true", "shared = true\nmention_boost = 2.0"))).to_json()
    assert named["reading"] == {**bare["reading"], "mention_boost": 2.0}
    assert "dropout" not in bare["retriever"]["training"]
    assert "dropout" not in bare["reading"]["first"]
    undropped = ("[retriever.training]", "[retriever.training]\ndropout = 0.0")
    saved = read_plan(write_plan(tmp_path, "undropped", undropped)).to_json()
    assert saved["retriever"]["training"] == {**bare["retriever"]["training"], "dropout": 0.0}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("hops = 2", "hpos = 2", "there is no setting 'hpos'; did you mean 'hops'?"),
        ("hops = 2", "hops = 0", "hops = 0, which should be at least 1"),
        ("hops = 2", 'hops = "two"', "hops = 'two' should be int"),
        ("hops = 2", 'root = "/"', "there is no setting 'root'; known are collections, hops, missing, reading, retriever"),
        ("hops = 2", 'missing = "ignore"', "missing = 'ignore' should be one of 'fail', 'drop'"),
        ("[retriever]", "[retreiver]", "there is no setting 'retreiver'; did you mean 'retriever'?"),
        (*without("[retriever]"), "the setting 'retriever' is missing, and has no default"),
        ('name = "toy"', 'nam = "toy"', "collections[0]: there is no setting 'nam'; did you mean 'name'?"),
        ('name = "toy"', 'name = "a/b"', "collections[0]: name = 'a/b', which should name a collection, without a '/'"),
        ('name = "toy"', "", "collections[0]: the setting 'name' is missing, and has no default"),
        ('["corpus.jsonl"]', '"corpus.jsonl"', "collections[0]: corpus = 'corpus.jsonl' should be a list of str"),
        ("train = [{ dataset", "train = [{ dateset", "collections[0]: train[0]: there is no setting 'dateset'; did you"),
        ("final_steps", "finalsteps", "retriever: there is no setting 'finalsteps'; did you mean 'final_steps'?"),
        ("steps = [2]", 'steps = ["2"]', "retriever: steps = ['2'] should be a list of int"),
        ("steps = [2]", "steps = 2", "retriever: steps = 2 should be a list of int"),
        ("steps = [2]", "steps = []", "retriever: steps = [], which should be numbers of at least 1"),
        ("steps = [2]", 'teacher = "any"', "retriever: the setting 'teacher' is gone; leave it out, or use baleen 0.1.0"),
        ("steps = [2]", 'positives = "answer"', "retriever: the setting 'positives' is gone; leave it out, or use baleen 0.1.0"),
        ("steps = [2]", "learning = { distillation = 0.5 }", "retriever: learning: the setting 'distillation' is gone; leave it"),
        ("steps = [2]", "learning = { distillation_temperature = 2.0 }", "retriever: learning: the setting 'distillation_temperature'"),
        ("steps = [2]", "learning = { rounding = 2 }", "retriever: learning: the setting 'rounding' is gone; leave it out, or use"),
        ("query_focus", "query_fokus", "retriever: encoder: there is no setting 'query_fokus'; did you mean 'query_focus'?"),
        ("save_every", "save_evry", "reading: training: there is no setting 'save_evry'; did you mean 'save_every'?"),
        ("shared = true", 'shared = "yes"', "reading: shared = 'yes' should be bool"),
        ("shared = true", "labels = 4", "reading: labels = 4, which should be 2 or 3"),
        ("shared = true", "incomplete = 2.0", "reading: incomplete = 2.0, which should be a share, from 0 to 1"),
        ("shared = true", "mention_boost = -1.0", "reading: mention_boost = -1.0, which should be a number, 0 or above"),
        ("shared = true", "named_bonus = 1.0", "reading: the setting 'named_bonus' is now 'mention_boost'"),
        ("shared = true", "weights = { fakts = 2 }", "reading: weights: there is no head 'fakts'; known are sentences"),
        ("shared = true", "weights = { facts = 0 }", "reading: weights: facts = 0, which should be at least 1"),
        ("shared = true", "facts = { steps = 3 }", "reading: facts has its own training settings, which need shared = false"),
        ("length = 96", "length = 50", "reading: length = 50 leaves too little beside query_length = 48"),
        ("negatives = [3]", "negatives = []", "reading: depth = 4 and negatives = [], which should be numbers"),
    ],
)  # fmt: skip
def test_a_bad_setting_is_refused_with_its_path(tmp_path: Path, old: str, new: str, said: str) -> None:
    file = write_plan(tmp_path, "plan", (old, new))
    with pytest.raises(ConfigError) as refusal:
        read_plan(file)
    assert str(refusal.value).startswith(f"{file}: {said}")


def test_a_plan_needs_a_collection(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text('collections = []\n[retriever]\nbackbone = "any"\n')
    with pytest.raises(ConfigError, match=r"plan\.toml: a plan needs at least one of \[\[collections\]\]"):
        read_plan(file)


def test_a_plan_can_extend_another(tmp_path: Path) -> None:
    base = read_plan(write_plan(tmp_path))
    (tmp_path / "seed.toml").write_text('like = "plan.toml"\nhops = 3\n[reading.training]\nseed = 7\n')
    (tmp_path / "rate.toml").write_text(
        'like = "seed.toml"\n[reading.training]\nlr = 0.5\n[reading.weights]\nfacts = 2\n'
    )
    seed, rate = (read_plan(tmp_path / f"{name}.toml") for name in ("seed", "rate"))
    assert base.reading is not None
    training = replace(base.reading.training, seed=7)
    assert seed == replace(base, hops=3, reading=replace(base.reading, training=training))
    reading = replace(base.reading, training=replace(training, lr=0.5), weights={"facts": 2})
    assert rate == replace(base, hops=3, reading=reading)


def test_lists_of_an_extending_plan_replace_those_of_its_base(tmp_path: Path) -> None:
    base = read_plan(write_plan(tmp_path))
    (tmp_path / "other.toml").write_text(
        'like = "plan.toml"\n[[collections]]\nname = "other"\ncorpus = ["other.jsonl"]\n[retriever]\ndepths = [9]\n'
    )
    other = read_plan(tmp_path / "other.toml")
    assert [(each.name, each.train) for each in other.collections] == [("other", ())]
    assert other.retriever == replace(base.retriever, depths=(9,))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('like = "self.toml"', "self.toml: like = 'self.toml', which extends this plan itself"),
        ('like = "round.toml"', "round.toml: like = 'self.toml', which extends this plan itself"),
        ('like = "else/plan.toml"', "which should name a file in the same folder"),
        ("like = 3", "like = 3, which should name a file in the same folder"),
        ('like = ""', "like = '', which should name a file in the same folder"),
        ('like = ".."', "like = '..', which should name a file in the same folder"),
        ('like = "none.toml"', "none.toml: no such file"),
        ('like = "plan.toml"\nhpos = 3', "self.toml: there is no setting 'hpos'; did you mean 'hops'?"),
    ],
)
def test_a_bad_base_plan_is_refused(tmp_path: Path, text: str, said: str) -> None:
    write_plan(tmp_path)
    (tmp_path / "round.toml").write_text('like = "self.toml"\n')
    (tmp_path / "self.toml").write_text(text)
    with pytest.raises(ConfigError, match=re.escape(said)):
        read_plan(tmp_path / "self.toml")


def test_three_labels_make_a_head_of_three(tmp_path: Path) -> None:
    plan = read_plan(write_plan(tmp_path, "three", ("shared = true", "labels = 3")))
    assert plan.reading is not None
    assert plan.reading.heads["verifier"].outputs == THREE_LABELS


def test_separate_heads_may_have_their_own_training_settings() -> None:
    own, common = TrainConfig(steps=7), TrainConfig(steps=5)
    plan = CrossEncoderPlan("any", shared=False, training=common, verifier=own, negatives=(10, 30))
    assert [plan.training_of(head) for head in ("facts", "verifier")] == [common, own]
    assert [plan.negatives_at(hop) for hop in (1, 2, 3)] == [10, 30, 30]


@pytest.mark.parametrize("file", sorted(RUNS.glob("*.toml")), ids=lambda file: file.stem)
def test_the_shipped_plans_can_be_read(file: Path) -> None:
    plan = read_plan(file)
    assert isinstance(plan, RunPlan)
    assert isinstance(plan.retriever, RetrieverPlan)
    assert stage_names(plan)[-1] == "model"


@pytest.mark.parametrize(
    ("name", "hops", "steps", "depths", "condenser"),
    [
        ("hover", 4, ((10_000, 5_000, 5_000, 5_000), 10_000), (25, 25, 25, 25), 5_000),
        ("hotpotqa", 2, ((20_000, 20_000), 40_000), (10, 40), 10_000),
    ],
)
def test_the_plans_of_the_paper_have_its_figures(
    name: str, hops: int, steps: tuple[Any, int], depths: tuple[int, ...], condenser: int
) -> None:
    plan = read_plan(RUNS / f"{name}.toml")
    retriever, reading = plan.retriever, plan.reading
    assert reading is not None
    assert plan.hops == hops
    assert (retriever.steps, retriever.final_steps, retriever.depths) == (*steps, depths)
    assert (retriever.training.lr, retriever.training.batch_size, retriever.negative_depth) == (3e-6, 48, 1000)
    assert (retriever.first_depth, retriever.positive_depth) == (20, 10)
    assert (retriever.encoder.query_focus, retriever.encoder.facts_focus) == (32, 8)
    assert not reading.shared
    for training in (reading.first, reading.training_of("facts")):
        assert (training.steps, training.batch_size, training.lr, training.warmup_steps) == (condenser, 64, 1e-5, 1000)
    assert reading.training_of("reranker").steps == 2 * condenser
    reader = reading.training_of("verifier" if name == "hover" else "answerer")
    assert (reader.steps, reader.batch_size) == (20_000, 16)
    assert [reading.negatives_at(hop) for hop in (1, 2)] == ([20, 20] if name == "hover" else [10, 30])
