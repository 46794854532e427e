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
from torch.nn.functional import pad

from baleen.config import override, to_mapping
from baleen.encoder import Encoder
from baleen.errors import ConfigError
from baleen.flipr import EncodedPassages, EncodedQueries
from baleen.scoring import focused_score
from baleen.training.loop import Outcome, Trainer
from baleen.training.losses import distillation_loss, in_batch_loss, ranking_loss
from baleen.training.retriever_batches import (
    Labelled,
    RetrieverBatch,
    RetrieverBatches,
    RetrieverTraining,
    TeacherScores,
)
from baleen.training.settings import TrainConfig
from baleen.training.token_rows import Lookup

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
    resume: bool = False,
) -> Outcome:
    """Train `encoder` on its device, on `records` whose passages `passage` finds by pid; see `Trainer` for the rest.

    `encoder` is loaded with `trainable=True`, and in a process of several on `distributed.local_device()`.  `passage`
    raises KeyError for a pid that it does not know.  `teacher` holds a teacher's scores by (qid, hop) and pid.
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
    )
    about = {**to_mapping(config), **_about(encoder, records)}
    trainer = Trainer(encoder.model, batches.batch, task.loss, train, folder, evaluate=evaluate, about=about)
    return trainer.run(resume=resume)


def _about(encoder: Encoder, records: Sequence[Labelled]) -> dict[str, Any]:
    """What else a resumed run must have in common: how text is read and scored, and the records."""
    digest = hashlib.sha256()
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
        model = self._encoder.model
        queries = join_queries([model.forward_queries(group) for group in batch.queries], batch.query_places)
        passages = join_passages([model.forward_passages(group) for group in batch.passages], batch.passage_places)
        vectors, mask = passages.vectors, passages.mask
        if not self._config.in_batch:
            vectors, mask = vectors[batch.columns], mask[batch.columns]  # (B, 1 + n, M, d), (B, 1 + n, M)
        query_focus, facts_focus = self._encoder.focus
        # In float32, whatever the backbone computes in: scores are sums of many small differences.
        with torch.autocast(vectors.device.type, enabled=False):
            return focused_score(
                queries.query,
                queries.query_mask,
                queries.facts,
                queries.facts_mask,
                vectors,
                mask,
                query_focus=query_focus,
                facts_focus=facts_focus,
            )


def join_queries(groups: Sequence[EncodedQueries], places: Tensor) -> EncodedQueries:
    """Groups of queries as one, each query at its place."""
    return EncodedQueries(
        _joined([group.query for group in groups], places),
        _joined([group.query_mask for group in groups], places),
        _joined([group.facts for group in groups], places),
        _joined([group.facts_mask for group in groups], places),
    )


def join_passages(groups: Sequence[EncodedPassages], places: Tensor) -> EncodedPassages:
    """Groups of passages as one, each passage at its place."""
    return EncodedPassages(
        _joined([group.vectors for group in groups], places), _joined([group.mask for group in groups], places)
    )


def _joined(parts: Sequence[Tensor], places: Tensor) -> Tensor:
    """Parts (b, m, ...) end to end, filled up with 0 to the widest m, and the rows at `places` taken from there."""
    width = max(part.shape[1] for part in parts)
    filled = [pad(part, [0, 0] * (part.dim() - 2) + [0, width - part.shape[1]]) for part in parts]
    return torch.cat(filled).index_select(0, places)
