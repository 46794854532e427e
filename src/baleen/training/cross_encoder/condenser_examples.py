"""Training examples of the condenser and the reranker, from gold passages and retrieved ones; no models here.

    stage 1     sentence_examples       a gold passage with its gold sentences, against passages that are not gold
    stage 2     fact_sources            gold facts among other sentences that stage 1 scored; a pool is drawn for one hop
    reranker    rerank_examples         a gold passage against others, given the gold passages of earlier hops

The steps of supervision have the passages of each hop.  Unusable examples are left out and counted by reason.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from baleen.core.records import Record
from baleen.core.types import WHOLE_PASSAGE, Fact, Lookup, Passage, Query
from baleen.data.example import Example
from baleen.hops.condenser import top_facts
from baleen.training.hop_order.supervision import Step

NEGATIVES = 20
SMALLEST_POOL, LARGEST_POOL = 7, 9  # new facts of a hop
MOST_STALE = 3  # facts from earlier hops that are not gold
NEAR_TOP = 0.4  # geometric distribution of the rank of a gold fact without a score

Scorer = Callable[[Query, Passage], Sequence[float]]
FactsOf = Callable[[Example], Sequence[Fact]]
AnyRecord = TypeVar("AnyRecord", bound=Record)


@dataclass
class ExampleSet(Generic[AnyRecord]):
    """Usable records, and how many others were left out, by reason."""

    records: list[AnyRecord] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class SentenceExample(Record):
    """A query at one hop, a gold passage with its gold sentences, and negative passages, best-ranked first."""

    qid: str
    hop: int
    query: Query
    positive: str
    sids: tuple[int, ...]
    negatives: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FactExample(Record):
    """A claim, candidate facts in the order that stage 2 reads, and a label for each: gold or not."""

    qid: str
    claim: str
    facts: tuple[Fact, ...]
    labels: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class FactSource(Record):
    """A claim, its gold facts, and the best sentences by stage 1, gold ones among them; all with the hops that found them."""

    qid: str
    claim: str
    golds: tuple[Fact, ...]
    found: tuple[Fact, ...]

    def draw(self, rng: np.random.Generator) -> FactExample:
        """The input of stage 2 at a random hop: facts kept by earlier hops, then new facts, best first.

        Earlier hops contribute their gold facts and up to three others.  Seven to nine facts are new, including the gold
        ones of the hop; a hop after the last gold passage has none.  If all gold facts are of one hop, a random part of
        them is used.  For a question that was not searched for, sentences of any hop count as new.
        """
        hops = sorted({fact.hop for fact in (*self.golds, *self.found)})
        hop = hops[int(rng.integers(len(hops)))]
        size = int(rng.integers(SMALLEST_POOL, LARGEST_POOL + 1))
        golds = [fact for fact in _part(self.golds, size - 1, rng) if fact.hop <= hop]
        here = [fact for fact in golds if fact.hop == hop]
        known = {_place(fact) for fact in self.golds}
        others = [fact for fact in self.found if _place(fact) not in known]
        new = [fact for fact in others if fact.hop == hop]
        earlier = [fact for fact in others if fact.hop < hop]
        if not self._searched:
            new, earlier = [*new, *(fact for fact in others if fact.hop != hop)], []
        stale = _some(earlier, int(rng.integers(MOST_STALE + 1)), rng)
        kept = sorted([*(fact for fact in golds if fact.hop < hop), *stale], key=lambda fact: (fact.hop, rng.random()))
        facts = (*kept, *self._ranked(here, new[: max(0, size - len(here))], rng))
        return FactExample(self.qid, self.claim, facts, tuple(fact in golds for fact in facts))

    @property
    def _searched(self) -> bool:
        """Whether stage 1 scored any gold fact; it scores none for questions that are not searched for."""
        return not {_place(fact) for fact in self.golds}.isdisjoint(map(_place, self.found))

    def _ranked(self, golds: Sequence[Fact], others: Sequence[Fact], rng: np.random.Generator) -> list[Fact]:
        """New facts by score.  Gold facts without one come last, or near the top if no gold fact has one."""
        scores = {_place(fact): fact.score for fact in self.found}
        scored = [fact for fact in golds if _place(fact) in scores]
        ranked = sorted([*scored, *others], key=lambda fact: -scores[_place(fact)])
        for fact in golds:
            if fact not in scored:
                ranked.insert(len(ranked) if self._searched else int(rng.geometric(NEAR_TOP)) - 1, fact)
        return ranked


@dataclass(frozen=True, slots=True)
class RerankExample(Record):
    """A query with the whole passages of earlier hops, a gold passage, and negative passages, best-ranked first."""

    qid: str
    hop: int
    query: Query
    positive: str
    negatives: tuple[str, ...]


def sentence_examples(
    steps: Iterable[Step],
    passages: Lookup,
    *,
    negatives: int = NEGATIVES,
    scorer: Scorer | None = None,
    inferred: int = 1,
) -> ExampleSet[SentenceExample]:
    """Each gold passage of each hop, against the `negatives` best-ranked passages that are not gold.

    In a gold passage without annotated sentences, the `inferred` best ones by `scorer` count as gold; without a scorer
    the passage is left out.
    """
    made = ExampleSet[SentenceExample]()
    for step in steps:
        hop, example = step.supervised, step.state.example
        for pid in hop.positives:
            sids = gold_sids(example, hop.query, passages(pid), scorer, inferred)
            if not sids:
                made.left_out["no gold sentence is known"] += 1
            elif not hop.negatives:
                made.left_out["no negatives were retrieved"] += 1
            else:
                against = hop.negatives[:negatives]
                made.records.append(SentenceExample(hop.qid, hop.hop, hop.query, pid, sids, against))
    return made


def gold_sids(
    example: Example, query: Query, passage: Passage, scorer: Scorer | None = None, inferred: int = 1
) -> tuple[int, ...]:
    """The gold sentences of a passage, or the `inferred` best by `scorer` if none is annotated; never a blank one."""
    written = [sid for sid, sentence in enumerate(passage.sentences) if sentence.strip()]
    known = {sid for pid, sid in example.facts if pid == passage.pid}
    if known or scorer is None:
        return tuple(sid for sid in written if sid in known)
    scores = scorer(query, passage)
    return tuple(sorted(sorted(written, key=lambda sid: (-scores[sid], sid))[:inferred]))


def gold_facts(passages: Lookup, scorer: Scorer | None = None) -> FactsOf:
    """A function from an example to its gold facts, passage by passage; see `sentence_examples` for `scorer`."""

    def facts(example: Example) -> list[Fact]:
        golds = [passages(pid) for pid in dict.fromkeys(example.gold)]
        return [
            passage.fact(sid, 0.0, 0)
            for passage in golds
            for sid in gold_sids(example, Query(example.text), passage, scorer)
        ]

    return facts


def fact_sources(examples: Iterable[Example], gold: FactsOf, scored: FactsOf) -> ExampleSet[FactSource]:
    """Sources for stage 2, from the `gold` facts of each example and the sentences that stage 1 `scored`.

    Sentences of a gold passage without known facts are left out: they may be gold or not.
    """
    made = ExampleSet[FactSource]()
    for example in examples:
        golds = tuple(gold(example))
        found = _labelled(example, golds, scored(example))
        if not golds or {_place(fact) for fact in found} <= {_place(fact) for fact in golds}:
            made.left_out["no gold fact is known" if not golds else "no other sentence was scored"] += 1
        else:
            made.records.append(FactSource(example.qid, example.text, golds, tuple(found)))
    return made


def draw_fixed(sources: ExampleSet[Any], copies: int = 1, seed: int = 0) -> ExampleSet[Any]:
    """`copies` draws of each source, for dev metrics; each depends on the seed and the source alone."""
    drawn = [each.draw(seeded_rng(seed, each.qid, copy)) for each in sources.records for copy in range(copies)]
    return ExampleSet(drawn, sources.left_out)


def _labelled(example: Example, golds: Sequence[Fact], scored: Iterable[Fact]) -> list[Fact]:
    """Scored sentences that are known to be gold or not; best first, each once."""
    unclear = set(example.gold) - {fact.pid for fact in golds}
    found = {_place(fact): fact for fact in sorted(scored, key=lambda fact: fact.score) if fact.pid not in unclear}
    return top_facts(list(found.values()), len(found))


def _place(fact: Fact) -> tuple[str, int]:
    return fact.pid, fact.sid


def _part(golds: Sequence[Fact], most: int, rng: np.random.Generator) -> Sequence[Fact]:
    """All gold facts if they are of several hops; else a random part, `most` at most, as a search may find only some."""
    if len({fact.hop for fact in golds}) > 1:
        return golds
    count = int(rng.integers(1, min(len(golds), most) + 1))
    return [golds[place] for place in sorted(rng.permutation(len(golds))[:count])]


def _some(facts: Sequence[Fact], count: int, rng: np.random.Generator) -> list[Fact]:
    """`count` random facts of the best `2 * count`."""
    return [facts[place] for place in rng.permutation(len(facts[: 2 * count]))[:count]]


def rerank_examples(
    steps: Iterable[Step], passages: Lookup, *, negatives: int = NEGATIVES
) -> ExampleSet[RerankExample]:
    """Each gold passage of each hop, against the `negatives` best-ranked passages that are not gold."""
    made = ExampleSet[RerankExample]()
    for step in steps:
        hop = step.supervised
        if not hop.negatives and hop.positives:
            made.left_out["no negatives were retrieved"] += len(hop.positives)
        if not hop.negatives or not hop.positives:
            continue
        query = Query(hop.query.text, passage_facts(hop.query.facts, passages))
        against = hop.negatives[:negatives]
        made.records += [RerankExample(hop.qid, hop.hop, query, pid, against) for pid in hop.positives]
    return made


def passage_facts(facts: Iterable[Fact], passages: Lookup) -> tuple[Fact, ...]:
    """The whole passages that facts are from, each once, with the hop that found it."""
    hops: dict[str, int] = {}
    for fact in facts:
        hops.setdefault(fact.pid, fact.hop)
    found = ((passages(pid), hop) for pid, hop in hops.items())
    return tuple(Fact(passage.pid, WHOLE_PASSAGE, passage.title, passage.text, hop=hop) for passage, hop in found)


def seeded_rng(seed: int, qid: str, *numbers: int) -> np.random.Generator:
    """A random generator for one example, independent of the others."""
    return np.random.default_rng([seed, zlib.crc32(qid.encode()), *numbers])
