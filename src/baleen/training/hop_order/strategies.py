"""How a hop of one question is supervised: by a retriever's ranking, or by an order of hops fixed beforehand.

A strategy is a function from a state and the ranking of its query to the step taken.
"""

from __future__ import annotations

from collections.abc import Callable

from baleen.core.types import Lookup, Ranking
from baleen.training.hop_order.fixed import HopOrder, passages_due
from baleen.training.hop_order.supervision import Depth, SentenceChoice, State, Step, latent_hop, ordered_hop

Supervise = Callable[[State, Ranking], Step]


def supervise_by_ranking(depth: Depth, passages: Lookup, negative_depth: int, sentences: SentenceChoice) -> Supervise:
    """Latent order: a hop takes the gold passages within the top `depth` of the ranking."""

    def supervise(state: State, ranking: Ranking) -> Step:
        return latent_hop(state, ranking, passages, depth=depth, negative_depth=negative_depth, sentences=sentences)

    return supervise


def supervise_by_order(
    order: HopOrder, hops: int, passages: Lookup, negative_depth: int, sentences: SentenceChoice
) -> Supervise:
    """Fixed order: a hop takes the gold passages that `order` has for it, and the last of `hops` all that are left."""

    def supervise(state: State, ranking: Ranking) -> Step:
        due = passages_due(order, state, hops)
        return ordered_hop(state, ranking, passages, positives=due, negative_depth=negative_depth, sentences=sentences)

    return supervise
