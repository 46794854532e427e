"""Baselines against rankings worked out by hand, and what each refuses."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from baleen.core.errors import CheckpointError, ConfigError, MissingExtraError, QueryError
from baleen.core.types import Passage, Query
from baleen.evaluation.baselines.baseline import BaselineConfig, open_baseline
from baleen.evaluation.baselines.bm25 import BM25
from baleen.evaluation.baselines.colbert import ColBERT, IndexedColBERT
from baleen.evaluation.baselines.dense import Dense, SingleVectorEncoder
from baleen.evaluation.collection import Corpus, IndexedCorpus
from baleen.hops.retriever import Retriever
from baleen.index.index import Index
from baleen.index.scoring import maxsim
from fakes import CORPUS, bert_folder, tiny_encoder

TEXTS = ["Who is the mayor of Vardal?", "Which opera is sung by whales?"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A retriever as `retriever`, with an index of its own, and a whole model of retriever and reranker as `model`."""
    from baleen.models.cross_encoder import HEADS, CrossEncoder
    from baleen.models.folder import write_model

    home = tmp_path_factory.mktemp("home")
    encoder = tiny_encoder(home)
    encoder.save(home / "model" / "retriever")
    reading = CrossEncoder.from_backbone(bert_folder(home / "cross", seed=3), {"reranker": HEADS["reranker"]})
    reading.save(home / "model" / "reading")
    write_model(home / "model", {"retriever": "retriever", "reranker": "reading"})
    Index.build(home / "index", CORPUS, encoder, bits=16)
    return home


# BM25


def test_bm25_is_lucenes_over_titles_and_texts() -> None:
    pytest.importorskip("bm25s")
    passages = [
        Passage("a", "Grey Fjord", "Whales whales feed."),
        Passage("b", "", "Whales sing songs there in winter."),
    ]
    (ranking,) = BM25(passages).rank(["whales?"], 5)
    # Words of two letters and more that are no stop words: grey fjord whales whales feed; whales sing songs winter.
    lengths, frequencies, mean = {"a": 5, "b": 4}, {"a": 2, "b": 1}, 4.5
    idf = math.log(1 + (2 - 2 + 0.5) / (2 + 0.5))
    scores = {
        pid: idf * frequencies[pid] / (frequencies[pid] + 1.5 * (1 - 0.75 + 0.75 * lengths[pid] / mean))
        for pid in ("a", "b")
    }
    assert ranking.pids == ("a", "b")
    assert [hit.score for hit in ranking] == pytest.approx([scores["a"], scores["b"]], rel=1e-5)


def test_bm25_finds_titles_and_leaves_out_what_shares_no_word() -> None:
    pytest.importorskip("bm25s")
    mayor, opera, nothing = BM25(CORPUS).rank([*TEXTS, "zzz the of"], 100)
    assert mayor[0].pid == "p2"
    assert {"p4", "p6"} <= set(opera.pids)
    assert 0 < len(mayor) < len(CORPUS)
    assert nothing.pids == ()
    assert BM25(CORPUS).rank(["Tromsk"], 1)[0].pids == ("p5",)


def test_bm25_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'baleen\[eval\]'"):
        open_baseline(BaselineConfig("bm25"), Corpus(CORPUS))


@pytest.mark.parametrize("name", ["bm25", "dense", "colbert"])
def test_no_passages_are_refused(name: Any, home: Path) -> None:
    if name == "bm25":
        pytest.importorskip("bm25s")
    model = str(home / "backbone" if name == "dense" else home / "model")
    with pytest.raises(QueryError, match="no passage to rank"):
        open_baseline(BaselineConfig(name, model=model), Corpus([]))


# Dense


def test_dense_compares_vectors_at_cls(home: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    folder = home / "backbone"
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()

    def vector(text: str) -> torch.Tensor:
        ids = [tokenizer.cls_token_id, *tokenizer.encode(text, add_special_tokens=False), tokenizer.sep_token_id]
        with torch.inference_mode():
            hidden = model(torch.tensor([ids])).last_hidden_state[0, 0]
        return hidden / hidden.norm()

    encoder = SingleVectorEncoder(folder, "cpu")
    instruction = "Represent this sentence for searching relevant passages: "
    baseline = Dense(CORPUS, encoder, instruction)
    for text, ranking in zip(TEXTS, baseline.rank(TEXTS, 5), strict=True):
        query = vector(instruction + text)
        scores = {p.pid: float(query @ vector(f"{p.title} | {p.text}")) for p in CORPUS}
        assert len(ranking) == 5
        assert [hit.score for hit in ranking] == pytest.approx(
            sorted(scores.values(), reverse=True)[:5], abs=2e-2
        )  # bfloat16
        assert all(hit.score == pytest.approx(scores[hit.pid], abs=2e-2) for hit in ranking)
    assert encoder.encode(["one"]).norm(dim=1).item() == pytest.approx(1)


def test_a_long_text_is_cut_and_batches_change_nothing(home: Path) -> None:
    encoder = SingleVectorEncoder(home / "backbone", "cpu")
    texts = ["whale " * 5000, "whale", "the humpback whale sings"]
    together = encoder.encode(texts)
    for number, text in enumerate(texts):
        assert together[number] == pytest.approx(encoder.encode([text])[0], abs=2e-2)
    assert encoder.length == 512


def test_dense_depends_on_its_weights_and_its_instruction(home: Path, tmp_path: Path) -> None:
    ours = SingleVectorEncoder(home / "backbone", "cpu")
    other = SingleVectorEncoder(bert_folder(tmp_path, seed=5), "cpu")
    settings = [Dense(CORPUS, ours).settings, Dense(CORPUS, ours, "Find: ").settings, Dense(CORPUS, other).settings]
    assert all(one != another for place, one in enumerate(settings) for another in settings[:place])
    assert settings[0] == Dense(CORPUS, SingleVectorEncoder(home / "backbone", "cpu")).settings


# ColBERT


def test_colbert_sums_the_best_match_of_every_query_vector(home: Path) -> None:
    encoder = tiny_encoder(home)
    baseline = ColBERT(CORPUS, encoder)
    ((_, vectors),) = encoder.encode_passages(CORPUS)
    for text, ranking in zip(TEXTS, baseline.rank(TEXTS, 3), strict=True):
        query = torch.from_numpy(encoder.encode_queries([Query(text)])[0].query)
        scores = {
            passage.pid: float(maxsim(query, torch.from_numpy(own).float()).sum())
            for passage, own in zip(CORPUS, vectors, strict=True)
        }
        assert ranking.pids == tuple(sorted(scores, key=lambda pid: -scores[pid])[:3])
        assert [hit.score for hit in ranking] == pytest.approx([scores[pid] for pid in ranking.pids], rel=1e-4)


def test_colbert_over_an_index_is_the_same_up_to_its_codec(home: Path) -> None:
    encoder = tiny_encoder(home)
    retriever = Retriever(encoder, Index.open(home / "index"))
    exact, over_index = ColBERT(CORPUS, encoder), IndexedColBERT(retriever, exact=True)
    for one, other in zip(exact.rank(TEXTS, 3), over_index.rank(TEXTS, 3), strict=True):
        assert one.pids == other.pids
        assert [hit.score for hit in one] == pytest.approx([hit.score for hit in other], rel=1e-2)
    focused = retriever.search(TEXTS[0], 3)
    assert focused[0].score < over_index.rank(TEXTS[:1], 3)[0][0].score


# By name


def test_baselines_are_opened_by_name(home: Path) -> None:
    pytest.importorskip("bm25s")
    model = str(home / "model")
    corpus, indexed = Corpus(CORPUS), IndexedCorpus(Index.open(home / "index"))
    assert {passage.pid for passage in indexed} == {passage.pid for passage in corpus}
    for config, kind in (
        (BaselineConfig("bm25"), "BM25"),
        (BaselineConfig("dense", model=str(home / "backbone")), "Dense"),
        (BaselineConfig("rerank", model=model, first="dense", first_model=str(home / "backbone")), "Reranked"),
    ):
        for collection in (corpus, indexed):
            baseline = open_baseline(config, collection)
            assert type(baseline).__name__ == kind
            assert 0 < len(baseline.rank(TEXTS, 3)[0]) <= 3
    colbert = BaselineConfig("colbert", model=model, exact=True)
    assert [type(open_baseline(colbert, each)).__name__ for each in (corpus, indexed)] == ["ColBERT", "IndexedColBERT"]


def test_a_reranker_reorders_the_first_baselines_ranking(home: Path) -> None:
    pytest.importorskip("bm25s")
    corpus = Corpus(CORPUS)
    first = open_baseline(BaselineConfig("bm25"), corpus)
    both = open_baseline(BaselineConfig("rerank", model=str(home / "model")), corpus)
    for before, after in zip(first.rank(TEXTS, 4), both.rank(TEXTS, 4), strict=True):
        assert set(after.pids) == set(before.pids)
        assert [hit.score for hit in after] == sorted((hit.score for hit in after), reverse=True)
    assert both.settings["first"] == first.settings


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"name": "tfidf"}, "name = 'tfidf'; expected one of bm25, dense, colbert, rerank"),
        ({"name": "rerank", "first": "rerank"}, "expected bm25, dense or colbert"),
        ({"name": "dense"}, "dense needs a model"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], part: str) -> None:
    with pytest.raises(ConfigError, match=part):
        BaselineConfig(**settings)


def test_a_checkpoint_without_a_reranker_is_refused(home: Path) -> None:
    with pytest.raises(CheckpointError):
        open_baseline(
            BaselineConfig("rerank", model=str(home / "backbone"), first="colbert", first_model=str(home / "model")),
            Corpus(CORPUS),
        )


def test_a_corpus_knows_its_passages() -> None:
    corpus = Corpus(CORPUS)
    assert (len(corpus), corpus.passage("p3").title) == (8, "Ivo Brandt")
    assert corpus.fingerprint == Corpus(iter(CORPUS)).fingerprint != Corpus(CORPUS[1:]).fingerprint
    with pytest.raises(QueryError, match="no passage of the corpus has the id 'p9'"):
        corpus.passage("p9")
