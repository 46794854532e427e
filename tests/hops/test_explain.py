"""Explanations add up: to the score that a search gives, and to what the reference says of the same vectors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from baleen.hops.explain import Explanation, explain
from baleen.hops.retriever import Retriever
from baleen.index.index import Index
from baleen.index.scoring import focused_score
from fakes import CORPUS, QUERIES, tiny_encoder


@pytest.fixture(scope="module", params=[2, 16])
def retriever(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    folder = tmp_path_factory.mktemp("explain")
    encoder = tiny_encoder(folder, query_focus=12, facts_focus=3)
    return Retriever(encoder, Index.build(folder / "index", CORPUS, encoder, bits=request.param))


@pytest.mark.parametrize("query", QUERIES, ids=["claim", "claim with facts", "one word"])
def test_the_counted_matches_add_up_to_the_score_of_the_search(retriever: Retriever, query) -> None:
    for hit in retriever.search(query, k=len(CORPUS)):
        explanation = explain(retriever, query, hit.pid)
        assert explanation.score == pytest.approx(sum(match.score for match in explanation.counted))
        assert explanation.score == pytest.approx(hit.score, abs=2e-3)


def test_the_score_is_that_of_the_reference(retriever: Retriever) -> None:
    query = QUERIES[1]
    vectors = retriever.encoder.encode_queries([query])[0]
    parts = [torch.from_numpy(part)[None] for part in (vectors.query, vectors.facts)]
    stored = torch.from_numpy(retriever.index.vectors("p2"))[None]
    expected = focused_score(parts[0], None, parts[1], None, stored, None, query_focus=12, facts_focus=3)
    assert explain(retriever, query, "p2").score == pytest.approx(expected.item(), rel=1e-5)


def test_only_the_best_vectors_within_the_focus_count(retriever: Retriever) -> None:
    explanation = explain(retriever, QUERIES[1], "p0")
    for part, focus in (("query", 12), ("facts", 3)):
        own = [match for match in explanation.matches if match.part == part]
        counted = [match.score for match in own if match.counted]
        assert len(counted) == focus
        assert min(counted) >= max(match.score for match in own if not match.counted)


def test_with_fewer_vectors_than_the_focus_all_count(tmp_path: Path) -> None:
    encoder = tiny_encoder(tmp_path, mask_padding=False)
    retriever = Retriever(encoder, Index.build(tmp_path / "index", CORPUS, encoder))
    explanation = explain(retriever, QUERIES[2], "p0")
    assert all(match.counted for match in explanation.matches)
    assert {match.part for match in explanation.matches} == {"query"}


def test_each_match_names_the_tokens_on_both_sides(retriever: Retriever) -> None:
    explanation = explain(retriever, QUERIES[1], "p0")
    spelled = [match.token for match in explanation.matches if match.part == "query"]
    assert spelled[:2] == ["[CLS]", "[unused0]"]
    known = set(retriever.encoder.inputs.passage_tokens(CORPUS[0]))
    assert all(match.matched in known for match in explanation.matches)
    assert "." not in known, "punctuation has no vector in an index"


def test_an_explanation_goes_to_json_and_back(retriever: Retriever) -> None:
    explanation = explain(retriever, QUERIES[1], "p0")
    assert Explanation.from_json(json.loads(json.dumps(explanation.to_json()))) == explanation
