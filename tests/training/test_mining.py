"""Mining ranks as the reference does over the same vectors."""

from __future__ import annotations

import pytest
import torch

from baleen.core.types import Query
from baleen.index.scoring import focused_score
from baleen.models.encoder import Encoder
from baleen.training.hop_order import mining
from baleen.training.hop_order.mining import ExactIndex, TokenisedCorpus
from fakes import CORPUS, QUERIES, tiny_encoder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return tiny_encoder(tmp_path_factory.mktemp("mining"), query_focus=12, facts_focus=3)


@pytest.fixture(scope="module")
def index(encoder: Encoder) -> ExactIndex:
    return ExactIndex(encoder, TokenisedCorpus.of(encoder.inputs, CORPUS))


def expected(encoder: Encoder, query: Query) -> dict[str, float]:
    vectors = encoder.encode_queries([query])[0]
    parts = [torch.from_numpy(part)[None] for part in (vectors.query, vectors.facts)]
    scores = {}
    for passages, stored in encoder.encode_passages(CORPUS):
        for passage, own in zip(passages, stored, strict=True):
            tokens = torch.from_numpy(own).float()[None]
            score = focused_score(parts[0], None, parts[1], None, tokens, None, query_focus=12, facts_focus=3)
            scores[passage.pid] = score.item()
    return scores


@pytest.mark.parametrize("query", QUERIES, ids=["claim", "claim with facts", "one word"])
def test_mining_scores_match_the_reference(index: ExactIndex, encoder: Encoder, query: Query) -> None:
    (ranking,) = index.rank([query], k=100)
    assert {hit.pid: pytest.approx(hit.score, abs=5e-3) for hit in ranking} == expected(encoder, query)
    assert list(ranking) == sorted(ranking, key=lambda hit: (-hit.score, hit.pid))


def test_queries_are_ranked_together_as_alone(index: ExactIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = [index.rank([query], k=5)[0].pids for query in QUERIES]
    assert [ranking.pids for ranking in index.rank(QUERIES, k=5)] == alone
    monkeypatch.setattr(mining, "SCORE_BUDGET", {"cpu": 1})
    assert [ranking.pids for ranking in index.rank(QUERIES, k=5)] == alone


def test_excluded_passages_are_absent_even_with_large_k(index: ExactIndex) -> None:
    gone = [{"p0", "p1", "p2"}, set(), {"p7"}]
    for ranking, without in zip(index.rank(QUERIES, k=50, exclude=gone), gone, strict=True):
        assert set(ranking.pids) == {passage.pid for passage in CORPUS} - without


def test_boosted_passages_are_raised_unless_excluded(index: ExactIndex, encoder: Encoder) -> None:
    boosted, gone = [{"p3"}, {"p0", "p5"}, ()], [(), {"p5"}, ()]
    rankings = index.rank(QUERIES, k=50, exclude=gone, boosted=boosted, boost=2.5)
    for query, ranking, raised, without in zip(QUERIES, rankings, boosted, gone, strict=True):
        scores = {pid: score for pid, score in expected(encoder, query).items() if pid not in without}
        assert {hit.pid: pytest.approx(hit.score, abs=5e-3) for hit in ranking} == {
            pid: score + 2.5 * (pid in raised) for pid, score in scores.items()
        }
        assert list(ranking) == sorted(ranking, key=lambda hit: (-hit.score, hit.pid))


def test_no_queries_give_no_rankings(index: ExactIndex) -> None:
    assert index.rank([], k=5) == []
