"""Baleen: multi-hop retrieval and claim verification over any corpus.

    from baleen import Baleen

    trace = Baleen.load("model folder or name", index="wiki.index").verify("...")
    trace.outcome, trace.facts, trace.hops

Importing the package loads nothing heavy; each name below brings its own module when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from baleen.condenser import Condenser, CondenserConfig
    from baleen.crossencoder import CrossEncoder
    from baleen.encoder import Encoder, EncoderConfig
    from baleen.errors import BaleenError
    from baleen.index import Index, SearchConfig
    from baleen.reader import Answerer, Verifier
    from baleen.reranker import Reranker
    from baleen.retriever import Retriever
    from baleen.system import Baleen, RunConfig
    from baleen.types import Answer, Condensed, Fact, Hit, Hop, Judgement, Passage, Query, Ranking, Trace, Verdict

__version__ = "0.1.0"

_HOMES = {
    "Answer": "baleen.types",
    "Answerer": "baleen.reader",
    "Baleen": "baleen.system",
    "BaleenError": "baleen.errors",
    "Condensed": "baleen.types",
    "Condenser": "baleen.condenser",
    "CondenserConfig": "baleen.condenser",
    "CrossEncoder": "baleen.crossencoder",
    "Encoder": "baleen.encoder",
    "EncoderConfig": "baleen.encoder",
    "Fact": "baleen.types",
    "Hit": "baleen.types",
    "Hop": "baleen.types",
    "Index": "baleen.index",
    "Judgement": "baleen.types",
    "Passage": "baleen.types",
    "Query": "baleen.types",
    "Ranking": "baleen.types",
    "Reranker": "baleen.reranker",
    "Retriever": "baleen.retriever",
    "RunConfig": "baleen.system",
    "SearchConfig": "baleen.index",
    "Trace": "baleen.types",
    "Verdict": "baleen.types",
    "Verifier": "baleen.reader",
}

__all__ = [
    "Answer",
    "Answerer",
    "Baleen",
    "BaleenError",
    "Condensed",
    "Condenser",
    "CondenserConfig",
    "CrossEncoder",
    "Encoder",
    "EncoderConfig",
    "Fact",
    "Hit",
    "Hop",
    "Index",
    "Judgement",
    "Passage",
    "Query",
    "Ranking",
    "Reranker",
    "Retriever",
    "RunConfig",
    "SearchConfig",
    "Trace",
    "Verdict",
    "Verifier",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'baleen' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
