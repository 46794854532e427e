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
from baleen.flipr import EncodedPassages
from baleen.scoring import focused_score
from baleen.training.layouts import can_pack
from baleen.training.lean_scores import lean_focused_score
from baleen.training.loop import Outcome, Trainer
from baleen.training.losses import distillation_loss, in_batch_loss, ranking_loss
from baleen.training.retriever_batches import (
    Labelled,
    RetrieverBatch,
    RetrieverBatches,
    RetrieverTraining,
    TeacherScores,
)
from baleen.training.rounding import rounded
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
    teacher: TeacherScores | None = None,
    weights: Weights | None = None,
    tokens: Mapping[str, Ids] | None = None,
    resume: bool = False,
) -> Outcome:
    """Train `encoder` on its device, on `records` whose passages `passage` finds by pid; see `Trainer` for the rest.

    `encoder` is loaded with `trainable=True`, and in a process of several on `distributed.local_device()`.  `passage`
    raises KeyError for a pid that it does not know.  `teacher` holds a teacher's scores by query and pid, `weights`
    how often questions are taken, by qid; 1 where nothing is said; `tokens` those of passages that are known already.
    """
    train, config = override(train or TrainConfig(), device=str(encoder.device)), config or RetrieverTraining()
    if config.distillation and not teacher:
        raise ConfigError(f"distillation = {config.distillation}, but there are no scores of a teacher")
    task = RetrieverTask(encoder, config)
    batches = RetrieverBatches(
        encoder.inputs,
        records,
        passage,
        config,
        batch_size=train.batch_size,
        seed=train.seed,
        teacher=teacher if config.distillation else None,
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
        """`loss`; its parts where there are several; and `accuracy`, how often a positive beats its own negatives."""
        scores = self.scores(batch)  # (B, P) in-batch, else (B, 1 + n)
        own = scores.gather(1, batch.columns) if self._config.in_batch else scores
        accuracy = (own.argmax(dim=1) == 0).float().mean()
        ranking = self._ranking(scores, batch)
        if not self._config.distillation:
            return {"loss": ranking, "accuracy": accuracy}
        distilled = distillation_loss(own, batch.teacher, ~batch.teacher.isnan(), self._config.distillation_temperature)
        total = ranking + self._config.distillation * distilled
        return {"loss": total, "ranking": ranking, "distillation": distilled, "accuracy": accuracy}

    def _ranking(self, scores: Tensor, batch: RetrieverBatch) -> Tensor:
        if not self._config.in_batch:
            return ranking_loss(scores, self._config.temperature)
        return in_batch_loss(scores, batch.columns[:, 0], batch.forbidden, temperature=self._config.temperature)

    def scores(self, batch: RetrieverBatch) -> Tensor:
        """Of every query with its own passages (B, 1 + n), or `in_batch` with all passages (B, P)."""
        queries, passages = batch.texts.encode(self._encoder.model)
        vectors, mask = self._rounded(passages), passages.mask
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

    def _rounded(self, passages: EncodedPassages) -> Tensor:
        """Passage vectors as they are scored: (P, M, d)."""
        if self._config.rounding is None:
            return passages.vectors
        with torch.autocast(passages.vectors.device.type, enabled=False):
            return rounded(passages.vectors.float(), passages.mask, self._config.rounding)
