"""Training FLIPR: the focused score of passages to find against that of passages to pass by.

train_retriever(encoder, records, corpus.__getitem__, "runs/retriever", TrainConfig(steps=10_000))
encoder.save("checkpoints/retriever")

ColBERT is trained the same way: an encoder whose `query_focus` and `facts_focus` are None sums over all vectors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from baleen.config import override, to_mapping
from baleen.encoder import Encoder
from baleen.errors import ConfigError
from baleen.scoring import focused_score
from baleen.training.layouts import can_pack
from baleen.training.lean_scores import lean_focused_score
from baleen.training.loop import Outcome, Trainer
from baleen.training.losses import in_batch_loss, ranking_loss
from baleen.training.retriever_batches import (
    Labelled,
    RetrieverBatch,
    RetrieverBatches,
    RetrieverTraining,
)
from baleen.training.sampling import Weights, weights_of
from baleen.training.settings import TrainConfig
from baleen.training.token_rows import Ids, pad_token
from baleen.types import Lookup

__all__ = ["RetrieverTask", "RetrieverTraining", "train_retriever"]


def train_retriever(
    encoder: Encoder,
    records: Sequence[Labelled],
    passage: Lookup,
    folder: str | Path,
    train: TrainConfig | None = None,
    config: RetrieverTraining | None = None,
    *,
    evaluate: Callable[[], float | Mapping[str, float]] | None = None,
    weights: Weights | None = None,
    tokens: Mapping[str, Ids] | None = None,
    resume: bool = False,
) -> Outcome:
    """Train `encoder` on its device, on `records` whose passages `passage` finds by pid; see `Trainer` for the rest.

    `encoder` is loaded with `trainable=True`, and in a process of several on `distributed.local_device()`.  `passage`
    raises KeyError for a pid that it does not know.  `weights` says how often questions are taken, by qid (default: 1);
    `tokens` holds those of passages that are known already.
    """
    train, config = override(train or TrainConfig(), device=str(encoder.device)), config or RetrieverTraining()
    task = RetrieverTask(encoder, config)
    batches = RetrieverBatches(
        encoder.inputs,
        records,
        passage,
        config,
        batch_size=train.batch_size,
        seed=train.seed,
        packing=_packing(encoder, config.packing),
        weights=weights,
        tokens=tokens,
    )
    about = {**to_mapping(config), **_about(encoder, records, weights)}
    trainer = Trainer(encoder.model, batches.batch, task.loss, train, folder, evaluate=evaluate, about=about)
    return trainer.run(resume=resume)


def _packing(encoder: Encoder, wanted: bool | None) -> bool:
    if wanted is None and encoder.device.type != "cuda":
        return False
    possible = wanted is not False and can_pack(encoder.model, pad_token(encoder.inputs))
    if wanted and not possible:
        raise ConfigError("packing = true, but the backbone does not keep texts in one row apart: set it to false")
    return possible


def _about(encoder: Encoder, records: Sequence[Labelled], weights: Weights | None) -> dict[str, Any]:
    """What else a resumed run must have in common: how text is read and scored, the records and their weights."""
    digest = hashlib.sha256(repr(weights_of(records, weights) or "").encode())
    for record in records:
        digest.update(f"{record.qid}\t{record.hop}\t{record.positives}\t{len(record.negatives)}\n".encode())
    return {"encoder": to_mapping(encoder.config), "records": digest.hexdigest()[:16]}


class RetrieverTask:
    """The loss of a batch under an encoder's model and focus."""

    def __init__(self, encoder: Encoder, config: RetrieverTraining) -> None:
        self._encoder, self._config = encoder, config

    def loss(self, batch: RetrieverBatch) -> dict[str, Tensor]:
        """`loss`, and `accuracy`: how often a positive beats its own negatives."""
        scores = self.scores(batch)  # (B, P) in-batch, else (B, 1 + n)
        own = scores.gather(1, batch.columns) if self._config.in_batch else scores
        accuracy = (own.argmax(dim=1) == 0).float().mean()
        return {"loss": self._ranking(scores, batch), "accuracy": accuracy}

    def _ranking(self, scores: Tensor, batch: RetrieverBatch) -> Tensor:
        if not self._config.in_batch:
            return ranking_loss(scores, self._config.temperature)
        return in_batch_loss(scores, batch.columns[:, 0], batch.forbidden, temperature=self._config.temperature)

    def scores(self, batch: RetrieverBatch) -> Tensor:
        """Of every query with its own passages (B, 1 + n), or `in_batch` with all passages (B, P)."""
        queries, passages = batch.texts.encode(self._encoder.model)
        vectors, mask = passages.vectors, passages.mask
        if not self._config.in_batch:
            vectors, mask = vectors[batch.columns], mask[batch.columns]  # (B, 1 + n, M, d), (B, 1 + n, M)
        query_focus, facts_focus = self._encoder.focus
        score = lean_focused_score if self._config.in_batch else focused_score
        # In float32, whatever the backbone computes in: scores are sums of many small differences.
        with torch.autocast(vectors.device.type, enabled=False):
            return score(
                queries.query,
                queries.query_mask,
                queries.facts,
                queries.facts_mask,
                vectors,
                mask,
                query_focus=query_focus,
                facts_focus=facts_focus,
            )
