"""Questions that are read and never searched for: distractors come from the gold passages themselves.

Searching is what a large file of questions costs most; stage 2 of the condenser and the readers need no more than gold
facts and others beside them.
"""

from __future__ import annotations

from collections.abc import Sequence

from baleen.condenser import best, sentence_fact
from baleen.datasets import Example
from baleen.progress import track
from baleen.training.condenser_examples import gold_sids
from baleen.training.likely_sentences import likelihood_scorer, shared_words
from baleen.training.reading_scores import KEPT, Scored
from baleen.training.supervision import Lookup
from baleen.types import Fact, Query


def unsearched(examples: Sequence[Example], passages: Lookup, infer: bool = True) -> list[Scored]:
    """Each with the sentences of its gold passages: the gold ones, and the others by how many words they share with it.

    Where no sentence of a passage is known for gold, the likeliest is, if `infer`.
    """
    shown = track(examples, "laying out", len(examples), "questions")
    return [_scored(example, passages, infer) for example in shown]


def _scored(example: Example, passages: Lookup, infer: bool) -> Scored:
    scorer = likelihood_scorer([example], passages) if infer else None
    hops = {pid: hop for hop, pid in enumerate(dict.fromkeys(example.order), 1)}
    gold: list[Fact] = []
    others: list[Fact] = []
    for passage in map(passages, dict.fromkeys(example.gold)):
        sids, hop = gold_sids(example, Query(example.text), passage, scorer), hops.get(passage.pid, 0)
        scores = shared_words(example, passage)
        written = [sid for sid, sentence in enumerate(passage.sentences) if sentence.strip()]
        gold += [sentence_fact(passage, sid, 0.0, hop) for sid in sids]
        others += [sentence_fact(passage, sid, scores[sid], hop) for sid in written if sid not in sids]
    return Scored(example.qid, tuple(best(others, KEPT)), tuple(gold))
