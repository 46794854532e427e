"""MaxSim and the focused score: pure functions over tensors, the reference that every kernel is tested against.

A query vector matches a passage as well as its most similar passage vector does (`maxsim`).  Plain late interaction
sums over all query vectors; focused interaction sums over the best matched ones only (`focus`), taken apart for the
claim and for the facts, so that a passage need not speak of everything that the query speaks of (`focused_score`).
"""

from __future__ import annotations

import torch
from torch import Tensor

QUERY_FOCUS = 32
FACTS_FOCUS = 8


def maxsim(query: Tensor, passages: Tensor, passage_mask: Tensor | None = None) -> Tensor:
    """How well each query vector is matched: (..., N, d), (..., M, d), (..., M) bool -> (..., N).

    Leading dimensions broadcast.  A passage token whose mask is False never wins, and a passage without any token
    matches every query vector with 0, what a vector without a direction would score.
    """
    return best_match(query @ passages.transpose(-1, -2), passage_mask)


def best_match(similarity: Tensor, passage_mask: Tensor | None = None) -> Tensor:
    """The maximum over passage tokens: (..., N, M), (..., M) bool -> (..., N); 0 where no token is valid.

    Ties give the whole gradient to one of the tied tokens.
    """
    if similarity.shape[-1] == 0:
        return similarity.new_zeros(similarity.shape[:-1])
    if passage_mask is None:
        return similarity.max(dim=-1).values
    mask = passage_mask.unsqueeze(-2)  # (..., 1, M)
    best = similarity.masked_fill(~mask, -torch.inf).max(dim=-1).values  # (..., N)
    return torch.where(mask.any(dim=-1), best, 0.0)


def focus(matches: Tensor, keep: int | None, mask: Tensor | None = None) -> Tensor:
    """The sum of the `keep` largest valid matches: (..., N), (..., N) bool -> (...).

    With `keep` or fewer valid matches, all of them are summed; None sums all, which is late interaction without focus.
    """
    if keep is None or keep >= matches.shape[-1]:
        return (matches if mask is None else torch.where(mask, matches, 0.0)).sum(dim=-1)
    if mask is None:
        return matches.topk(keep, dim=-1).values.sum(dim=-1)
    best = matches.masked_fill(~mask, -torch.inf).topk(keep, dim=-1).values  # (..., keep)
    return torch.where(best == -torch.inf, 0.0, best).sum(dim=-1)


def focused_score(
    query: Tensor,
    query_mask: Tensor | None,
    facts: Tensor | None,
    facts_mask: Tensor | None,
    passages: Tensor,
    passage_mask: Tensor | None,
    *,
    query_focus: int | None = QUERY_FOCUS,
    facts_focus: int | None = FACTS_FOCUS,
) -> Tensor:
    """The score of every query with its passages, differentiable: (Q, P).

    `query` (Q, N, d) and `facts` (Q, L, d) with masks (Q, N) and (Q, L); None stands for a mask that is True
    throughout, and for no facts at all.  `passages` is (P, M, d) with mask (P, M), which every query is scored
    against, or (Q, P, M, d) with mask (Q, P, M), where each query has passages of its own.
    """
    score = focus_over_passages(query, query_mask, passages, passage_mask, query_focus)
    if facts is None or facts.shape[1] == 0:
        return score
    return score + focus_over_passages(facts, facts_mask, passages, passage_mask, facts_focus)


def focus_over_passages(
    vectors: Tensor, mask: Tensor | None, passages: Tensor, passage_mask: Tensor | None, keep: int | None
) -> Tensor:
    """One term of `focused_score`: (Q, N, d) against (P, M, d) or (Q, P, M, d) -> (Q, P)."""
    # One product over shared passages, rather than a broadcast that would copy them once for every query.
    pattern = "qnd,pmd->qpnm" if passages.dim() == 3 else "qnd,qpmd->qpnm"
    similarity = torch.einsum(pattern, vectors, passages)  # (Q, P, N, M)
    matches = best_match(similarity, passage_mask)  # (Q, P, N)
    return focus(matches, keep, None if mask is None else mask.unsqueeze(1))
