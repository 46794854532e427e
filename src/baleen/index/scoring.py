"""MaxSim and the focused score: pure functions over tensors, the reference that every kernel is tested against.

A query vector matches a passage by its similarity to the most similar passage vector (`maxsim`).  Late interaction
sums over all query vectors.  Focused interaction sums over the best matches only (`focus`), for the claim and for the
facts apart, so a passage need not cover everything that the query mentions (`focused_score`).
"""

from __future__ import annotations

import torch
from torch import Tensor

QUERY_FOCUS = 32
FACTS_FOCUS = 8


def maxsim(query: Tensor, passages: Tensor, passage_mask: Tensor | None = None) -> Tensor:
    """The best match of each query vector: (..., N, d), (..., M, d), (..., M) bool -> (..., N).

    Leading dimensions broadcast.  Masked passage tokens never match.  A passage without tokens matches with 0, the
    score of a zero vector.
    """
    return best_match(query @ passages.transpose(-1, -2), passage_mask)


def best_match(similarity: Tensor, passage_mask: Tensor | None = None) -> Tensor:
    """The maximum over passage tokens: (..., N, M), (..., M) bool -> (..., N); 0 where no token is valid.

    Of tied tokens one gets the whole gradient.
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

    Sums all of them if there are at most `keep`, or if `keep` is None (late interaction without focus).
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

    query, facts    (Q, N, d) and (Q, L, d), with masks (Q, N) and (Q, L); None: all valid, or no facts
    passages        (P, M, d) with mask (P, M), shared by all queries; or (Q, P, M, d) with mask (Q, P, M), per query
    """
    score = focus_over_passages(query, query_mask, passages, passage_mask, query_focus)
    if facts is None or facts.shape[1] == 0:
        return score
    return score + focus_over_passages(facts, facts_mask, passages, passage_mask, facts_focus)


def focus_over_passages(
    vectors: Tensor, mask: Tensor | None, passages: Tensor, passage_mask: Tensor | None, keep: int | None
) -> Tensor:
    """One term of `focused_score`: (Q, N, d) against (P, M, d) or (Q, P, M, d) -> (Q, P)."""
    # One einsum over shared passages: a broadcast would copy them for every query.
    pattern = "qnd,pmd->qpnm" if passages.dim() == 3 else "qnd,qpmd->qpnm"
    similarity = torch.einsum(pattern, vectors, passages)  # (Q, P, N, M)
    matches = best_match(similarity, passage_mask)  # (Q, P, N)
    return focus(matches, keep, None if mask is None else mask.unsqueeze(1))
