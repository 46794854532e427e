from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from baleen.core.types import Fact, Hit, Passage, Query
from baleen.hops.mentions import CLAIM, MentionBoost
from baleen.hops.retriever import Retriever
from baleen.index.index import Index
from baleen.index.protocol import SearchOptions
from fakes import CORPUS, tiny_encoder
from hop_fakes import facts_of

pytestmark = pytest.mark.usefixtures("one_thread")

MAYOR = "Who is the mayor of the town where Lena Orlova teaches?"
FIRST, SECOND = facts_of(("p0", 1), ("p2", 1))  # of Lena Orlova, of Vardal
PLAIN = "Who teaches there?"  # names nothing
LOUD = 1000.0  # more than any passage scores


@pytest.fixture(scope="module")
def retriever(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    folder = tmp_path_factory.mktemp("boosting")
    encoder = tiny_encoder(folder)
    return Retriever(encoder, Index.build(folder / "index", CORPUS, encoder, bits=4, threads=1))


def pids_after(retriever: Retriever, query: Query, k: int, bonus: float, **options: Any) -> tuple[str, ...]:
    return MentionBoost(retriever, bonus).retrieve([query], k, SearchOptions(**options))[0].ranking.pids


def raised(retriever: Retriever, query: Query, bonus: float, k: int) -> tuple[Hit, ...]:
    """The expected hits, from a plain search of every passage."""
    named = MentionBoost(retriever, bonus).mentioned(query)
    plain = retriever.search(query, len(CORPUS), exact=True)
    hits = [
        Hit(hit.pid, float(np.float32(hit.score) + np.float32(bonus))) if hit.pid in named else hit for hit in plain
    ]
    return tuple(sorted(hits, key=lambda hit: (-hit.score, hit.pid))[:k])


# Which passages are mentioned

NAMED: dict[str, tuple[Query, dict[str, str]]] = {
    "by the claim": (Query(MAYOR), {"p0": CLAIM}),
    "by no one": (Query(PLAIN), {}),
    "by a passage that supplied a fact": (Query(PLAIN, (FIRST,)), {"p5": "p0", "p1": "p0"}),
    "by a sentence that is no fact": (Query(PLAIN, (SECOND,)), {"p6": "p2", "p3": "p2"}),
    "by both": (Query(MAYOR, (FIRST,)), {"p0": CLAIM, "p5": "p0", "p1": "p0"}),
    "by the claim before a passage": (Query("Is it in Tromsk?", (FIRST,)), {"p5": CLAIM, "p1": "p0"}),
    "by two passages": (Query(PLAIN, (FIRST, SECOND)), {"p5": "p0", "p1": "p0", "p6": "p2", "p3": "p2"}),
    "by the newer passage": (Query(PLAIN, (SECOND, FIRST)), {"p6": "p2", "p3": "p2", "p5": "p0", "p1": "p0"}),
    "by two facts of a passage": (Query(PLAIN, facts_of(("p0", 0), ("p0", 1))), {"p5": "p0", "p1": "p0"}),
    "not by itself": (Query(PLAIN, facts_of(("p6", 0))), {}),
}  # fmt: skip


@pytest.mark.parametrize(("query", "named"), NAMED.values(), ids=NAMED.keys())
def test_the_claim_and_passages_with_facts_name_others(
    retriever: Retriever, query: Query, named: dict[str, str]
) -> None:
    found = MentionBoost(retriever, 2.0).mentioned(query)
    assert found == named
    assert list(found) == list(named), "in the order of the mentions"


def test_the_first_passage_that_mentions_another_is_recorded(tmp_path: Path, retriever: Retriever) -> None:
    both = [Passage.from_sentences(pid, f"Guide {pid}", ["They went to Vardal."]) for pid in ("a1", "b2")]
    index = Index.build(tmp_path / "index", [*CORPUS, *both], retriever.encoder, bits=4, threads=1)
    boosting = MentionBoost(Retriever(retriever.encoder, index), 2.0)
    facts = tuple(Fact(passage.pid, 0, passage.title, passage.text) for passage in both)
    assert boosting.mentioned(Query(PLAIN, facts)) == {"p2": "a1"}
    assert boosting.mentioned(Query(PLAIN, facts[::-1])) == {"p2": "b2"}


def test_a_shared_name_mentions_every_passage_with_it(tmp_path: Path, retriever: Retriever) -> None:
    other = Passage.from_sentences("p9", "Vardal (ship)", ["It sank."])
    index = Index.build(tmp_path / "index", [*CORPUS, other], retriever.encoder, bits=4, threads=1)
    boosting = MentionBoost(Retriever(retriever.encoder, index), 2.0)
    assert boosting.mentioned(Query("What is in Vardal?")) == {"p2": CLAIM, "p9": CLAIM}


def test_a_single_word_at_the_start_of_a_sentence_mentions_nothing(tmp_path: Path, retriever: Retriever) -> None:
    split = Passage.from_sentences("s", "Split", ["It rains.", "Tromsk sleeps.", "Ivo Brandt sings."])
    unsplit = Passage("u", "Unsplit", "Tromsk sleeps.  In Vardal it rains.")
    index = Index.build(tmp_path / "index", [*CORPUS, split, unsplit], retriever.encoder, bits=4, threads=1)
    boosting = MentionBoost(Retriever(retriever.encoder, index), 2.0)
    assert boosting.mentioned(Query(PLAIN, (Fact("s", 0, "Split", "It rains."),))) == {"p3": "s"}
    assert boosting.mentioned(Query(PLAIN, (Fact("u", -1, "Unsplit", unsplit.text),))) == {"p2": "u"}


def test_facts_of_passages_outside_the_index_are_skipped(retriever: Retriever) -> None:
    mine = Fact("my own", 0, "Vardal", "Vardal lies on the Grey Fjord.")
    boosting = MentionBoost(retriever, LOUD)
    assert boosting.mentioned(Query(PLAIN, (mine,))) == {}
    assert boosting.mentioned(Query(PLAIN, (mine, FIRST))) == {"p5": "p0", "p1": "p0"}
    (found,) = boosting.retrieve([Query(PLAIN, (mine,))], 3)
    assert (found.ranking, found.mentioned) == (retriever.search(Query(PLAIN, (mine,)), 3), {})


# What comes


def test_mentioned_passages_are_found_even_if_the_search_misses_them(retriever: Retriever) -> None:
    lost = 0
    for query, named in NAMED.values():
        if named:
            assert set(pids_after(retriever, query, len(named), LOUD)) == set(named)
            lost += set(retriever.search(query, len(named)).pids) != set(named)
    assert lost >= 3, "or this would show nothing"


@pytest.mark.parametrize("bonus", [0.01, 0.5, 2, LOUD])
@pytest.mark.parametrize("k", [1, 3, 8, 20])
@pytest.mark.parametrize("query", [query for query, _ in NAMED.values()])
def test_scores_are_those_of_a_plain_search_and_the_bonus(
    retriever: Retriever, query: Query, k: int, bonus: float
) -> None:
    (found,) = MentionBoost(retriever, bonus).retrieve([query], k)
    assert found.ranking.hits == raised(retriever, query, bonus, k)


def test_mentioned_passages_are_listed_with_their_source(retriever: Retriever) -> None:
    query = Query(MAYOR, (FIRST, SECOND))
    (all_of_them,) = MentionBoost(retriever, LOUD).retrieve([query], 8)
    assert all_of_them.mentioned == {"p0": CLAIM, "p5": "p0", "p1": "p0", "p6": "p2", "p3": "p2"}
    assert tuple(all_of_them.mentioned) == all_of_them.ranking.pids[:5], "in the order of the ranking"
    (some,) = MentionBoost(retriever, LOUD).retrieve([query], 2)
    assert some.mentioned == {pid: all_of_them.mentioned[pid] for pid in some.ranking.pids}


def test_a_mention_does_not_bring_back_an_excluded_passage(retriever: Retriever) -> None:
    query = Query(MAYOR, (FIRST,))
    (found,) = MentionBoost(retriever, LOUD).retrieve([query], 8, SearchOptions(exclude=[["p0", "p5"]]))
    assert sorted(found.ranking.pids) == ["p1", "p2", "p3", "p4", "p6", "p7"]
    assert (found.ranking.pids[0], found.mentioned) == ("p1", {"p1": "p0"})


def test_other_options_are_those_of_a_search(retriever: Retriever) -> None:
    query = Query(MAYOR, (FIRST,))
    assert set(pids_after(retriever, query, 8, LOUD, allow=["p1", "p2"])) == {"p1", "p2"}
    (found,) = MentionBoost(retriever, LOUD).retrieve([query], 8, SearchOptions(focus=(None, None), exact=True))
    plain = {hit.pid: hit.score for hit in retriever.search(query, 8, focus=(None, None), exact=True)}
    expected = [plain[hit.pid] + (LOUD if hit.pid in found.mentioned else 0) for hit in found.ranking]
    assert [hit.score for hit in found.ranking] == pytest.approx(expected, abs=1e-3)


def test_many_queries_come_out_as_each_alone(retriever: Retriever) -> None:
    queries, boosting = [query for query, _ in NAMED.values()], MentionBoost(retriever, 0.5)
    exclude = [["p1"] if number % 2 else [] for number in range(len(queries))]
    together = boosting.retrieve(queries, 4, SearchOptions(exclude=exclude))
    for query, without, found in zip(queries, exclude, together, strict=True):
        (alone,) = boosting.retrieve([query], 4, SearchOptions(exclude=[without]))
        assert found.ranking.pids == alone.ranking.pids
        assert (found.mentioned, found.encoded_query, found.tokens) == (
            alone.mentioned,
            alone.encoded_query,
            alone.tokens,
        )
        assert [hit.score for hit in found.ranking] == pytest.approx([hit.score for hit in alone.ranking], abs=1e-4)
    assert any(found.mentioned for found in together)
    assert boosting.retrieve([], 4) == []


def test_finding_mentions_is_timed(retriever: Retriever) -> None:
    (found,) = MentionBoost(retriever, 2.0).retrieve([Query(MAYOR)], 3)
    assert found.seconds.keys() == {"name", "encode", "search"}
    assert all(spent > 0 for spent in found.seconds.values())
    assert MentionBoost(retriever, 2.0).passage("p3") == CORPUS[3]
