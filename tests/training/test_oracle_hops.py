"""Recall with a perfect condenser, worked by hand; and collections that are searched separately."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from baleen.core.types import Hit, Passage, Query, Ranking
from baleen.data.example import Example
from baleen.models.encoder import Encoder
from baleen.training.data import TrainingData
from baleen.training.hop_order.fixed import HopRecall, oracle_hops
from baleen.training.hop_order.mining import ExactIndex, MiningIndex, TokenisedCorpora, TokenisedCorpus
from baleen.training.hop_order.supervision import State
from fakes import CORPUS, QUERIES, tiny_encoder

CHAIN = Example("chain", "Who is the mayor where Lena Orlova teaches?", ("p2", "p0"), (("p0", 1), ("p2", 1)))
SINGLE = Example("single", "How long is the Grey Fjord?", ("p6",), (("p6", 0),))


def passage(pid: str) -> Passage:
    return CORPUS[int(pid[1:])]


class Scripted:
    """Finds p0 and the fjord by their names, and p2 once a fact of p0 is there."""

    def __init__(self) -> None:
        self.asked: list[tuple[Query, tuple[str, ...]]] = []

    def __call__(self, states: Sequence[State], depth: int, seen: Sequence[Sequence[str]]) -> list[Ranking]:
        queries = [state.query for state in states]
        self.asked += [(query, tuple(own)) for query, own in zip(queries, seen, strict=True)]
        return [self._rank(query, depth, own) for query, own in zip(queries, seen, strict=True)]

    def _rank(self, query: Query, depth: int, seen: Sequence[str]) -> Ranking:
        first = ["p2"] if query.facts else ["p0"] if "Lena" in query.text else ["p7"]
        left = [pid for pid in dict.fromkeys([*first, "p4", "p5", "p6"]) if pid not in seen]
        return Ranking(tuple(Hit(pid, -rank) for rank, pid in enumerate(left[:depth])))


def test_facts_found_lead_to_the_next_passage() -> None:
    search = Scripted()
    reached = oracle_hops([CHAIN, SINGLE], search, passage, [1, 2])
    # After hop 1 the chain has one passage of two.  Hop 2 finds p2 by the fact, and the fjord third of all.
    assert reached == [HopRecall(1, 1, 0.0, 0.25), HopRecall(2, 2, 0.5, 0.5)]
    query, seen = search.asked[2]
    assert [(fact.pid, fact.sid, fact.hop) for fact in query.facts] == [("p0", 1, 1)]
    assert seen == ("p0",)


def test_passages_of_earlier_hops_are_excluded_and_count() -> None:
    search = Scripted()
    reached = oracle_hops([CHAIN, SINGLE], search, passage, [2, 2])
    assert reached[-1] == HopRecall(2, 2, 1.0, 1.0)
    assert search.asked[3] == (Query(SINGLE.text), ("p7", "p4"))


def test_a_finished_question_is_not_searched_for_and_counts() -> None:
    search, found = Scripted(), Example("found", "Where does Lena Orlova teach?", ("p0",))
    reached = oracle_hops([found, SINGLE], search, passage, [1, 2, 1])
    assert reached == [HopRecall(1, 1, 0.5, 0.5), HopRecall(2, 2, 0.5, 0.5), HopRecall(3, 1, 1.0, 1.0)]
    assert [query.text for query, _ in search.asked] == [found.text, SINGLE.text, SINGLE.text, SINGLE.text]


def test_a_repeated_gold_passage_counts_once() -> None:
    twice = Example("twice", CHAIN.text, ("p0", "p0"))
    assert oracle_hops([twice], Scripted(), passage, [1]) == [HopRecall(1, 1, 1.0, 1.0)]


def test_without_questions_recall_is_zero() -> None:
    assert oracle_hops([], Scripted(), passage, [5]) == [HopRecall(1, 5, 0.0, 0.0)]


# Collections


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return tiny_encoder(tmp_path_factory.mktemp("oracle"))


@pytest.fixture(scope="module")
def corpora(encoder: Encoder) -> TokenisedCorpora:
    pids = {"odd": ["p1", "p3", "p5", "p7"], "even": ["p0", "p2", "p4", "p6"], "unasked": ["p0"]}
    return TokenisedCorpora.of(encoder.inputs, TrainingData({each.pid: each for each in CORPUS}, pids, [], []))


def test_each_query_is_ranked_in_its_own_collection(encoder: Encoder, corpora: TokenisedCorpora) -> None:
    found = MiningIndex(encoder, corpora).rank(QUERIES, ["odd", "even", "odd"], 3)
    for query, name, ranking in zip(QUERIES, ["odd", "even", "odd"], found, strict=True):
        assert [ranking] == ExactIndex(encoder, corpora[name]).rank([query], 3)


def test_exclusions_are_per_query(encoder: Encoder, corpora: TokenisedCorpora) -> None:
    found = MiningIndex(encoder, corpora).rank(QUERIES, ["odd", "even", "odd"], 9, [{"p1"}, {"p0", "p2"}, set()])
    assert [set(ranking.pids) for ranking in found] == [{"p3", "p5", "p7"}, {"p4", "p6"}, {"p1", "p3", "p5", "p7"}]


def test_a_collection_is_encoded_once_and_on_demand(encoder: Encoder, corpora: TokenisedCorpora) -> None:
    encoded: list[str] = []

    class Watched(TokenisedCorpora):
        def __getitem__(self, name: str) -> TokenisedCorpus:
            encoded.append(name)
            return super().__getitem__(name)

    several = MiningIndex(encoder, Watched(corpora))
    assert several.rank([], [], 5) == []
    several.rank(QUERIES[:1], ["odd"], 1)
    several.rank(QUERIES, ["odd", "even", "odd"], 1)
    assert encoded == ["odd", "even"]
