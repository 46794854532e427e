"""The text of passages and facts, as models read it.

    passage_text        `title | text`
    fact_text           `title | sentence`
    FACT_SEPARATOR      between facts, for models that read them as plain text

tokens.py and pairs.py add special tokens ([SEP], [MASK]), which no text can contain.
"""

from __future__ import annotations

from baleen.core.types import Fact

TITLE_SEPARATOR = " | "
FACT_SEPARATOR = " # "


def passage_text(title: str, text: str) -> str:
    """`title | text`, or the text alone if there is no title."""
    return f"{title}{TITLE_SEPARATOR}{text}" if title else text


def fact_text(fact: Fact) -> str:
    """`title | sentence`, like a passage of that sentence alone."""
    return passage_text(fact.title, fact.text)
