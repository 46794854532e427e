"""A compressed index of token vectors: build, open, change, search."""

from baleen.index.index import Index
from baleen.index.search import SearchConfig
from baleen.index.segment import PassageEncoder

__all__ = ["Index", "PassageEncoder", "SearchConfig"]
