"""The focused score of every query of a batch with every passage of it, without keeping a similarity for the way back.

Of 48 queries of 250 vectors and 192 passages of 250, similarities take 2.3 GB, and what autograd keeps of the steps from
them to their maxima several times that.  Here each query's are made, reduced and let go; where each maximum stood is
all that the gradient needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from baleen.scoring import FACTS_FOCUS, QUERY_FOCUS, focus

AT_ONCE = 2**28  # similarities: 1 GB of them


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
    """How well each vector is matched by each passage: (Q, N, d), (P, M, d), (P, M) bool -> (Q, P, N).

    A token whose mask is False never wins; a passage without any other matches with 0.
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
    """As many queries as have `at_once` similarities, one at least."""
    each = vectors.shape[1] * passages.shape[0] * passages.shape[1]
    size = max(1, at_once // max(1, each))
    return (slice(start, start + size) for start in range(0, len(vectors), size))
