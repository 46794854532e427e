from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from baleen.core.types import Answer, Condensed, Hit, Hop, Passage, Query, Ranking, Trace
from baleen.evaluation.results import Prediction
from baleen.hops.condenser import Condenser
from baleen.hops.config import CondenserConfig
from baleen.hops.pipeline import Condensing, merge_rankings, merge_traces, read_outcomes, run_hops, run_hybrid
from baleen.hops.readers import Verifier
from baleen.hops.reranker import Reranker
from baleen.hops.retriever import Retrieval
from fakes import CORPUS
from hop_fakes import CLAIM, MAYOR, STANDS, TEACHES, ScriptedCrossEncoder, ScriptedRetriever, chain, facts_of

KNOWN = {TEACHES: 1.0, STANDS: 1.0, MAYOR: 1.0}
PLACES = [("p0", 1), ("p1", 1), ("p2", 1)]


def condenser(reading: ScriptedCrossEncoder | None = None, **settings: Any) -> Condenser:
    """Keeps the three sentences of the chain, unless a reading of its own is given."""
    reading = reading or ScriptedCrossEncoder(sentences=KNOWN, facts=KNOWN)
    return Condenser(reading, reading, CondenserConfig(**settings))  # type: ignore[arg-type]


def reranker(favour: Sequence[Passage] = CORPUS) -> Reranker:
    """Prefers the passages of `favour` in their order."""
    scores = {passage.text: float(-rank) for rank, passage in enumerate(favour)}
    return Reranker(ScriptedCrossEncoder(reranker=scores))  # type: ignore[arg-type]


def traces(
    retriever: ScriptedRetriever, reading: Condensing, depths: Sequence[int], *claims: str, **options: Any
) -> list[Trace]:
    queries = [Query(claim) for claim in claims or [CLAIM]]
    *_, last = run_hops(queries, retriever, reading, depths, **options)  # type: ignore[arg-type]
    return last


def places(trace: Trace) -> list[tuple[str, int]]:
    return [(fact.pid, fact.sid) for fact in trace.facts]


def numbered(count: int, sentences: int = 1) -> list[Passage]:
    return [
        Passage.from_sentences(f"n{number:02}", f"Number {number}", [f"This is {number}."] * sentences)
        for number in range(count)
    ]


def without_times(trace: Trace) -> Trace:
    hops = tuple(replace(h, seconds={}, condensed=replace(h.condensed, seconds={})) for h in trace.hops)
    return replace(trace, hops=hops, seconds={}, parts=tuple(map(without_times, trace.parts)))


def test_a_chain_is_found_link_by_link() -> None:
    retriever = chain()
    (trace,) = traces(retriever, condenser(), [1, 1, 1])
    assert [hop.ranking.pids for hop in trace.hops] == [("p0",), ("p1",), ("p2",)]
    assert [len(hop.facts) for hop in trace.hops] == [1, 2, 3]
    assert places(trace) == PLACES
    assert [fact.hop for fact in trace.facts] == [1, 2, 3]
    assert [[fact.text for fact in query.facts] for (query,) in retriever.asked] == [[], [TEACHES], [TEACHES, STANDS]]
    assert [hop.query for hop in trace.hops] == [asked[0] for asked in retriever.asked]
    assert trace.stopped == ""
    assert trace.outcome is None


def test_passages_of_earlier_hops_do_not_come_again() -> None:
    (trace,) = traces(chain(), condenser(), [3, 3, 3])
    assert [hop.excluded for hop in trace.hops] == [(), trace.pids[:3], trace.pids[:6]]
    assert len(set(trace.pids)) == len(trace.pids) == 8
    assert places(trace) == PLACES


def test_each_hop_has_its_own_depth() -> None:
    (trace,) = traces(ScriptedRetriever({}, numbered(60)), condenser(), [10, 40])
    assert [len(hop.ranking) for hop in trace.hops] == [10, 40]


@pytest.mark.parametrize(("hops", "options"), [(3, {}), (5, {"stop_early": True})])
def test_a_borderline_fact_stays_in_the_query_until_the_end(hops: int, options: dict[str, Any]) -> None:
    reading = ScriptedCrossEncoder(sentences=KNOWN, facts={TEACHES: 1.0, STANDS: -1.0, MAYOR: 1.0})
    retriever = chain()
    (trace,) = traces(retriever, condenser(reading, keep=-2.0, final=0.0), [1] * hops, **options)
    assert [[fact.text for fact in query.facts] for (query,) in retriever.asked][2] == [TEACHES, STANDS]
    assert places(trace) == [PLACES[0], PLACES[2]]
    assert [len(hop.facts) for hop in trace.hops][:2] == [1, 2], "hops before the last stay as they were"
    assert trace.next_query == Query(CLAIM, trace.facts), "so a reader does not see it"


@pytest.mark.parametrize(("hops", "options"), [(3, {}), (5, {"stop_early": True})])
def test_a_run_ends_with_min_passages(hops: int, options: dict[str, Any]) -> None:
    reading = ScriptedCrossEncoder(sentences=KNOWN, facts={TEACHES: 1.0, STANDS: -1.0, MAYOR: -1.5})
    settings: dict[str, Any] = {"keep": -2.0, "final": 0.0, "min_passages": 2}
    (trace,) = traces(chain(), condenser(reading, **settings), [1] * hops, **options)
    assert places(trace) == PLACES[:2], "of two borderline facts the better one"
    (merged,) = hybrid([1] * hops, left=condenser(reading, **settings), **options)
    assert merged.facts == trace.facts


def test_only_stop_early_ends_a_run_at_a_hop_without_facts() -> None:
    (whole,) = traces(chain(), condenser(), [1] * 5)
    assert len(whole.hops) == 5
    assert whole.stopped == ""
    retriever = chain()
    (stopped,) = traces(retriever, condenser(), [1] * 5, stop_early=True)
    assert len(stopped.hops) == len(retriever.asked) == 4
    assert stopped.stopped == "hop 4 added no fact"
    assert stopped.facts == whole.facts
    assert without_times(stopped).hops == without_times(whole).hops[:4]


def test_a_stopped_run_is_finished_once(monkeypatch: pytest.MonkeyPatch) -> None:
    finished: list[int] = []
    finish = Condenser.finish

    def counted(self: Condenser, trace: Trace, passage: Any) -> Trace:
        finished.append(len(trace.hops))
        return finish(self, trace, passage)

    monkeypatch.setattr(Condenser, "finish", counted)
    (stopped,) = traces(chain(), condenser(), [1] * 6, stop_early=True)
    assert finished == [len(stopped.hops)] == [4]


def test_a_run_stops_where_a_fact_was_only_dropped() -> None:
    falling = {TEACHES: 1.0, STANDS: lambda together: 1.0 if MAYOR not in together else -1.0, MAYOR: -1.0}
    reading = ScriptedCrossEncoder(sentences=KNOWN, facts=falling)
    (trace,) = traces(chain(), condenser(reading), [1] * 4, stop_early=True)
    assert places(trace) == PLACES[:1]
    assert trace.stopped == "hop 3 added no fact"


@pytest.mark.parametrize("size", [1, 2, 10])
def test_a_corpus_smaller_than_k_is_read_whole_and_the_run_stops(size: int) -> None:
    retriever = ScriptedRetriever({}, numbered(size))
    for reading in (condenser(), reranker()):
        (trace,) = traces(retriever, reading, [25] * 4)
        assert sorted(trace.pids) == [f"n{number:02}" for number in range(size)]
        assert [len(hop.ranking) for hop in trace.hops] == [size, 0]
        assert trace.stopped == "no passage was left at hop 2"
        assert len(trace.ranking()) == size


def test_eight_hops_may_be_taken() -> None:
    (trace,) = traces(chain(), reranker(), [1] * 8)
    assert len(trace.hops) == len(trace.facts) == len(set(trace.pids)) == 8
    assert [fact.hop for fact in trace.facts] == list(range(1, 9))
    (more,) = traces(chain(), reranker(), [1] * 10)
    assert more.stopped == "no passage was left at hop 9"


def test_a_corpus_without_sentences_gives_no_facts_and_no_trouble() -> None:
    empty = [Passage("a", "", ""), Passage.from_sentences("b", "Title", ["", " "])]
    (trace,) = traces(ScriptedRetriever({}, empty), condenser(), [1, 1])
    assert trace.pids == ("a", "b")
    assert trace.facts == ()
    assert all(hop.condensed.judgements == () for hop in trace.hops)


def test_more_facts_than_a_model_can_read_run_through() -> None:
    """Forty facts a hop are some 500 tokens more each time; what the models cannot hold gives way, the facts stay."""
    corpus = numbered(3, sentences=40)
    known = dict.fromkeys((text for passage in corpus for text in passage.sentences), 1.0)
    reading = ScriptedCrossEncoder(sentences=known, facts=known, verifier=lambda row: [[1.0, 0.0]] * len(row.places))
    last = traces(ScriptedRetriever({}, corpus), condenser(reading, pool=40), [1, 1, 1])
    assert len(last[0].facts) == 120
    (read,) = read_outcomes(last, Verifier(reading))  # type: ignore[arg-type]
    assert read.outcome is not None


def test_hops_are_yielded_lazily() -> None:
    retriever, reading = chain(), ScriptedCrossEncoder(sentences=KNOWN, facts=KNOWN)
    running = run_hops([Query(CLAIM)], retriever, condenser(reading), [1] * 4)  # type: ignore[arg-type]
    assert (retriever.asked, reading.asked) == ([], []), "nothing is done before it is asked for"
    (trace,) = next(running)
    assert len(trace.hops) == len(retriever.asked) == 1
    assert [head for head, _ in reading.asked] == ["sentences", "facts"]
    (trace,) = next(running)
    assert len(trace.hops) == len(retriever.asked) == 2


def test_what_was_yielded_does_not_change_afterwards() -> None:
    steps = list(run_hops([Query(CLAIM)], chain(), condenser(), [1, 1, 1]))  # type: ignore[arg-type]
    assert [len(trace.hops) for (trace,) in steps] == [1, 2, 3]
    assert steps[0][0].hops == steps[2][0].hops[:1]


def test_a_batch_gives_the_results_of_single_claims() -> None:
    claims = [CLAIM, "Nothing leads anywhere.", CLAIM + " Really?"]
    retriever = ScriptedRetriever({**chain().leads, claims[1]: ["p6", "p7"], claims[2]: ["p2"]})
    together = traces(retriever, condenser(), [2] * 4, *claims, stop_early=True)
    asked = len(retriever.asked)
    alone = [traces(retriever, condenser(), [2] * 4, claim, stop_early=True)[0] for claim in claims]
    assert [without_times(trace) for trace in together] == [without_times(trace) for trace in alone]
    assert asked == max(len(trace.hops) for trace in alone), "one search a hop, whatever the number of claims"
    assert len({len(trace.hops) for trace in alone}) > 1, "one stops while others go on"
    assert list(run_hops([], retriever, condenser(), [2, 2])) == [[], []]  # type: ignore[arg-type]


def test_a_run_may_start_from_facts_that_are_given() -> None:
    given = facts_of(("p0", 1), hop=0)
    *_, (trace,) = run_hops([Query(CLAIM, given)], chain(), condenser(), [1, 1])  # type: ignore[arg-type]
    assert trace.hops[0].ranking.pids == ("p1",)
    assert places(trace) == PLACES


def test_each_stage_of_each_hop_tells_its_seconds_and_tokens() -> None:
    (trace,) = traces(chain(), condenser(), [2, 2])
    for hop in trace.hops:
        assert hop.seconds.keys() == {"encode", "search"}
        assert hop.tokens.keys() == {"encode"}
        assert hop.condensed.seconds.keys() == hop.condensed.tokens.keys() == {"sentences", "facts"}
        assert all(count > 0 for count in hop.condensed.tokens.values())


def test_the_reader_reads_the_claim_and_the_final_facts() -> None:
    reading = ScriptedCrossEncoder(verifier=lambda row: [[float(len(row)), 30.0]])
    long, short = traces(ScriptedRetriever({CLAIM: ["p0"], "Whales": ["p6"]}), condenser(), [1], CLAIM, "Whales")
    concluded = read_outcomes([long, short], Verifier(reading))  # type: ignore[arg-type]
    assert [getattr(trace.outcome, "label", None) for trace in concluded] == ["supported", "not supported"]
    assert [replace(trace, outcome=None, seconds={}, tokens={}) for trace in concluded] == [long, short]
    assert all(trace.seconds.keys() == trace.tokens.keys() == {"read"} for trace in concluded)
    assert concluded[0].tokens["read"] > concluded[1].tokens["read"]


def test_the_reader_sees_borderline_facts_that_are_not_reported() -> None:
    reading = ScriptedCrossEncoder(sentences=KNOWN, facts={TEACHES: 3.0, STANDS: 0.5, MAYOR: 0.2})
    last = traces(chain(), condenser(reading, keep=-1.0, read=0.0, final=1.0), [1] * 3)
    seen: list[Query] = []

    class Listening:
        def read(self, queries: Sequence[Query], _: Any = None) -> list[Answer]:
            seen.extend(queries)
            return [Answer("town", 0.9, *PLACES[2])]

    (trace,) = read_outcomes(last, Listening())
    assert (places(last[0]), [(fact.pid, fact.sid) for fact in last[0].borderline]) == (PLACES[:1], PLACES[1:])
    assert [(fact.pid, fact.sid) for fact in seen[0].facts] == PLACES
    assert places(trace) == [PLACES[0], PLACES[2]], "the fact with the answer is reported"
    assert Prediction.of_trace(last[0]).facts == last[0].facts, "borderline facts are not evaluated"
    assert Trace.from_json(json.loads(json.dumps(trace.to_json(judgements=True)))) == trace


def test_a_hybrid_keeps_the_borderline_facts_of_a_stopped_condenser() -> None:
    fact, doubtful = facts_of(("p0", 1), ("p1", 1))
    first = Hop(Query(CLAIM), ranking=Ranking((Hit("p0", 1.0),)), condensed=Condensed((fact,), borderline=(doubtful,)))
    other = Hop(Query(CLAIM), ranking=Ranking((Hit("p2", 1.0),)))
    merged = merge_traces(Trace(Query(CLAIM), (first,), stopped="no"), Trace(Query(CLAIM), (first, other)), [1, 1])
    assert (merged.facts, merged.borderline) == ((fact,), (doubtful,))


def test_condensing_leaves_far_fewer_words_than_reranking() -> None:
    condensed, reranked = (traces(chain(), reading, [1] * 3)[0] for reading in (condenser(), reranker()))
    assert condensed.pids == ("p0", "p1", "p2")
    assert [hop.words for hop in condensed.hops] == [14, 25, 33]
    assert [hop.words for hop in reranked.hops] == [24, 43, 60]


def test_a_trace_goes_to_json_and_back() -> None:
    for trace in (*traces(chain(), condenser(), [2] * 3), *hybrid([3, 3])):
        assert Trace.from_json(json.loads(json.dumps(trace.to_json(judgements=True)))) == trace


# Hybrid


def hybrid(
    depths: Sequence[int],
    *claims: str,
    corpus: Sequence[Passage] = CORPUS,
    left: Condenser | None = None,
    **options: Any,
) -> list[Trace]:
    retriever = ScriptedRetriever(chain().leads, corpus)
    queries = [Query(claim) for claim in claims or [CLAIM]]
    *_, last = run_hybrid(queries, retriever, left or condenser(), reranker(CORPUS[::-1]), depths, **options)  # type: ignore[arg-type]
    return last


def test_a_hybrid_is_the_merge_of_its_two_runs() -> None:
    corpus = [*CORPUS, *numbered(80)]
    (trace,) = hybrid([25] * 3, corpus=corpus)
    condensed, reranked = trace.parts
    retriever = ScriptedRetriever(chain().leads, corpus)
    assert without_times(condensed) == without_times(traces(retriever, condenser(), [25] * 3)[0])
    assert without_times(reranked) == without_times(traces(retriever, reranker(CORPUS[::-1]), [25] * 3)[0])
    taken: set[str] = set()
    for hop, left, right in zip(trace.hops, condensed.hops, reranked.hops, strict=True):
        ours = [pid for pid in left.ranking.pids if pid not in taken][:13]
        theirs = [pid for pid in right.ranking.pids if pid not in taken and pid not in ours][:12]
        assert set(hop.ranking.pids) == {*ours, *theirs}
        assert len(hop.ranking) == 25
        assert hop.ranking.pids[::2] == tuple(ours)
        assert hop.ranking.pids[1::2] == tuple(theirs)
        taken |= set(hop.ranking.pids)
    assert len(set(trace.pids)) == len(trace.pids) == 75


def test_a_hybrids_facts_are_those_of_the_condenser() -> None:
    (trace,) = hybrid([4, 4])
    condensed, _ = trace.parts
    assert trace.facts == condensed.facts
    assert [hop.facts for hop in trace.hops] == [hop.facts for hop in condensed.hops]
    assert trace.ranking().pids[: len(trace.facts)] == tuple(fact.pid for fact in trace.facts)


def test_rankings_are_merged_in_turn_without_duplicates() -> None:
    left, right = (Ranking(tuple(Hit(pid, 1.0) for pid in pids)) for pids in ("abcdef", "bxaycz"))
    assert "".join(merge_rankings(left, right, 5, set()).pids) == "axbyc"
    assert "".join(merge_rankings(left, right, 5, {"a", "x"}).pids) == "bycz" + "d"
    assert merge_rankings(left, Ranking(), 4, set()).pids == ("a", "b")
    assert merge_rankings(Ranking(), right, 4, set()).pids == ("b", "x")
    assert merge_rankings(left, right, 1, set()).pids == ("a",)


def test_a_hybrid_tells_what_names_the_passages_that_it_took() -> None:
    """By the run that each came from: a passage may be raised in one of them only."""

    def part(hits: dict[str, float], named: dict[str, str]) -> Trace:
        ranking = Ranking(tuple(Hit(pid, score) for pid, score in hits.items()))
        return Trace(Query(CLAIM), (Hop(Query(CLAIM), ranking=ranking, mentioned=named),))

    left = part({"a": 9, "b": 8, "c": 7, "d": 6}, {"a": "", "c": "n"})
    right = part({"b": 8, "d": 7, "a": 6, "c": 5}, {"b": "", "d": "m"})
    (hop,) = merge_traces(left, right, [4]).hops
    assert (hop.ranking.pids, hop.mentioned) == (("a", "d", "b", "c"), {"a": "", "d": "m", "b": ""})
    assert merge_traces(left, replace(right, hops=()), [4]).hops[0].mentioned == {"a": ""}
    assert merge_traces(replace(left, hops=()), right, [4]).hops[0].mentioned == {"b": "", "d": "m"}


def test_a_hop_has_the_mentions_of_its_retriever() -> None:
    class Naming(ScriptedRetriever):
        def retrieve(self, *args: Any, **options: Any) -> list[Retrieval]:
            return [replace(each, mentioned={each.ranking.pids[0]: ""}) for each in super().retrieve(*args, **options)]

    (trace,) = traces(Naming(chain().leads), condenser(), [2, 2])
    assert [hop.mentioned for hop in trace.hops] == [{hop.ranking.pids[0]: ""} for hop in trace.hops]


def test_a_hybrid_goes_on_while_either_run_does() -> None:
    (trace,) = hybrid([1] * 6, stop_early=True)
    condensed, reranked = trace.parts
    assert condensed.stopped == "hop 4 added no fact"
    assert (len(condensed.hops), len(reranked.hops), len(trace.hops)) == (4, 6, 6)
    assert trace.stopped == reranked.stopped == ""
    assert trace.facts == condensed.facts
    assert trace.hops[4].condensed.judgements == (), "the condenser read nothing there"


def test_a_hybrid_stops_when_both_have() -> None:
    (trace,) = hybrid([25] * 4)
    assert trace.stopped == "no passage was left at hop 2"
    assert sorted(trace.pids) == [f"p{number}" for number in range(8)]


def test_a_hybrid_yields_each_hop_as_it_completes() -> None:
    retriever = chain()
    running = run_hybrid([Query(CLAIM)], retriever, condenser(), reranker(), [2] * 3)  # type: ignore[arg-type]
    assert [len(trace.hops) for trace in next(running)] == [1]
    assert retriever.asked == [[Query(CLAIM)]], "which both runs ask alike, and which is searched for once"
    assert [len(trace.hops) for trace in next(running)] == [2]
    assert len(retriever.asked) == 3


def test_both_runs_of_a_hybrid_have_the_cost_of_the_shared_search() -> None:
    class Costly(ScriptedRetriever):
        def retrieve(self, *args: Any, **options: Any) -> list[Retrieval]:
            found = super().retrieve(*args, **options)
            return [replace(each, seconds={"search": float(len(self.asked))}) for each in found]

    retriever = Costly(chain().leads)
    *_, (trace,) = run_hybrid([Query(CLAIM)], retriever, condenser(), reranker(), [2, 2])  # type: ignore[arg-type]
    spent = [[hop.seconds["search"] for hop in each.hops] for each in (trace, *trace.parts)]
    assert spent == [[1.0, 2.0], [1.0, 2.0], [1.0, 3.0]]
    assert [[hop.tokens["encode"] for hop in each.hops] for each in trace.parts] == [[1, 3], [1, 2]]


def test_a_hybrid_names_what_is_untrained_in_either_run() -> None:
    untrained = Reranker(ScriptedCrossEncoder(reranker={}), untrained=True)  # type: ignore[arg-type]
    *_, (trace,) = run_hybrid([Query(CLAIM)], chain(), condenser(), untrained, [1])  # type: ignore[arg-type]
    assert trace.untrained == ("reranker",)
    assert trace.parts[0].untrained == ()
