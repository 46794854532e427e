"""Mentions between the pages of a corpus."""

from __future__ import annotations

from baleen.core.types import Passage
from baleen.synthesis.graph import Graph, read_graph
from small_encyclopaedia import graph, graph_of, passages

ELLWOOD = ["Mara Ellwood (born 1931) is a film director."]


def links(graph: Graph) -> dict[str, set[str]]:
    return {page.title: {graph.pages[target].title for target in page.links} for page in graph.pages}


class TestLinks:
    def test_are_the_titles_that_a_page_names(self) -> None:
        found = links(graph())
        assert found["The Salt Lantern"] == {"Mara Ellwood", "Winter Ferries"}
        assert found["Hadley Conservatory"] == {"Brenholt", "Aske River"}
        assert found["Quillham"] == set()

    def test_the_longest_title_is_meant(self) -> None:
        assert links(graph())["Anders Roque"] == {"Brenholt Rovers"}

    def test_never_lead_to_the_page_itself(self) -> None:
        assert all(page.number not in page.links for page in graph().pages)

    def test_a_name_of_two_pages_leads_nowhere(self) -> None:
        pages = [Passage.from_sentences("1", "Mercury (planet)", ["Mercury is a planet."])]
        pages += [Passage.from_sentences("2", "Mercury (element)", ["Mercury is an element."])]
        pages += [Passage.from_sentences("3", "Ada Roe", ["Ada Roe saw the planet Mercury."])]
        assert links(read_graph(pages))["Ada Roe"] == set()

    def test_a_word_that_is_mostly_written_small_is_no_name(self) -> None:
        small = [f"They saw a light {number} times." for number in range(6)]
        found = links(graph_of(Light=["Light is a film."], Ada_Roe=["Ada Roe saw Light.", *small]))
        assert found["Ada Roe"] == set()


class TestShortForms:
    def test_a_surname_is_followed_once_the_full_name_has_stood(self) -> None:
        texts = [
            "Roe Hall is a house.",
            "It was let to Ellwood.",
            "It was bought by Mara Ellwood.",
            "It was sold by Ellwood.",
        ]
        page = graph_of(Mara_Ellwood=ELLWOOD, Roe_Hall=texts).pages[1]
        assert [clause.sid for clause in page.clauses if clause.mentions] == [2, 3]

    def test_not_where_two_people_bear_it(self) -> None:
        found = graph_of(
            Mara_Ellwood=ELLWOOD,
            Otto_Ellwood=["Otto Ellwood (born 1930) is a poet."],
            Roe_Hall=["Roe Hall is a house.", "It was bought by Mara Ellwood.", "It was let to Otto Ellwood.", "It was sold by Ellwood."],
        )  # fmt: skip
        assert [clause.sid for clause in found.pages[2].clauses if clause.mentions] == [1, 2]

    def test_nor_on_the_page_of_a_namesake(self) -> None:
        found = graph_of(
            Mara_Ellwood=ELLWOOD,
            Otto_Ellwood=[
                "Otto Ellwood (born 1930) is a poet.",
                "He married Mara Ellwood.",
                "He gave his name to Ellwood.",
            ],
        )
        assert [clause.sid for clause in found.pages[1].clauses if clause.mentions] == [1]

    def test_an_acronym_is_followed_where_the_text_defines_it(self) -> None:
        found = graph_of(
            Whale_Health_Office=["Whale Health Office is an agency."],
            Ada_Roe=[
                "Ada Roe (born 1931) is a poet.",
                "She joined the Whale Health Office (WHO).",
                "She left WHO in 1990.",
            ],
            Bob_Low=["Bob Low (born 1931) is a poet.", "He left WHO in 1990."],
        )
        assert [clause.sid for clause in found.pages[1].clauses if clause.mentions] == [1, 2]
        assert found.pages[2].links == set()


class TestGivenLinks:
    def test_are_followed_by_their_text(self) -> None:
        pages = [
            Passage.from_sentences("1", "Mara Ellwood", ELLWOOD),
            Passage.from_sentences(
                "2", "Roe Hall", ["Roe Hall is a house.", "It was bought by a director."], {"links": [["a director", "Mara Ellwood"]]}
            ),
        ]  # fmt: skip
        page = read_graph(pages).pages[1]
        assert page.links == {0}
        assert page.clauses[0].text[slice(*page.clauses[0].mentions[0][:2])] == "a director"

    def test_of_any_other_shape_do_no_harm(self) -> None:
        for odd in ("Mara Ellwood", {"a": 1}, 3, None, [["a", "b", "c"]]):
            assert read_graph([Passage.from_sentences("1", "Roe Hall", ["Roe Hall is a house."], {"links": odd})]).pages


class TestReport:
    def test_counts_what_there_is(self) -> None:
        report = graph().report()
        assert report["passages"] == report["defined"] == 20
        assert report["links"] == sum(map(len, links(graph()).values()))
        assert report["clauses"] == sum(len(page.all_clauses) for page in graph().pages)

    def test_counts_chains_by_length(self) -> None:
        found = graph_of(
            Ada_Roe=["Ada Roe (born 1931) is a poet.", "She was born in Brenholt."],
            Brenholt=["Brenholt is a town.", "It lies on the Aske River."],
            Aske_River=["Aske River is a river."],
        )
        assert found.report()["chains"] == {"2": 2, "3": 1, "4": 0}

    def test_how_many_pages_mention_each(self) -> None:
        named = {graph().pages[number].title: count for number, count in graph().mentioned.items()}
        assert named["Winter Ferries"] == 1
        assert named["Quillham"] == sum("Quillham" in found for found in links(graph()).values())


def test_texts_are_the_passages_with_their_titles() -> None:
    assert list(graph().texts) == [f"{passage.title} {passage.text}" for passage in passages()]


def test_nothing_is_made_of_nothing() -> None:
    assert read_graph([]).report() == {
        "passages": 0, "defined": 0, "clauses": 0, "links": 0, "chains": {"2": 0, "3": 0, "4": 0}
    }  # fmt: skip
