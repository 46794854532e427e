from __future__ import annotations

import json
from dataclasses import replace
from math import log1p

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baleen.core import types
from baleen.core.errors import QueryError
from baleen.core.ranking import best_sentences
from baleen.core.records import Record
from baleen.core.types import (
    UNSCORED,
    WHOLE_PASSAGE,
    Answer,
    Condensed,
    Fact,
    Hit,
    Hop,
    Judgement,
    Passage,
    Query,
    Ranking,
    Trace,
    Verdict,
)

FACT = Fact("p1", 2, "A title", "A sentence – with a dash.", 0.25, 1)
QUERY = Query("Is it so?", (FACT, Fact("p2", 0, "", "")))
RANKING = Ranking((Hit("p1", 2.5), Hit("p2", -0.125)))
KEPT, UNREAD = Judgement("p1", 2, 1.5, 0.25, True, "above the threshold"), Judgement("p2", 0)
CONDENSED = Condensed(
    (FACT,), (KEPT, UNREAD), RANKING, {"sentences": 0.5, "facts": 0.25}, {"sentences": 400}, (replace(FACT, sid=3),)
)
HOP = Hop(
    QUERY,
    encoded_query="[CLS] is it so?",
    excluded=("p3",),
    ranking=RANKING,
    titles={"p1": "A title"},
    condensed=CONDENSED,
    seconds={"encode": 0.5, "search": 0.25},
    tokens={"encode": 64},
)
NAMED = replace(HOP, mentioned={"p1": "", "p2": "p3"})
VERDICT = Verdict("supported", 0.75, {"supported": 0.75, "not supported": 0.25})
PARTS = Trace(QUERY, (HOP,)), Trace(QUERY, (HOP, HOP), stopped="hop 2 added no fact", untrained=("reranker",))

RECORDS: dict[str, Record] = {
    "passage": Passage("p1", "A title", "One. Two.", ((0, 4), (5, 9)), {"year": 1811, "tags": ["a", None], "deep": {}}),
    "passage with nothing in it": Passage("", "", ""),
    "fact": FACT,
    "fact of defaults": Fact("p", 0, "t", "s"),
    "fact that is a whole passage": Fact("p", WHOLE_PASSAGE, "t", "One. Two."),
    "query": QUERY,
    "query without facts": Query("Is it so?"),
    "hit": Hit("p1", 2.5),
    "ranking": RANKING,
    "empty ranking": Ranking(),
    "verdict": VERDICT,
    "verdict of defaults": Verdict("supported", 0.75),
    "answer in a fact": Answer("Ivo Brandt", 1.5, "p1", 2),
    "answer in none": Answer("yes", 0.5),
    "judgement": KEPT,
    "judgement of a sentence without scores": UNREAD,
    "condensed": CONDENSED,
    "condensed to nothing": Condensed(),
    "hop": HOP,
    "hop of defaults": Hop(QUERY),
    "hop with names": NAMED,
    "trace that ends in a verdict": Trace(QUERY, (HOP, HOP), VERDICT, seconds={"read": 0.5}),
    "trace that ends in an answer": Trace(QUERY, (HOP,), Answer("Ivo Brandt", 1.5, "p1", 2)),
    "trace that ends in an answer of defaults": Trace(QUERY, (HOP,), Answer("", 0.0)),
    "trace that ends in nothing": Trace(QUERY, (HOP,), None, "no passage was left at hop 2", (), ("condenser",)),
    "trace of two parts": Trace(QUERY, (HOP, HOP), VERDICT, "", PARTS, ("reranker",), {"read": 0.5}),
    "trace without hops": Trace(Query("Is it so?")),
}

WORDS = st.text(st.sampled_from("aé🐋.  \n"), max_size=6)


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS.keys())
def test_a_record_goes_to_json_and_back_without_loss(record: Record) -> None:
    data = record.to_json(judgements=True) if isinstance(record, Trace) else record.to_json()
    assert type(record).from_json(json.loads(json.dumps(data))) == record


FLOATS = st.floats(allow_nan=False)
FACTS = st.builds(Fact, WORDS, st.integers(), WORDS, WORDS, FLOATS, st.integers(0, 4))


def test_every_record_is_among_those_tested() -> None:
    records = {kind for kind in vars(types).values() if isinstance(kind, type) and issubclass(kind, Record)}
    assert {type(record) for record in RECORDS.values()} == records - {Record}


def test_keys_missing_from_json_take_their_defaults() -> None:
    assert Passage.from_json({"pid": "p", "title": "t", "text": "x"}) == Passage("p", "t", "x")
    assert Trace.from_json({"query": "q"}) == Trace(Query("q"))


def test_records_are_frozen() -> None:
    with pytest.raises(AttributeError):
        FACT.score = 1.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("query", "part"),
    [
        (Query(""), "the claim or question is empty"),
        (Query(" \n"), "the claim or question is empty"),
        (Query("a\udcff"), r"'a\\udcff' contains an unpaired surrogate; expected valid Unicode text"),
        (Query("Is it so?", (Fact("p", 0, "\ud800", "So."),)), "unpaired surrogate"),
        (Query("Is it so?", (Fact("p", 0, "A title", "So\ud800."),)), "unpaired surrogate"),
    ],
)
def test_empty_and_invalid_texts_are_refused(query: Query, part: str) -> None:
    assert QUERY.checked() is QUERY
    with pytest.raises(QueryError, match=part):
        query.checked()


def test_sentences_are_what_the_spans_cut_out() -> None:
    passage = Passage("p", "t", "One. Two.  Three.", ((0, 4), (5, 9), (9, 9), (11, 17)))
    assert passage.sentences == ("One.", "Two.", "", "Three.")
    assert Passage("p", "t", "One.").sentences == ()


@pytest.mark.parametrize(
    ("given_sentences", "text", "sentences"),
    [
        (["One.", "Two."], "One. Two.", ("One.", "Two.")),
        (["One.", " Two."], "One. Two.", ("One.", "Two.")),
        (["One. ", "Two."], "One. Two.", ("One.", "Two.")),
        (["One.\n", "Two."], "One.\nTwo.", ("One.", "Two.")),
        (["  One.", "Two. "], "  One. Two. ", ("One.", "Two.")),
        (["One.", "", "Two."], "One. Two.", ("One.", "", "Two.")),
        (["", "One.", ""], "One.", ("", "One.", "")),
        (["One.", " ", "Two."], "One. Two.", ("One.", "", "Two.")),
        (["", ""], "", ("", "")),
        ([], "", ()),
    ],
)
def test_sentences_are_joined_by_one_space_unless_one_is_there(
    given_sentences: list[str], text: str, sentences: tuple[str, ...]
) -> None:
    passage = Passage.from_sentences("p", "t", given_sentences)
    assert passage.text == text
    assert passage.sentences == sentences


@given(st.lists(WORDS, max_size=6))
def test_sentences_keep_their_numbers_and_lose_surrounding_space(sentences: list[str]) -> None:
    passage = Passage.from_sentences("p", "t", sentences)
    assert passage.sentences == tuple(sentence.strip() for sentence in sentences)
    edges = [edge for span in passage.spans for edge in span]
    assert edges == sorted(edges), "spans follow each other without overlap"
    assert not edges or edges[-1] <= len(passage.text)


@given(st.lists(WORDS, max_size=6))
def test_joining_adds_nothing_but_single_spaces_between_words(sentences: list[str]) -> None:
    text = Passage.from_sentences("p", "t", sentences).text
    assert "".join(text.split()) == "".join("".join(sentences).split())
    if not any("  " in sentence or sentence != sentence.strip() for sentence in sentences):
        assert "  " not in text
        assert text == text.strip()


def test_metadata_is_empty_unless_given() -> None:
    assert Passage.from_sentences("p", "t", ["One."]).metadata == {}
    assert Passage.from_sentences("p", "t", ["One."], {"year": 1811}).metadata == {"year": 1811}


def test_a_ranking_reads_like_a_sequence_of_hits() -> None:
    assert RANKING.pids == ("p1", "p2")
    assert len(RANKING) == 2
    assert list(RANKING) == [RANKING[0], RANKING[1]] == list(RANKING.hits)


def found(facts: tuple[Fact, ...], *rankings: Ranking) -> Trace:
    """A run whose hops retrieved `rankings` and that ends with `facts`."""
    hops = [Hop(Query("q"), ranking=ranking) for ranking in rankings]
    return Trace(Query("q"), (*hops[:-1], replace(hops[-1], condensed=Condensed(facts))))


def test_passages_with_final_facts_come_first_then_the_rest_by_hop_and_rank() -> None:
    trace = found(
        (Fact("b", 0, "", "", 0.5), Fact("e", 1, "", "", 1.5), Fact("b", 2, "", "", 2.5), Fact("d", 0, "", "", -1.0)),
        Ranking((Hit("a", 9.0), Hit("b", 8.0), Hit("c", 7.0))),
        Ranking((Hit("d", 30.0), Hit("e", 20.0), Hit("f", 10.0))),
    )
    assert trace.ranking().pids == ("b", "e", "d", "a", "c", "f")
    assert [hit.score for hit in trace.ranking()] == [2.5, 1.5, -1.0, 9.0, 7.0, 10.0]


def test_dropped_facts_do_not_put_their_passages_first() -> None:
    fallen = Hop(
        Query("q"), ranking=Ranking((Hit("a", 2.0), Hit("b", 1.0))), condensed=Condensed((Fact("b", 0, "", ""),))
    )
    trace = Trace(Query("q"), (fallen, Hop(Query("q"), ranking=Ranking((Hit("c", 3.0),)))))
    assert trace.facts == ()
    assert trace.ranking().pids == trace.pids == ("a", "b", "c")


def test_facts_of_equal_score_rank_by_passage_id() -> None:
    trace = found((Fact("b", 0, "", ""), Fact("a", 0, "", "")), Ranking((Hit("b", 2.0), Hit("c", 1.0), Hit("a", 0.0))))
    assert trace.ranking().pids == ("a", "b", "c")


@given(st.lists(st.lists(st.sampled_from("abcdef"), unique=True), min_size=1, max_size=3), st.lists(FACTS, max_size=3))
def test_a_runs_ranking_has_every_passage_once(pids: list[list[str]], facts: list[Fact]) -> None:
    trace = found(tuple(facts), *(Ranking(tuple(Hit(pid, 1.0) for pid in hop)) for hop in pids))
    assert len(set(trace.ranking().pids)) == len(trace.ranking())
    assert set(trace.ranking().pids) == {pid for hop in pids for pid in hop} | {fact.pid for fact in facts}


def test_a_passage_of_two_hops_keeps_its_first_place_and_score() -> None:
    trace = found((), Ranking((Hit("a", 3.0), Hit("b", 2.0))), Ranking((Hit("b", 9.0), Hit("c", 1.0))))
    assert trace.ranking() == Ranking((Hit("a", 3.0), Hit("b", 2.0), Hit("c", 1.0)))


def read_at(pids: str, *judgements: Judgement, facts: tuple[Fact, ...] = ()) -> Hop:
    """A hop that retrieved `pids` and made this of their sentences."""
    ranking = Ranking(tuple(Hit(pid, 50.0 - place) for place, pid in enumerate(pids)))
    return Hop(Query("q"), ranking=ranking, condensed=Condensed(facts, judgements))


def test_by_evidence_a_passage_scores_as_its_best_sentence_less_its_rank() -> None:
    trace = Trace(
        Query("q"),
        (
            read_at("abc", Judgement("a", 0, 1.0, 2.0), Judgement("a", 1, 4.0, -3.5), Judgement("b", 0, 3.0, 1.0), Judgement("c", 0, 9.0)),
            read_at("def", Judgement("b", 0, None, -1.0), Judgement("d", 0, 0.5, 2.0), Judgement("e", 0, -4.0), facts=(Fact("b", 0, "", ""),)),
        ),
        ranked_by="evidence",
    )  # fmt: skip
    assert trace.ranking() == Ranking(
        (
            Hit("c", 9.0 + UNSCORED - log1p(2)),
            Hit("a", 1.0 + 2.0),
            Hit("d", 0.5 + 2.0),
            Hit("b", 3.0 - 1.0 - log1p(1)),
            Hit("e", -4.0 + UNSCORED - log1p(1)),
            Hit("f", 48.0),
        )
    ), "a sentence without a fact score counts with UNSCORED"
    assert replace(trace, ranked_by="hops").ranking().pids == ("b", "a", "c", "d", "e", "f")
    assert Trace.from_json(trace.to_json(judgements=True)) == trace


def test_by_evidence_ties_go_by_id_and_only_retrieved_passages_rank() -> None:
    judged = [Judgement(pid, 0, 1.0, 1.0) for pid in "zcab"]
    hops = (read_at("c", *judged), read_at("a"), read_at("b"))
    assert Trace(Query("q"), hops, ranked_by="evidence").ranking().pids == ("a", "b", "c")
    assert Trace(QUERY, ranked_by="evidence").ranking() == Trace(QUERY).ranking()


def test_by_evidence_equal_sentences_go_by_rank() -> None:
    judged = [Judgement(pid, 0, 1.0, 1.0) for pid in "cab"]
    trace = Trace(Query("q"), (read_at("cab", *judged),), ranked_by="evidence")
    assert trace.ranking().pids == ("c", "a", "b")
    assert [best.pid for best in best_sentences(trace)] == ["c", "a", "b"]


def test_the_next_query_has_the_facts_so_far() -> None:
    assert Trace(QUERY).facts == QUERY.facts, "those that it came with"
    trace = Trace(QUERY, (Hop(QUERY, condensed=Condensed((FACT,))), Hop(QUERY, condensed=Condensed())))
    assert trace.facts == ()
    assert trace.next_query == Query(QUERY.text)
    assert Trace(QUERY).ranking().pids == ("p1", "p2")
    assert Trace(Query("q")).ranking() == Ranking()


def test_words_are_those_of_titles_and_sentences() -> None:
    assert HOP.words == 2 * (2 + 6), "doubtful facts are read, too"
    assert replace(HOP, condensed=replace(CONDENSED, borderline=())).words == 2 + 6
    assert Hop(QUERY).words == 0
