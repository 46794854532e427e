"""Agreement of inferred sentences with annotated ones, counted by passage."""

from __future__ import annotations

from collections.abc import Sequence

from baleen.core.types import Hit, Passage, Query, Ranking
from baleen.data.example import Example
from baleen.training.cross_encoder.likely_sentences import SentenceAgreement, add_agreements, count_agreement
from baleen.training.hop_order.supervision import Step, latent_hop, start

PASSAGES = {
    pid: Passage.from_sentences(pid, pid.upper(), [f"{pid} one.", f"{pid} two.", f"{pid} three."]) for pid in "abc"
}


def step(*facts: tuple[str, int], gold: tuple[str, ...] = ("a", "b", "c")) -> Step:
    example = Example("q", "Which?", gold, tuple(facts))
    return latent_hop(start(example), Ranking((Hit("a", 1.0),)), PASSAGES.__getitem__, depth=None)


def likes(sid: int) -> object:
    def scorer(_: Query, passage: Passage) -> Sequence[float]:
        return [float(number == sid) for number in range(len(passage.spans))]

    return scorer


def test_a_sentence_is_right_if_it_is_gold() -> None:
    known = step(("a", 0), ("a", 2), ("b", 1))
    for sid, right in {0: 1, 1: 1, 2: 1}.items():
        assert count_agreement([known], likes(sid), PASSAGES.__getitem__) == SentenceAgreement(2, right, 1, 1)


def test_passages_without_annotation_do_not_count() -> None:
    assert count_agreement([step()], likes(0), PASSAGES.__getitem__) == SentenceAgreement()
    assert count_agreement([], likes(0), PASSAGES.__getitem__) == SentenceAgreement()


def test_annotation_is_hidden_from_the_choice() -> None:
    assert count_agreement([step(("c", 2))], likes(1), PASSAGES.__getitem__) == SentenceAgreement(1, 0, 0, 0)


def test_agreements_add_up() -> None:
    assert add_agreements(
        [SentenceAgreement(3, 2, 2, 1), SentenceAgreement(), SentenceAgreement(1, 1, 0, 1)]
    ) == SentenceAgreement(4, 3, 2, 2)
    assert add_agreements([]) == SentenceAgreement()
