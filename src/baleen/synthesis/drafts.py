"""True statements that combine several pages: chains, bridges, trees, intersections and comparisons.

    chain           "A was directed by [a filmmaker who grew up in [a city in ...]]"    mentions described recursively
    bridge          "[The club that A played for] was founded in 1990."                 a statement about a mention of A
    tree            "A was born in [...], and studied at [...]."                        two mentions described
    intersection    "A was born in [the city that B was born in]."                      a mention that A and B share
    comparison      "A was born before B."  "Like B, A is an English sculptor."         statements about two pages

A draft can be turned into a false statement (`falsehoods`) or a question (`questions`, `gaps`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from baleen.synthesis.phrases import GLUE, Part

CHAIN, BRIDGE, TREE, INTERSECTION, COMPARISON = "chain", "bridge", "tree", "intersection", "comparison"
KINDS = (CHAIN, BRIDGE, TREE, INTERSECTION, COMPARISON)


@dataclass(frozen=True, slots=True)
class Draft:
    """A statement: a subject, a predicate, and its pages in the order of retrieval.

    `named` are the pages that the text names, where a search starts; `asked` is the page that a question asks for.
    """

    kind: str
    subject: tuple[Part, ...]
    predicate: tuple[Part, ...]
    facts: tuple[tuple[int, int], ...]
    order: tuple[int, ...]
    named: tuple[int, ...] = ()
    asked: int | None = None
    opposite: str = ""  # of a comparison: the text of the false predicate

    @property
    def parts(self) -> tuple[Part, ...]:
        return (*self.subject, Part(" "), *self.predicate)

    @property
    def text(self) -> str:
        text = "".join(part.text for part in self.parts)
        return text[:1].upper() + text[1:] + "."

    @property
    def question(self) -> str:
        """The text of a draft that asks for something."""
        return f"{self.text[:-1]}?"

    @property
    def stated(self) -> tuple[tuple[int, Part], ...]:
        """Parts that state something, with their places among all parts.

        The subject of a bridge, or of an unnamed page, only identifies it.
        """
        first = len(self.subject) if self.kind == BRIDGE or not self.named else 0
        places = ((place, part) for place, part in enumerate(self.parts) if part.page != GLUE and not part.opening)
        return tuple(each for each in places if each[0] >= first)

    def with_part(self, place: int, part: Part) -> Draft:
        """Replace the part in a place; places count through subject, blank and predicate."""
        parts, cut = list(self.parts), len(self.subject)
        parts[place] = part
        return replace(self, subject=tuple(parts[:cut]), predicate=tuple(parts[cut + 1 :]))

    @property
    def hidden(self) -> tuple[int, ...]:
        """Pages that must be found without their names, the one asked for included."""
        hidden = tuple(number for number in self.order if number not in self.named)
        return hidden if self.asked is None else (*hidden, self.asked)
