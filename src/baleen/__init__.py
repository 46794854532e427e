"""Baleen: multi-hop retrieval and claim verification over any corpus.

    from baleen import Index, Query, Retriever

Importing the package loads nothing heavy; each name below brings its own module when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from baleen.encoder import Encoder, EncoderConfig
    from baleen.errors import BaleenError
    from baleen.index import Index, SearchConfig
    from baleen.retriever import Retriever
    from baleen.types import Fact, Hit, Passage, Query, Ranking

__version__ = "0.1.0"

_HOMES = {
    "BaleenError": "baleen.errors",
    "Encoder": "baleen.encoder",
    "EncoderConfig": "baleen.encoder",
    "Fact": "baleen.types",
    "Hit": "baleen.types",
    "Index": "baleen.index",
    "Passage": "baleen.types",
    "Query": "baleen.types",
    "Ranking": "baleen.types",
    "Retriever": "baleen.retriever",
    "SearchConfig": "baleen.index",
}

__all__ = [
    "BaleenError",
    "Encoder",
    "EncoderConfig",
    "Fact",
    "Hit",
    "Index",
    "Passage",
    "Query",
    "Ranking",
    "Retriever",
    "SearchConfig",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'baleen' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)
