from __future__ import annotations

from baleen.markup import fact_text, marked_facts, marked_sentences, passage_text, query_text
from baleen.types import Fact, Query

FACTS = (Fact("p1", 0, "Vardal", "A town."), Fact("p2", 3, "", "No title here."))


def test_a_passage_is_its_title_and_its_text() -> None:
    assert passage_text("Vardal", "A town.") == "Vardal | A town."
    assert passage_text("", "A town.") == "A town."


def test_a_fact_reads_as_a_passage_of_one_sentence() -> None:
    assert fact_text(FACTS[0]) == "Vardal | A town."


def test_a_query_reads_as_claim_and_facts() -> None:
    assert query_text(Query("Who?")) == "Who?"
    assert query_text(Query("Who?", FACTS)) == "Who? # Vardal | A town. # No title here."


def test_every_sentence_has_a_marker_even_an_empty_one() -> None:
    assert marked_sentences("Vardal", ["One.", "", "Three."]) == "Vardal [MASK] One. [MASK] [MASK] Three."
    assert marked_sentences("", ["One."], "<mask>") == "<mask> One."
    assert marked_facts(FACTS) == "[MASK] Vardal | A town. [MASK] No title here."
