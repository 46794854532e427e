"""ColBERT-Hop: hops as a system takes them, with late interaction that has no focus and a reranker for a condenser.

The paper's strongest baseline: row F of its ablation.  Its retriever is one that was trained without focus, as
`experiments/ablation.py` trains it; any other model will run so too, at the cost of what it learnt to expect.
"""

from __future__ import annotations

from typing import Any

from baleen.retriever import Retriever
from baleen.system import Baleen

NAME = "colbert-hop"
OPTIONS: dict[str, Any] = {"pipeline": "rerank", "stand_in": False, "ranked_by": "hops", "named_bonus": 0.0}


def colbert_hop(system: Baleen) -> Baleen:
    """The same model over the same index, with every query vector counted."""
    encoder = system.retriever.encoder.with_settings(query_focus=None, facts_focus=None)
    hop = Baleen(system.model, Retriever(encoder, system.retriever.index))
    hop.config = system.config  # whose hops are less deep over the demonstration corpus
    return hop
