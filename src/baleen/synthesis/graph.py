"""A corpus read for synthesis: its pages and their mentions of each other.

    graph = read_graph(read_passages(paths))
    graph.report()

It is held in memory: about 10 kB per passage.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from baleen.core.progress import track
from baleen.core.types import Passage
from baleen.synthesis.clauses import tidied
from baleen.synthesis.mentions import Finder, Mention, Name, explicit, find_form, merged, name_of, short_forms
from baleen.synthesis.pages import Page, define, with_clauses
from baleen.synthesis.phrases import slot

_SMALL_WORD = re.compile(r"\b[a-z]{3,}\b")
_LARGE_WORD = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}\b")
COMMON = 5  # uses in lower case from which a word is common


@dataclass(frozen=True, eq=False)
class Graph:
    """Pages by number, and their texts."""

    pages: Sequence[Page]
    texts: Sequence[str]

    @cached_property
    def mentioned(self) -> Counter[int]:
        """Number of pages that mention each page."""
        return Counter(target for page in self.pages for target in page.links)

    def report(self, longest: int = 4) -> dict[str, Any]:
        """Counts of pages, mentions and chains; chains count only mentions that a description can replace."""
        replaceable = [
            sorted(
                {mention.target for clause in page.all_clauses for mention in clause.mentions if slot(clause, mention)}
            )
            for page in self.pages
        ]
        return {
            "passages": len(self.pages),
            "defined": sum(1 for page in self.pages if page.kind),
            "clauses": sum(len(page.all_clauses) for page in self.pages),
            "links": sum(len(page.links) for page in self.pages),
            "chains": {str(length): count for length, count in _chains(replaceable, longest).items()},
        }


def _chains(links: Sequence[Sequence[int]], longest: int) -> dict[int, int]:
    """Numbers of paths along links, for each length from 2."""
    ways = [1] * len(links)
    counts = {}
    for length in range(2, longest + 1):
        ways = [sum(ways[target] for target in own) for own in links]
        counts[length] = sum(ways)
    return counts


def read_graph(passages: Iterable[Passage], total: int | None = None) -> Graph:
    """Parse all passages of a corpus and find their mentions."""
    read = [
        (passage, tuple(map(tidied, passage.sentences))) for passage in track(passages, "reading", total, "passages")
    ]
    defined = [
        define(number, passage.pid, passage.title, passage.sentences, tidy)
        for number, (passage, tidy) in enumerate(track(read, "defining", unit="passages"))
    ]
    defined = _named_alike(defined)
    best_first = sorted(defined, key=lambda page: not page.kind)
    finder = Finder([(_called(page), page.number) for page in best_first], _common_words([tidy for _, tidy in read]))
    numbers = {page.title: page.number for page in reversed(defined)}
    pages = [
        with_clauses(page, passage.sentences, tidy, _mentions(page, passage, tidy, finder, numbers, defined))
        for page, (passage, tidy) in zip(defined, track(read, "linking", unit="passages"), strict=True)
    ]
    return Graph(pages, [f"{passage.title} {passage.text}" for passage, _ in read])


def _named_alike(pages: Sequence[Page]) -> list[Page]:
    """Give undefined sections of a document the name of the document where it is defined."""
    names = {page.name.lower(): page.name for page in reversed(pages) if page.kind}
    found = []
    for page in pages:
        document, colon, _ = page.title.partition(": ")
        name = names.get(document.lower()) if colon and not page.kind else None
        found.append(replace(page, name=name, subject=name) if name else page)
    return found


def _called(page: Page) -> Name:
    return replace(name_of(page.title), text=page.name)


def _common_words(texts: Sequence[Sequence[str]]) -> set[str]:
    """Words in lower case often enough that a capital does not mark a name: several times, and 10% of uses."""
    small: Counter[str] = Counter()
    large: Counter[str] = Counter()
    for sentences in track(texts, "counting words", unit="passages"):
        for sentence in sentences:
            small.update(_SMALL_WORD.findall(sentence))
            large.update(_LARGE_WORD.findall(sentence))
    return {word for word, count in small.items() if count >= COMMON and 10 * count > large[word.capitalize()]}


def _mentions(
    page: Page,
    passage: Passage,
    tidy: Sequence[str],
    finder: Finder,
    numbers: Mapping[str, int],
    pages: Sequence[Page],
) -> list[list[Mention]]:
    """Mentions by sentence: the corpus's own links, names, and short forms of names in earlier sentences."""
    links = passage.metadata.get("links")
    found: list[list[Mention]] = []
    forms: dict[str, int | None] = dict.fromkeys(page.name.split())  # None: no page, or ambiguous
    for sentence, raw in zip(tidy, passage.sentences, strict=True):
        given = explicit(links, numbers, sentence) if links else []
        named = finder.find(sentence, page.number)
        again = [
            mention
            for form, target in forms.items()
            if target is not None and form in sentence
            for mention in find_form(form, sentence, target)
        ]
        found.append(
            [mention for mention in merged([*given, *named, *again]) if pages[mention.target].name != page.name]
        )
        for mention in found[-1]:
            target = pages[mention.target]
            for form in short_forms(target.name, raw, target.person):
                forms[form] = mention.target if forms.get(form, mention.target) == mention.target else None
    return found
