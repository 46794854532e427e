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
    from baleen.core.errors import BaleenError
    from baleen.core.types import Answer, Condensed, Fact, Hit, Hop, Judgement, Passage, Query, Ranking, Trace, Verdict
    from baleen.hops.condenser import Condenser
    from baleen.hops.config import CondenserConfig, RunConfig
    from baleen.hops.readers import Answerer, Verifier
    from baleen.hops.reranker import Reranker
    from baleen.hops.retriever import Retriever
    from baleen.index.index import Index
    from baleen.index.protocol import SearchOptions
    from baleen.models.cross_encoder import CrossEncoder
    from baleen.models.encoder import Encoder
    from baleen.models.tokens import EncoderConfig
    from baleen.system import Baleen

__version__ = "0.1.0"

_HOMES = {
    "Answer": "baleen.core.types",
    "Answerer": "baleen.hops.readers",
    "Baleen": "baleen.system",
    "BaleenError": "baleen.core.errors",
    "Condensed": "baleen.core.types",
    "Condenser": "baleen.hops.condenser",
    "CondenserConfig": "baleen.hops.config",
    "CrossEncoder": "baleen.models.cross_encoder",
    "Encoder": "baleen.models.encoder",
    "EncoderConfig": "baleen.models.tokens",
    "Fact": "baleen.core.types",
    "Hit": "baleen.core.types",
    "Hop": "baleen.core.types",
    "Index": "baleen.index.index",
    "Judgement": "baleen.core.types",
    "Passage": "baleen.core.types",
    "Query": "baleen.core.types",
    "Ranking": "baleen.core.types",
    "Reranker": "baleen.hops.reranker",
    "Retriever": "baleen.hops.retriever",
    "RunConfig": "baleen.hops.config",
    "SearchOptions": "baleen.index.protocol",
    "Trace": "baleen.core.types",
    "Verdict": "baleen.core.types",
    "Verifier": "baleen.hops.readers",
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
    "SearchOptions",
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
