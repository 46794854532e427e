"""Training of FLIPR: the focused score of positive passages against that of negative ones.

    train_retriever(encoder, records, corpus.__getitem__, "runs/retriever", TrainConfig(steps=10_000))
    encoder.save("checkpoints/retriever")

ColBERT is trained in the same way: an encoder whose `query_focus` and `facts_focus` are None sums over all vectors.

In-batch scores are computed without keeping similarities for the backward pass.  The similarities of 48 queries of 250
vectors and 192 passages of 250 take 2.3 GB, and autograd keeps several times that.  Here each query's similarities are
made, reduced and freed; the gradient needs only the places of the maxima.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from baleen.core.config import override, to_mapping
from baleen.core.types import Lookup
from baleen.index.scoring import FACTS_FOCUS, QUERY_FOCUS, focus, focused_score
from baleen.models.encoder import Encoder
from baleen.training.hop_order.supervision import Supervised
from baleen.training.loop.config import TrainConfig
from baleen.training.loop.sampling import Weights, record_weights
from baleen.training.loop.trainer import Outcome, Trainer
from baleen.training.losses import in_batch_loss, ranking_loss
from baleen.training.packing import can_pack_retriever, resolve_packing
from baleen.training.retriever.batches import RetrieverBatch, RetrieverBatches, RetrieverTraining
from baleen.training.retriever.rows import Ids, pad_token

AT_ONCE = 2**28  # similarities in memory, 1 GB


def lean_focused_score(
    query: Tensor,
    query_mask: Tensor,
    facts: Tensor,
    facts_mask: Tensor,
    passages: Tensor,
    passage_mask: Tensor,
    *,
    query_focus: int | None = QUERY_FOCUS,
    facts_focus: int | None = FACTS_FOCUS,
) -> Tensor:
    """`focused_score` of queries with shared passages (P, M, d): (Q, P), with the same gradients."""
    parts = ((query, query_mask, query_focus), (facts, facts_mask, facts_focus))
    terms = [
        focus(best_matches(vectors, passages, passage_mask), keep, mask.unsqueeze(1))
        for vectors, mask, keep in parts
        if vectors.shape[1]
    ]
    return torch.stack(terms).sum(dim=0)


def best_matches(vectors: Tensor, passages: Tensor, mask: Tensor, at_once: int | None = None) -> Tensor:
    """The best match of each vector in each passage: (Q, N, d), (P, M, d), (P, M) bool -> (Q, P, N).

    Tokens with a False mask are ignored; a passage without other tokens matches with 0.
    """
    found: Tensor = _BestMatches.apply(vectors, passages, mask, at_once or AT_ONCE)  # type: ignore[no-untyped-call]
    return found


class _BestMatches(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor, passages: Tensor, mask: Tensor, at_once: int) -> Tensor:
        shape = (len(vectors), len(passages), vectors.shape[1])
        matches, winners = vectors.new_empty(shape), vectors.new_empty(shape, dtype=torch.int16)
        absent = ~mask[None, :, None]  # (1, P, 1, M)
        for part in _parts(vectors, passages, at_once):
            similarity = torch.einsum("qnd,pmd->qpnm", vectors[part], passages).masked_fill_(absent, -torch.inf)
            matches[part], winners[part] = similarity.max(dim=-1)
        some = mask.any(dim=1)[None, :, None]
        ctx.save_for_backward(vectors, passages, winners, some)
        ctx.at_once = at_once
        return torch.where(some, matches, 0.0)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (gradient,) = gradients
        vectors, passages, winners, some = ctx.saved_tensors
        of_vectors, of_passages = torch.empty_like(vectors), torch.zeros_like(passages)
        gradient = torch.where(some, gradient, 0.0)
        for part in _parts(vectors, passages, ctx.at_once):
            shares = gradient.new_zeros((*gradient[part].shape, passages.shape[1]))  # (q, P, N, M)
            shares.scatter_(3, winners[part].long().unsqueeze(3), gradient[part].unsqueeze(3))
            of_vectors[part] = torch.einsum("qpnm,pmd->qnd", shares, passages)
            of_passages += torch.einsum("qpnm,qnd->pmd", shares, vectors[part])
        return of_vectors, of_passages, None, None


def _parts(vectors: Tensor, passages: Tensor, at_once: int) -> Iterator[slice]:
    """Slices of queries with at most `at_once` similarities, or of one query."""
    each = vectors.shape[1] * passages.shape[0] * passages.shape[1]
    size = max(1, at_once // max(1, each))
    return (slice(start, start + size) for start in range(0, len(vectors), size))


def train_retriever(
    encoder: Encoder,
    records: Sequence[Supervised],
    passage: Lookup,
    folder: str | Path,
    train: TrainConfig | None = None,
    *,
    config: RetrieverTraining | None = None,
    evaluate: Callable[[], float | Mapping[str, float]] | None = None,
    weights: Weights | None = None,
    tokens: Mapping[str, Ids] | None = None,
    resume: bool = False,
) -> Outcome:
    """Train `encoder` on its device on `records`; see `Trainer` for the rest.

    encoder     loaded with `trainable=True`; in one of several processes on `distributed.local_device()`
    passage     finds a passage by pid, and raises KeyError for an unknown one
    weights     how often the records of a question are drawn, by qid (default 1)
    tokens      known tokens of passages, by pid
    """
    train, config = override(train or TrainConfig(), device=str(encoder.device)), config or RetrieverTraining()
    task = RetrieverTask(encoder, config)
    can_pack = partial(can_pack_retriever, encoder.model, pad_token(encoder.inputs))
    batches = RetrieverBatches(
        encoder.inputs,
        records,
        passage,
        config,
        batch_size=train.batch_size,
        seed=train.seed,
        packing=resolve_packing(config.packing, encoder.device, can_pack),
        weights=weights,
        tokens=tokens,
    )
    about = {**to_mapping(config), **_about(encoder, records, weights)}
    trainer = Trainer(encoder.model, batches.batch, task.loss, train, folder, evaluate=evaluate, about=about)
    return trainer.run(resume=resume)


def _about(encoder: Encoder, records: Sequence[Supervised], weights: Weights | None) -> dict[str, Any]:
    """Other things that a resumed run must share: the encoder's settings, the records and their weights."""
    digest = hashlib.sha256(repr(record_weights(records, weights) or "").encode())
    for record in records:
        digest.update(f"{record.qid}\t{record.hop}\t{record.positives}\t{len(record.negatives)}\n".encode())
    return {"encoder": to_mapping(encoder.config), "records": digest.hexdigest()[:16]}


class RetrieverTask:
    """The loss of a batch under an encoder's model and focus."""

    def __init__(self, encoder: Encoder, config: RetrieverTraining) -> None:
        self._encoder, self._config = encoder, config

    def loss(self, batch: RetrieverBatch) -> dict[str, Tensor]:
        """`loss`, and `accuracy`: the share of positives that score above their own negatives."""
        scores = self.scores(batch)  # (B, P) in-batch, else (B, 1 + n)
        own = scores.gather(1, batch.columns) if self._config.in_batch else scores
        accuracy = (own.argmax(dim=1) == 0).float().mean()
        return {"loss": self._ranking(scores, batch), "accuracy": accuracy}

    def _ranking(self, scores: Tensor, batch: RetrieverBatch) -> Tensor:
        if not self._config.in_batch:
            return ranking_loss(scores, self._config.temperature)
        return in_batch_loss(scores, batch.columns[:, 0], batch.forbidden, temperature=self._config.temperature)

    def scores(self, batch: RetrieverBatch) -> Tensor:
        """Scores of every query with its own passages (B, 1 + n), or with all passages (B, P) if `in_batch`."""
        queries, passages = batch.texts.encode(self._encoder.model)
        vectors, mask = passages.vectors, passages.mask
        if not self._config.in_batch:
            vectors, mask = vectors[batch.columns], mask[batch.columns]  # (B, 1 + n, M, d), (B, 1 + n, M)
        query_focus, facts_focus = self._encoder.focus
        score = lean_focused_score if self._config.in_batch else focused_score
        # In float32 with every backbone: scores are sums of many small differences.
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
