"""Title mentions in training data match those over an index, and collections are kept apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from baleen.core.types import Fact, Passage, Query
from baleen.data.titles import MAX_SAME_TITLE
from baleen.hops.mentions import CLAIM, MAX_MENTIONED, MentionBoost
from baleen.hops.retriever import Retriever
from baleen.index.index import Index
from baleen.training.data import TitleMentions, TrainingData
from fakes import CORPUS, QUERIES, tiny_encoder


def training_data(**collections: list[Passage]) -> TrainingData:
    passages = {passage.pid: passage for own in collections.values() for passage in own}
    return TrainingData(passages, {name: [passage.pid for passage in own] for name, own in collections.items()}, [], [])


def fact_of(pid: str) -> Fact:
    return Fact(pid, 0, "", "")


def test_mentions_match_those_over_an_index(tmp_path: Path) -> None:
    encoder = tiny_encoder(tmp_path / "encoder")
    retriever = Retriever(encoder, Index.build(tmp_path / "index", CORPUS, encoder))
    names, follower = TitleMentions(training_data(all=CORPUS)), MentionBoost(retriever, 1.0)
    asked = [*QUERIES, *(Query(passage.text, (fact_of(passage.pid),)) for passage in CORPUS)]
    assert [names.mentioned(query, "all") for query in asked] == [follower.mentioned(query) for query in asked]
    assert any(names.mentioned(query, "all") for query in asked)


TOWN = Passage("a/town", "Vardal", "A town.")
MAYOR = Passage("a/mayor", "Lena Orlova", "She is the mayor of Vardal, and met Lena Orlova of Norheim.")
OTHER = Passage("b/town", "Vardal", "Another town.")


def test_collections_are_kept_apart() -> None:
    names = TitleMentions(training_data(a=[TOWN, MAYOR], b=[OTHER]))
    asked = Query("Who is the mayor of Vardal?")
    assert names.mentioned(asked, "a") == {"a/town": CLAIM}
    assert names.mentioned(asked, "b") == {"b/town": CLAIM}


def test_a_passage_with_a_fact_mentions_others_not_itself() -> None:
    names = TitleMentions(training_data(a=[TOWN, MAYOR]))
    for _ in range(2):  # the second time it is known
        assert names.mentioned(Query("Who?", (fact_of("a/mayor"),)), "a") == {"a/town": "a/mayor"}


@pytest.mark.parametrize(("bearers", "named"), [(MAX_SAME_TITLE, MAX_SAME_TITLE), (MAX_SAME_TITLE + 1, 0)])
def test_a_title_of_too_many_passages_is_ignored(bearers: int, named: int) -> None:
    names = TitleMentions(training_data(a=[Passage(f"a/{number}", "Vardal", "A town.") for number in range(bearers)]))
    assert len(names.mentioned(Query("Where is Vardal?"), "a")) == named


def test_the_first_mentions_of_a_passage_are_taken() -> None:
    towns = [Passage(f"a/{number}", f"Town of Number {number}", "A town.") for number in range(MAX_MENTIONED + 5)]
    listed = Passage("a/list", "All towns", "There are " + ", ".join(town.title for town in towns) + ".")
    names = TitleMentions(training_data(a=[*towns, listed]))
    found = names.mentioned(Query("Which towns?", (fact_of("a/list"),)), "a")
    assert list(found) == [town.pid for town in towns[:MAX_MENTIONED]]
    assert set(found.values()) == {"a/list"}
