"""Twenty invented pages that mention each other: enough for claims of every kind.

A film leads to its director, a director to her school, the school to its town, the town to its river.  Two directors,
two novelists, two footballers, three towns, two schools and two clubs can be compared, confused and exchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from baleen.core.types import Passage
from baleen.synthesis.graph import Graph, read_graph

TEXTS: dict[str, list[str]] = {
    "The Salt Lantern": [
        "The Salt Lantern is a drama film directed by Mara Ellwood in 1968.",
        "The film was adapted from Winter Ferries.",
        "It was screened for 14 weeks at the Corona Theatre in 1969.",
    ],
    "Glass Meridian": [
        "Glass Meridian is a comedy film directed by Jonas Pryde.",
        "It was released on 9 March 1974 and was shot in Tarnby.",
        "The film stars Petra Kolding.",
    ],
    "Mara Ellwood": [
        "Mara Ellwood (3 May 1931 – 12 June 2004) was a Corvian film director.",
        "She was born in Brenholt and studied at Hadley Conservatory.",
        "Ellwood won the Silver Heron in 1970.",
    ],
    "Jonas Pryde": [
        "Jonas Pryde (born 1942) is a Corvian film director and screenwriter.",
        "He was born in Tarnby.",
        "Pryde studied under Mara Ellwood from 1961.",
        "He lived in Quillham for 20 years.",
    ],
    "Winter Ferries": [
        "Winter Ferries is a novel written by Ilse Vantongeren.",
        "It was published in 1955 by Oakmoor Press.",
        "The novel is set in Brenholt during the war.",
    ],
    "Ilse Vantongeren": [
        "Ilse Vantongeren (born 17 August 1920) was a Corvian novelist.",
        "She grew up in Quillham.",
        "Vantongeren worked for Oakmoor Press until 1961.",
        "She married Anders Roque in 1948.",
    ],
    "Sunless Orchard": [
        "Sunless Orchard is a novel written by Tobias Fenner.",
        "It was published in 1962 by Larkfield Books.",
    ],
    "Tobias Fenner": [
        "Tobias Fenner (born 1933) is a Corvian novelist.",
        "He was born in Quillham and taught at Osterby Academy.",
        "Fenner supported Brenholt Rovers as a child.",
    ],
    "Anders Roque": [
        "Anders Roque (born 1915) was a Corvian footballer who played as a goalkeeper.",
        "He played for Brenholt Rovers from 1936 to 1949.",
        "Roque made 212 appearances and was known for his red cap.",
    ],
    "Emil Straker": [
        "Emil Straker (born 4 January 1950) is a Corvian footballer who played as a defender.",
        "He played for Tarnby Athletic.",
        "Straker was born in Quillham and moved to Brenholt in 1971.",
    ],
    "Petra Kolding": [
        "Petra Kolding (born 1951) is a Corvian actress.",
        "She trained at Osterby Academy.",
        "Kolding lives in Brenholt.",
    ],
    "Brenholt": [
        "Brenholt is a harbour town in the north of Corvia.",
        "The town lies on the Aske River.",
        "It was founded in 1288 by monks.",
    ],
    "Tarnby": [
        "Tarnby is a market town in the south of Corvia.",
        "It is known for the Mirror Canal, which is 30 kilometres long.",
        "The town was founded in 1402.",
    ],
    "Quillham": [
        "Quillham is a mining town in the east of Corvia.",
        "The town lies on the Little Sorrow, a stream that freezes every winter.",
        "It was founded in 1650.",
    ],
    "Aske River": [
        "The Aske River is a river in the north of Corvia.",
        "It flows through Brenholt for 3 kilometres.",
        "The river is the longest of the province.",
    ],
    "Hadley Conservatory": [
        "Hadley Conservatory is a drama school in Brenholt.",
        "The school was founded in 1903 by Clara Hadley.",
        "It occupies a former brewery on the Aske River.",
    ],
    "Osterby Academy": [
        "Osterby Academy is a drama school in Tarnby.",
        "The school was founded in 1951 after a fire.",
        "It has about 400 students.",
    ],
    "Brenholt Rovers": [
        "Brenholt Rovers is a football club that won the Harbour Cup in 1938.",
        "The club was founded in 1901.",
        "It plays at Lower Quay.",
    ],
    "Tarnby Athletic": [
        "Tarnby Athletic is a football club in the second division.",
        "The club was founded in 1911.",
        "It plays at Gallows Field near Tarnby.",
    ],
    "Oakmoor Press": [
        "Oakmoor Press is a publishing house in Quillham.",
        "It was founded in 1927 by two printers.",
        "The house also published the poems of Clara Hadley.",
    ],
}  # fmt: skip


def passages(texts: dict[str, list[str]] = TEXTS) -> list[Passage]:
    return [
        Passage.from_sentences(f"p{number:02d}", title, sentences)
        for number, (title, sentences) in enumerate(texts.items())
    ]


@cache
def graph() -> Graph:
    return read_graph(passages())


def graph_of(**texts: Sequence[str]) -> Graph:
    """A graph of a few pages, whose titles are the names with blanks for underscores."""
    return read_graph(passages({title.replace("_", " "): list(said) for title, said in texts.items()}))
