from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from baleen.core.errors import CheckpointError, ConfigError
from baleen.core.types import Passage, Query
from baleen.core.vectors import Floats
from baleen.index.scoring import focused_score
from baleen.models.backbone import principal_components
from baleen.models.checkpoint import read_checkpoint, write_checkpoint
from baleen.models.device import disable_cudnn_attention
from baleen.models.encoder import KIND, Encoder
from baleen.models.tokens import EncoderConfig
from fakes import CORPUS, QUERIES, bert_folder, electra_folder, roberta_folder, tiny_encoder

TEXTS = [passage.text for passage in CORPUS]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return tiny_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def saved(encoder: Encoder, tmp_path: Path) -> Path:
    encoder.save(tmp_path / "model")
    return tmp_path / "model"


def passage_vectors(encoder: Encoder, passages: list[Passage], **options: Any) -> list[Floats]:
    return [vectors for _, chunk in encoder.encode_passages(passages, **options) for vectors in chunk]


def assert_same(found: list[Floats], expected: list[Floats]) -> None:
    assert [vectors.shape for vectors in found] == [vectors.shape for vectors in expected]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.astype(np.float32), other.astype(np.float32), atol=1e-3)


def test_query_and_fact_vectors_are_separate_and_normalised(encoder: Encoder) -> None:
    plain, with_facts, short = encoder.encode_queries(QUERIES)
    assert plain.query.shape == with_facts.query.shape == short.query.shape == (64, 16)
    assert plain.facts.shape == (0, 16)
    assert len(with_facts.facts) == len(encoder.inputs.query_ids(QUERIES)[1].facts)
    for vectors in (plain.query, with_facts.query, with_facts.facts):
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)


def test_claim_and_facts_attend_to_each_other(encoder: Encoder) -> None:
    plain, with_facts = encoder.encode_queries(QUERIES[:2])
    assert not np.allclose(plain.query, with_facts.query, atol=1e-4)
    other = encoder.encode_queries([dataclasses.replace(QUERIES[1], text="Something else entirely")])[0]
    assert not np.allclose(other.facts, with_facts.facts, atol=1e-4)


def test_unattended_masks_do_not_change_the_claim(tmp_path: Path) -> None:
    padded = tiny_encoder(tmp_path / "a").encode_queries(QUERIES[:1])[0].query
    bare = tiny_encoder(tmp_path / "b", mask_padding=False).encode_queries(QUERIES[:1])[0].query
    seen = tiny_encoder(tmp_path / "c", attend_to_masks=True).encode_queries(QUERIES[:1])[0].query
    assert len(bare) < len(padded) == len(seen) == 64
    np.testing.assert_allclose(padded[: len(bare)], bare, atol=1e-5)
    assert not np.allclose(padded, seen, atol=1e-4)


@pytest.mark.parametrize("settings", [{}, {"mask_padding": False}, {"attend_to_masks": True}])
def test_a_query_does_not_depend_on_its_batch(tmp_path: Path, settings: dict[str, Any]) -> None:
    encoder = tiny_encoder(tmp_path, **settings)
    together = encoder.encode_queries(QUERIES)
    alone = [encoder.encode_queries([query])[0] for query in QUERIES]
    assert_same([vectors.query for vectors in together], [vectors.query for vectors in alone])
    assert_same([vectors.facts for vectors in together], [vectors.facts for vectors in alone])


def test_a_passage_does_not_depend_on_its_batch_or_chunk(encoder: Encoder) -> None:
    together = passage_vectors(encoder, CORPUS)
    alone = [passage_vectors(encoder, [passage])[0] for passage in CORPUS]
    assert_same(together, alone)
    assert_same(passage_vectors(encoder, CORPUS, chunk=3, batch_tokens=100), alone)


def test_passages_stream_with_at_most_two_chunks_in_advance(encoder: Encoder) -> None:
    taken: list[str] = []
    third = threading.Event()

    def source() -> Iterator[Passage]:
        for passage in CORPUS:
            taken.append(passage.pid)
            if len(taken) == 6:
                third.set()
            yield passage

    stream = encoder.encode_passages(source(), chunk=2)
    passages, vectors = next(stream)
    assert [passage.pid for passage in passages] == ["p0", "p1"]
    assert third.wait(10), "one chunk waits, and one is in the making"
    assert len(taken) == 6
    assert vectors.vectors.dtype == np.float16
    assert len(vectors) == 2
    assert [p.pid for part, _ in stream for p in part] == [f"p{i}" for i in range(2, 8)]
    assert list(encoder.encode_passages([])) == []


def test_vectors_are_of_kept_tokens_only(encoder: Encoder) -> None:
    (vectors,) = passage_vectors(encoder, [Passage("0", "a", "b, c.")])
    assert len(vectors) == 6  # [CLS] [unused1] a b c [SEP]


def test_saved_and_loaded_it_is_the_same_encoder(encoder: Encoder, saved: Path, tmp_path: Path) -> None:
    loaded = Encoder.load(saved)
    assert loaded.config == encoder.config
    assert loaded.fingerprint == encoder.fingerprint
    assert_same(passage_vectors(loaded, CORPUS), passage_vectors(encoder, CORPUS))
    loaded.save(tmp_path / "again")
    assert Encoder.load(tmp_path / "again").fingerprint == encoder.fingerprint
    for name in ("model.safetensors", "tokenizer.json", "config.json", "backbone.json"):
        assert (tmp_path / "again" / name).read_bytes() == (saved / name).read_bytes()


def test_half_precision_on_disk_survives_a_round_trip(encoder: Encoder, tmp_path: Path) -> None:
    encoder.save(tmp_path / "half", torch.float16)
    loaded = Encoder.load(tmp_path / "half")
    loaded.save(tmp_path / "again")
    assert read_checkpoint(tmp_path / "again", KIND).tensors["projection.weight"].dtype == torch.float16
    assert Encoder.load(tmp_path / "again").fingerprint == loaded.fingerprint != encoder.fingerprint
    assert next(loaded.model.parameters()).dtype == loaded.dtype


def test_the_fingerprint_follows_the_weights(saved: Path) -> None:
    encoder = Encoder.load(saved, trainable=True)
    before = encoder.fingerprint
    optimiser = torch.optim.AdamW(encoder.model.parameters(), lr=0.1)
    encoded = encoder.model.forward_passages(encoder.inputs.passage_batch(encoder.inputs.passage_ids(CORPUS)))
    torch.autograd.backward(encoded.vectors.sum())
    optimiser.step()
    assert encoder.fingerprint != before


def test_the_fingerprint_is_of_what_passages_depend_on(encoder: Encoder, saved: Path) -> None:
    def edited(**settings: Any) -> str:
        config = json.loads((saved / "config.json").read_text())
        config["settings"].update(settings)
        (saved / "config.json").write_text(json.dumps(config))
        return Encoder.load(saved).fingerprint

    assert edited(query_focus=None, mask_padding=False) == encoder.fingerprint
    assert edited(passage_length=128) != encoder.fingerprint


def test_settings_may_change_over_the_same_model(encoder: Encoder, saved: Path) -> None:
    plain = encoder.with_settings(query_focus=None, mask_padding=False)
    assert plain.model is encoder.model
    assert plain.config.query_focus is None
    assert encoder.config.mask_padding, "the first is left alone"
    assert len(plain.encode_queries(QUERIES)[0].query) < 64
    assert plain.fingerprint == encoder.fingerprint != encoder.with_settings(passage_length=9).fingerprint
    assert Encoder.load(saved, dtype=torch.bfloat16).with_settings(passage_length=9).fingerprint
    for changes in ({"dim": 8}, {"query_length": 100}, {"focus": 1}):
        with pytest.raises(ConfigError):
            encoder.with_settings(**changes)


def test_a_checkpoint_whose_lengths_do_not_fit_is_refused(saved: Path) -> None:
    checkpoint = read_checkpoint(saved, KIND)
    write_checkpoint(saved, dataclasses.replace(checkpoint, settings={**checkpoint.settings, "query_length": 100}))
    with pytest.raises(ConfigError, match="set facts_length to 412"):
        Encoder.load(saved)


def test_an_empty_list_gives_an_empty_list(encoder: Encoder) -> None:
    assert encoder.encode_queries([]) == []


def test_bfloat16_is_close_with_the_same_fingerprint_unsaveable(encoder: Encoder, saved: Path) -> None:
    rounded = Encoder.load(saved, dtype=torch.bfloat16)
    autocast = Encoder.load(saved, dtype=torch.bfloat16, trainable=True)
    assert rounded.fingerprint == autocast.fingerprint == encoder.fingerprint
    for other in (rounded, autocast):
        for found, expected in zip(passage_vectors(other, CORPUS), passage_vectors(encoder, CORPUS), strict=True):
            assert (found.astype(np.float32) * expected.astype(np.float32)).sum(axis=1).min() > 0.98
    with pytest.raises(CheckpointError, match="trainable=True"):
        rounded.save(saved)
    autocast.save(saved)


def test_cudnn_attention_is_disabled_on_a_gpu_only() -> None:
    backends: Any = torch.backends.cuda
    before = backends.cudnn_sdp_enabled()
    try:
        backends.enable_cudnn_sdp(True)
        disable_cudnn_attention(torch.device("cpu"))
        assert backends.cudnn_sdp_enabled()
        disable_cudnn_attention(torch.device("cuda"))
        assert not backends.cudnn_sdp_enabled()
        assert backends.flash_sdp_enabled()
    finally:
        backends.enable_cudnn_sdp(before)


def test_query_vectors_do_not_depend_on_batches(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [Query("one"), *QUERIES, Query("two")]
    whole = encoder.encode_queries(asked)
    monkeypatch.setattr(Encoder, "batch_tokens", 1)  # every query alone
    for together, alone in zip(whole, encoder.encode_queries(asked), strict=True):
        np.testing.assert_allclose(together.query, alone.query, atol=1e-5)
        np.testing.assert_allclose(together.facts, alone.facts, atol=1e-5)
    assert encoder.encode_queries([]) == []


def test_inference_restores_train_mode(encoder: Encoder, saved: Path) -> None:
    training = Encoder.load(saved, trainable=True)
    training.model.train()
    assert_same([training.encode_queries(QUERIES[:1])[0].query], [encoder.encode_queries(QUERIES[:1])[0].query])
    assert training.model.training
    assert training.model.backbone.training


def test_gradients_reach_backbone_and_projection(saved: Path) -> None:
    encoder = Encoder.load(saved, trainable=True)
    queries = encoder.model.forward_queries(encoder.inputs.query_batch(encoder.inputs.query_ids(QUERIES)))
    passages = encoder.model.forward_passages(encoder.inputs.passage_batch(encoder.inputs.passage_ids(CORPUS)))
    score = focused_score(
        queries.query, queries.query_mask, queries.facts, queries.facts_mask, passages.vectors, passages.mask
    )
    assert score.shape == (3, 8)
    torch.autograd.backward(score.sum())
    assert all(parameter.grad is not None for parameter in encoder.model.parameters())


@pytest.mark.parametrize("make", [bert_folder, electra_folder, roberta_folder])
def test_any_backbone_serves(make: Any, tmp_path: Path) -> None:
    encoder = Encoder.from_backbone(make(tmp_path / "backbone"), TEXTS, EncoderConfig(dim=8))
    encoder.save(tmp_path / "model")
    loaded = Encoder.load(tmp_path / "model")
    assert loaded.fingerprint == encoder.fingerprint
    long = Query("whale " * 100, (dataclasses.replace(QUERIES[1].facts[0], text="whale " * 500),))
    for found, expected in zip(loaded.encode_queries([long]), encoder.encode_queries([long]), strict=True):
        assert found.query.shape == (64, 8)
        assert found.facts.shape == (448, 8)
        assert_same([found.query, found.facts], [expected.query, expected.facts])


def test_new_marker_embeddings_start_at_the_mean(tmp_path: Path) -> None:
    folder = roberta_folder(tmp_path / "backbone")
    encoder = Encoder.from_backbone(folder, TEXTS, EncoderConfig(dim=8))
    weight = encoder.model.backbone.get_input_embeddings().weight
    number = encoder.inputs.tokenizer.token_to_id("[unused0]")
    assert number is not None
    assert number >= len(weight) - 2
    torch.testing.assert_close(weight[number], weight[:-2].mean(dim=0))


def test_sequences_must_fit_the_backbone(tmp_path: Path) -> None:
    short = bert_folder(tmp_path / "short", max_position_embeddings=100)
    with pytest.raises(ConfigError, match="holds 100: set facts_length to 36"):
        Encoder.from_backbone(short, TEXTS, EncoderConfig(dim=8, passage_length=100))
    with pytest.raises(ConfigError, match="passage_length = 256, but the backbone holds 100"):
        Encoder.from_backbone(short, TEXTS, EncoderConfig(dim=8, facts_length=36))
    Encoder.from_backbone(short, TEXTS, EncoderConfig(dim=8, passage_length=100, facts_length=36))


def test_a_plain_backbone_or_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"Encoder\.from_backbone"):
        Encoder.load(bert_folder(tmp_path / "backbone"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match="not a model that transformers can load"):
        Encoder.from_backbone(tmp_path / "empty", TEXTS)


def test_a_checkpoint_must_hold_exactly_the_models_tensors(saved: Path) -> None:
    checkpoint = read_checkpoint(saved, KIND)
    fewer = {name: tensor for name, tensor in checkpoint.tensors.items() if name != "projection.weight"}
    write_checkpoint(saved, dataclasses.replace(checkpoint, tensors=fewer))
    with pytest.raises(CheckpointError, match=r"missing: projection\.weight"):
        Encoder.load(saved)


def test_a_setting_that_does_not_exist_is_named(saved: Path) -> None:
    checkpoint = read_checkpoint(saved, KIND)
    write_checkpoint(saved, dataclasses.replace(checkpoint, settings={**checkpoint.settings, "query_lenght": 32}))
    with pytest.raises(ConfigError, match="did you mean 'query_length'"):
        Encoder.load(saved)


def test_the_starting_projection_keeps_neighbours() -> None:
    """Principal components keep a vector's nearest neighbour far more often than a random projection does."""
    generator = torch.Generator().manual_seed(0)
    spread = torch.diag(torch.linspace(1, 0.05, 24).square())
    vectors = torch.nn.functional.normalize(torch.randn(500, 24, generator=generator) @ spread, dim=-1)
    start = principal_components([vectors[:200], vectors[200:]], 8)
    products = start @ start.T
    torch.testing.assert_close(products, products.diag().diag(), atol=1e-5, rtol=0)
    assert products.trace().item() == pytest.approx(8.0, abs=1e-4)
    random = torch.linalg.qr(torch.randn(24, 8, generator=generator)).Q.T

    def neighbours(points: torch.Tensor) -> torch.Tensor:
        unit = torch.nn.functional.normalize(points, dim=-1)
        return (unit @ unit.T).fill_diagonal_(-2).argmax(dim=1)

    kept = [(neighbours(vectors @ p.T) == neighbours(vectors)).float().mean().item() for p in (start, random)]
    assert kept[0] > 2 * kept[1]


def test_a_projection_needs_text_and_room(tmp_path: Path) -> None:
    folder = bert_folder(tmp_path / "backbone")
    with pytest.raises(ConfigError, match="dim = 64, but the backbone's vectors have only 32"):
        Encoder.from_backbone(folder, TEXTS, EncoderConfig(dim=64))
    with pytest.raises(ConfigError, match="no text to fit the projection to"):
        Encoder.from_backbone(folder, [], EncoderConfig(dim=8))
    Encoder.from_backbone(folder, config=EncoderConfig(dim=8))
