"""Training of cross-encoder heads: their batches and losses, and that every head learns."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from baleen.core.errors import CheckpointError, ConfigError, TrainingError
from baleen.core.types import Fact, Passage, Query
from baleen.data.example import Example
from baleen.models.cross_encoder import ANSWER_OUTPUTS, HEADS, CrossEncoder
from baleen.models.markup import fact_text
from baleen.models.pairs import CrossConfig, CrossInput
from baleen.training.cross_encoder.condenser_examples import (
    FactExample,
    FactSource,
    RerankExample,
    SentenceExample,
    draw_fixed,
)
from baleen.training.cross_encoder.heads import AnswerTask, FactTask, RerankTask, SentenceTask, VerdictTask, token_spans
from baleen.training.cross_encoder.metrics import (
    answer_metrics,
    fact_metrics,
    merge_metrics,
    rerank_metrics,
    sentence_metrics,
    verdict_metrics,
)
from baleen.training.cross_encoder.reader_examples import EvidencePools, VerdictExample, answer_sources, verdict_sources
from baleen.training.cross_encoder.task import (
    CrossEncoderTask,
    HeadBatch,
    HeadTraining,
    SharedTask,
    train_heads,
    turns,
)
from baleen.training.loop.config import TrainConfig
from baleen.training.loop.logs import read_log
from baleen.training.loop.sampling import Part
from baleen.training.packing import CrossEncoderGroups, CrossEncoderPack, can_pack_cross_encoder
from fakes import CORPUS, bert_folder, electra_folder, roberta_folder

pytestmark = pytest.mark.usefixtures("one_thread")

BY_PID = {passage.pid: passage for passage in CORPUS}
passages = BY_PID.__getitem__
AnyTask = CrossEncoderTask[Any, Any]


def sentence(pid: str, sid: int) -> Fact:
    return Fact(pid, sid, BY_PID[pid].title, BY_PID[pid].sentences[sid])


def others(pid: str) -> tuple[str, ...]:
    return tuple(other for other in BY_PID if other != pid)


LAST = {passage.pid: len(passage.spans) - 1 for passage in CORPUS}
FIRSTS, LASTS = [sentence(pid, 0) for pid in BY_PID], [sentence(pid, sid) for pid, sid in LAST.items()]

# Every title asks for the last sentence of its passage, knowing a sentence of the passage before.
SENTENCES = [
    SentenceExample(p.pid, 2, Query(p.title, (FIRSTS[n - 1],)), p.pid, (LAST[p.pid],), others(p.pid))
    for n, p in enumerate(CORPUS)
]
RERANKS = [RerankExample(r.qid, r.hop, r.query, r.positive, r.negatives) for r in SENTENCES]
# Both sentences of a passage are facts, among those of the passages after it.
FACTS = [
    FactExample(
        p.pid,
        p.title,
        tuple(fact for i in (0, 1, 2) for fact in (LASTS[(n + i) % 8], FIRSTS[(n + i) % 8])),
        (True, True, False, False, False, False),
    )
    for n, p in enumerate(CORPUS)
]
VERDICTS = [
    VerdictExample(p.pid, Query(p.title, (FIRSTS[n], LASTS[n - 3])), HEADS["verifier"].outputs[n % 2])
    for n, p in enumerate(CORPUS)
]
REPLIES = {
    "p0": "University of Vardal",
    "p1": "no",
    "p2": "Ivo Brandt",
    "p3": "The Deep Choir",
    "p4": "yes",
    "p6": "winter",
}
ANSWERS = draw_fixed(
    answer_sources(
        [Example(pid, BY_PID[pid].title, answer=answer) for pid, answer in REPLIES.items()],
        EvidencePools(lambda example: [FIRSTS[5], sentence(example.qid, 1)]),
    )
).records


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bert_folder(tmp_path_factory.mktemp("reading") / "backbone")


@pytest.fixture(scope="module")
def pupil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backbone that learns quickly."""
    quick = {"num_hidden_layers": 1, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return bert_folder(tmp_path_factory.mktemp("reading") / "pupil", **quick)


def reader(backbone: Path, **settings: Any) -> CrossEncoder:
    return CrossEncoder.from_backbone(backbone, config=CrossConfig(**settings), device="cpu", dtype=torch.float32)


@pytest.fixture(scope="module")
def cross_encoder(backbone: Path) -> CrossEncoder:
    return reader(backbone)


@pytest.fixture(scope="module")
def narrow(backbone: Path) -> CrossEncoder:
    """A cross-encoder that reads most passages and pools of facts in windows."""
    return reader(backbone, length=44, query_length=20)


def tasks(cross_encoder: CrossEncoder, **changes: Any) -> dict[str, AnyTask]:
    config = HeadTraining(**changes)
    return {
        "sentences": SentenceTask(cross_encoder, SENTENCES, passages, config),
        "facts": FactTask(cross_encoder, FACTS, config),
        "reranker": RerankTask(cross_encoder, RERANKS, passages, config),
        "verifier": VerdictTask(cross_encoder, VERDICTS, config),
        "answerer": AnswerTask(cross_encoder, ANSWERS, config),
    }


HEAD_NAMES = list(HEADS)


def places_of(batch: HeadBatch) -> list[tuple[list[int], int]]:
    """The sequence and place of every score, in the order of the scores."""
    if isinstance(batch.texts, CrossEncoderPack):
        return packed_places(batch.texts)
    found = [
        (group.ids[row][group.attention[row]].tolist(), int(place))
        for group in batch.texts.batches
        for row, place in zip(group.rows, group.places, strict=True)
    ]
    return [found[place] for place in batch.texts.order]


def packed_places(packed: CrossEncoderPack) -> list[tuple[list[int], int]]:
    ids, edges, found = packed.ids.flatten(), packed.texts.edges.tolist(), []
    for place in packed.places.tolist():
        start, end = next((start, end) for start, end in pairwise(edges) if start <= place < end)
        found.append((ids[start:end].tolist(), place - start))
    return found


def width(batch: HeadBatch) -> int:
    """The number of sequences."""
    assert isinstance(batch.texts, CrossEncoderGroups)
    return sum(len(group.ids) for group in batch.texts.batches)


def same(one: HeadBatch, other: HeadBatch) -> bool:
    return (
        places_of(one) == places_of(other)
        and one.targets.keys() == other.targets.keys()
        and all(torch.equal(one.targets[name], other.targets[name]) for name in one.targets)
    )


# Batches


@pytest.mark.parametrize("head", HEAD_NAMES)
def test_a_batch_depends_on_its_step_alone(cross_encoder: CrossEncoder, head: str) -> None:
    straight, jumping = (tasks(cross_encoder)[head].batches(5, 0) for _ in range(2))
    expected = [straight.batch(step) for step in range(6)]
    for step in (5, 0, 3):
        assert same(jumping.batch(step), expected[step])
    assert not same(tasks(cross_encoder)[head].batches(5, 1).batch(0), expected[0])


@pytest.mark.parametrize("head", HEAD_NAMES)
def test_the_parts_of_a_step_are_its_examples(cross_encoder: CrossEncoder, head: str) -> None:
    made = tasks(cross_encoder)[head].batches(6, 0)
    parts = [made.batch(2, Part(index, 3)) for index in range(3)]
    assert [place for part in parts for place in places_of(part)] == places_of(made.batch(2))
    assert [part.load.examples for part in parts] == [2, 2, 2]


@pytest.mark.parametrize("head", HEAD_NAMES)
@pytest.mark.parametrize("packing", [False, True])
def test_scores_match_those_of_each_sequence_alone(narrow: CrossEncoder, head: str, packing: bool) -> None:
    task = tasks(narrow, most_padding=0.0, negatives=2, packing=packing)[head]
    batch = task.batches(5, 0).batch(0)
    assert isinstance(batch.texts, CrossEncoderPack) if packing else len(batch.texts.batches) > 1
    with torch.no_grad():
        found = batch.scores(narrow.model)
        for score, (ids, place) in zip(found, places_of(batch), strict=True):
            row = CrossInput(ids, len(left(narrow, ids)) + 2, [place], [0])
            alone = narrow.model(head, narrow.inputs.batch([row]))
            assert alone[0].tolist() == pytest.approx(score.tolist(), abs=1e-5)


def test_labels_follow_sentences_across_windows(narrow: CrossEncoder) -> None:
    task = tasks(narrow, negatives=2)["sentences"]
    batch = task.batches(8, 0).batch(0)
    assert width(batch) > 8 * 3, "some passages take several windows"
    gold = {SENTENCES[n].qid: tokens(narrow, LASTS[n].text) for n in range(8)}
    owners, labels = batch.targets["examples"].tolist(), batch.targets["labels"].tolist()
    known = {left(narrow, narrow.inputs.sentences(r.query, CORPUS[0])[0].ids): r.qid for r in SENTENCES}
    queries: dict[int, set[str]] = {}
    for (ids, place), owner, label in zip(places_of(batch), owners, labels, strict=True):
        asked = known[left(narrow, ids)]
        queries.setdefault(owner, set()).add(asked)
        read = behind(narrow, ids, place)
        assert len(read) > 8
        assert label == (read == gold[asked][: len(read)])
    assert sorted(qid for (qid,) in queries.values()) == sorted(gold), "an example is of one query"
    assert sum(labels) == 8


def left(cross_encoder: CrossEncoder, ids: list[int]) -> tuple[int, ...]:
    """The left side of a sequence: claim and facts."""
    return tuple(ids[1 : ids.index(cross_encoder.inputs.tokenizer.token_to_id("[SEP]"))])


def tokens(cross_encoder: CrossEncoder, text: str) -> list[int]:
    return list(cross_encoder.inputs.tokenizer.encode(text, add_special_tokens=False).ids)


def behind(cross_encoder: CrossEncoder, ids: Sequence[int], place: int) -> list[int]:
    """The tokens between a marker and the next one, or the end."""
    marker, separator = (cross_encoder.inputs.tokenizer.token_to_id(name) for name in ("[MASK]", "[SEP]"))
    assert ids[place] == marker
    end = next(i for i in range(place + 1, len(ids)) if ids[i] in (marker, separator))
    return list(ids[place + 1 : end])


def test_labels_follow_facts_across_windows(narrow: CrossEncoder) -> None:
    batch = tasks(narrow)["facts"].batches(8, 0).batch(0)
    assert width(batch) > 8 * 2
    expected = sorted(
        (tokens(narrow, r.claim), tokens(narrow, fact_text(fact)), label)
        for r in FACTS
        for fact, label in zip(r.facts, r.labels, strict=True)
    )
    found = sorted(
        (list(left(narrow, ids)), behind(narrow, ids, place), label)
        for (ids, place), label in zip(places_of(batch), batch.targets["labels"].tolist(), strict=True)
    )
    assert len(found) == len(expected)
    for (claim, read, label), (own, text, wanted) in zip(found, expected, strict=True):
        assert (claim, read, label) == (own[:20], text[: len(read)], wanted)


def test_words_of_an_answer_are_its_tokens(cross_encoder: CrossEncoder) -> None:
    batch = tasks(cross_encoder)["answerer"].batches(len(ANSWERS), 0).batch(0)
    where, found = places_of(batch), {}
    known = {tuple(tokens(cross_encoder, BY_PID[pid].title)): pid for pid in REPLIES}
    for row, start in enumerate(batch.targets["starts"].tolist()):
        ids, place = where[start]
        assert place == 0
        spans = batch.targets["spans"][row][batch.targets["valid"][row]].tolist()
        words = batch.targets["words"][row].tolist()
        texts = [[where[words[n]][0][where[words[n]][1]] for n in range(first, last + 1)] for first, last in spans]
        kind = ANSWER_OUTPUTS[2 + int(batch.targets["kinds"][row])]
        found[known[left(cross_encoder, ids)]] = (kind, texts)
    assert found == {
        pid: (reply, []) if reply in ("yes", "no") else ("span", [tokens(cross_encoder, reply)] * len(spans_of(pid)))
        for pid, reply in REPLIES.items()
    }


def spans_of(pid: str) -> tuple[Any, ...]:
    return next(record.spans for record in ANSWERS if record.qid == pid)


def test_a_cut_span_is_ignored(narrow: CrossEncoder) -> None:
    long = Fact("p", 0, "t", "whale " * 60 + "Vardal")
    (record,) = draw_fixed(
        answer_sources([Example("q", "town?", answer="Vardal")], EvidencePools(lambda _: [long]))
    ).records
    _, words = narrow.inputs.evidence(record.query)
    assert list(token_spans(words, record.spans)) == []
    batch = AnswerTask(narrow, [record]).batches(1, 0).batch(0)
    found = AnswerTask(narrow, [record]).loss(batch)
    assert not batch.targets["valid"].any()
    assert found["span"] == 0
    assert found["kind"] > 0


def test_passages_are_looked_up_once(cross_encoder: CrossEncoder) -> None:
    asked: list[str] = []

    def look_up(pid: str) -> Passage:
        asked.append(pid)
        return BY_PID[pid]

    made = SentenceTask(cross_encoder, SENTENCES, look_up, HeadTraining(negatives=3)).batches(4, 0)
    for step in range(20):
        made.batch(step)
    assert sorted(asked) == sorted(BY_PID)
    few = SentenceExample("q", 1, Query("a"), "p0", (0,), ("p3", "p4"))
    task, rng = SentenceTask(cross_encoder, [few], passages, HeadTraining(negatives=5)), np.random.default_rng(0)
    assert set(task.draw_negatives(few.negatives, rng)) == {"p3", "p4"}
    assert len(task.draw_negatives(others("p0"), rng)) == len(set(task.draw_negatives(others("p0"), rng))) == 5


def test_little_of_a_batch_is_padding(cross_encoder: CrossEncoder) -> None:
    """With passages as long as the openings of an encyclopaedia, and queries of one to four hops."""
    rng = random.Random(0)
    vocabulary = [word for passage in CORPUS for word in passage.text.split()]

    def text(median: float) -> str:
        return " ".join(rng.choices(vocabulary, k=max(3, round(rng.lognormvariate(0, 0.5) * median))))

    def facts(count: int) -> tuple[Fact, ...]:
        return tuple(Fact("p", number, text(2), text(8)) for number in range(count))

    corpus = {
        f"w{n}": Passage.from_sentences(f"w{n}", text(2), [text(8) for _ in range(rng.randrange(1, 6))])
        for n in range(200)
    }
    records = [SentenceExample(pid, 1, Query(text(12), facts(n % 4)), pid, (0,), ("w3", "w7")) for n, pid in enumerate(corpus)]  # fmt: skip
    pools = [FactExample(str(n), text(12), facts(7 + n % 3), (True, *[False] * (6 + n % 3))) for n in range(200)]
    made: list[tuple[type[Any], tuple[Any, ...]]] = [
        (SentenceTask, (records, corpus.__getitem__)),
        (FactTask, (pools,)),
    ]
    for kind, rest in made:
        batch = kind(cross_encoder, *rest).batches(32, 0).batch(1)
        assert batch.load.padding < 0.15
        assert isinstance(batch.texts, CrossEncoderGroups)
        assert len(batch.texts.batches) <= 6
        assert batch.load.tokens == sum(int(group.attention.sum()) for group in batch.texts.batches)
        packing = kind(cross_encoder, *rest, config=HeadTraining(packing=True)).batches(32, 0).batch(1)
        assert packing.load.padding < 0.1
        assert (packing.load.tokens, packing.load.squares) == (batch.load.tokens, batch.load.squares)


@pytest.mark.parametrize("folder", [electra_folder, roberta_folder])
def test_other_backbones_pack_too(tmp_path: Path, folder: Callable[[Path], Path]) -> None:
    own = reader(folder(tmp_path))
    losses = []
    for packing in (False, True):
        task = FactTask(own, FACTS, HeadTraining(packing=packing))
        with torch.no_grad():
            losses.append(task.loss(task.batches(8, 0).batch(0))["loss"].item())
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


def test_a_backbone_that_cannot_pack_is_grouped(backbone: Path) -> None:
    own = reader(backbone)
    whole = own.model.backbone.forward
    own.model.backbone.forward = lambda input_ids, attention_mask, token_type_ids: whole(
        input_ids, attention_mask, token_type_ids
    )
    assert not can_pack_cross_encoder(own.model, own.inputs)
    with pytest.raises(ConfigError, match="packing = true, but the backbone does not keep texts in one row apart"):
        FactTask(own, FACTS, HeadTraining(packing=True))


def test_a_source_gives_stage_two_new_pools(cross_encoder: CrossEncoder) -> None:
    golds = tuple(replace(fact, hop=hop) for hop, fact in enumerate((sentence("p0", 0), sentence("p1", 1)), 1))
    others = tuple(
        replace(sentence(pid, 0), hop=1 + place % 2) for place, pid in enumerate(("p2", "p3", "p4", "p5", "p6"))
    )
    task = FactTask(cross_encoder, [FactSource("q", "who sings?", golds, others)])
    batches = task.batches(1, 0)
    drawn = [batches.batch(step) for step in range(12)]
    assert len({tuple(batch.targets["labels"].tolist()) for batch in drawn}) > 4
    assert {int(batch.targets["labels"].sum()) for batch in drawn} == {1, 2}
    assert same(task.batches(1, 0).batch(7), drawn[7])


def test_a_source_gives_readers_new_evidence(cross_encoder: CrossEncoder) -> None:
    """The answer spans follow the facts."""
    gold, others = sentence("p0", 1), [sentence(pid, 0) for pid in ("p2", "p3", "p4", "p5", "p6", "p7")]
    word = gold.text.split()[0]
    example = Example("q", "who sings?", label="supported", answer=word)
    evidence = EvidencePools(lambda _: [gold], lambda _: others)
    verdicts = verdict_sources([example], evidence, ("supported", "not supported")).records
    answers = answer_sources([example], evidence).records
    for task in (VerdictTask(cross_encoder, verdicts), AnswerTask(cross_encoder, answers)):
        batches = task.batches(1, 0)
        drawn = [batches.batch(step) for step in range(12)]
        assert len({tuple(places_of(batch)[0][0]) for batch in drawn}) > 6
        assert same(task.batches(1, 0).batch(7), drawn[7])
    for place in range(12):
        read = answers[0].draw(np.random.default_rng(place))
        assert {fact_text(read.query.facts[span.fact])[span.start : span.end] for span in read.spans} == {word}


# Losses, by plain loops over sequences that are scored one at a time


def log_sum(values: Sequence[float]) -> float:
    return math.log(sum(math.exp(value) for value in values))


def scored(cross_encoder: CrossEncoder, head: str, rows: Sequence[CrossInput]) -> list[tuple[int, list[float]]]:
    """The key and the head's outputs of every place."""
    return [
        (key, values)
        for row in rows
        for key, values in zip(row.keys, cross_encoder.score(head, [row])[0].tolist(), strict=True)
    ]


def sentence_oracle(cross_encoder: CrossEncoder) -> float:
    losses = []
    for record in SENTENCES[:3]:
        positive = scored(
            cross_encoder, "sentences", cross_encoder.inputs.sentences(record.query, passages(record.positive))
        )
        negative = scored(cross_encoder, "sentences", cross_encoder.inputs.sentences(record.query, passages("p7")))
        right = [values[0] for sid, values in positive if sid in record.sids]
        wrong = [values[0] for sid, values in positive if sid not in record.sids] + [v[0] for _, v in negative]
        losses.append(sum(log_sum([one, *wrong]) - one for one in right) / len(right))
    return sum(losses) / len(losses)


def fact_oracle(cross_encoder: CrossEncoder) -> float:
    losses, binary = [], []
    for record in FACTS[:3]:
        found = dict(scored(cross_encoder, "facts", cross_encoder.inputs.facts(record.claim, record.facts)))
        right = [found[place][0] for place, label in enumerate(record.labels) if label]
        wrong = [found[place][0] for place, label in enumerate(record.labels) if not label]
        losses.append(sum(log_sum([one, *wrong]) - one for one in right) / len(right))
        binary += [math.log1p(math.exp(-one)) for one in right] + [math.log1p(math.exp(one)) for one in wrong]
    return sum(losses) / len(losses) + 0.5 * sum(binary) / len(binary)


def rerank_oracle(cross_encoder: CrossEncoder) -> float:
    losses = []
    for record in RERANKS[:3]:
        rows = [cross_encoder.inputs.passage(record.query, passages(pid)) for pid in (record.positive, "p7")]
        right, wrong = (max(values[0] for _, values in scored(cross_encoder, "reranker", each)) for each in rows)
        losses.append(log_sum([right, wrong]) - right)
    return sum(losses) / len(losses)


def verdict_oracle(cross_encoder: CrossEncoder) -> float:
    losses = []
    for record in VERDICTS[:3]:
        ((_, values),) = scored(cross_encoder, "verifier", [cross_encoder.inputs.evidence(record.query)[0].at_cls()])
        losses.append(log_sum(values) - values[HEADS["verifier"].outputs.index(record.label)])
    return sum(losses) / len(losses)


def answer_oracle(cross_encoder: CrossEncoder) -> float:
    kinds, spans = [], []
    for record in ANSWERS[:3]:
        row, words = cross_encoder.inputs.evidence(record.query)
        (_, first), *found = scored(cross_encoder, "answerer", [row])
        outputs = dict(zip(ANSWER_OUTPUTS, first, strict=True))
        kinds.append(log_sum([outputs[kind] for kind in ("span", "yes", "no")]) - outputs[record.kind])
        starts, ends = ([values[column] for _, values in found] for column in (0, 1))
        likelihood = 0.0
        for begin, word in enumerate(words):
            for end in range(begin, len(words)):
                bounds = (word.fact, word.start, words[end].end)
                if bounds in {(s.fact, s.start, s.end) for s in record.spans} and words[end].fact == word.fact:
                    likelihood += math.exp(starts[begin] - log_sum(starts) + ends[end] - log_sum(ends))
        if likelihood:  # else there is no span, or it was cut
            spans.append(-math.log(likelihood))
    return sum(kinds) / len(kinds) + sum(spans) / max(1, len(spans))


ORACLES: Mapping[str, Callable[[CrossEncoder], float]] = {
    "sentences": sentence_oracle,
    "facts": fact_oracle,
    "reranker": rerank_oracle,
    "verifier": verdict_oracle,
    "answerer": answer_oracle,
}


def few(cross_encoder: CrossEncoder, head: str) -> AnyTask:
    """Three examples with one negative each, so that nothing is drawn."""
    config = HeadTraining(fact_weight=0.5, most_padding=0.05)
    task: AnyTask = {
        "sentences": lambda: SentenceTask(cross_encoder, [replace(r, negatives=("p7",)) for r in SENTENCES[:3]], passages, config),
        "facts": lambda: FactTask(cross_encoder, FACTS[:3], config),
        "reranker": lambda: RerankTask(cross_encoder, [replace(r, negatives=("p7",)) for r in RERANKS[:3]], passages, config),
        "verifier": lambda: VerdictTask(cross_encoder, VERDICTS[:3], config),
        "answerer": lambda: AnswerTask(cross_encoder, ANSWERS[:3], config),
    }[head]()  # fmt: skip
    return task


@pytest.mark.parametrize("head", HEAD_NAMES)
@pytest.mark.parametrize("windows", [False, True])
def test_losses_match_plain_loops(backbone: Path, head: str, windows: bool) -> None:
    own = reader(backbone, **({"length": 60, "query_length": 20} if windows else {}))
    with torch.no_grad():  # scores far from 0, so that mistakes show
        own.model.heads[head].output.weight.mul_(20)
    task = few(own, head)
    with torch.no_grad():
        found = task.loss(task.batches(3, 0).batch(0))
    assert found["loss"].item() == pytest.approx(ORACLES[head](own), rel=1e-4)


@pytest.mark.parametrize("head", HEAD_NAMES)
@pytest.mark.parametrize("packing", [False, True])
def test_a_loss_reaches_its_head_and_the_backbone(backbone: Path, head: str, packing: bool) -> None:
    own = reader(backbone)
    task = tasks(own, packing=packing)[head]
    task.loss(task.batches(4, 0).batch(0))["loss"].backward()
    missed = {name.split(".")[1] for name, p in own.model.named_parameters() if p.grad is None}
    assert missed == set(HEADS) - {head}


# Training


def settings(**changes: Any) -> TrainConfig:
    given = {"steps": 70, "batch_size": 8, "lr": 4e-3, "save_every": 1000, "log_every": 10, "precision": "float32"}
    return TrainConfig(**{**given, **changes})


def metrics(cross_encoder: CrossEncoder) -> dict[str, Callable[[], dict[str, float]]]:
    return {
        "sentences": partial(sentence_metrics, cross_encoder, SENTENCES, passages, pool=1),
        "facts": partial(fact_metrics, cross_encoder, FACTS),
        "reranker": partial(rerank_metrics, cross_encoder, RERANKS, passages),
        "verifier": partial(verdict_metrics, cross_encoder, VERDICTS),
        "answerer": partial(answer_metrics, cross_encoder, ANSWERS),
    }


@pytest.mark.parametrize("head", HEAD_NAMES)
def test_every_head_learns(pupil: Path, tmp_path: Path, head: str) -> None:
    own = reader(pupil)
    task, measure = tasks(own, negatives=2)[head], metrics(own)[head]
    before = measure()["metric"]
    outcome = train_heads(own, task, settings(), tmp_path, evaluate=measure)
    log = [record for record in read_log(tmp_path) if "loss" in record]
    assert log[-1]["loss"] < 0.1 < log[0]["loss"]
    assert log[-1]["padding"] < 0.15
    assert before < 0.9
    assert outcome.metric == measure()["metric"] == 1.0


def test_heads_of_one_backbone_learn_together(pupil: Path, tmp_path: Path) -> None:
    own = reader(pupil)
    made, measured = tasks(own), metrics(own)
    heads = ("answerer", "verifier")
    task = SharedTask([made[head] for head in heads], weights=[2, 1])
    evaluate = partial(merge_metrics, {head: measured[head] for head in heads})
    outcome = train_heads(own, task, settings(steps=120), tmp_path, evaluate=evaluate)
    assert outcome.metric == pytest.approx(1.0)
    assert {"loss", "verifier_loss", "answerer_span"} < read_log(tmp_path)[0].keys()
    assert evaluate().keys() == {"metric", "answerer_metric", "answerer_em", "verifier_metric"}


def test_weights_set_how_often_records_are_drawn(cross_encoder: CrossEncoder) -> None:
    task, plain = FactTask(cross_encoder, FACTS), FactTask(cross_encoder, FACTS)
    only = FACTS[-1]
    task.weights = {record.qid: 1e-9 for record in FACTS if record.qid != only.qid}
    seen: list[str] = []
    task.encode = lambda record, rng: (seen.append(record.qid), plain.encode(record, rng))[1]  # type: ignore[method-assign]
    batches = task.batches(2, 0)
    for step in range(5):
        batches.batch(step)
    assert seen.count(only.qid) >= 9
    assert task.about != plain.about, "a run that goes on must have the same weights"


def test_tasks_take_turns_and_count_their_own_steps(cross_encoder: CrossEncoder) -> None:
    assert turns([1, 1, 1]) == [0, 1, 2]
    assert turns([3, 1]) == [0, 0, 1, 0]
    assert turns([2, 1, 1]) == [0, 1, 2, 0]
    made = tasks(cross_encoder)
    shared = SharedTask([made["sentences"], made["verifier"]], weights=[2, 1]).batches(4, 0)
    alone = {head: made[head].batches(4, 0) for head in ("sentences", "verifier")}
    steps = dict.fromkeys(alone, 0)
    for step in range(7):
        batch = shared.batch(step, Part(1, 2))
        assert same(batch, alone[batch.head].batch(steps[batch.head], Part(1, 2)))
        steps[batch.head] += 1
    assert steps == {"sentences": 5, "verifier": 2}
    assert same(shared.batch(4), SharedTask([made["sentences"], made["verifier"]], [2, 1]).batches(4, 0).batch(4))


def test_a_run_resumes_with_the_same_records_only(backbone: Path, tmp_path: Path) -> None:
    config = settings(steps=6, save_every=2, batch_size=4)
    whole, cut = reader(backbone), reader(backbone)
    outcome = train_heads(whole, SharedTask([*tasks(whole).values()]), config, tmp_path / "whole")
    task = SharedTask([*tasks(cut).values()])
    loss, taken = task.loss, []

    def dies(batch: HeadBatch) -> Any:
        taken.append(batch)
        if len(taken) == 4:
            raise KeyboardInterrupt
        return loss(batch)

    task.loss = dies  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        train_heads(cut, task, config, tmp_path / "cut")
    again = reader(backbone)
    resumed = train_heads(again, SharedTask([*tasks(again).values()]), config, tmp_path / "cut")
    assert resumed.loss == outcome.loss
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, again.model.state_dict()[name])
    with pytest.raises(TrainingError, match="another run"):
        train_heads(again, SharedTask([*tasks(again).values()][:4]), config, tmp_path / "cut")
    with pytest.raises(TrainingError, match="holds a run that reached step 6"):
        train_heads(again, SharedTask([*tasks(again).values()]), config, tmp_path / "cut", resume=False)


# Metrics


def test_metrics_by_hand(cross_encoder: CrossEncoder) -> None:
    found = [scored(cross_encoder, "facts", cross_encoder.inputs.facts(r.claim, r.facts)) for r in FACTS]
    kept = [(values[0] > 0.1, r.labels[place]) for r, each in zip(FACTS, found, strict=True) for place, values in each]
    right = sum(keep and gold for keep, gold in kept)
    measured = fact_metrics(cross_encoder, FACTS, threshold=0.1)
    precision = right / max(1, sum(keep for keep, _ in kept))
    assert measured["precision"] == pytest.approx(precision)
    assert measured["recall"] == pytest.approx(right / 16)
    assert measured["metric"] == pytest.approx(2 * right / (sum(keep for keep, _ in kept) + 16))

    ranks = []
    for record in SENTENCES:
        pids = (record.positive, *record.negatives)
        scores = [
            ((pid, sid), values[0])
            for pid in pids
            for sid, values in scored(
                cross_encoder, "sentences", cross_encoder.inputs.sentences(record.query, passages(pid))
            )
        ]
        order = [place for place, _ in sorted(scores, key=lambda each: -each[1])]
        ranks.append(order.index((record.positive, record.sids[0])))
    everything = sentence_metrics(cross_encoder, SENTENCES, passages)
    assert everything["best"] == pytest.approx(sum(rank == 0 for rank in ranks) / 8)
    assert everything["metric"] == everything["recall"] == pytest.approx(sum(rank < 9 for rank in ranks) / 8)
    assert verdict_metrics(cross_encoder, [])["metric"] == 0.0


# Refusals


def test_unusable_records_are_refused(cross_encoder: CrossEncoder) -> None:
    with pytest.raises(TrainingError, match="query 'p0' has no negative at hop 2"):
        SentenceTask(cross_encoder, [replace(SENTENCES[0], negatives=())], passages)
    with pytest.raises(TrainingError, match="query 'p0' has no gold sentence at hop 2"):
        SentenceTask(cross_encoder, [replace(SENTENCES[0], sids=())], passages)
    with pytest.raises(TrainingError, match="query 'p0' has no negative at hop 2"):
        RerankTask(cross_encoder, [replace(RERANKS[0], negatives=())], passages)
    with pytest.raises(
        TrainingError, match="claim 'p0' is labelled 'refuted', but the head has supported, not supported"
    ):
        VerdictTask(cross_encoder, [replace(VERDICTS[0], label="refuted")])
    with pytest.raises(TrainingError, match="there is no passage 'p99'"):
        RerankTask(cross_encoder, [replace(RERANKS[0], positive="p99")], passages).batches(1, 0).batch(0)
    with pytest.raises(TrainingError, match="there is nothing to train on"):
        FactTask(cross_encoder, []).batches(1, 0)


def test_tasks_of_another_cross_encoder_are_refused(cross_encoder: CrossEncoder, narrow: CrossEncoder, backbone: Path, tmp_path: Path) -> None:  # fmt: skip
    small = CrossEncoder.from_backbone(backbone, {"facts": HEADS["facts"]}, device="cpu")
    with pytest.raises(CheckpointError, match="no head 'verifier', only facts"):
        VerdictTask(small, VERDICTS)
    with pytest.raises(TrainingError, match="for another cross-encoder"):
        train_heads(narrow, tasks(cross_encoder)["facts"], settings(), tmp_path)
    with pytest.raises(ConfigError, match="for several cross-encoders"):
        SharedTask([tasks(cross_encoder)["facts"], tasks(narrow)["verifier"]])
    with pytest.raises(ConfigError, match="each once"):
        SharedTask([tasks(cross_encoder)["facts"]] * 2)
    with pytest.raises(ConfigError, match=r"weights = \[1, 0\], which should be a positive number for each of"):
        SharedTask([tasks(cross_encoder)["facts"], tasks(cross_encoder)["verifier"]], [1, 0])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"negatives": 0}, "negatives = 0, which should be at least 1"),
        ({"remembered": 0}, "remembered = 0, which should be at least 1"),
        ({"fact_weight": -1.0}, "fact_weight = -1.0, which should not be negative"),
        ({"most_padding": 1.0}, "most_padding = 1.0, which should be a share below 1"),
    ],
)
def test_invalid_settings_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        HeadTraining(**changes)
