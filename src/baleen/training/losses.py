"""What training minimises: pure, differentiable functions over scores.

    ranking_loss            a positive against its own negatives; with one negative, the paper's loss for retrievers
    in_batch_loss           a positive against every passage of the batch that is not known to be another positive
    sentence_loss           each positive sentence against the negatives of its example: condenser, stage 1
    fact_loss               that, and whether each fact is one: condenser, stage 2
    label_loss, span_loss   readers

Every loss is a mean over the examples that say something; where none does, it is 0 and still has a gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, log_softmax


def ranking_loss(scores: Tensor, temperature: float = 1.0) -> Tensor:
    """Cross-entropy of column 0 against the others: scores (B, 1 + n) with each row's positive first."""
    return cross_entropy(scores / temperature, scores.new_zeros(len(scores), dtype=torch.long))


def in_batch_loss(scores: Tensor, targets: Tensor, forbidden: Tensor, temperature: float = 1.0) -> Tensor:
    """Cross-entropy of each row's target column against all other columns that are allowed.

    `scores` (B, P) is of every query with every passage of the batch, `targets` (B,) int64 names each row's positive,
    and `forbidden` (B, P) bool the columns that must not count as its negatives, such as its other positives.
    """
    return cross_entropy(scores.masked_fill(forbidden, -torch.inf) / temperature, targets)


def sentence_loss(scores: Tensor, examples: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of each positive against all negatives of its example, averaged by example and then over examples.

    All of a batch's sentences stand end to end: `scores` (S,), `examples` (S,) int64 for whose they are, and `labels`
    (S,) bool for the positives.
    """
    same = examples.unsqueeze(1) == examples  # (S, S)
    rivals = scores.expand(len(scores), -1).masked_fill(~(same & ~labels), -torch.inf)  # (S, S)
    own = scores.unsqueeze(1)
    losses = torch.cat([own, rivals], dim=1).logsumexp(dim=1) - scores  # (S,)
    weights = labels / (same & labels).sum(dim=1).clamp(min=1)  # the positives of an example share its weight of 1
    return (losses * weights).sum() / weights.sum().clamp(min=1)


def fact_loss(scores: Tensor, examples: Tensor, labels: Tensor, weight: float = 1.0) -> Tensor:
    """`sentence_loss`, plus `weight` times the binary cross-entropy of every fact, which sets where 0 lies."""
    binary = binary_cross_entropy_with_logits(scores, labels.to(scores.dtype))
    return sentence_loss(scores, examples, labels) + weight * binary


def label_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of the right label: logits (B, labels), labels (B,) int64."""
    return cross_entropy(logits, labels)


def span_loss(starts: Tensor, ends: Tensor, spans: Tensor, valid: Tensor, tokens: Tensor | None = None) -> Tensor:
    """The negative log of the probability that any acceptable span is chosen.

    `starts` and `ends` (B, T) score each token as the first and the last one of the answer; `spans` (B, S, 2) int64
    holds first and last tokens, `valid` (B, S) bool which of them are real, `tokens` (B, T) bool which tokens may be
    part of an answer.  Rows without a real span are left out of the mean.
    """
    first, last = (_log_probabilities(scores, tokens) for scores in (starts, ends))  # (B, T) both
    likelihoods = first.gather(1, spans[..., 0]) + last.gather(1, spans[..., 1])  # (B, S)
    lowest = torch.finfo(likelihoods.dtype).min
    return _mean(-likelihoods.masked_fill(~valid, lowest).logsumexp(dim=1), valid.any(dim=1))


def _log_probabilities(scores: Tensor, tokens: Tensor | None) -> Tensor:
    return log_softmax(scores if tokens is None else scores.masked_fill(~tokens, torch.finfo(scores.dtype).min), dim=1)


def _mean(values: Tensor, rows: Tensor) -> Tensor:
    """The mean of `values` (B,) over the `rows` (B,) bool that count; 0 where none does."""
    return torch.where(rows, values, 0.0).sum() / rows.sum().clamp(min=1)
