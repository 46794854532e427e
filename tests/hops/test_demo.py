"""The embedded default: what comes with the package fits together."""

from __future__ import annotations

from collections import Counter
from importlib.resources import as_file, files
from pathlib import Path

import pytest

from baleen.core.errors import CheckpointError
from baleen.data.formats import read_examples
from baleen.data.sentences import split_sentences
from baleen.hops.demo import (
    BACKBONE,
    CORE,
    CROSS_ENCODER,
    MODEL,
    SHIPPED,
    SHIPPED_INDEX,
    default_index,
    default_model,
    demo_claims,
    demo_passages,
    demo_sha256,
    main,
    shipped_index,
    untrained_model,
    write_demo_index,
    write_untrained,
)
from baleen.index.format import read_manifest
from baleen.index.index import Index
from baleen.models.cross_encoder import THREE_LABELS
from baleen.models.folder import read_model
from baleen.system import Baleen
from fakes import bert_folder, tiny_encoder
from fetch_backbones import fetch


def test_the_gold_of_the_demo_claims_is_in_the_core_of_the_corpus() -> None:
    core = {passage.title: passage for passage in demo_passages(CORE)}
    for claim in demo_claims():
        assert claim["pids"] == [core[title].pid for title in claim["gold"]], claim["id"]
        assert {title for title, _ in claim["facts"]} == set(claim["gold"]), claim["id"]
        assert all(0 <= sid < len(core[title].sentences) for title, sid in claim["facts"]), claim["id"]
        assert 2 <= claim["hops"] == len(claim["gold"]) <= 4


def test_answers_are_in_their_gold_facts() -> None:
    core = {passage.title: passage for passage in demo_passages(CORE)}
    for claim in demo_claims():
        facts = [f"{title} | {core[title].sentences[sid]}" for title, sid in claim["facts"]]
        assert any(claim.get("answer", "") in fact for fact in facts), claim["id"]


def test_demonstration_claims_are_true_false_undecided_and_asked() -> None:
    claims = demo_claims()
    assert len({claim["id"] for claim in claims}) == len(claims) >= 30
    assert all(("label" in claim) != ("answer" in claim) for claim in claims)
    assert {claim.get("label") for claim in claims} == {*THREE_LABELS, None}
    assert {claim["hops"] for claim in claims} == {2, 3, 4}


def test_demonstration_claims_are_a_dataset_of_their_own_shape() -> None:
    with as_file(files("baleen") / "data" / "demo" / "demo_claims.jsonl") as path:
        examples = read_examples("own", path)
    assert [example.qid for example in examples] == [claim["id"] for claim in demo_claims()]
    assert all(example.facts for example in examples)


def test_the_demonstration_corpus_is_what_its_readme_says() -> None:
    passages = list(demo_passages())
    assert len(passages) == len({passage.title for passage in passages}) == len({p.text for p in passages}) == 3000
    assert [passage.pid for passage in passages] == [str(number) for number in range(3000)]
    assert Counter(passage.metadata["year"] for passage in passages) == {2017: 966, 2020: 2034}
    gold = {title for claim in demo_claims() for title in claim["gold"]}
    assert all(len(passage.text) <= 1000 or passage.title in gold for passage in passages)


def test_demo_sentences_are_those_of_our_splitter() -> None:
    for passage in demo_passages(50):
        again = tuple(passage.text[start:end] for start, end in split_sentences(passage.text))
        assert again == tuple(passage.sentences), passage.title


def test_the_default_model_is_taken_from_where_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backbone = bert_folder(tmp_path / "backbone", hidden_size=128)
    write_untrained(tmp_path / "models" / MODEL, backbone, backbone)
    monkeypatch.setenv("BALEEN_CHECKPOINTS", str(tmp_path / "models"))
    folder = untrained_model()
    assert folder == tmp_path / "models" / MODEL
    assert set(read_model(folder).components) == {"retriever", "reranker"}


def test_a_shipped_model_comes_before_an_untrained_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backbone = bert_folder(tmp_path / "backbone", hidden_size=128)
    for name in (MODEL, SHIPPED):
        write_untrained(tmp_path / "models" / name, backbone, backbone)
    monkeypatch.setenv("BALEEN_CHECKPOINTS", str(tmp_path / "models"))
    assert default_model() == tmp_path / "models" / SHIPPED


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root of checkpoints and a cache that nothing lies in yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("BALEEN_CHECKPOINTS", str(tmp_path / "models"))
    (tmp_path / "models" / "ours").mkdir(parents=True)
    return tmp_path / "models" / "ours" / SHIPPED_INDEX


def test_the_core_is_indexed_into_the_cache_once(place: Path) -> None:
    encoder = tiny_encoder(place.parents[2] / "backbone")
    folder = default_index(encoder)
    assert folder.parent == place.parents[2] / "cache" / "baleen" / "indexes"
    assert len(Index.open(folder)) == CORE
    written = (folder / "manifest.json").stat().st_mtime_ns
    assert default_index(encoder) == folder
    assert (folder / "manifest.json").stat().st_mtime_ns == written


def test_a_shipped_index_is_used_by_the_encoder_that_made_it(place: Path) -> None:
    encoder = tiny_encoder(place.parents[2] / "backbone")
    write_demo_index(place, encoder, 20, bits=2)
    assert default_index(encoder) == place
    assert shipped_index("another encoder's") is None


@pytest.mark.parametrize("damage", ["another corpus", "not an index"])
def test_a_shipped_index_of_something_else_is_passed_over(place: Path, damage: str) -> None:
    encoder = tiny_encoder(place.parents[2] / "backbone")
    if damage == "another corpus":
        Index.build(place, demo_passages(20), encoder, corpus="0" * 64)
    else:
        place.mkdir()
        (place / "manifest.json").write_text("{}")
    assert shipped_index(encoder.fingerprint) is None


@pytest.mark.slow
def test_the_command_puts_an_index_into_a_models_folder(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny_encoder(place.parents[2] / "backbone").save(place.parent)
    assert main([str(place.parent), "--bits", "4"]) == 0
    assert capsys.readouterr().out.strip() == str(place)
    assert read_manifest(place).settings["corpus"] == demo_sha256()
    assert main([str(place.parent / "nothing")]) == CheckpointError.exit_code


def test_a_model_takes_the_place_of_a_model_and_of_nothing_else(tmp_path: Path) -> None:
    backbone = bert_folder(tmp_path / "backbone", hidden_size=128)
    write_untrained(tmp_path / "model", backbone, backbone)
    write_untrained(tmp_path / "model", backbone, backbone)
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "one.txt").write_text("dear")
    with pytest.raises(CheckpointError, match="something other"):
        write_untrained(tmp_path / "letters", backbone, backbone)
    assert (tmp_path / "letters" / "one.txt").read_text() == "dear"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backbone", "letters", "model"]


@pytest.mark.slow
def test_untrained_backbones_keep_first_facts_that_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetches the two backbones: the untrained facts of hop 1 come from gold passages."""
    fetch([name.rpartition("/")[2] for name in (BACKBONE, CROSS_ENCODER)], tmp_path)
    monkeypatch.setenv("BALEEN_CHECKPOINTS", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    system = Baleen.load(untrained_model())
    facts = [
        (fact.title in claim["gold"]) for claim in demo_claims() for fact in system.verify(claim["text"], hops=1).facts
    ]
    assert len(facts) >= len(demo_claims())
    assert sum(facts) / len(facts) > 0.8
