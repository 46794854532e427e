"""Training records from rankings and unordered gold passages: Algorithm 1 of the paper, without models.

    line 1          start            the state before the first hop: the bare query, all gold passages to find
    lines 3, 4, 8   latent_hop       positives P_t and negatives N_t from a ranking, and the query with the facts of P_t
    line 6          weak_targets     triples for R_t: all gold passages that no earlier hop has taken
    line 10         gather           the triples of all hops, for the final retriever
    added           ordered_hop      one hop of an order fixed beforehand
    added           partly_found     triples for a query that knows only a part of what a hop found together

    R_1 learns from `latent_hop` on an off-the-shelf ranking.  Then for t = 1, 2, ...: rank the query of every state with
    R_t, take a `latent_hop`, continue with the `unfinished` states, and train R_t+1 on their `weak_targets`.  The final
    retriever learns from what `gather` returns.

Where the paper leaves a choice:

    no gold passage within the depth    P_t would be empty and the query would never change: the fallback takes the
                                        best-ranked gold passage, if any was ranked
    depth "all" (None)                  takes every gold passage left, ranked or not
    ranks                               do not count gold passages of earlier hops, which later searches exclude
    line 10, "P_t as negatives"         read as N_t, as in the text of the paper
    "fact extraction depth" of 5        read as facts per hop: each positive gives one before any gives a second
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from baleen.core.records import Record
from baleen.core.types import Fact, Lookup, Passage, Query, Ranking
from baleen.data.example import Example

NEGATIVE_DEPTH = 1000
FACTS_PER_HOP = 5

Depth = int | None
SentenceChoice = Callable[[Example, Passage], Sequence[int]]


@dataclass(frozen=True, slots=True)
class Supervised(Record):
    """Positives and negatives of a query at one hop (from 1), best-ranked first."""

    qid: str
    hop: int
    query: Query
    positives: tuple[str, ...]
    negatives: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class State(Record):
    """An example before hop `hop`: its query with the facts so far, and the gold passages still to find."""

    example: Example
    query: Query
    remaining: tuple[str, ...]
    hop: int = 1

    @property
    def done(self) -> bool:
        return not self.remaining


@dataclass(frozen=True, slots=True)
class Positive(Record):
    """A gold passage that became a positive, and its rank (from 1; None: not ranked)."""

    pid: str
    rank: int | None


@dataclass(frozen=True, slots=True)
class Step(Record):
    """One hop of one example: the training record, the passages it took, and the state after it.

    `facts` were added to the query.  With `fallback`, the positive is beyond the depth.
    """

    supervised: Supervised
    chosen: tuple[Positive, ...]
    facts: tuple[Fact, ...]
    fallback: bool
    state: State


def start(example: Example) -> State:
    """The state before the first hop; `example` has pids as gold passages (see `resolve_gold`)."""
    return State(example, Query(example.text), tuple(dict.fromkeys(example.gold)))


def first_sentences(count: int) -> SentenceChoice:
    """Choose the first `count` sentences that are not blank."""

    def choose(_: Example, passage: Passage) -> Sequence[int]:
        return [sid for sid, sentence in enumerate(passage.sentences) if sentence.strip()][:count]

    return choose


def latent_hop(
    state: State,
    ranking: Ranking,
    passages: Lookup,
    *,
    depth: Depth,
    negative_depth: int = NEGATIVE_DEPTH,
    sentences: SentenceChoice | None = None,
) -> Step:
    """One hop of latent ordering, by the retriever's own ranking of `state.query`.

    Positives are the remaining gold passages within the top `depth`, negatives those of the top `negative_depth` that are
    not gold.  The query gains the gold sentences of the positives; `sentences` picks them in a passage without annotated
    ones (default: the first).
    """
    chosen, beyond = _choose(state, ranking, depth)
    facts = oracle_facts(state, [one.pid for one in chosen], passages, sentences=sentences)
    return _step(state, chosen, ranking, facts, negative_depth=negative_depth, fallback=beyond)


def ordered_hop(
    state: State,
    ranking: Ranking,
    passages: Lookup,
    *,
    positives: Iterable[str],
    negative_depth: int = NEGATIVE_DEPTH,
    sentences: SentenceChoice | None = None,
) -> Step:
    """One hop with `positives` fixed beforehand; the ranking gives their ranks and the negatives.

    Positives that are not among the remaining gold passages are ignored.
    """
    wanted = set(positives)
    chosen = [one for one in _ranked(state, ranking) if one.pid in wanted]
    facts = oracle_facts(state, [one.pid for one in chosen], passages, sentences=sentences)
    return _step(state, chosen, ranking, facts, negative_depth=negative_depth, fallback=False)


def weak_targets(state: State, negatives: Iterable[str]) -> Supervised:
    """The record of R_t before it has ranked: all remaining gold passages against the negatives of the last hop."""
    against = tuple(pid for pid in negatives if pid not in state.example.gold)
    return Supervised(state.example.qid, state.hop, state.query, state.remaining, against)


def unfinished(steps: Iterable[Step]) -> list[State]:
    """The states with gold passages still to find."""
    return [step.state for step in steps if not step.state.done]


def gather(hops: Iterable[Iterable[Step]]) -> list[Supervised]:
    """The training set of the final retriever: the records with positives, hop by hop."""
    return [step.supervised for steps in hops for step in steps if step.supervised.positives]


def partly_found(step: Step, passages: Lookup, sentences: SentenceChoice | None = None) -> list[Supervised]:
    """Records of a hop with several positives: the query knows one of them, or all but one, and has to find the others.

    Without them, the retriever never learns to get from one to the other, which a search that found only one needs.
    The negatives are those of the hop.
    """
    hop, example, found = step.supervised, step.state.example, step.supervised.positives
    if len(found) < 2:
        return []
    before = State(example, hop.query, found, hop.hop)
    parts = dict.fromkeys(known for pid in found for known in ((pid,), tuple(own for own in found if own != pid)))
    after = (advance(before, known, oracle_facts(before, known, passages, sentences=sentences)) for known in parts)
    return [Supervised(example.qid, state.hop, state.query, state.remaining, hop.negatives) for state in after]


def oracle_facts(
    state: State, pids: Sequence[str], passages: Lookup, *, sentences: SentenceChoice | None = None
) -> tuple[Fact, ...]:
    """The gold facts of passages, FACTS_PER_HOP at most, passage by passage."""
    found = [_facts(state, passages(pid), sentences or first_sentences(1)) for pid in pids]
    turns = sorted((turn, place) for place, facts in enumerate(found) for turn in range(len(facts)))[:FACTS_PER_HOP]
    return tuple(found[place][turn] for place, turn in sorted((place, turn) for turn, place in turns))


def advance(state: State, taken: Iterable[str], facts: Iterable[Fact]) -> State:
    """The state after a hop that took the gold passages `taken` and added `facts`."""
    gone = set(taken)
    query = dataclasses.replace(state.query, facts=(*state.query.facts, *facts))
    remaining = tuple(pid for pid in state.remaining if pid not in gone)
    return State(state.example, query, remaining, state.hop + 1)


def _choose(state: State, ranking: Ranking, depth: Depth) -> tuple[list[Positive], bool]:
    """The positives of a hop, and whether the fallback was needed."""
    ranked = _ranked(state, ranking)
    if depth is None:
        return ranked, False
    within = [one for one in ranked if one.rank is not None and one.rank <= depth]
    best = [one for one in ranked[:1] if one.rank is not None and not within]
    return within or best, bool(best)


def _ranked(state: State, ranking: Ranking) -> list[Positive]:
    """The remaining gold passages, best-ranked first; those that were not ranked come last, in their order."""
    used = set(state.example.gold).difference(state.remaining)
    eligible = (pid for pid in ranking.pids if pid not in used)
    ranks = {pid: rank for rank, pid in enumerate(eligible, 1)}
    chosen = [Positive(pid, ranks.get(pid)) for pid in state.remaining]
    return sorted(chosen, key=lambda one: one.rank or len(ranking) + 1)


def _step(
    state: State,
    chosen: Sequence[Positive],
    ranking: Ranking,
    facts: tuple[Fact, ...],
    *,
    negative_depth: int,
    fallback: bool,
) -> Step:
    after = advance(state, [one.pid for one in chosen], facts)
    return Step(_supervised(state, chosen, ranking, negative_depth), tuple(chosen), facts, fallback, after)


def _supervised(state: State, chosen: Iterable[Positive], ranking: Ranking, negative_depth: int) -> Supervised:
    gold = set(state.example.gold)
    negatives = tuple(pid for pid in ranking.pids[:negative_depth] if pid not in gold)
    return Supervised(state.example.qid, state.hop, state.query, tuple(one.pid for one in chosen), negatives)


def _facts(state: State, passage: Passage, choose: SentenceChoice) -> list[Fact]:
    """The annotated sentences of a passage, or those that `choose` picks; never a blank one."""
    sentences = passage.sentences
    known = sorted(sid for pid, sid in state.example.facts if pid == passage.pid and sentences[sid])
    chosen = known or [sid for sid in choose(state.example, passage) if sentences[sid]]
    return [Fact(passage.pid, sid, passage.title, sentences[sid], hop=state.hop) for sid in chosen]
