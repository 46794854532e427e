"""How titles, sentences and facts are written where a model reads them, and nowhere else.

    passage_text        `title | text`
    fact_text           `title | sentence`
    FACT_SEPARATOR      between facts, for models that read them as plain text

Pure functions over strings.  `tokenization.py` and `crossinputs.py` lay out what is made here, token by token, with the
special tokens of a model's own between ([SEP], [MASK]), which no text can spell.
"""

from __future__ import annotations

from baleen.core.types import Fact

TITLE_SEPARATOR = " | "
FACT_SEPARATOR = " # "


def passage_text(title: str, text: str) -> str:
    """`title | text`; just the text where there is no title."""
    return f"{title}{TITLE_SEPARATOR}{text}" if title else text


def fact_text(fact: Fact) -> str:
    """`title | sentence`, as the sentence would stand at the start of its passage."""
    return passage_text(fact.title, fact.text)
