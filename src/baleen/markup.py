"""Every string that a model sees is made here, and nowhere else.

    retriever               passage_text, fact_text; the tokenizer joins facts by its separator
    condenser, stage 1      query_text against marked_sentences
    condenser, stage 2      the claim against marked_facts
    reader, reranker        query_text, passage_text

Pure functions over strings.  The tokens of a model's own ([SEP], [MASK]) come in as arguments, since they differ from
one tokenizer to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from baleen.types import Fact, Query

TITLE_SEPARATOR = " | "
FACT_SEPARATOR = " # "


def passage_text(title: str, text: str) -> str:
    """`title | text`; just the text where there is no title."""
    return f"{title}{TITLE_SEPARATOR}{text}" if title else text


def fact_text(fact: Fact) -> str:
    """`title | sentence`, as the sentence would stand at the start of its passage."""
    return passage_text(fact.title, fact.text)


def query_text(query: Query) -> str:
    """Claim and facts on one line, `claim # title | sentence # ...`, for models that read them as plain text."""
    return FACT_SEPARATOR.join([query.text, *map(fact_text, query.facts)])


def marked_sentences(title: str, sentences: Sequence[str], marker: str = "[MASK]") -> str:
    """`title [MASK] s0 [MASK] s1 ...`: one marker per sentence, empty ones too, so that the i-th scores sentence i."""
    return " ".join(filter(None, [title, *_marked(sentences, marker)]))


def marked_facts(facts: Iterable[Fact], marker: str = "[MASK]") -> str:
    """`[MASK] fact [MASK] fact ...`: one marker per fact, in order."""
    return " ".join(_marked(map(fact_text, facts), marker))


def _marked(texts: Iterable[str], marker: str) -> list[str]:
    return [f"{marker} {text}".rstrip() for text in texts]
