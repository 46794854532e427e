from __future__ import annotations

from baleen.core.types import Fact
from baleen.models.markup import fact_text, passage_text

FACTS = (Fact("p1", 0, "Vardal", "A town."), Fact("p2", 3, "", "No title here."))


def test_a_passage_is_its_title_and_its_text() -> None:
    assert passage_text("Vardal", "A town.") == "Vardal | A town."
    assert passage_text("", "A town.") == "A town."


def test_a_fact_reads_as_a_passage_of_one_sentence() -> None:
    assert fact_text(FACTS[0]) == "Vardal | A town."
    assert fact_text(FACTS[1]) == "No title here."
