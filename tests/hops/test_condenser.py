from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest

from baleen.core.errors import ConfigError
from baleen.core.types import Condensed, Fact, Hit, Hop, Passage, Query, Ranking, Trace
from baleen.hops.condenser import Condenser
from baleen.hops.config import CondenserConfig
from fakes import CORPUS
from hop_fakes import CLAIM, MAYOR, STANDS, TEACHES, ScriptedCrossEncoder, facts_of

TOWN = Passage.from_sentences("town", "Town", [f"Fact number {number}." for number in range(12)])
TWELVE = TOWN.sentences


def condense(
    reading: ScriptedCrossEncoder, *passages: Passage, facts: tuple[Fact, ...] = (), hop: int = 1, **settings: Any
) -> Condensed:
    condenser = Condenser(reading, reading, CondenserConfig(**settings))  # type: ignore[arg-type]
    (condensed,) = condenser.condense([Query(CLAIM, facts)], [passages], hop)
    return condensed


def places(condensed: Condensed) -> list[tuple[str, int]]:
    return [(fact.pid, fact.sid) for fact in condensed.facts]


def reasons(condensed: Condensed) -> dict[tuple[str, int], str]:
    return {(judged.pid, judged.sid): judged.reason for judged in condensed.judgements}


def rising(*scores: float) -> dict[str, float]:
    """The first sentences of the town with these scores."""
    return dict(zip(TWELVE, scores, strict=False))


def test_the_best_sentences_are_scored_together_and_kept_above_the_threshold() -> None:
    reading = ScriptedCrossEncoder(
        sentences={TEACHES: 2.0, STANDS: 1.0, MAYOR: 3.0}, facts={TEACHES: 0.5, STANDS: 7.0, MAYOR: -0.5}
    )
    condensed = condense(reading, *CORPUS[:3], pool=2)
    assert condensed.facts == facts_of(("p0", 1), score=0.5)
    judged = {(each.pid, each.sid): each for each in condensed.judgements}
    assert len(judged) == len(condensed.judgements) == 6, "every sentence is judged once"
    assert (judged["p0", 1].sentence_score, judged["p0", 1].fact_score, judged["p0", 1].kept) == (2.0, 0.5, True)
    assert (judged["p2", 1].sentence_score, judged["p2", 1].fact_score, judged["p2", 1].kept) == (3.0, -0.5, False)
    assert (judged["p1", 1].sentence_score, judged["p1", 1].fact_score, judged["p1", 1].kept) == (1.0, None, False)


def test_every_judgement_has_its_reason() -> None:
    reading = ScriptedCrossEncoder(
        sentences=rising(4, 3, 2, 1), facts={TEACHES: 5.0, STANDS: 0.0} | rising(0.5, 0.25, -1)
    )
    old = facts_of(("p0", 1), ("p1", 1), hop=1)
    condensed = condense(reading, replace(TOWN, spans=TOWN.spans[:4]), facts=old, hop=2, pool=3, max_facts=2)
    assert reasons(condensed) == {
        ("p0", 1): "over the limit of 2 facts",
        ("p1", 1): "not above the threshold of 0",
        ("town", 0): "above the threshold",
        ("town", 1): "above the threshold",
        ("town", 2): "not above the threshold of 0",
        ("town", 3): "not among the best 3 sentences of the hop",
    }


def test_a_score_on_the_threshold_is_not_above_it() -> None:
    for score, kept in ((0.5, []), (0.75, [("p0", 1)])):
        reading = ScriptedCrossEncoder(sentences={TEACHES: 1.0}, facts={TEACHES: score})
        condensed = condense(reading, CORPUS[0], keep=0.5)
        assert places(condensed) == kept
        assert kept or reasons(condensed)["p0", 1] == "not above the threshold of 0.5"


def test_old_facts_take_no_place_from_new_ones() -> None:
    old = tuple(Fact("old", sid, "Old", f"old {sid}", 9.0, 1) for sid in range(20))
    known = {fact.text: 9.0 for fact in old}
    reading = ScriptedCrossEncoder(sentences=rising(*range(12)), facts=known | dict.fromkeys(TWELVE, 1.0))
    condensed = condense(reading, TOWN, facts=old, hop=2, pool=9)
    assert [place for place in places(condensed) if place[0] == "town"] == [("town", sid) for sid in range(3, 12)]
    assert len(condensed.facts) == 29


def test_old_facts_are_scored_again_and_may_be_dropped() -> None:
    def better_known(together: set[str]) -> float:
        return -1.0 if STANDS in together else 1.0

    reading = ScriptedCrossEncoder(
        sentences={TEACHES: 1.0, STANDS: 1.0}, facts={TEACHES: better_known, STANDS: 2.0, MAYOR: 0.5}
    )
    first = condense(reading, CORPUS[0])
    assert places(first) == [("p0", 1)]
    second = condense(reading, CORPUS[1], facts=(*first.facts, *facts_of(("p2", 1), score=8.0)), hop=2)
    assert second.facts == (*facts_of(("p2", 1), score=0.5), *facts_of(("p1", 1), score=2.0, hop=2))
    dropped = next(judged for judged in second.judgements if judged.pid == "p0")
    assert (dropped.sentence_score, dropped.fact_score, dropped.kept) == (None, -1.0, False)


def test_without_a_limit_twelve_facts_of_one_hop_stay() -> None:
    reading = ScriptedCrossEncoder(sentences=dict.fromkeys(TWELVE, 1.0), facts=dict.fromkeys(TWELVE, 1.0))
    assert len(condense(reading, TOWN, pool=12).facts) == 12
    assert len(condense(reading, TOWN, pool=12, max_facts=5).facts) == 5


def test_beyond_max_facts_old_facts_are_dropped_before_new_ones() -> None:
    old = facts_of(("p0", 1), ("p1", 1), ("p2", 1), hop=1)
    reading = ScriptedCrossEncoder(
        sentences=rising(4, 3, 2), facts={TEACHES: 7.0, STANDS: 9.0, MAYOR: 8.0} | rising(1, 2, 3)
    )
    condensed = condense(reading, TOWN, facts=old, hop=2, max_facts=5)
    assert places(condensed) == [("p1", 1), ("p2", 1), ("town", 2), ("town", 1), ("town", 0)]
    assert reasons(condensed)["p0", 1] == "over the limit of 5 facts"


def test_facts_are_sorted_by_hop_then_score_then_place() -> None:
    old = (*facts_of(("p2", 1), hop=2), *facts_of(("p0", 1), ("p1", 1), hop=1))
    reading = ScriptedCrossEncoder(sentences=rising(1, 1), facts={TEACHES: 1.0, STANDS: 2.0, MAYOR: 9.0} | rising(3, 3))
    condensed = condense(reading, TOWN, facts=old, hop=3)
    assert places(condensed) == [("p1", 1), ("p0", 1), ("p2", 1), ("town", 0), ("town", 1)]
    assert [fact.hop for fact in condensed.facts] == [1, 1, 2, 3, 3]


def test_ties_enter_the_pool_in_order_of_passage_and_sentence() -> None:
    reading = ScriptedCrossEncoder(
        sentences=dict.fromkeys((MAYOR, TEACHES, STANDS), 1.0), facts=dict.fromkeys((MAYOR, TEACHES, STANDS), 1.0)
    )
    assert places(condense(reading, *CORPUS[2::-1], pool=2)) == [("p0", 1), ("p1", 1)]


def test_a_known_fact_is_not_found_again() -> None:
    reading = ScriptedCrossEncoder(sentences={TEACHES: 1.0}, facts={TEACHES: 2.0})
    condensed = condense(reading, CORPUS[0], facts=facts_of(("p0", 1), hop=0))
    assert condensed.facts == facts_of(("p0", 1), score=2.0, hop=0)
    assert [judged.sid for judged in condensed.judgements] == [1, 0]


def test_scores_keep_to_their_sentences_over_many_windows() -> None:
    """500 sentences fill many sequences in either stage; each has its own score."""
    long = Passage.from_sentences("long", "Long", [f"Whale {number} sings." for number in range(500)])
    scores = {text: float(number % 83) - 40 for number, text in enumerate(long.sentences)}
    reading = ScriptedCrossEncoder(sentences=scores, facts={text: -score for text, score in scores.items()})
    condensed = condense(reading, long, pool=500)
    assert reading.asked[0][1] > 5
    assert reading.asked[1][1] > 5
    assert {judged.sid: judged.sentence_score for judged in condensed.judgements} == dict(enumerate(scores.values()))
    assert all(judged.fact_score == -scores[long.sentences[judged.sid]] for judged in condensed.judgements)
    assert all(fact.score == -scores[fact.text] > 0 for fact in condensed.facts)


@pytest.mark.parametrize("passages", [[], [Passage("p", "", "")], [Passage.from_sentences("p", "t", ["", " "])]])
def test_a_hop_without_sentences_scores_only_old_facts(passages: list[Passage]) -> None:
    reading = ScriptedCrossEncoder(sentences={}, facts={TEACHES: 2.0, STANDS: -2.0})
    assert condense(reading, *passages).facts == ()
    condensed = condense(reading, *passages, facts=facts_of(("p0", 1), ("p1", 1)), hop=2)
    assert condensed.facts == facts_of(("p0", 1), score=2.0)


def test_claims_of_a_batch_come_out_as_they_would_alone() -> None:
    reading = ScriptedCrossEncoder(
        sentences={TEACHES: 2.0, STANDS: 1.0, MAYOR: 3.0}, facts={TEACHES: 0.5, STANDS: 7.0, MAYOR: -0.5}
    )
    condenser = Condenser(reading, reading)  # type: ignore[arg-type]
    queries = [Query("one"), Query("two", facts_of(("p2", 1), ("p1", 1))), Query("three")]
    passages = [CORPUS[:3], [], CORPUS[2:5]]
    together = condenser.condense(queries, passages, 2)
    alone = [condenser.condense([query], [own], 2)[0] for query, own in zip(queries, passages, strict=True)]
    assert [replace(each, seconds={}) for each in together] == [replace(each, seconds={}) for each in alone]
    assert condenser.condense([], []) == []


def test_each_stage_has_its_seconds_and_tokens() -> None:
    reading = ScriptedCrossEncoder(sentences={TEACHES: 2.0}, facts={TEACHES: 0.5})
    condensed = condense(reading, *CORPUS[:2], pool=1)
    assert condensed.seconds.keys() == condensed.tokens.keys() == {"sentences", "facts"}
    inputs, query = reading.inputs, Query(CLAIM)
    assert condensed.tokens["sentences"] == sum(len(r) for p in CORPUS[:2] for r in inputs.sentences(query, p))
    assert condensed.tokens["facts"] == sum(map(len, inputs.facts(CLAIM, facts_of(("p0", 1)))))
    assert all(spent > 0 for spent in condensed.seconds.values())


def test_a_run_ends_with_the_facts_that_its_settings_allow() -> None:
    reading = ScriptedCrossEncoder(sentences=rising(4, 3) | {MAYOR: 2.0}, facts=rising(2.0, -1.5) | {MAYOR: -3.0})
    condenser = Condenser(reading, reading, CondenserConfig(keep=-2, final=0.5, min_passages=2))  # type: ignore[arg-type]
    passages = {passage.pid: passage for passage in (TOWN, CORPUS[2])}
    (condensed,) = condenser.condense([Query(CLAIM)], [list(passages.values())])
    assert places(condensed) == [("town", 0), ("town", 1)], "the first threshold holds on the way"
    hop = Hop(Query(CLAIM), ranking=Ranking((Hit("town", 1.0), Hit("p2", 0.5))), condensed=condensed)
    finished = condenser.finish(Trace(Query(CLAIM), (hop,)), passages.__getitem__)
    assert [(fact.pid, fact.sid) for fact in finished.facts] == [("town", 0), ("p2", 1)]


def test_beyond_max_facts_borderline_facts_are_dropped_first() -> None:
    old = facts_of(("p0", 1), hop=1)
    reading = ScriptedCrossEncoder(sentences=rising(2, 1), facts={TEACHES: 3.0} | rising(-1.5, -1.5))
    condensed = condense(reading, TOWN, facts=old, hop=2, keep=-2, final=-0.5, max_facts=2)
    assert places(condensed) == [("p0", 1), ("town", 0)]


@pytest.mark.parametrize("settings", [{"min_passages": -1}, {"min_passages": 3, "max_facts": 2}])
def test_min_passages_is_at_most_max_facts(settings: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="which should be 0 or more, and no more than max_facts"):
        CondenserConfig(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given",
    [{"keep": 1, "final": 0}, {"keep": 1, "read": 0}, {"read": 1, "final": 0}, {"keep": 1, "read": 3, "final": 2}],
)
def test_thresholds_out_of_order_are_refused(given: dict[str, float]) -> None:
    said = ", ".join(f"{name} = {value}" for name, value in given.items())
    with pytest.raises(ConfigError, match=f"{said}; expected keep <= read <= final"):
        CondenserConfig(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "levels"),
    [
        ({}, (0, 0, 0)),
        ({"keep": 1}, (1, 1, 1)),
        ({"read": 1}, (1, 1, 1)),
        ({"final": -1}, (-1, -1, -1)),
        ({"keep": 1, "final": 2}, (1, 2, 2)),
        ({"keep": 1, "read": 2}, (1, 2, 2)),
        ({"read": 1, "final": 2}, (1, 1, 2)),
        ({"keep": 1, "read": 2, "final": 3}, (1, 2, 3)),
    ],
)
def test_a_missing_threshold_takes_its_neighbours_value(given: dict[str, float], levels: tuple[float, ...]) -> None:
    assert CondenserConfig(**given).thresholds == levels  # type: ignore[arg-type]


def test_beyond_max_facts_unread_facts_are_dropped_first() -> None:
    reading = ScriptedCrossEncoder(sentences=rising(3, 2, 1), facts=rising(-1.5, -0.2, 2.0))
    condensed = condense(reading, TOWN, keep=-2, read=-0.5, final=1, max_facts=2)
    assert places(condensed) == [("town", 2), ("town", 1)]


@pytest.mark.parametrize("name", ["keep", "read", "final"])
@pytest.mark.parametrize("threshold", [math.nan, math.inf, -math.inf, "0", (1.0, 2.0), True])
def test_a_threshold_is_a_finite_number(name: str, threshold: Any) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"{name} = {threshold!r}, which should be a finite number")):
        CondenserConfig(**{name: threshold})


@pytest.mark.parametrize("settings", [{"pool": 0}, {"max_facts": 0}])
def test_settings_that_cannot_hold_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(settings))} = 0, which should be at least 1"):
        CondenserConfig(**settings)  # type: ignore[arg-type]
