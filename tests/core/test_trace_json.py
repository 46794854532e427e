"""The JSON document of a trace: without loss, compact, and as its schema says."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from baleen.core.trace_json import totals
from baleen.core.types import (
    FILLER,
    Answer,
    Condensed,
    Fact,
    Hit,
    Hop,
    Judgement,
    Query,
    Ranking,
    Trace,
    Verdict,
)
from schema_fakes import check_schema, faults

WORDS = st.text(st.sampled_from("aé🐋.  \n"), max_size=6)
FLOATS = st.floats(allow_nan=False)
FACTS = st.builds(Fact, WORDS, st.integers(), WORDS, WORDS, FLOATS, st.integers(0, 4))
RANKINGS = st.builds(
    Ranking, st.lists(st.builds(Hit, WORDS, FLOATS), max_size=3, unique_by=lambda hit: hit.pid).map(tuple)
)
JUDGEMENTS = st.builds(Judgement, WORDS, st.integers(), st.none() | FLOATS, st.none() | FLOATS, st.booleans(), WORDS)
TIMES = st.dictionaries(WORDS, FLOATS, max_size=2)
FACT_TUPLES = st.lists(FACTS, max_size=2).map(tuple)
BARE_HOPS = st.builds(
    Hop,
    query=st.builds(Query, WORDS, FACT_TUPLES),
    encoded_query=WORDS,
    excluded=st.lists(WORDS, max_size=2).map(tuple),
    condensed=st.builds(Condensed, FACT_TUPLES, st.lists(JUDGEMENTS, max_size=2).map(tuple), RANKINGS, TIMES),
    seconds=TIMES,
)


@st.composite
def hops(draw: st.DrawFn) -> Hop:
    """Hops whose titles and mentions are of passages in the ranking, in its order."""
    ranking = draw(RANKINGS)
    some = [draw(st.lists(st.booleans(), min_size=3, max_size=3)) for _ in range(2)]
    titles, mentioned = (
        {pid: draw(WORDS) for pid, has in zip(ranking.pids, each, strict=False) if has} for each in some
    )
    return replace(draw(BARE_HOPS), ranking=ranking, titles=titles, mentioned=mentioned)


OUTCOMES = st.none() | st.builds(Verdict, WORDS, FLOATS, TIMES) | st.builds(Answer, WORDS, FLOATS, st.none() | WORDS)


def traces(parts: st.SearchStrategy[tuple[Trace, ...]]) -> st.SearchStrategy[Trace]:
    taken = st.lists(hops(), max_size=2).map(tuple)
    return st.builds(Trace, st.builds(Query, WORDS), taken, OUTCOMES, WORDS, parts, seconds=TIMES)


@given(traces(st.lists(traces(st.just(())), max_size=2).map(tuple)))
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_any_trace_goes_to_json_and_back_to_the_last_bit(trace: Trace) -> None:
    found = Trace.from_json(json.loads(json.dumps(trace.to_json(judgements=True))))
    assert found == trace
    assert repr(found) == repr(trace), "0.0 and -0.0 are equal, but not the same"


OLD, NEW = Fact("a", 0, "A", "One.", 2.0, 1), Fact("b", 1, "B", "Two.", 0.5, 2)
DROPPED, UNSURE = Fact("a", 1, "A", "Three.", 1.0, 1), Fact("b", 0, "B", "Four.", -0.5, 2)
FIRST = Hop(
    Query("claim"),
    ranking=Ranking((Hit("a", 9.0), Hit("c", 8.0))),
    titles={"a": "A", "c": "C"},
    condensed=Condensed((OLD, DROPPED), (Judgement("a", 0, 3.0, 2.0, True, "kept"),), seconds={"facts": 0.5}),
    seconds={"search": 1.0},
    tokens={"encode": 64},
    mentioned={"c": ""},
)
LAST = Hop(
    Query("claim", (OLD, DROPPED)),
    ranking=Ranking((Hit("b", 7.0),)),
    titles={"b": "B"},
    condensed=Condensed((replace(OLD, score=1.5), NEW), borderline=(UNSURE,), seconds={"facts": 0.25}),
    seconds={"search": 2.0},
    tokens={"encode": 70},
)
TRACE = Trace(Query("claim"), (FIRST, LAST), Verdict("supported", 0.9), seconds={"read": 0.125}, tokens={"read": 40})


def test_every_fact_is_named_once() -> None:
    document = TRACE.to_json()
    assert [(fact["id"], fact["text"]) for fact in document["facts"]] == [
        (0, "One."), (1, "Two."), (2, "Four."), (3, "Three."),
    ]  # fmt: skip
    assert document["final"] == [{"fact": 0, "score": 1.5}, {"fact": 1, "score": 0.5}]
    assert document["borderline"] == [{"fact": 2, "score": -0.5}]
    first, last = document["hops"]
    assert first["facts"] == last["known"] == [{"fact": 0, "score": 2.0}, {"fact": 3, "score": 1.0}]
    assert json.dumps(document).count("Three.") == 1


def test_passages_have_their_titles_and_who_mentions_them() -> None:
    document = TRACE.to_json()
    assert document["hops"][0]["passages"] == [
        {"pid": "a", "title": "A", "score": 9.0},
        {"pid": "c", "title": "C", "score": 8.0, "mentioned_by": ""},
    ]
    assert document["passages"] == [
        {"pid": "a", "title": "A", "score": 9.0, "hop": 1, "rank": 1, "fact_score": 1.5},
        {"pid": "b", "title": "B", "score": 7.0, "hop": 2, "rank": 1, "fact_score": 0.5},
        {"pid": "c", "title": "C", "score": 8.0, "hop": 1, "rank": 2, "fact_score": None},
    ]
    given = Trace(Query("claim", (OLD,))).to_json()
    assert given["passages"] == [
        {"pid": "a", "title": "A", "score": None, "hop": None, "rank": None, "fact_score": 2.0}
    ], "it came with the query"


def test_totals_are_sums_over_all_stages() -> None:
    stages = {
        "search": {"seconds": 3.0, "tokens": 0},
        "encode": {"seconds": 0.0, "tokens": 134},
        "facts": {"seconds": 0.75, "tokens": 0},
        "read": {"seconds": 0.125, "tokens": 40},
    }
    assert totals(TRACE) == {"seconds": 3.875, "tokens": 174, "words": LAST.words, "stages": stages}
    other = replace(TRACE, outcome=None, seconds={}, tokens={})
    merged = totals(replace(TRACE, parts=(other, other)))
    assert merged["stages"]["search"]["seconds"] == 3.0 + 2.0, "both parts share the first search"
    assert merged["stages"]["read"] == stages["read"]


@pytest.mark.parametrize("outcome", [Verdict("a", 0.5, {"a": 0.5}), Answer("a", 0.5, "p", 1), Answer("yes", 0.5), None])
def test_the_outcome_has_its_kind(outcome: Any) -> None:
    document = replace(TRACE, outcome=outcome).to_json()
    kind = {Verdict: "verdict", Answer: "answer"}.get(type(outcome))
    assert kind is None or document["outcome"]["kind"] == kind
    assert Trace.from_json(document).outcome == outcome


@pytest.mark.parametrize("outcome", [{"label": "supported", "probability": 1.0}, {"kind": "summary", "text": "x"}])
def test_an_outcome_of_no_known_kind_is_refused(outcome: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="an outcome of kind .*; expected verdict or answer"):
        Trace.from_json(TRACE.to_json() | {"outcome": outcome})


@pytest.mark.parametrize("other", [{"format_version": 2}, {"query": {"text": "claim", "facts": []}}])
def test_a_document_of_another_format_is_refused(other: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="a trace of format version .*, or of an older release; expected 1"):
        Trace.from_json(TRACE.to_json() | other)


def test_final_facts_added_below_the_thresholds_are_marked() -> None:
    facts = Fact("a", 0, "A", "One.", 2.0, 1), Fact("b", 0, "B", "Two.", -3.0, 1)
    judgements = Judgement("a", 0, 1.0, 2.0, True, "above"), Judgement("b", 0, 1.0, -3.0, True, f"{FILLER}, as ...")
    trace = Trace(Query("q"), hops=(Hop(Query("q"), condensed=Condensed(facts, judgements)),))
    assert trace.fillers == facts[1:]
    document = trace.to_json()
    assert document["final"] == [{"fact": 0, "score": 2.0}, {"fact": 1, "score": -3.0, "added": True}]
    check_schema(document)


def test_judgements_are_written_on_request() -> None:
    silent = Trace.from_json(TRACE.to_json())
    assert silent.hops[0].condensed == replace(FIRST.condensed, judgements=())
    assert "judgements" not in TRACE.to_json()["hops"][0]
    (judged,) = TRACE.to_json(judgements=True)["hops"][0]["judgements"]
    assert Judgement.from_json(judged) == FIRST.condensed.judgements[0]


def test_further_keys_of_a_document_are_ignored() -> None:
    assert Trace.from_json(TRACE.to_json(judgements=True) | {"id": "7", "run": {"k": 3}}) == TRACE


# The schema


@given(traces(st.lists(traces(st.just(())), max_size=2).map(tuple)), st.booleans())
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_any_document_fits_the_schema(trace: Trace, judgements: bool) -> None:
    check_schema(trace.to_json(judgements=judgements))


@pytest.mark.parametrize(
    "change",
    [
        {"outcome": {"kind": "verdict", "label": "x"}},
        {"ranked_by": "luck"},
        {"facts": [{"id": 0}]},
        {"final": [{"fact": 0}]},
        {"stopped": None},
        {"format_version": 2},
        {"hops": [{"query": "claim"}]},
    ],
)
def test_the_schema_refuses_what_no_trace_writes(change: dict[str, Any]) -> None:
    schema = Trace.json_schema()
    assert list(faults(TRACE.to_json() | change, schema, schema))


def test_the_schema_is_plain_json() -> None:
    assert json.loads(json.dumps(Trace.json_schema())) == Trace.json_schema()
