"""A retriever over any searchable index: options are checked before anything is encoded."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from baleen.core.errors import ConfigError, EncoderMismatchError, QueryError
from baleen.hops.retriever import BatchSearchOptions, Retriever
from baleen.index.index import Index
from baleen.index.protocol import SearchOptions
from baleen.models.encoder import Encoder
from fakes import CORPUS, tiny_encoder
from index_fakes import WordEncoder

pytestmark = pytest.mark.usefixtures("one_thread")

CLAIM = "Who is the mayor of the town where Lena Orlova teaches?"


@pytest.fixture(scope="module")
def retriever(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    folder = tmp_path_factory.mktemp("retriever")
    encoder = tiny_encoder(folder)
    return Retriever(encoder, Index.build(folder / "index", CORPUS, encoder, bits=4, threads=1))


@pytest.fixture
def unused_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """An encoder that fails when it is used."""

    def encode(*_: Any) -> None:
        raise AssertionError("a query was encoded")

    monkeypatch.setattr(Encoder, "encode_query_ids", encode)


@pytest.mark.usefixtures("unused_encoder")
def test_a_misspelt_option_is_refused_before_anything_is_encoded(retriever: Retriever) -> None:
    for search in (
        lambda: retriever.search(CLAIM, wher={"kind": "town"}),  # type: ignore[call-arg]
        lambda: retriever.search_many([CLAIM], wher={"kind": "town"}),  # type: ignore[call-arg]
    ):
        with pytest.raises(ConfigError, match="there is no setting 'wher'; did you mean 'where'"):
            search()


def test_keyword_options_are_those_of_search_options() -> None:
    assert get_type_hints(BatchSearchOptions).keys() == {field.name for field in fields(SearchOptions)}


@pytest.mark.usefixtures("unused_encoder")
def test_bad_options_are_refused_before_anything_is_encoded(retriever: Retriever) -> None:
    with pytest.raises(QueryError, match="exclude has ids for 1 queries; expected them for each of 2"):
        retriever.search_many([CLAIM, CLAIM], exclude=[["p0"]])
    with pytest.raises(QueryError, match="one string, 'p0', where ids are expected"):
        retriever.search(CLAIM, exclude="p0")
    for option in ({"exclude": ["p\udcff"]}, {"allow": ["p\udcff"]}):
        with pytest.raises(QueryError, match="unpaired surrogate"):
            retriever.search(CLAIM, **option)


def test_options_reach_the_index(retriever: Retriever) -> None:
    best = retriever.search(CLAIM, 8).pids
    assert retriever.search(CLAIM, 8, exclude=best[:2]).pids == best[2:]
    assert retriever.search(CLAIM, 8, allow=best[3:5]).pids == best[3:5]
    (raised,) = retriever.search_many([CLAIM], 8, boosted=[[best[-1]]], boost=1000.0)
    assert raised.pids == (best[-1], *best[:-1])
    assert retriever.search(CLAIM, 8, boosted=[best[-1]], boost=1000.0) == raised
    with pytest.raises(QueryError, match="where ids are expected"):
        retriever.search(CLAIM, boosted=best[-1], boost=1000.0)


def test_passages_are_read_together(retriever: Retriever) -> None:
    assert retriever.passages(["p3", "p0", "p3"]) == [CORPUS[3], CORPUS[0], CORPUS[3]]
    assert retriever.passage("p1") == CORPUS[1]
    assert retriever.passages([]) == []
    with pytest.raises(QueryError, match="no passage has the id 'p99'"):
        retriever.passages(["p0", "p99", "p98"])


def test_a_retriever_over_a_snapshot_does_not_see_changes(tmp_path: Path, retriever: Retriever) -> None:
    index = Index.build(tmp_path / "index", CORPUS, retriever.encoder, bits=4, threads=1)
    pinned, following = Retriever(retriever.encoder, index.snapshot), Retriever(retriever.encoder, index)
    before = pinned.search(CLAIM, 8)
    index.delete(before.pids[:2])
    assert pinned.search(CLAIM, 8) == before
    assert following.search(CLAIM, 8).pids == before.pids[2:]


def test_an_index_of_another_encoder_is_refused(tmp_path: Path, retriever: Retriever) -> None:
    index = Index.build(tmp_path / "index", CORPUS, WordEncoder())
    with pytest.raises(EncoderMismatchError, match=rf"{tmp_path / 'index'}: made by encoder"):
        Retriever(retriever.encoder, index)
