from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from baleen.core.errors import CheckpointError, ConfigError
from baleen.core.types import Passage, Query
from baleen.models.checkpoint import read_checkpoint, write_checkpoint
from baleen.models.cross_encoder import HEADS, KIND, THREE_LABELS, CrossEncoder, HeadConfig
from baleen.models.encoder import Encoder
from baleen.models.pairs import CrossConfig, CrossInput
from fakes import CORPUS, QUERIES, bert_folder, electra_folder, roberta_folder, tiny_encoder

pytestmark = pytest.mark.usefixtures("one_thread")

RERANKER = {"reranker": HEADS["reranker"]}


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bert_folder(tmp_path_factory.mktemp("cross") / "backbone")


@pytest.fixture(scope="module")
def cross_encoder(backbone: Path) -> CrossEncoder:
    return CrossEncoder.from_backbone(backbone, dtype=torch.float32)


@pytest.fixture
def saved(cross_encoder: CrossEncoder, tmp_path: Path) -> Path:
    cross_encoder.save(tmp_path / "cross-encoder")
    return tmp_path / "cross-encoder"


def sentence_rows(cross_encoder: CrossEncoder) -> list[CrossInput]:
    """Rows of very different lengths, with one place to dozens."""
    long = Passage.from_sentences("long", "Whales", ["Humpback whales feed there in winter."] * 30)
    pairs = [(query, passage) for query in QUERIES for passage in CORPUS[::2]] + [(QUERIES[1], long)]
    return [row for query, passage in pairs for row in cross_encoder.inputs.sentences(query, passage)]


def scores_of(cross_encoder: CrossEncoder) -> dict[str, np.ndarray[Any, Any]]:
    """The scores of every head for four rows, end to end."""
    rows = sentence_rows(cross_encoder)[:4]
    return {head: np.concatenate(cross_encoder.score(head, rows)) for head in cross_encoder.model.heads}


def assert_same_scores(one: CrossEncoder, other: CrossEncoder) -> None:
    found, expected = scores_of(one), scores_of(other)
    assert found.keys() == expected.keys()
    for head in expected:
        np.testing.assert_allclose(found[head], expected[head], atol=1e-5)


def test_scores_do_not_depend_on_batches_and_keep_order(cross_encoder: CrossEncoder) -> None:
    rows = sentence_rows(cross_encoder)
    assert len(rows) * max(map(len, rows)) > cross_encoder.batch_tokens, "more than one batch"
    together = cross_encoder.score("sentences", rows)
    for row, found in zip(rows, together, strict=True):
        assert found.shape == (len(row.places), 1)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, cross_encoder.score("sentences", [row])[0], atol=1e-5)
    assert len({float(found[0, 0]) for found in together}) > len(together) // 2, "rows differ, so order shows"


def test_an_empty_list_gives_an_empty_list(cross_encoder: CrossEncoder) -> None:
    assert cross_encoder.score("sentences", []) == []


def test_each_head_has_the_outputs_of_its_shape(cross_encoder: CrossEncoder) -> None:
    row = cross_encoder.inputs.evidence(QUERIES[1])[0]
    assert cross_encoder.outputs("verifier") == ("supported", "not supported")
    assert cross_encoder.outputs("answerer") == ("start", "end", "span", "yes", "no")
    for head in HEADS:
        (found,) = cross_encoder.score(head, [row])
        assert found.shape == (len(row.places), len(cross_encoder.outputs(head)))


def test_claim_and_passage_attend_to_each_other(cross_encoder: CrossEncoder) -> None:
    one, other = (
        (cross_encoder.inputs.sentence(Query(text), "Vardal", "A harbour town.")) for text in ("whales", "opera")
    )
    first, second = cross_encoder.score("reranker", [one, other])
    assert not np.allclose(first, second, atol=1e-5)


def test_saved_and_loaded_it_gives_the_same_scores(cross_encoder: CrossEncoder, saved: Path, tmp_path: Path) -> None:
    loaded = CrossEncoder.load(saved, dtype=torch.float32)
    assert loaded.config == cross_encoder.config
    assert_same_scores(loaded, cross_encoder)
    loaded.save(tmp_path / "again")
    for file in ("model.safetensors", "tokenizer.json", "config.json", "backbone.json"):
        assert (tmp_path / "again" / file).read_bytes() == (saved / file).read_bytes()


def test_notes_travel_with_it(backbone: Path, tmp_path: Path) -> None:
    cross_encoder = CrossEncoder.from_backbone(backbone, RERANKER)
    assert cross_encoder.notes == {}
    cross_encoder.notes["untrained"] = True
    cross_encoder.save(tmp_path / "noted")
    assert CrossEncoder.load(tmp_path / "noted").notes == {"untrained": True}


def test_bfloat16_is_close_and_cannot_be_saved(cross_encoder: CrossEncoder, saved: Path) -> None:
    rounded = CrossEncoder.load(saved, dtype=torch.bfloat16)
    autocast = CrossEncoder.load(saved, dtype=torch.bfloat16, trainable=True)
    expected = scores_of(cross_encoder)
    for other in (rounded, autocast):
        for head, found in scores_of(other).items():
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, expected[head], atol=0.05)
    with pytest.raises(CheckpointError, match="trainable=True"):
        rounded.save(saved)
    autocast.save(saved)


def test_the_same_seed_gives_the_same_heads(backbone: Path, cross_encoder: CrossEncoder) -> None:
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    again, other = (CrossEncoder.from_backbone(backbone, seed=seed, dtype=torch.float32) for seed in (0, 1))
    assert torch.equal(torch.random.get_rng_state(), before), "the global generator is unchanged"
    assert_same_scores(again, cross_encoder)
    assert not np.allclose(scores_of(other)["sentences"], scores_of(cross_encoder)["sentences"], atol=1e-3)


def test_gradients_reach_backbone_and_head(saved: Path) -> None:
    cross_encoder = CrossEncoder.load(saved, trainable=True)
    rows = sentence_rows(cross_encoder)[:3]
    scores = cross_encoder.model("sentences", cross_encoder.inputs.batch(rows))
    assert scores.shape == (sum(len(row.places) for row in rows), 1)
    torch.autograd.backward(scores.sum())
    assert all(parameter.grad is not None for parameter in cross_encoder.model.backbone.parameters())
    assert cross_encoder.model.heads["sentences"].output.weight.grad is not None
    assert cross_encoder.model.heads["facts"].output.weight.grad is None


def test_an_unknown_head_is_refused(backbone: Path) -> None:
    cross_encoder = CrossEncoder.from_backbone(backbone, {name: HEADS[name] for name in ("sentences", "facts")})
    with pytest.raises(CheckpointError, match="no head 'verifier', only sentences, facts"):
        cross_encoder.score("verifier", sentence_rows(cross_encoder)[:1])
    with pytest.raises(CheckpointError, match="no head 'sentence'"):
        cross_encoder.outputs("sentence")


def test_a_head_may_have_three_labels(backbone: Path, tmp_path: Path) -> None:
    CrossEncoder.from_backbone(backbone, {"verifier": HeadConfig(THREE_LABELS, pooled=True)}).save(tmp_path / "three")
    cross_encoder = CrossEncoder.load(tmp_path / "three")
    assert cross_encoder.outputs("verifier") == THREE_LABELS
    (found,) = cross_encoder.score("verifier", [cross_encoder.inputs.evidence(QUERIES[1])[0].at_cls()])
    assert found.shape == (1, 3)


def test_another_kind_of_checkpoint_is_refused(backbone: Path, saved: Path, tmp_path: Path) -> None:
    tiny_encoder(tmp_path).save(tmp_path / "retriever")
    with pytest.raises(CheckpointError, match="kind 'flipr', expected 'cross-encoder'"):
        CrossEncoder.load(tmp_path / "retriever")
    with pytest.raises(CheckpointError, match="kind 'cross-encoder', expected 'flipr'"):
        Encoder.load(saved)
    with pytest.raises(CheckpointError, match="plain Hugging Face model"):
        CrossEncoder.load(backbone)


def test_a_checkpoint_must_hold_exactly_its_heads(saved: Path) -> None:
    checkpoint = read_checkpoint(saved, KIND)
    fewer = {name: tensor for name, tensor in checkpoint.tensors.items() if not name.startswith("heads.facts")}
    write_checkpoint(saved, dataclasses.replace(checkpoint, tensors=fewer))
    with pytest.raises(CheckpointError, match=r"missing: heads\.facts"):
        CrossEncoder.load(saved)
    heads = {**checkpoint.settings["heads"], "facts": {"output": ["score"]}}
    write_checkpoint(saved, dataclasses.replace(checkpoint, settings={**checkpoint.settings, "heads": heads}))
    with pytest.raises(ConfigError, match="facts: there is no setting 'output'; did you mean 'outputs'"):
        CrossEncoder.load(saved)


def classifier_folder(folder: Path, labels: int = 1, seed: int = 3) -> Path:
    """Save a random BERT with a pooler and a classifier, like a cross-encoder of the hub."""
    from transformers import BertConfig, BertForSequenceClassification

    bert_folder(folder)
    config = BertConfig.from_pretrained(folder, num_labels=labels)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def test_the_reranker_starts_as_a_classifier_with_one_logit(tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification

    folder = classifier_folder(tmp_path / "classifier")
    cross_encoder = CrossEncoder.from_backbone(folder, dtype=torch.float32)
    rows = [row for passage in CORPUS for row in cross_encoder.inputs.passage(QUERIES[0], passage)]
    batch = cross_encoder.inputs.batch(rows)
    theirs = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        output = theirs(input_ids=batch.ids, attention_mask=batch.attention.long(), token_type_ids=batch.types)
    found = np.concatenate(cross_encoder.score("reranker", rows))
    np.testing.assert_allclose(found, output.logits.numpy(), atol=1e-5)
    cross_encoder.save(tmp_path / "saved")
    loaded = CrossEncoder.load(tmp_path / "saved", dtype=torch.float32)
    np.testing.assert_allclose(np.concatenate(loaded.score("reranker", rows)), found, atol=1e-5)


@pytest.mark.parametrize(
    ("labels", "head"), [(2, HEADS["reranker"]), (1, HeadConfig()), (1, HeadConfig(("a", "b"), pooled=True))]
)
def test_a_classifier_of_another_shape_is_ignored(tmp_path: Path, labels: int, head: HeadConfig) -> None:
    folder = classifier_folder(tmp_path / "classifier", labels)
    cross_encoder = CrossEncoder.from_backbone(folder, {"reranker": head})
    plain = CrossEncoder.from_backbone(bert_folder(tmp_path / "plain"), {"reranker": head})
    fresh, found = plain.model.heads.state_dict(), cross_encoder.model.heads.state_dict()
    assert all(torch.equal(found[name], tensor) for name, tensor in fresh.items())


@pytest.mark.parametrize("make", [electra_folder, roberta_folder])
def test_any_backbone_serves(make: Callable[[Path], Path], tmp_path: Path) -> None:
    cross_encoder = CrossEncoder.from_backbone(make(tmp_path / "backbone"), dtype=torch.float32)
    rows = cross_encoder.inputs.passage(Query("whale " * 300, QUERIES[1].facts), Passage("p", "t", "whale " * 400))
    assert max(map(len, rows)) == 512
    assert all(np.isfinite(found).all() for found in cross_encoder.score("reranker", rows))
    cross_encoder.save(tmp_path / "saved")
    assert_same_scores(CrossEncoder.load(tmp_path / "saved", dtype=torch.float32), cross_encoder)


def test_roberta_reads_its_own_tokens_and_one_type_of_them(tmp_path: Path) -> None:
    cross_encoder = CrossEncoder.from_backbone(roberta_folder(tmp_path / "backbone"), RERANKER, dtype=torch.float32)
    assert cross_encoder.config.marker == "<mask>"
    row = cross_encoder.inputs.sentence(Query("whales"), "", "whales sing")
    names = [cross_encoder.inputs.tokenizer.id_to_token(number) for number in row.ids]
    assert (names[0], names[row.right - 1], names[-1]) == ("<s>", "</s>", "</s>")
    assert cross_encoder.model.backbone.config.type_vocab_size == 1
    batch = cross_encoder.inputs.batch([row])
    assert batch.types.max() == 1, "which no embedding of this backbone would hold"
    assert cross_encoder.score("reranker", [row])[0].shape == (1, 1)


def test_a_tokenizer_without_mask_token_gets_a_marker(tmp_path: Path) -> None:
    folder = bert_folder(tmp_path / "backbone")
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "mask_token"}))
    cross_encoder = CrossEncoder.from_backbone(folder, dtype=torch.float32)
    assert cross_encoder.config.marker == "[unused2]"
    (row,) = cross_encoder.inputs.sentences(QUERIES[0], Passage.from_sentences("p", "t", ["a [unused2] b"]))
    number = cross_encoder.inputs.tokenizer.token_to_id("[unused2]")
    assert [place for place, token in enumerate(row.ids) if token == number] == row.places
    cross_encoder.save(tmp_path / "saved")
    assert_same_scores(CrossEncoder.load(tmp_path / "saved", dtype=torch.float32), cross_encoder)


def test_sequences_must_fit_the_backbone(tmp_path: Path) -> None:
    short = bert_folder(tmp_path / "short", max_position_embeddings=100)
    with pytest.raises(ConfigError, match="length = 512, but the backbone holds 100: set it lower"):
        CrossEncoder.from_backbone(short)
    cross_encoder = CrossEncoder.from_backbone(short, config=CrossConfig(length=100, query_length=50))
    assert cross_encoder.score(
        "reranker", cross_encoder.inputs.passage(Query("whale " * 99), Passage("p", "t", "whale " * 99))
    )
    cross_encoder.save(tmp_path / "saved")
    checkpoint = read_checkpoint(tmp_path / "saved", KIND)
    write_checkpoint(
        tmp_path / "saved", dataclasses.replace(checkpoint, settings={**checkpoint.settings, "length": 512})
    )
    with pytest.raises(ConfigError, match="length = 512, but the backbone holds 100"):
        CrossEncoder.load(tmp_path / "saved")


def test_roberta_holds_two_positions_fewer_than_it_has(tmp_path: Path) -> None:
    folder = roberta_folder(tmp_path / "backbone")
    with pytest.raises(ConfigError, match="holds 512"):
        CrossEncoder.from_backbone(folder, config=CrossConfig(length=513))


def test_inference_restores_train_mode(cross_encoder: CrossEncoder, saved: Path) -> None:
    training = CrossEncoder.load(saved, trainable=True, dtype=torch.float32)
    training.model.train()
    assert_same_scores(training, cross_encoder)
    assert training.model.backbone.training
