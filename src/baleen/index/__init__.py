"""A compressed index of token vectors: build, open, change, search."""

from baleen.index.index import Index, PassageEncoder
from baleen.index.search import SearchConfig

__all__ = ["Index", "PassageEncoder", "SearchConfig"]
