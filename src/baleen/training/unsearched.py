"""Questions that are read and never searched for: distractors come from the gold passages themselves.

Searching is what a large file of questions costs most; stage 2 of the condenser and the readers need no more than gold
facts and others beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from baleen.condenser import best
from baleen.datasets import Example
from baleen.training.condenser_examples import gold_sids
from baleen.training.likely_sentences import likelihood_scorer, shared_words
from baleen.training.reading_scores import KEPT, Scored
from baleen.types import Fact, Lookup, Passage, Query


def unsearched(passages: Lookup, infer: bool = True) -> Callable[[Example], Scored]:
    """A function from an example to the sentences of its gold passages.

    The gold ones, and the others by how many words they share with it.  Where no sentence of a passage is known for
    gold, the likeliest is, if `infer`.
    """

    def scored(example: Example) -> Scored:
        scorer = likelihood_scorer([example], passages) if infer else None
        hops = {pid: hop for hop, pid in enumerate(dict.fromkeys(example.order), 1)}
        gold, others = list[Fact](), list[Fact]()
        for passage in map(passages, dict.fromkeys(example.gold)):
            sids, hop = gold_sids(example, Query(example.text), passage, scorer), hops.get(passage.pid, 0)
            gold += [passage.fact(sid, 0.0, hop) for sid in sids]
            others += best(_others(example, passage, sids, hop), KEPT)
        return Scored(example.qid, tuple(others), tuple(gold))

    return scored


def _others(example: Example, passage: Passage, gold: Sequence[int], hop: int) -> list[Fact]:
    """The sentences of a passage that are not blank, but for the gold ones."""
    scores = shared_words(example, passage)
    facts = (passage.fact(sid, scores[sid], hop) for sid in range(len(scores)) if sid not in gold)
    return [fact for fact in facts if fact.text.strip()]
