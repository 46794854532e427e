from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from baleen.core.types import WHOLE_PASSAGE, Answer, Fact, Query, Verdict
from baleen.hops.readers import LONGEST_ANSWER, Answerer, Verifier, best_span
from baleen.models.cross_encoder import THREE_LABELS, TWO_LABELS
from baleen.models.markup import fact_text
from baleen.models.pairs import CrossConfig, CrossInput, CrossInputs
from fakes import BERT_TOKENS
from hop_fakes import CLAIM, TOKENS, ScriptedCrossEncoder, facts_of

EXTREME = float(np.finfo(np.float32).max)
LOGITS = st.floats(width=32, allow_nan=False, allow_infinity=False)
SPAN, YES, NO = (9.0, 0.0, 0.0), (0.0, 9.0, 0.0), (0.0, 0.0, 9.0)
QUERY = Query(CLAIM, facts_of(("p2", 1), ("p3", 0)))  # Its mayor, since 2015, is Ivo Brandt. # Ivo Brandt is a ...


def verdict(*logits: float, labels: tuple[str, ...] = TWO_LABELS, query: Query = QUERY) -> Verdict:
    reading = ScriptedCrossEncoder({"verifier": labels}, verifier=lambda row: [logits] * len(row.places))
    return Verifier(reading).read([query])[0]  # type: ignore[arg-type]


def pointing(starts: dict[int, float], ends: dict[int, float], kind: tuple[float, ...] = SPAN) -> Callable[..., Any]:
    """A head that says `kind` at [CLS], and these scores at these words."""

    def script(row: CrossInput) -> Any:
        scores = np.zeros((len(row.places), 5), np.float32)
        scores[0, 2:] = kind
        for column, pointed in enumerate((starts, ends)):
            for word, score in pointed.items():
                scores[1 + word, column] = score
        return scores

    return script


def answer(script: Callable[..., Any], query: Query = QUERY) -> Answer:
    return Answerer(ScriptedCrossEncoder(answerer=script)).read([query])[0]  # type: ignore[arg-type]


def words_of(query: Query) -> list[tuple[int, str]]:
    """The fact and the text of every word that an answerer reads."""
    _, words = ScriptedCrossEncoder().inputs.evidence(query)
    return [(word.fact, fact_text(query.facts[word.fact])[word.start : word.end]) for word in words]


WORDS = words_of(QUERY)
NAME = [word for fact, word in words_of(Query(CLAIM, (Fact("p", 0, "", "Ivo Brandt"),)))]  # in one piece or in many
IVO = next(place for place in range(len(WORDS)) if [word for _, word in WORDS[place:][: len(NAME)]] == NAME)
BRANDT = IVO + len(NAME) - 1
SECOND_FACT = next(place for place, (fact, _) in enumerate(WORDS) if fact == 1)


def test_a_verdict_has_every_label_the_likeliest_first() -> None:
    found = verdict(0.0, 1.0)
    assert found.label == "not supported"
    assert found.probability == pytest.approx(1 / (1 + np.exp(-1)))
    assert list(found.probabilities) == ["not supported", "supported"]
    assert found.probabilities["not supported"] == found.probability


def test_a_verdict_may_be_one_of_three() -> None:
    found = verdict(-1.0, 3.0, 0.5, labels=THREE_LABELS)
    assert found.label == "refuted"
    assert list(found.probabilities) == ["refuted", "not enough information", "supported"]


@given(st.lists(LOGITS, min_size=2, max_size=3))
def test_probabilities_sum_to_one_whatever_the_logits(logits: list[float]) -> None:
    found = verdict(*logits, labels=THREE_LABELS[: len(logits)])
    assert sum(found.probabilities.values()) == pytest.approx(1.0)
    assert found.probability == max(found.probabilities.values())


def test_extreme_logits_decide_without_a_warning() -> None:
    assert verdict(EXTREME, -EXTREME).probabilities == {"supported": 1.0, "not supported": 0.0}
    assert verdict(-EXTREME, -EXTREME).probability == 0.5


def test_a_verdict_without_facts_is_read_off_the_claim_alone() -> None:
    assert verdict(1.0, 0.0, query=Query(CLAIM)).label == "supported"


def test_claims_of_a_batch_keep_their_order() -> None:
    reading = ScriptedCrossEncoder(verifier=lambda row: [[float(len(row)), 40.0]])
    short, long = Query("whales"), Query(CLAIM, QUERY.facts)
    labels = [found.label for found in Verifier(reading).read([short, long, short])]  # type: ignore[arg-type]
    assert labels == ["not supported", "supported", "not supported"]
    assert Verifier(reading).read([]) == []  # type: ignore[arg-type]


def test_an_answer_is_cut_out_of_its_fact_as_it_is_written() -> None:
    found = answer(pointing({IVO: 20.0}, {BRANDT: 20.0}))
    assert (found.text, found.pid, found.sid) == ("Ivo Brandt", "p2", 1)
    assert found.score == pytest.approx(1.0, abs=1e-2)


def test_an_answer_does_not_start_with_the_tokenizers_space() -> None:
    tokenizer = Tokenizer(models.WordLevel({name: number for number, name in enumerate(BERT_TOKENS.values())}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    reading = ScriptedCrossEncoder(answerer=pointing({1: 9.0}, {2: 9.0}))
    reading.inputs = CrossInputs(tokenizer.to_str(), TOKENS, CrossConfig())
    query = Query(CLAIM, (Fact("p", 0, "", "mayor Ivo Brandt"),))
    assert Answerer(reading).read([query])[0].text == "Ivo Brandt"  # type: ignore[arg-type]


def test_an_answer_may_be_the_title_of_a_fact() -> None:
    found = answer(pointing({SECOND_FACT: 20.0}, {SECOND_FACT + len(NAME) - 1: 20.0}))
    assert (found.text, found.pid, found.sid) == ("Ivo Brandt", "p3", 0)


def test_an_answer_never_runs_from_one_fact_into_another() -> None:
    """The best start lies in the first fact and the best end in the second: the best pair within one wins."""
    found = answer(pointing({IVO: 9.0}, {SECOND_FACT + 1: 9.0, BRANDT: 1.0}))
    assert (found.text, found.pid) == ("Ivo Brandt", "p2")


def test_an_answer_never_ends_before_it_starts() -> None:
    found = answer(pointing({IVO: 9.0}, {IVO - 1: 9.0, BRANDT: 1.0}))
    assert found.text == "Ivo Brandt"


def test_an_answer_has_at_most_thirty_tokens() -> None:
    query = Query(CLAIM, (Fact("p", WHOLE_PASSAGE, "", "a " * 100),))
    within = answer(pointing({10: 9.0}, {10 + LONGEST_ANSWER - 1: 9.0}), query)
    assert len(within.text.split()) == LONGEST_ANSWER == 30
    assert (within.pid, within.sid) == ("p", WHOLE_PASSAGE)
    beyond = answer(pointing({10: 9.0}, {10 + LONGEST_ANSWER: 9.0}), query)
    assert len(beyond.text.split()) <= LONGEST_ANSWER


@pytest.mark.parametrize(("kind", "text"), [(YES, "yes"), (NO, "no")])
def test_yes_and_no_stand_in_no_fact(kind: tuple[float, ...], text: str) -> None:
    found = answer(pointing({IVO: 20.0}, {IVO: 20.0}, kind))
    assert (found.text, found.pid, found.sid) == (text, None, None)
    assert 0.99 < found.score <= 1.0


def test_without_facts_the_answer_is_empty_with_a_score_of_zero() -> None:
    for kind in (SPAN, YES, NO):
        assert answer(pointing({}, {}, kind), Query(CLAIM)) == Answer("", 0.0)
        assert answer(pointing({}, {}, kind), Query(CLAIM, (Fact("p", 0, "", ""),))) == Answer("", 0.0)


def test_extreme_logits_answer_without_a_warning() -> None:
    for starts in ({IVO: EXTREME}, {IVO: -EXTREME}, dict.fromkeys(range(len(WORDS)), -EXTREME)):
        for kind in ((EXTREME, -EXTREME, 0.0), (-EXTREME, EXTREME, EXTREME), (-EXTREME,) * 3):
            found = answer(pointing(starts, {BRANDT: EXTREME, IVO: -EXTREME}, kind))
            assert 0.0 <= found.score <= 1.0
            assert found.text


@settings(deadline=None)
@given(st.lists(st.tuples(LOGITS, LOGITS, st.integers(0, 2)), min_size=1, max_size=40))
def test_the_best_span_is_the_best_of_all_that_are_allowed(rows: list[tuple[float, float, int]]) -> None:
    rows = sorted(rows, key=lambda row: row[2])
    starts, ends = (np.array([row[column] for row in rows], np.float32) for column in (0, 1))
    owners = [row[2] for row in rows]
    first, last, probability = best_span(starts, ends, owners)
    allowed = [
        (i, j) for i in range(len(rows)) for j in range(i, min(len(rows), i + LONGEST_ANSWER)) if owners[i] == owners[j]
    ]
    assert (first, last) in allowed
    sums = {pair: float(starts[pair[0]]) + float(ends[pair[1]]) for pair in allowed}
    best = max(sums.values())
    assert sums[first, last] == pytest.approx(best, rel=1e-9, abs=1e-9 * (1 + max(map(abs, map(float, starts)))))
    assert 0.0 <= probability <= 1.0


def test_an_answer_is_of_a_title_or_of_its_sentence_never_of_both() -> None:
    title = next(place for place, (fact, _) in enumerate(WORDS) if fact == 0)
    found = answer(pointing({title: 5.0}, {BRANDT: 5.0, title: 1.0}))
    assert "|" not in found.text
