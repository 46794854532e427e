"""The lean score and its gradients match `scoring.py`, for any number of similarities at once."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from baleen.index.scoring import focused_score
from baleen.training.retriever.task import best_matches, lean_focused_score

QUERIES, PASSAGES, TOKENS, DIM = 3, 4, 6, 5


def draw(seed: int, facts: int = 4) -> list[Tensor]:
    """Query, mask, facts, mask, passages, mask; some texts are shorter than others, one passage is empty."""
    generator = torch.Generator().manual_seed(seed)

    def vectors(*shape: int) -> Tensor:
        found = torch.randn(*shape, DIM, generator=generator, dtype=torch.float64)
        return torch.nn.functional.normalize(found, dim=-1).requires_grad_()

    def mask(rows: int, length: int) -> Tensor:
        lengths = torch.randint(1, length + 1, (rows, 1), generator=generator)
        return torch.arange(length) < lengths

    tokens = mask(PASSAGES, TOKENS)
    tokens[-1] = False
    query_mask, facts_mask = (
        mask(QUERIES, 7),
        mask(QUERIES, facts) if facts else torch.zeros(QUERIES, 0, dtype=torch.bool),
    )
    return [vectors(QUERIES, 7), query_mask, vectors(QUERIES, facts), facts_mask, vectors(PASSAGES, TOKENS), tokens]


@pytest.mark.parametrize("focus", [(3, 2), (None, None), (100, 100)])
@pytest.mark.parametrize("facts", [4, 0])
@pytest.mark.parametrize("seed", range(4))
def test_scores_and_gradients_match_the_reference(
    seed: int, facts: int, focus: tuple[int | None, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = torch.randn(QUERIES, PASSAGES, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    results = []
    for score, at_once in ((focused_score, 0), (lean_focused_score, 1), (lean_focused_score, 2**20)):
        monkeypatch.setattr("baleen.training.retriever.task.AT_ONCE", at_once)
        given = draw(seed, facts)
        scores = score(*given, query_focus=focus[0], facts_focus=focus[1])
        learnt = [given[place] for place in ((0, 2, 4) if facts else (0, 4))]
        results.append([scores.detach(), *torch.autograd.grad((scores * weights).sum(), learnt)])
    for ours in results[1:]:
        for one, other in zip(results[0], ours, strict=True):
            torch.testing.assert_close(one, other)


def test_gradients_match_finite_differences() -> None:
    query, _, _, _, passages, tokens = draw(9)
    assert torch.autograd.gradcheck(lambda q, p: best_matches(q, p, tokens, 50), (query, passages))


def test_a_passage_without_tokens_has_score_and_gradient_zero() -> None:
    query, _, _, _, passages, tokens = draw(2)
    matches = best_matches(query, passages, tokens)
    assert (matches[:, -1] == 0).all()
    (gradient,) = torch.autograd.grad(matches.sum(), passages)
    assert (gradient[~tokens] == 0).all()
    assert (gradient[tokens] != 0).any()


def test_no_similarities_are_kept_for_the_backward_pass() -> None:
    """Only inputs and places of maxima are kept, nothing with an entry for every pair of vectors."""
    query, _, _, _, passages, tokens = draw(3)
    kept: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        best_matches(query, passages, tokens)
    assert 0 < max(kept) < QUERIES * PASSAGES * 7 * TOKENS
