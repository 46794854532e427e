"""Overriding the dropout rates of a model, and restoring them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel, ModernBertConfig, ModernBertModel

from baleen.training.loop.optimizer import override_dropout
from training_fakes import Toy, settings, train

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 40}


def bert() -> BertModel:
    return BertModel(BertConfig(**SIZES, hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.2))


def modern_bert() -> ModernBertModel:
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
    dropped = {"attention_dropout": 0.2, "embedding_dropout": 0.3, "mlp_dropout": 0.3}
    return ModernBertModel(ModernBertConfig(**SIZES, **tokens, **dropped))


def rates(model: nn.Module) -> list[float]:
    return [part.p for part in model.modules() if isinstance(part, nn.Dropout)]


@pytest.mark.parametrize("made", [bert, modern_bert])
def test_without_dropout_training_and_evaluation_agree(made: Callable[[], nn.Module]) -> None:
    model, ids = made(), torch.arange(12).view(2, 6)
    with torch.no_grad():
        at_rest = model.eval()(ids).last_hidden_state
        model.train()
        with override_dropout(model, 0.0):
            assert torch.allclose(model(ids).last_hidden_state, at_rest, atol=1e-6)
        assert not torch.allclose(model(ids).last_hidden_state, at_rest, atol=1e-2)


def test_dropout_rates_are_restored_even_after_an_error() -> None:
    model = bert()
    own = rates(model)
    assert set(own) == {0.2, 0.3}

    def fail() -> None:
        with override_dropout(model, 0.7):
            assert set(rates(model)) == {0.7}
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert rates(model) == own


def test_none_keeps_the_dropout_rates() -> None:
    toy = Toy(dropout=0.4)
    with override_dropout(toy, None):
        assert toy.dropout.p == 0.4
    assert toy.dropout.p == 0.4


@pytest.mark.usefixtures("one_thread")
def test_training_uses_the_given_dropout_rate(tmp_path: Path) -> None:
    own, _ = train(tmp_path / "own", toy=Toy(dropout=0.0))
    without, task = train(tmp_path / "without", settings(dropout=0.0), toy=Toy(dropout=0.4))
    other, _ = train(tmp_path / "other", toy=Toy(dropout=0.4))
    assert without.loss == own.loss != other.loss
    assert task.toy.dropout.p == 0.4
