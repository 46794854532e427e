"""Each loss against plain loops."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from baleen.training.losses import fact_loss, in_batch_loss, label_loss, ranking_loss, sentence_loss, span_loss

TEMPERATURES = (1.0, 0.5, 3.0)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(3)


def surprise(right: float, wrong: list[float]) -> float:
    """Negative log of the softmax of `right`."""
    return -math.log(math.exp(right) / (math.exp(right) + sum(map(math.exp, wrong))))


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def scores(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("negatives", [1, 4])
def test_ranking_loss_compares_the_first_column_with_the_others(negatives: int, temperature: float) -> None:
    given = scores(5, 1 + negatives)
    rows = [[s / temperature for s in row] for row in given.tolist()]
    assert ranking_loss(given, temperature).item() == pytest.approx(mean([surprise(r[0], r[1:]) for r in rows]))


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_in_batch_loss_skips_forbidden_columns(temperature: float) -> None:
    given = scores(3, 6)
    targets, forbidden = torch.tensor([0, 2, 4]), torch.zeros(3, 6, dtype=torch.bool)
    forbidden[0, 1] = forbidden[0, 5] = forbidden[2, 3] = True
    expected = []
    for row, target in enumerate(targets.tolist()):
        columns = [c for c in range(6) if c != target and not forbidden[row, c]]
        wrong = [given[row, c].item() / temperature for c in columns]
        expected.append(surprise(given[row, target].item() / temperature, wrong))
    loss = in_batch_loss(given, targets, forbidden, temperature)
    assert loss.item() == pytest.approx(mean(expected))
    loss.backward()
    assert given.grad is not None
    assert not given.grad[forbidden].any()


def softmax(values: list[float]) -> list[float]:
    total = sum(map(math.exp, values))
    return [math.exp(value) / total for value in values]


def plain_sentence_loss(given: list[float], examples: list[int], labels: list[bool]) -> float:
    by_example = []
    for example in set(examples):
        rows = [i for i in range(len(given)) if examples[i] == example]
        wrong = [given[i] for i in rows if not labels[i]]
        losses = [surprise(given[i], wrong) for i in rows if labels[i]]
        if losses:
            by_example.append(mean(losses))
    return mean(by_example)


EXAMPLES = [0, 0, 0, 0, 2, 2, 2, 1, 1, 3, 3]
LABELS = [True, False, True, False, False, True, False, True, True, False, False]


def test_sentence_loss_compares_positives_with_negatives_of_their_example() -> None:
    given = scores(len(EXAMPLES))
    loss = sentence_loss(given, torch.tensor(EXAMPLES), torch.tensor(LABELS))
    assert loss.item() == pytest.approx(plain_sentence_loss(given.tolist(), EXAMPLES, LABELS))


def test_the_order_of_sentences_does_not_matter() -> None:
    given, examples, labels = scores(len(EXAMPLES)), torch.tensor(EXAMPLES), torch.tensor(LABELS)
    order = torch.randperm(len(EXAMPLES))
    shuffled = sentence_loss(given[order], examples[order], labels[order])
    assert shuffled.item() == pytest.approx(sentence_loss(given, examples, labels).item())


def test_fact_loss_adds_a_binary_loss_per_fact() -> None:
    given = scores(len(EXAMPLES))
    binary = [
        -math.log(1 / (1 + math.exp(-s if label else s))) for s, label in zip(given.tolist(), LABELS, strict=True)
    ]
    loss = fact_loss(given, torch.tensor(EXAMPLES), torch.tensor(LABELS), weight=0.5)
    expected = plain_sentence_loss(given.tolist(), EXAMPLES, LABELS) + 0.5 * mean(binary)
    assert loss.item() == pytest.approx(expected)


def test_label_loss_is_cross_entropy() -> None:
    logits, labels = scores(4, 3), torch.tensor([2, 0, 1, 1])
    expected = [surprise(row[y], [*row[:y], *row[y + 1 :]]) for row, y in zip(logits.tolist(), labels, strict=True)]
    assert label_loss(logits, labels).item() == pytest.approx(mean(expected))


def test_span_loss_accepts_any_valid_span() -> None:
    starts, ends = scores(3, 6), scores(3, 6)
    spans = torch.tensor([[[1, 2], [4, 4]], [[0, 3], [0, 0]], [[0, 0], [0, 0]]])
    valid = torch.tensor([[True, True], [True, False], [False, False]])
    tokens = torch.ones(3, 6, dtype=torch.bool)
    tokens[:, 5] = False
    expected = []
    for row in range(2):
        p, q = softmax(starts[row, :5].tolist()), softmax(ends[row, :5].tolist())
        chosen = [span for span, real in zip(spans[row].tolist(), valid[row], strict=True) if real]
        expected.append(-math.log(sum(p[first] * q[last] for first, last in chosen)))
    loss = span_loss(starts, ends, spans, valid, tokens)
    assert loss.item() == pytest.approx(mean(expected))
    loss.backward()
    assert starts.grad is not None
    assert torch.isfinite(starts.grad).all()
    assert not starts.grad[2].any()


NOTHING: dict[str, Callable[[Tensor], Tensor]] = {
    "sentences": lambda s: sentence_loss(s[0], torch.zeros(4).long(), torch.zeros(4, dtype=torch.bool)),
    "spans": lambda s: span_loss(s, s, torch.zeros(3, 1, 2).long(), torch.zeros(3, 1, dtype=torch.bool)),
}


@pytest.mark.parametrize("kind", NOTHING)
def test_unlabelled_examples_give_zero_loss_and_gradient(kind: str) -> None:
    given = scores(3, 4)
    loss = NOTHING[kind](given)
    loss.backward()
    assert loss.item() == 0
    assert given.grad is not None
    assert not given.grad.any()


def test_gradients_match_finite_differences() -> None:
    examples, labels = torch.tensor(EXAMPLES), torch.tensor(LABELS)
    assert torch.autograd.gradcheck(ranking_loss, (scores(3, 3),))
    assert torch.autograd.gradcheck(lambda s: fact_loss(s, examples, labels), (scores(len(EXAMPLES)),))
