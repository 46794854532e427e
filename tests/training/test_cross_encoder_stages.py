"""The cross-encoder stages on made-up data: their records, and that both condenser stages learn to find facts."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from baleen.core.machine import StageTimer
from baleen.core.types import Fact, Query
from baleen.hops.condenser import FACT_STAGE, score_sentences, top_facts
from baleen.models.cross_encoder import CrossEncoder
from baleen.training.cross_encoder.condenser_examples import (
    FactExample,
    draw_fixed,
    fact_sources,
    gold_facts,
    gold_sids,
)
from baleen.training.cross_encoder.inference import AT_ONCE, KEPT, found_sentences, infer_sentence_scores, with_hops
from baleen.training.cross_encoder.likely_sentences import sentence_agreement
from baleen.training.cross_encoder.stages import CrossEncoderTraining
from baleen.training.cross_encoder.task import HeadTraining
from baleen.training.hop_order.algorithm import HopOrderTraining
from baleen.training.hop_order.supervision import Step
from baleen.training.loop.config import TrainConfig
from baleen.training.plan import CrossEncoderPlan
from baleen.training.stages import RunFolder
from hop_order_fakes import learning_plan, toy_collection
from toy_data import ToyData, make_toy_data

pytestmark = pytest.mark.usefixtures("one_thread")

HOPS = 2


def two_hops(folder: Path) -> ToyData:
    """Claims and questions of two hops, without labels and answers, so that only condenser and reranker can be trained.

    No chain of facts is in both train and dev.
    """
    toy = make_toy_data(folder, people=600, train=1500, dev=60, hops=(HOPS,))
    train, dev = (
        [json.loads(line) for line in (toy.folder / name).read_text().splitlines()]
        for name in ("train.jsonl", "dev.jsonl")
    )
    held_out = set(map(chain_of, dev))
    train = [line for line in train if chain_of(line) not in held_out]
    for name, lines in (("train.jsonl", train), ("dev.jsonl", dev)):
        kept = ({key: line[key] for key in ("id", "text", "gold", "facts")} for line in lines)
        (toy.folder / name).write_text("".join(json.dumps(line) + "\n" for line in kept))
    return toy


def chain_of(question: dict[str, Any]) -> frozenset[tuple[str, int]]:
    """Gold facts, which a question and several claims may share."""
    return frozenset((pid, sid) for pid, sid in question["facts"])


def training(steps: int) -> TrainConfig:
    return TrainConfig(steps=steps, batch_size=24, lr=2e-3, warmup=20, weight_decay=0.0, precision="float32")


def train_stage_one(toy: ToyData) -> CrossEncoderTraining:
    """Train stage 1 on the rankings of an untrained retriever, without the reranker to save time."""
    plan = CrossEncoderPlan(
        str(toy.matching_backbone(toy.folder / "matching", layers=3)),
        length=96,
        query_length=48,
        depth=6,
        negatives=(5, 4),
        first=training(300),
        training=training(1000),
        learning=HeadTraining(most_padding=0.5),
    )
    retriever = learning_plan(toy.backbone(toy.folder / "backbone"), depths=(3, 3))
    run = RunFolder(toy.folder / "run", [*HopOrderTraining.stages(retriever, HOPS), *plan.stages])
    hop_order = HopOrderTraining(retriever, HOPS, toy_collection(toy.folder), run, "cpu")
    run.run_stage("start", hop_order._start)
    shutil.copytree(run.folder("start"), run.folder("retriever"))
    cross_encoder = CrossEncoderTraining(plan, hop_order)
    run.run_stage("rankings", cross_encoder._rankings)
    run.run_stage("sentences", cross_encoder._train, ["sentences"], plan.backbone, plan.first)
    return cross_encoder


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> CrossEncoderTraining:
    return train_stage_one(two_hops(tmp_path_factory.mktemp("toy")))


def dev(cross_encoder: CrossEncoderTraining, stage: str) -> dict[str, float]:
    measured: dict[str, float] = (cross_encoder.run.report(stage) or {})["dev"]
    return measured


# Learning


def test_stage_one_finds_the_gold_sentence(trained: CrossEncoderTraining) -> None:
    """Among all sentences of a gold passage and of the first five others."""
    print(dev(trained, "sentences"))
    assert dev(trained, "sentences")["sentences_best"] >= 0.95


@pytest.mark.slow
def test_stage_two_keeps_gold_facts_and_few_others(trained: CrossEncoderTraining) -> None:
    """Pools have seven to nine facts, the others being the best of stage 1.

    Only the fact of the first hop, in the same pool, identifies that of the second; learning that takes a thousand steps.
    """
    trained.run.run_stage("scores", trained._scores)
    origin = trained.run.folder("sentences") / "checkpoint"
    trained.run.run_stage("reading", trained._train, ["facts"], origin, trained.plan.training)
    print(dev(trained, "reading"))
    assert dev(trained, "reading")["facts_metric"] >= 0.9
    assert dev(trained, "reading")["facts_exact"] >= 0.75
    cross_encoder = CrossEncoder.load(trained.run.folder("reading") / "checkpoint", "cpu")
    pools = trained.examples.facts("dev", cross_encoder).records
    first = sum(gold_come_first(cross_encoder, pool) for pool in pools) / len(pools)
    print(f"the gold facts come first in {first:.3f} of the pools")
    assert first >= 0.95


def gold_come_first(cross_encoder: CrossEncoder, pool: FactExample) -> bool:
    """Whether the gold facts of a pool have the highest scores."""
    (row,) = cross_encoder.inputs.facts(pool.claim, pool.facts)
    (scores,) = cross_encoder.score(FACT_STAGE, [row])
    ranked = sorted(row.keys, key=lambda place: -float(scores[row.keys.index(place), 0]))
    return all(pool.labels[place] for place in ranked[: sum(pool.labels)])


def unlabelled(step: Step) -> Step:
    """A step whose dataset annotates passages alone."""
    return replace(step, state=replace(step.state, example=replace(step.state.example, facts=())))


def share_right(trained: CrossEncoderTraining, scored: Any, true: Sequence[Step]) -> float:
    passage, right = trained.data.passage, []
    for step in true:
        hop, example = step.supervised, step.state.example
        for pid in hop.positives:
            guess = gold_sids(replace(example, facts=()), Query(example.text), passage(pid), scored)
            right.append(guess == gold_sids(example, hop.query, passage(pid)))
    return sum(right) / len(right)


def test_sentences_are_inferred_where_only_passages_are_labelled(trained: CrossEncoderTraining) -> None:
    """With the facts inferred for earlier hops; with the claim alone, later hops are guesswork."""
    cross_encoder = CrossEncoder.load(trained.run.folder("sentences") / "checkpoint", "cpu")
    true, passage = trained.examples.steps("dev"), trained.data.passage
    share = share_right(
        trained, infer_sentence_scores(cross_encoder, [unlabelled(step) for step in true], passage), true
    )

    def by_claim_alone(query: Query, passage: Any) -> list[float]:
        (found,) = score_sentences(cross_encoder, [Query(query.text)], [[passage]], 1, StageTimer(1))
        return [fact.score for fact in found]

    alone = share_right(trained, by_claim_alone, true)
    print(f"inferred rightly: {share:.3f} hop by hop, {alone:.3f} beside the claim alone")
    assert share >= 0.9, f"{share:.3f} hop by hop, {alone:.3f} beside the claim alone"
    assert share >= alone + 0.1, f"{share:.3f} hop by hop, {alone:.3f} beside the claim alone"
    compared = sentence_agreement(cross_encoder, true, passage)
    assert compared.passages == sum(len(step.supervised.positives) for step in true)
    assert compared.inferred == round(share * compared.passages), "the figure that a run's summary has"
    assert compared.first < 0.5 * compared.passages, "the first sentence is gold by chance alone"


# Records


def test_hops_do_not_retrieve_a_passage_twice(trained: CrossEncoderTraining) -> None:
    by_qid: dict[str, list[Step]] = {}
    for step in trained.examples.steps("dev"):
        by_qid.setdefault(step.supervised.qid, []).append(step)
    assert max(map(len, by_qid.values())) == HOPS
    for own in by_qid.values():
        seen = [pid for step in own for pid in (*step.supervised.positives, *step.supervised.negatives)]
        assert len(set(seen)) == len(seen)


def test_all_gold_passages_are_positives(trained: CrossEncoderTraining) -> None:
    found: dict[str, set[str]] = {}
    for step in trained.examples.steps("dev"):
        found.setdefault(step.supervised.qid, set()).update(step.supervised.positives)
    assert found == {question.example.qid: set(question.example.gold) for question in trained.data.dev}


def test_negatives_are_within_the_depth_of_each_hop(trained: CrossEncoderTraining) -> None:
    cross_encoder = CrossEncoder.load(trained.run.folder("sentences") / "checkpoint", "cpu")
    made = trained.examples.sentences("dev", cross_encoder)
    most = {hop: max(len(record.negatives) for record in made.records if record.hop == hop) for hop in (1, 2)}
    assert most == {1: 5, 2: 4}


def test_sentences_are_scored_together_as_alone(trained: CrossEncoderTraining) -> None:
    cross_encoder = CrossEncoder.load(trained.run.folder("sentences") / "checkpoint", "cpu")
    steps = trained.examples.steps("dev")
    assert len(steps) > AT_ONCE, "in more than one part"
    together = found_sentences(cross_encoder, steps, trained.data.passage)
    for qid in {steps[0].supervised.qid, steps[AT_ONCE].supervised.qid, steps[-1].supervised.qid}:
        own = found_sentences(
            cross_encoder, [step for step in steps if step.supervised.qid == qid], trained.data.passage
        )[qid]
        assert {(fact.pid, fact.sid) for fact in own} == {(fact.pid, fact.sid) for fact in together[qid]}
        scores = {(fact.pid, fact.sid): fact.score for fact in own}
        assert all(abs(scores[fact.pid, fact.sid] - fact.score) < 1e-4 for fact in together[qid])
    assert found_sentences(cross_encoder, [], trained.data.passage) == {}


def test_found_sentences_are_the_best_of_each_hop(trained: CrossEncoderTraining) -> None:
    """The expected facts are scored and sorted one by one."""
    cross_encoder = CrossEncoder.load(trained.run.folder("sentences") / "checkpoint", "cpu")
    steps, passage = trained.examples.steps("dev")[:AT_ONCE], trained.data.passage
    hops = [step.supervised for step in steps]
    passages = [[passage(pid) for pid in (*hop.positives, *hop.negatives)] for hop in hops]
    scored = score_sentences(cross_encoder, [hop.query for hop in hops], passages, 1, StageTimer(len(hops)))
    expected: dict[str, list[Fact]] = {}
    for hop, facts in zip(hops, scored, strict=True):
        expected.setdefault(hop.qid, []).extend(replace(fact, hop=hop.hop) for fact in top_facts(facts, KEPT))
    found = found_sentences(cross_encoder, steps, passage)
    assert found == expected
    assert max(Counter((qid, fact.hop) for qid, facts in found.items() for fact in facts).values()) == KEPT


def test_there_is_a_hop_after_the_last_gold_passage(trained: CrossEncoderTraining) -> None:
    """It teaches the condenser to reject facts, as the pipeline has such hops."""
    steps = trained.examples.steps("train")
    assert Counter(step.supervised.hop for step in steps) == dict.fromkeys((1, 2), len(trained.data.train))
    idle = [step.supervised for step in steps if not step.supervised.positives]
    assert idle
    assert all(hop.hop == 2 and hop.negatives and hop.query.facts for hop in idle)


def test_mentioned_passages_rank_first_with_a_mention_boost(trained: CrossEncoderTraining) -> None:
    """In this data the fact of the first hop mentions the title of the second passage."""
    followed = CrossEncoderTraining(replace(trained.plan, mention_boost=1e3), trained.hop_order)
    questions = trained.data.dev[:20]
    ranks = {}
    for name, cross_encoder in (("plain", trained), ("followed", followed)):
        steps = [step for step in cross_encoder._take_hops(questions) if step.supervised.hop == HOPS]
        ranks[name] = [chosen.rank for step in steps for chosen in step.chosen]
    assert len(ranks["followed"]) == len(ranks["plain"]) > 0
    assert all(rank is not None and rank <= 4 for rank in ranks["followed"]), "a passage names four others at most"
    assert any(rank is None or rank > 4 for rank in ranks["plain"])


def test_a_pool_has_the_facts_of_all_earlier_hops(trained: CrossEncoderTraining) -> None:
    """Without them nothing would identify it."""
    cross_encoder = CrossEncoder.load(trained.run.folder("sentences") / "checkpoint", "cpu")
    some = trained.examples.steps("dev")[:40]
    examples = list({step.supervised.qid: step.state.example for step in some}.values())
    found = found_sentences(cross_encoder, some, trained.data.passage)
    gold = with_hops(gold_facts(trained.data.passage), trained.examples.steps("dev"))
    made = draw_fixed(fact_sources(examples, gold, lambda example: found[example.qid]), copies=4)
    sizes = set()
    for record in made.records:
        hops = {fact.hop for fact, label in zip(record.facts, record.labels, strict=True) if label}
        if not hops:
            continue
        assert hops == set(range(min(hops), max(hops) + 1))
        everything = {fact.hop for fact in gold(next(e for e in examples if e.qid == record.qid))}
        assert min(hops) == min(everything)
        sizes.add(len(hops))
    assert sizes == {1, 2}
