from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from baleen.index.scoring import best_match, focus, focused_score, maxsim

UNHURRIED = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])

FOCI = st.sampled_from([None, 1, 2, 3, 50])
SIZES = {
    "queries": st.integers(1, 3),
    "n": st.integers(1, 6),
    "facts": st.integers(0, 5),
    "passages": st.integers(1, 4),
    "m": st.integers(1, 6),
    "seed": st.integers(0, 10_000),
}


def random_vectors(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.nn.functional.normalize(torch.randn(*shape, 4, generator=generator, dtype=torch.float64), dim=-1)


def random_mask(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=generator) < 0.7


def slow_term(vectors: Tensor, mask: Tensor, passage: Tensor, passage_mask: Tensor, keep: int | None) -> float:
    """One query against one passage, by the definition."""
    best = []
    for vector in vectors[mask]:
        products = [
            sum(a * b for a, b in zip(vector.tolist(), token.tolist(), strict=True)) for token in passage[passage_mask]
        ]
        best.append(max(products) if products else 0.0)
    return sum(sorted(best, reverse=True)[:keep])


@UNHURRIED
@given(query_focus=FOCI, facts_focus=FOCI, own=st.booleans(), **SIZES)
def test_focused_score_equals_its_definition(
    queries: int, n: int, facts: int, passages: int, m: int, seed: int, query_focus: int, facts_focus: int, own: bool
) -> None:
    generator = torch.Generator().manual_seed(seed)
    query, query_mask = random_vectors(generator, queries, n), random_mask(generator, queries, n)
    fact, fact_mask = random_vectors(generator, queries, facts), random_mask(generator, queries, facts)
    shape = (queries, passages, m) if own else (passages, m)
    passage, passage_mask = random_vectors(generator, *shape), random_mask(generator, *shape)
    found = focused_score(
        query, query_mask, fact, fact_mask, passage, passage_mask, query_focus=query_focus, facts_focus=facts_focus
    )
    assert found.shape == (queries, passages)
    for q in range(queries):
        for p in range(passages):
            tokens, valid = (passage[q, p], passage_mask[q, p]) if own else (passage[p], passage_mask[p])
            expected = slow_term(query[q], query_mask[q], tokens, valid, query_focus)
            expected += slow_term(fact[q], fact_mask[q], tokens, valid, facts_focus)
            assert found[q, p].item() == pytest.approx(expected, abs=1e-9)


@UNHURRIED
@given(
    keep=st.integers(1, 8), values=st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=8), seed=st.integers(0, 99)
)
def test_focus_ignores_the_order_of_the_matches(keep: int, values: list[float], seed: int) -> None:
    matches = torch.tensor(values, dtype=torch.float64)
    order = torch.randperm(len(values), generator=torch.Generator().manual_seed(seed))
    assert focus(matches[order], keep).item() == pytest.approx(focus(matches, keep).item(), abs=1e-9)


@UNHURRIED
@given(seed=st.integers(0, 99))
def test_passage_tokens_have_no_order(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    query, passage, mask = random_vectors(generator, 3), random_vectors(generator, 5), random_mask(generator, 5)
    order = torch.randperm(5, generator=generator)
    torch.testing.assert_close(maxsim(query, passage, mask), maxsim(query, passage[order], mask[order]))


def test_masked_tokens_never_match() -> None:
    query, passage = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0], [-0.5, 0.0]])
    assert maxsim(query, passage, torch.tensor([False, True])).tolist() == [-0.5]


def test_a_passage_without_tokens_scores_zero() -> None:
    query = torch.tensor([[1.0, 0.0], [0.0, 1.0]], requires_grad=True)
    passages = torch.ones(2, 3, 2)
    mask = torch.tensor([[False, False, False], [True, True, True]])
    matches = maxsim(query, passages, mask)
    assert matches.tolist() == [[0.0, 0.0], [1.0, 1.0]]
    assert best_match(torch.empty(2, 0)).tolist() == [0.0, 0.0]
    (gradient,) = torch.autograd.grad(matches.sum(), query)
    assert gradient.isfinite().all()


def test_fewer_vectors_than_the_focus_are_all_summed() -> None:
    matches = torch.tensor([0.5, -0.25, 0.9])
    assert focus(matches, 8).item() == pytest.approx(1.15)
    assert focus(matches, 2, torch.tensor([False, True, False])).item() == pytest.approx(-0.25)
    assert focus(matches, 2, torch.zeros(3, dtype=torch.bool)).item() == 0.0


def test_no_facts_add_nothing() -> None:
    generator = torch.Generator().manual_seed(0)
    query, passages = random_vectors(generator, 2, 5), random_vectors(generator, 3, 6)
    without = focused_score(query, None, None, None, passages, None)
    empty = focused_score(query, None, query[:, :0], None, passages, None)
    masked = focused_score(query, None, query, torch.zeros(2, 5, dtype=torch.bool), passages, None)
    assert torch.equal(without, empty)
    assert torch.allclose(without, masked)


def test_only_the_best_matches_get_gradients() -> None:
    generator = torch.Generator().manual_seed(1)
    query = random_vectors(generator, 1, 6).requires_grad_()
    passages = random_vectors(generator, 1, 5).requires_grad_()
    score = focused_score(query, None, None, None, passages, None, query_focus=2)
    of_query, of_passages = torch.autograd.grad(score.sum(), (query, passages))
    similarity = (query @ passages.transpose(-1, -2))[0]
    kept = similarity.max(-1).values.topk(2).indices
    winners = similarity.argmax(-1)[kept]
    assert set(of_query[0].abs().sum(-1).nonzero().flatten().tolist()) == set(kept.tolist())
    assert set(of_passages[0].abs().sum(-1).nonzero().flatten().tolist()) == set(winners.tolist())


def test_gradients_equal_finite_differences() -> None:
    generator = torch.Generator().manual_seed(2)
    query, facts = random_vectors(generator, 2, 4).requires_grad_(), random_vectors(generator, 2, 3).requires_grad_()
    passages = random_vectors(generator, 3, 5).requires_grad_()
    masks = random_mask(generator, 2, 4), random_mask(generator, 2, 3), random_mask(generator, 3, 5)

    def score(query: Tensor, facts: Tensor, passages: Tensor) -> Tensor:
        return focused_score(query, masks[0], facts, masks[1], passages, masks[2], query_focus=2, facts_focus=1)

    assert torch.autograd.gradcheck(score, (query, facts, passages))


def test_focus_ignores_the_worst_matches() -> None:
    """A passage about half of the query beats one vaguely near all of it, which a plain sum prefers."""
    query = torch.eye(4).unsqueeze(0)
    half = torch.eye(4)[:2]
    vague = torch.full((2, 4), 0.55)
    passages = torch.stack([half, vague])
    focused = focused_score(query, None, None, None, passages, None, query_focus=2)[0]
    plain = focused_score(query, None, None, None, passages, None, query_focus=None)[0]
    assert focused[0] > focused[1]
    assert plain[0] < plain[1]
