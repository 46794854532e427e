"""The model that comes with the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from baleen import Baleen
from baleen.cli import hops
from baleen.hops.demo import SHIPPED, SHIPPED_INDEX, demo_claims, shipped_index
from baleen.index.index import Index

MODEL = Path(__file__).parents[2] / "checkpoints" / SHIPPED

pytestmark = pytest.mark.skipif(not MODEL.exists(), reason="the checkpoint was left out of this checkout")


@pytest.fixture(scope="module")
def baleen() -> Baleen:
    return Baleen.load(MODEL, MODEL / SHIPPED_INDEX)


def test_the_weights_are_small_enough_for_a_repository() -> None:
    assert sum(file.stat().st_size for file in MODEL.rglob("*.safetensors")) <= 150_000_000
    assert (MODEL / "README.md").read_text("utf-8").startswith("---\nlicense: mit")


def test_the_shipped_index_is_of_the_whole_demo_corpus(baleen: Baleen) -> None:
    found = shipped_index(baleen.retriever.encoder.fingerprint)
    assert found is not None
    assert found.resolve() == MODEL / SHIPPED_INDEX
    assert len(Index.open(MODEL / SHIPPED_INDEX)) == 3_000


def test_the_demo_claim_is_refuted_from_its_three_passages(baleen: Baleen) -> None:
    claim = next(each for each in demo_claims() if each["id"] == hops.DEMO_CLAIM)
    trace = baleen.verify(claim["text"], **hops.DEMO_SETTINGS)
    assert set(claim["gold"]) <= {fact.title for fact in trace.facts}
    assert trace.outcome.label == "not supported"  # type: ignore[union-attr]


def test_a_question_is_answered_out_of_its_evidence(baleen: Baleen) -> None:
    question = next(each for each in demo_claims() if each["id"] == "commander")
    trace = baleen.ask(question["text"], hops=2, k=3)
    assert trace.outcome.text == question["answer"]  # type: ignore[union-attr]
    assert set(question["gold"]) <= {fact.title for fact in trace.facts}
