from __future__ import annotations

from dataclasses import replace

from baleen.core.types import WHOLE_PASSAGE, Fact, Hit, Passage, Query, Ranking
from baleen.hops.reranker import Reranker
from fakes import CORPUS
from hop_fakes import CLAIM, ScriptedCrossEncoder

SCORES = {CORPUS[0].text: 1.0, CORPUS[1].text: 3.0, CORPUS[2].text: 2.0, CORPUS[3].text: 2.0}
READING = ScriptedCrossEncoder(reranker=SCORES)
RERANKER = Reranker(READING)  # type: ignore[arg-type]


def whole(number: int, score: float, hop: int) -> Fact:
    return Fact(f"p{number}", WHOLE_PASSAGE, CORPUS[number].title, CORPUS[number].text, score, hop)


def test_passages_are_ranked_by_their_scores_then_by_their_ids() -> None:
    (ranking,) = RERANKER.rank([Query(CLAIM)], [CORPUS[3::-1]])
    assert ranking == Ranking((Hit("p1", 3.0), Hit("p2", 2.0), Hit("p3", 2.0), Hit("p0", 1.0)))


def test_a_hop_adds_its_best_passage_to_the_earlier_ones() -> None:
    (first,) = RERANKER.condense([Query(CLAIM)], [CORPUS[:2]], 1)
    assert first.facts == (whole(1, 3.0, 1),)
    assert first.chosen.pids == ("p1", "p0")
    (second,) = RERANKER.condense([Query(CLAIM, first.facts)], [CORPUS[2:4]], 2)
    assert second.facts == (whole(1, 3.0, 1), whole(2, 2.0, 2))


def test_every_judgement_has_its_reason() -> None:
    (condensed,) = RERANKER.condense([Query(CLAIM, (whole(1, 3.0, 1),))], [[CORPUS[0], CORPUS[2]]], 2)
    assert [
        (judged.pid, judged.sid, judged.sentence_score, judged.kept, judged.reason) for judged in condensed.judgements
    ] == [
        ("p1", WHOLE_PASSAGE, None, True, "chosen before"),
        ("p2", WHOLE_PASSAGE, 2.0, True, "the best of the hop"),
        ("p0", WHOLE_PASSAGE, 1.0, False, "not the best of the hop"),
    ]
    assert all(judged.fact_score is None for judged in condensed.judgements)


def test_a_long_passage_counts_as_its_best_window() -> None:
    reading = ScriptedCrossEncoder(reranker=lambda row: [[float(len(row) % 100)]])
    long = Passage("long", "Long", "whale " * 1200)
    rows = reading.inputs.passage(Query(CLAIM), long)
    assert len(rows) > 2
    (ranking,) = Reranker(reading).rank([Query(CLAIM)], [[long, CORPUS[0]]])  # type: ignore[arg-type]
    scores = {hit.pid: hit.score for hit in ranking}
    assert scores["long"] == max(len(row) % 100 for row in rows)


def test_without_passages_nothing_is_chosen() -> None:
    old = (whole(1, 3.0, 1),)
    (condensed,) = RERANKER.condense([Query(CLAIM, old)], [[]], 2)
    assert condensed.facts == old
    assert condensed.chosen == Ranking()


def test_an_empty_passage_has_a_score_too() -> None:
    (condensed,) = RERANKER.condense([Query(CLAIM)], [[Passage("p", "", "")]], 1)
    assert condensed.facts == (Fact("p", WHOLE_PASSAGE, "", "", -5.0, 1),)


def test_claims_of_a_batch_come_out_as_they_would_alone() -> None:
    queries, passages = [Query("one"), Query("two", (whole(0, 1.0, 1),)), Query("three")], [CORPUS[:3], CORPUS[1:4], []]
    together = RERANKER.condense(queries, passages, 2)
    alone = [RERANKER.condense([query], [own], 2)[0] for query, own in zip(queries, passages, strict=True)]
    assert [replace(each, seconds={}) for each in together] == [replace(each, seconds={}) for each in alone]


def test_it_tells_what_it_cost_and_whether_it_was_trained() -> None:
    (condensed,) = RERANKER.condense([Query(CLAIM)], [CORPUS[:2]], 1)
    rows = [row for passage in CORPUS[:2] for row in READING.inputs.passage(Query(CLAIM), passage)]
    assert condensed.tokens == {"reranker": sum(map(len, rows))}
    assert condensed.seconds.keys() == {"reranker"}
    assert RERANKER.untrained == ()
    assert Reranker(READING, untrained=True).untrained == ("reranker",)  # type: ignore[arg-type]
