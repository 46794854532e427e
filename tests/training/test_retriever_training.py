"""Retriever training: its batches, their scores, and that it learns."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from baleen.core.errors import ConfigError, TrainingError
from baleen.core.types import Fact, Passage, Query
from baleen.models.encoder import Encoder
from baleen.models.tokens import EncoderConfig
from baleen.training.hop_order.supervision import Supervised
from baleen.training.loop.config import TrainConfig
from baleen.training.loop.logs import read_log
from baleen.training.loop.prefetching import prefetch
from baleen.training.loop.sampling import Part
from baleen.training.loop.trainer import Trainer
from baleen.training.losses import in_batch_loss, ranking_loss
from baleen.training.packing import RetrieverGroups, can_pack_retriever
from baleen.training.retriever.batches import RetrieverBatch, RetrieverBatches, RetrieverTraining
from baleen.training.retriever.rows import PassageRows, QueryRows, pad_token, passage_batch, query_batch
from baleen.training.retriever.task import RetrieverTask, train_retriever
from fakes import CORPUS, QUERIES, bert_folder, electra_folder, roberta_folder, tiny_encoder

pytestmark = pytest.mark.usefixtures("one_thread")

BY_PID = {passage.pid: passage for passage in CORPUS}


def others(*pids: str) -> tuple[str, ...]:
    return tuple(pid for pid in BY_PID if pid not in pids)


# Every passage is what its own title asks for.
RECORDS = [Supervised(f"q{p.pid}", 1, Query(p.title), (p.pid,), others(p.pid)) for p in CORPUS]

# One question at two hops, whose gold passages are two, and another question.
HOPS = [
    Supervised("mayor", 1, QUERIES[0], ("p0", "p1"), others("p0", "p1", "p2")),
    Supervised("mayor", 2, QUERIES[1], ("p2",), others("p0", "p1", "p2")),
    Supervised("whales", 1, QUERIES[2], ("p7",), ("p6", "p4")),
]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return tiny_encoder(tmp_path_factory.mktemp("encoder"), query_length=32, query_focus=8, facts_focus=4)


def fresh(encoder: Encoder, folder: Path) -> Encoder:
    """A copy of an encoder."""
    encoder.save(folder)
    return Encoder.load(folder, device="cpu", dtype=torch.float32, trainable=True)


def batches(
    encoder: Encoder, records: Sequence[Supervised] = HOPS, batch_size: int = 3, **changes: Any
) -> RetrieverBatches:
    options = {name: changes.pop(name) for name in ("seed", "packing") if name in changes}
    config = RetrieverTraining(**changes)
    return RetrieverBatches(
        encoder.inputs, records, BY_PID.__getitem__, config, batch_size=batch_size, **{"seed": 0, **options}
    )


def rows_of(batch: RetrieverBatch) -> list[list[int]]:
    """The claim and facts of each query, in the order of the rows."""
    assert isinstance(batch.texts, RetrieverGroups)
    found = [
        ids[: int(claim + facts)].tolist()
        for group in batch.texts.queries.batches
        for ids, claim, facts in zip(group.ids, group.claim_lengths, group.facts_lengths, strict=True)
    ]
    return [found[place] for place in batch.texts.queries.order]


def passages_of(batch: RetrieverBatch) -> list[list[int]]:
    assert isinstance(batch.texts, RetrieverGroups)
    groups = batch.texts.passages.batches
    found = [ids[mask].tolist() for group in groups for ids, mask in zip(group.ids, group.attention, strict=True)]
    return [found[place] for place in batch.texts.passages.order]


def pids_of(encoder: Encoder, batch: RetrieverBatch) -> list[list[str]]:
    """Each row's passages by pid, the positive first."""
    known = {tuple(ids): pid for pid, ids in zip(BY_PID, encoder.inputs.passage_ids(CORPUS), strict=True)}
    pids = [known[tuple(ids)] for ids in passages_of(batch)]
    return [[pids[column] for column in row] for row in batch.columns.tolist()]


def records_of(encoder: Encoder, batch: RetrieverBatch, records: Sequence[Supervised] = HOPS) -> list[Supervised]:
    ids = encoder.inputs.query_ids([record.query for record in records])
    known = {(*row.claim, *row.facts): record for row, record in zip(ids, records, strict=True)}
    return [known[tuple(row)] for row in rows_of(batch)]


# Batches


@pytest.mark.parametrize("negatives", [1, 2, 7])
def test_each_query_gets_its_own_positive_and_negatives(encoder: Encoder, negatives: int) -> None:
    made, drawn = batches(encoder, negatives=negatives), set()
    for step in range(8):
        batch = made.batch(step)
        for record, (positive, *wrong) in zip(records_of(encoder, batch), pids_of(encoder, batch), strict=True):
            assert positive in record.positives
            assert set(wrong) <= set(record.negatives)
            assert len(wrong) == negatives
            if negatives <= len(record.negatives):
                assert len(set(wrong)) == negatives
            drawn.add((record.qid, record.hop, positive))
    assert drawn == {("mayor", 1, "p0"), ("mayor", 1, "p1"), ("mayor", 2, "p2"), ("whales", 1, "p7")}


def test_a_batch_depends_on_its_step_alone(encoder: Encoder) -> None:
    straight, jumping = batches(encoder, RECORDS), batches(encoder, RECORDS)
    expected = [straight.batch(step) for step in range(6)]
    for step in (5, 0, 3):
        batch = jumping.batch(step)
        assert rows_of(batch) == rows_of(expected[step])
        assert pids_of(encoder, batch) == pids_of(encoder, expected[step])
    other = batches(encoder, RECORDS, seed=1).batch(0)
    assert pids_of(encoder, other) != pids_of(encoder, expected[0])


def test_the_parts_of_a_step_are_its_rows(encoder: Encoder) -> None:
    made = batches(encoder, RECORDS, batch_size=6)
    parts = [made.batch(2, Part(index, 3)) for index in range(3)]
    assert [row for part in parts for row in rows_of(part)] == rows_of(made.batch(2))
    assert [row for part in parts for row in pids_of(encoder, part)] == pids_of(encoder, made.batch(2))


def test_a_passage_is_looked_up_and_tokenised_once(encoder: Encoder) -> None:
    asked: list[str] = []

    def look_up(pid: str) -> Passage:
        asked.append(pid)
        return BY_PID[pid]

    made = RetrieverBatches(encoder.inputs, RECORDS, look_up, RetrieverTraining(), batch_size=4, seed=0)
    for step in range(20):
        made.batch(step)
    assert sorted(asked) == sorted(BY_PID)


@pytest.mark.parametrize("changes", [{}, {"mask_padding": False}, {"attend_to_masks": True, "drop_punctuation": False}])
def test_rows_match_the_encoder(encoder: Encoder, changes: dict[str, bool]) -> None:
    inputs = encoder.with_settings(**changes).inputs
    passages, queries = PassageRows(inputs, BY_PID.__getitem__), QueryRows(inputs, QUERIES.__getitem__)
    pad, picked = pad_token(inputs), [2, 0, 1]
    for _ in range(2):  # tokenised, then remembered
        expected = inputs.query_batch(inputs.query_ids([QUERIES[number] for number in picked]))
        expect_equal(query_batch(queries.rows(picked), pad), expected)
        expect_equal(passage_batch(passages.rows(list(BY_PID)), pad), inputs.passage_batch(inputs.passage_ids(CORPUS)))


def test_known_tokens_are_reused(encoder: Encoder) -> None:
    asked: list[str] = []

    def look_up(pid: str) -> Passage:
        asked.append(pid)
        return BY_PID[pid]

    ids = encoder.inputs.passage_ids(CORPUS)
    known = {passage.pid: np.array(row, np.int32) for passage, row in zip(CORPUS[:2], ids, strict=False)}
    rows = PassageRows(encoder.inputs, look_up, known).rows(list(BY_PID))
    expect_equal(passage_batch(rows, pad_token(encoder.inputs)), encoder.inputs.passage_batch(ids))
    assert asked == [passage.pid for passage in CORPUS[2:]]


def expect_equal(found: Any, expected: Any) -> None:
    for field in fields(expected):
        left, right = getattr(found, field.name), getattr(expected, field.name)
        assert type(left) is type(right)
        assert torch.equal(left, right) if isinstance(left, torch.Tensor) else left == right
        assert getattr(left, "dtype", None) == getattr(right, "dtype", None)


def test_a_shared_passage_is_encoded_once(encoder: Encoder) -> None:
    batch = batches(encoder, RECORDS, batch_size=8, negatives=7).batch(0)
    assert len(passages_of(batch)) == len(CORPUS)
    assert batch.columns.shape == (8, 8)


def test_other_positives_of_a_question_are_no_negatives(encoder: Encoder) -> None:
    batch = batches(encoder, in_batch=True).batch(0)
    gold = {"mayor": {"p0", "p1", "p2"}, "whales": {"p7"}}
    known = {tuple(ids): pid for pid, ids in zip(BY_PID, encoder.inputs.passage_ids(CORPUS), strict=True)}
    pids = [known[tuple(ids)] for ids in passages_of(batch)]
    for row, record in enumerate(records_of(encoder, batch)):
        target = int(batch.columns[row, 0])
        expected = [pid in gold[record.qid] and column != target for column, pid in enumerate(pids)]
        assert batch.forbidden[row].tolist() == expected
    assert batch.forbidden.any()


@pytest.mark.parametrize("packing", [False, True])
def test_little_of_a_batch_is_padding(encoder: Encoder, packing: bool) -> None:
    """With passages as long as the openings of an encyclopaedia, and queries of one to four hops."""
    rng = random.Random(0)
    words = [word for passage in CORPUS for word in passage.text.split()]

    def text(median: float) -> str:
        return " ".join(rng.choices(words, k=max(5, round(rng.lognormvariate(0, 0.55) * median))))

    corpus = {f"w{n}": Passage(f"w{n}", text(2), text(40)) for n in range(400)}
    pids = list(corpus)
    records = [
        Supervised(str(n), 1 + n % 4, Query(text(12), tuple(Fact("", 0, text(2), text(12)) for _ in range(n % 4))), (pid,), tuple(pids[:50]))
        for n, pid in enumerate(pids)
    ]  # fmt: skip
    made = RetrieverBatches(
        encoder.inputs, records, corpus.__getitem__, RetrieverTraining(), batch_size=48, seed=0, packing=packing
    )
    for step in range(4):
        batch = made.batch(step)
        assert batch.load.padding == 0 if packing else batch.load.padding < 0.15
        if isinstance(batch.texts, RetrieverGroups):
            assert max(len(batch.texts.passages.batches), len(batch.texts.queries.batches)) <= 6
            tokens = [len(row) for row in (*rows_of(batch), *passages_of(batch))]
            assert (batch.load.tokens, batch.load.squares) == (sum(tokens), sum(length**2 for length in tokens))


@pytest.mark.parametrize("packing", [False, True])
def test_batches_survive_prefetching_processes(encoder: Encoder, packing: bool) -> None:
    made = batches(encoder, HOPS, negatives=2, packing=packing)
    here, there = (list(prefetch(made.batch, range(3, 7), processes)) for processes in (0, 2))
    task = RetrieverTask(encoder, RetrieverTraining(negatives=2))
    for one, other in zip(here, there, strict=True):
        assert torch.equal(one.columns, other.columns)
        assert torch.equal(one.forbidden, other.forbidden)
        assert one.load == other.load
        with torch.no_grad():
            assert torch.equal(task.scores(one), task.scores(other))


# Scores and losses


@pytest.mark.parametrize("focus", [(8, 4), (None, None)])
@pytest.mark.parametrize("in_batch", [False, True])
def test_scores_match_those_of_each_pair_alone(encoder: Encoder, in_batch: bool, focus: tuple[Any, Any]) -> None:
    """Compared with loops over vectors encoded one text at a time."""
    focused = encoder.with_settings(query_focus=focus[0], facts_focus=focus[1])
    batch = batches(encoder, negatives=2, in_batch=in_batch).batch(0)
    config = RetrieverTraining(negatives=2, in_batch=in_batch)
    with torch.no_grad():
        scores = RetrieverTask(focused, config).scores(batch)
    records, passages = records_of(encoder, batch), passages_of(batch)
    columns = [list(range(len(passages)))] * len(records) if in_batch else batch.columns.tolist()
    for row, record in enumerate(records):
        expected = [pair_score(focused, record.query, passages[column]) for column in columns[row]]
        assert scores[row].tolist() == pytest.approx(expected, abs=1e-4)


BACKBONES = {"bert": bert_folder, "electra": electra_folder, "roberta": roberta_folder}


@pytest.mark.parametrize("changes", [{}, {"mask_padding": False}, {"attend_to_masks": True}])
@pytest.mark.parametrize("kind", BACKBONES)
def test_packed_texts_do_not_see_each_other(tmp_path: Path, kind: str, changes: dict[str, bool]) -> None:
    config = EncoderConfig(dim=8, query_length=24, **changes)
    encoder = Encoder.from_backbone(
        BACKBONES[kind](tmp_path), ["whales sing"], config, device="cpu", dtype=torch.float32
    )
    assert can_pack_retriever(encoder.model, pad_token(encoder.inputs))
    task = RetrieverTask(encoder, RetrieverTraining(negatives=2))
    apart, together = (batches(encoder, negatives=2, packing=packing).batch(1) for packing in (False, True))
    with torch.no_grad():
        assert task.scores(together).flatten().tolist() == pytest.approx(
            task.scores(apart).flatten().tolist(), abs=1e-4
        )
    assert torch.equal(together.columns, apart.columns)
    assert (together.load.tokens, together.load.squares) == (apart.load.tokens, apart.load.squares)


def test_queries_without_facts_can_be_packed(encoder: Encoder) -> None:
    task = RetrieverTask(encoder, RetrieverTraining())
    apart, together = (batches(encoder, RECORDS, packing=packing).batch(0) for packing in (False, True))
    with torch.no_grad():
        assert task.scores(together).flatten().tolist() == pytest.approx(
            task.scores(apart).flatten().tolist(), abs=1e-4
        )


def test_a_backbone_that_mixes_packed_texts_is_detected(encoder: Encoder, tmp_path: Path) -> None:
    class Deaf(torch.nn.Module):
        """A backbone that ignores positions."""

        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner, self.config = inner, inner.config

        def forward(self, input_ids: Any, attention_mask: Any, position_ids: Any = None) -> Any:  # noqa: ARG002
            return self.inner(input_ids=input_ids, attention_mask=attention_mask)

    class Strict(Deaf):
        """A backbone that takes no positions."""

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return self.inner(input_ids=input_ids, attention_mask=attention_mask)

    other = fresh(encoder, tmp_path)
    inner = other.model.backbone
    for kind in (Deaf, Strict):
        other.model.backbone = kind(inner)
        assert not can_pack_retriever(other.model, pad_token(other.inputs))
    with pytest.raises(ConfigError, match="packing = true, but the backbone"):
        train_retriever(other, HOPS, BY_PID.__getitem__, tmp_path, settings(), config=RetrieverTraining(packing=True))


def pair_score(encoder: Encoder, query: Query, ids: list[int]) -> float:
    vectors = encoder.encode_queries([query])[0]
    with torch.no_grad():
        passage = encoder.model.forward_passages(encoder.inputs.passage_batch([ids]))
    kept = passage.vectors[passage.mask].double()
    total = 0.0
    for part, focus in ((vectors.query, encoder.focus[0]), (vectors.facts, encoder.focus[1])):
        best = sorted((max((kept @ torch.tensor(v).double()).tolist()) for v in part), reverse=True)
        total += sum(best[:focus])
    return total


def test_default_loss_is_the_papers(encoder: Encoder) -> None:
    batch, task = batches(encoder).batch(0), RetrieverTask(encoder, RetrieverTraining())
    with torch.no_grad():
        scores, found = task.scores(batch), task.loss(batch)
    assert scores.shape == (3, 2)
    assert found["loss"] == ranking_loss(scores)
    assert found["accuracy"].item() == pytest.approx((scores[:, 0] > scores[:, 1]).float().mean().item())


def test_options_of_the_loss(encoder: Encoder) -> None:
    options: dict[str, Any] = {"negatives": 2, "in_batch": True, "temperature": 0.5}
    batch = batches(encoder, **options).batch(0)
    task = RetrieverTask(encoder, RetrieverTraining(**options))
    with torch.no_grad():
        scores, found = task.scores(batch), task.loss(batch)
    assert found["loss"] == in_batch_loss(scores, batch.columns[:, 0], batch.forbidden, temperature=0.5)


def test_every_weight_gets_a_gradient(encoder: Encoder, tmp_path: Path) -> None:
    trained = fresh(encoder, tmp_path)
    batch = batches(trained).batch(0)
    RetrieverTask(trained, RetrieverTraining()).loss(batch)["loss"].backward()
    assert [name for name, p in trained.model.named_parameters() if p.grad is None] == []


# Training


def settings(**changes: Any) -> TrainConfig:
    given = {"steps": 60, "batch_size": 8, "lr": 2e-3, "save_every": 100, "log_every": 10, "precision": "float32"}
    return TrainConfig(**{**given, **changes})


@pytest.mark.parametrize("options", [{}, {"packing": True}, {"in_batch": True, "negatives": 0, "temperature": 0.5}])
def test_training_learns_which_passage_is_which(encoder: Encoder, tmp_path: Path, options: dict[str, Any]) -> None:
    trained = fresh(encoder, tmp_path / "start")
    before = top_ones(trained)
    train_retriever(
        trained, RECORDS, BY_PID.__getitem__, tmp_path / "run", settings(), config=RetrieverTraining(**options)
    )
    log = read_log(tmp_path / "run")
    assert log[-1]["loss"] < 0.2 < log[0]["loss"]
    assert before < len(CORPUS)
    assert top_ones(trained) == len(CORPUS)
    assert log[-1]["padding"] < 0.15


def top_ones(encoder: Encoder) -> int:
    """The number of titles that rank their own passage first."""
    made = batches(encoder, RECORDS, batch_size=8, in_batch=True, negatives=7).batch(0)
    with torch.no_grad():
        scores = RetrieverTask(encoder, RetrieverTraining(in_batch=True)).scores(made)
    return int((scores.argmax(dim=1) == made.columns[:, 0]).sum())


def test_a_resumed_training_ends_as_an_undisturbed_one(encoder: Encoder, tmp_path: Path) -> None:
    config, one, two = settings(steps=8, save_every=3, batch_size=3), RetrieverTraining(), RetrieverTraining()
    whole = fresh(encoder, tmp_path / "start")
    outcome = train_retriever(whole, HOPS, BY_PID.__getitem__, tmp_path / "whole", config, config=one)
    broken, asked = fresh(encoder, tmp_path / "start"), []

    def dies(batch: RetrieverBatch) -> Any:
        asked.append(batch)
        if len(asked) == 5:
            raise KeyboardInterrupt
        return RetrieverTask(broken, two).loss(batch)

    about = json.loads((tmp_path / "whole" / "step-000008" / "state.json").read_text())["told"]
    made = batches(broken)
    trainer = Trainer(broken.model, made.batch, dies, replace(config, device="cpu"), tmp_path / "cut", about=about)
    with pytest.raises(KeyboardInterrupt):
        trainer.run()
    taken_up = fresh(encoder, tmp_path / "start")
    again = train_retriever(taken_up, HOPS, BY_PID.__getitem__, tmp_path / "cut", config, config=one, resume=True)
    assert again.loss == outcome.loss
    assert taken_up.fingerprint == whole.fingerprint


def test_resuming_with_other_records_is_refused(encoder: Encoder, tmp_path: Path) -> None:
    trained, config = fresh(encoder, tmp_path / "start"), settings(steps=1, batch_size=3)
    train_retriever(trained, HOPS, BY_PID.__getitem__, tmp_path / "run", config)
    with pytest.raises(TrainingError, match="another run: negatives was 1 and is 2, records was"):
        train_retriever(
            trained,
            HOPS[:2],
            BY_PID.__getitem__,
            tmp_path / "run",
            config,
            config=RetrieverTraining(negatives=2),
            resume=True,
        )


# Refusals


def test_unusable_records_are_refused(encoder: Encoder) -> None:
    with pytest.raises(TrainingError, match="query 'mayor' has no negatives at hop 2"):
        batches(encoder, [HOPS[0], replace(HOPS[1], negatives=())])
    with pytest.raises(TrainingError, match="query 'whales' has no positives at hop 1"):
        batches(encoder, [replace(HOPS[2], positives=())])
    with pytest.raises(TrainingError, match="there is no passage 'p99'"):
        batches(encoder, [replace(HOPS[2], positives=("p99",))]).batch(0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"negatives": 0}, "negatives = 0, which should be at least 1, or 0 with in_batch"),
        ({"temperature": 0.0}, "temperature = 0.0, which should be above 0"),
        ({"most_padding": 1.0}, "most_padding = 1.0, which should be a share below 1"),
    ],
)
def test_invalid_settings_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        RetrieverTraining(**changes)
