"""Loss functions: pure, differentiable functions of scores.

    ranking_loss            a positive against its own negatives; with one negative, the paper's loss for retrievers
    in_batch_loss           a positive against every passage of the batch that is not another known positive
    sentence_loss           each positive sentence against the negatives of its example: condenser, stage 1
    fact_loss               the same, plus a binary loss per fact: condenser, stage 2
    label_loss, span_loss   readers

Every loss is a mean over the examples that have a label; without any it is 0, with a gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, log_softmax


def ranking_loss(scores: Tensor, temperature: float = 1.0) -> Tensor:
    """Cross-entropy of column 0 against the others: scores (B, 1 + n), positive first."""
    return cross_entropy(scores / temperature, scores.new_zeros(len(scores), dtype=torch.long))


def in_batch_loss(scores: Tensor, targets: Tensor, forbidden: Tensor, temperature: float = 1.0) -> Tensor:
    """Cross-entropy of each row's target column against all allowed columns.

    `scores` (B, P) of every query with every passage of the batch, `targets` (B,) int64 the columns of the positives,
    `forbidden` (B, P) bool the columns that must not count as negatives, such as other positives.
    """
    return cross_entropy(scores.masked_fill(forbidden, -torch.inf) / temperature, targets)


def sentence_loss(scores: Tensor, examples: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of each positive against all negatives of its example, averaged per example, then over examples.

    All sentences of a batch end to end: `scores` (S,), `examples` (S,) int64 the example of each, `labels` (S,) bool
    the positives.
    """
    same = examples.unsqueeze(1) == examples  # (S, S)
    negatives = scores.expand(len(scores), -1).masked_fill(~(same & ~labels), -torch.inf)  # (S, S)
    own = scores.unsqueeze(1)
    losses = torch.cat([own, negatives], dim=1).logsumexp(dim=1) - scores  # (S,)
    weights = labels / (same & labels).sum(dim=1).clamp(min=1)  # the positives of an example share its weight of 1
    return (losses * weights).sum() / weights.sum().clamp(min=1)


def fact_loss(scores: Tensor, examples: Tensor, labels: Tensor, weight: float = 1.0) -> Tensor:
    """`sentence_loss`, plus `weight` times the binary cross-entropy of every fact, which calibrates score 0."""
    binary = binary_cross_entropy_with_logits(scores, labels.to(scores.dtype))
    return sentence_loss(scores, examples, labels) + weight * binary


def label_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of the right label: logits (B, labels), labels (B,) int64."""
    return cross_entropy(logits, labels)


def span_loss(starts: Tensor, ends: Tensor, spans: Tensor, valid: Tensor, tokens: Tensor | None = None) -> Tensor:
    """Negative log-likelihood of choosing any acceptable span.

    `starts` and `ends` (B, T) score each token as first and last token of the answer.  `spans` (B, S, 2) int64 are
    acceptable first and last tokens, `valid` (B, S) bool masks the real spans, `tokens` (B, T) bool the tokens that may
    be part of an answer.  Rows without a real span do not count.
    """
    first, last = (_log_probabilities(scores, tokens) for scores in (starts, ends))  # (B, T) both
    likelihoods = first.gather(1, spans[..., 0]) + last.gather(1, spans[..., 1])  # (B, S)
    lowest = torch.finfo(likelihoods.dtype).min
    return _mean(-likelihoods.masked_fill(~valid, lowest).logsumexp(dim=1), valid.any(dim=1))


def _log_probabilities(scores: Tensor, tokens: Tensor | None) -> Tensor:
    return log_softmax(scores if tokens is None else scores.masked_fill(~tokens, torch.finfo(scores.dtype).min), dim=1)


def _mean(values: Tensor, rows: Tensor) -> Tensor:
    """Mean of `values` (B,) over the True `rows` (B,) bool; 0 without any."""
    return torch.where(rows, values, 0.0).sum() / rows.sum().clamp(min=1)
