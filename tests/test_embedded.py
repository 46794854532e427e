"""The embedded default: what comes with the package fits together."""

from __future__ import annotations

from pathlib import Path

import pytest

from baleen.embedded import MODEL, default_model, demo_claims, demo_passages, write_untrained
from baleen.errors import CheckpointError
from baleen.model_folder import read_model
from baleen.system import Baleen
from fakes import bert_folder


def test_every_gold_title_of_the_demonstration_claims_is_in_its_corpus() -> None:
    titles = {passage.title for passage in demo_passages()}
    for claim in demo_claims():
        assert set(claim["gold"]) <= titles, claim["id"]
        assert 2 <= claim["hops"] <= 4


def test_demonstration_claims_are_true_false_and_asked() -> None:
    claims = demo_claims()
    assert len({claim["id"] for claim in claims}) == len(claims) >= 12
    assert all(("label" in claim) != ("answer" in claim) for claim in claims)
    assert {claim.get("label") for claim in claims} == {"supported", "not supported", None}


def test_the_default_model_is_taken_from_where_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backbone = bert_folder(tmp_path / "backbone", hidden_size=128)
    write_untrained(tmp_path / "models" / MODEL, backbone, backbone)
    monkeypatch.setenv("BALEEN_CHECKPOINTS", str(tmp_path / "models"))
    folder = default_model()
    assert folder == tmp_path / "models" / MODEL
    assert set(read_model(folder).components) == {"retriever", "reranker"}


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
def test_untrained_backbones_keep_first_facts_that_matter() -> None:
    """Fetches the two backbones unless they are there: the stand-in's facts of hop 1 come from gold passages."""
    system = Baleen.load()
    facts = [
        (fact.title in claim["gold"]) for claim in demo_claims() for fact in system.verify(claim["text"], hops=1).facts
    ]
    assert len(facts) >= len(demo_claims())
    assert sum(facts) / len(facts) > 0.9
