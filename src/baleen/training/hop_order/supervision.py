"""From rankings and unordered gold passages to what a retriever is trained on: Algorithm 1 of the paper, without models.

    line 1          start            every example before its first hop: the bare query, all gold passages to be found
    before it       first_hop        triples for the single-hop retriever R_1, out of an off-the-shelf ranking
    lines 3, 4, 8   latent_hop       positives P_t and negatives N_t out of a ranking, and the query with the facts of P_t
    line 6          weak_targets     triples for R_t: every gold passage that no earlier hop has taken
    line 10         gather           all hops' triples, for the final retriever
    beyond it       partly_found     more of them: what a hop found together, when only a part of it has been found

    R_1 from `first_hop`; then, for t = 1, 2, ...: rank every state's query with R_t, `latent_hop`, go on with the
    `unfinished` states, and train R_t+1 on their `weak_targets`; at last train on what `gather` makes of all the steps.

What the paper leaves open is settled so.  Where no gold passage is within the depth, P_t would be empty and the query
would stay as it is for ever: the fallback takes the best-ranked one instead, as long as it was ranked at all.  A depth of
"all" (None) takes every gold passage left, ranked or not.  Ranks are counted without the gold passages of earlier hops,
since these are excluded from later searches too.  Where line 10 has "P_t as negatives", the text of the paper and we
have N_t.  Its "fact extraction depth" of 5 is read as facts a hop: each positive gives one before any gives a second.
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


def final_round_depths(hops: int, depth: int = 10) -> tuple[Depth, ...]:
    """How deep positives lie for the final retriever: 10, 10, ..., all."""
    return (*[depth] * (hops - 1), None)


@dataclass(frozen=True, slots=True)
class Supervised(Record):
    """What a query should rank high, and what low, at one hop (from 1); best-ranked first."""

    qid: str
    hop: int
    query: Query
    positives: tuple[str, ...]
    negatives: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class State(Record):
    """An example before hop `hop`: its query with the facts so far, and the gold passages that no hop has taken."""

    example: Example
    query: Query
    remaining: tuple[str, ...]
    hop: int = 1

    @property
    def done(self) -> bool:
        return not self.remaining


@dataclass(frozen=True, slots=True)
class Chosen(Record):
    """A gold passage that became a positive, and its rank (from 1); None where the ranking does not have it."""

    pid: str
    rank: int | None


@dataclass(frozen=True, slots=True)
class Step(Record):
    """One hop of one example: what to train on, why, and the state after it.

    `fallback` says that the positive lies beyond the depth.  `facts` are those that the query gained.
    """

    supervised: Supervised
    chosen: tuple[Chosen, ...]
    facts: tuple[Fact, ...]
    fallback: bool
    state: State


def start(example: Example) -> State:
    """Before the first hop.  `example` names its gold passages by pid (see `resolve_gold`)."""
    return State(example, Query(example.text), tuple(dict.fromkeys(example.gold)))


def first_sentences(count: int) -> SentenceChoice:
    """For passages whose gold sentences are not known: their first `count` that are not blank."""

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
    """One hop of latent ordering: the retriever's own ranking of `state.query` says which gold passages come now.

    Positives are the remaining gold passages within the top `depth`, negatives the top `negative_depth` that are not
    gold at all.  The query gains the gold sentences of the positives, or, of a passage where none is known, those that
    `sentences` picks (the first one unless told otherwise).
    """
    chosen, beyond = _choose(state, ranking, depth)
    facts = oracle_facts(state, [one.pid for one in chosen], passages, sentences=sentences)
    return _step(state, chosen, ranking, facts, negative_depth, beyond)


def ordered_hop(
    state: State,
    ranking: Ranking,
    passages: Lookup,
    *,
    positives: Iterable[str],
    negative_depth: int = NEGATIVE_DEPTH,
    sentences: SentenceChoice | None = None,
) -> Step:
    """One hop whose `positives` were settled beforehand (see `ordering`); the ranking gives their ranks and negatives.

    Of `positives`, those that are not gold passages still to be found are passed over.
    """
    wanted = set(positives)
    chosen = [one for one in _ranked(state, ranking) if one.pid in wanted]
    facts = oracle_facts(state, [one.pid for one in chosen], passages, sentences=sentences)
    return _step(state, chosen, ranking, facts, negative_depth, fallback=False)


def weak_targets(state: State, negatives: Iterable[str]) -> Supervised:
    """For training R_t before any ranking of its own: all remaining gold passages, against the last hop's negatives."""
    against = tuple(pid for pid in negatives if pid not in state.example.gold)
    return Supervised(state.example.qid, state.hop, state.query, state.remaining, against)


def unfinished(steps: Iterable[Step]) -> list[State]:
    """The states that go on to another hop; an example whose gold passages are all found leaves the loop."""
    return [step.state for step in steps if not step.state.done]


def gather(hops: Iterable[Iterable[Step]]) -> list[Supervised]:
    """The final retriever's training set: all hops' records that have positives, hop by hop."""
    return [step.supervised for steps in hops for step in steps if step.supervised.positives]


def partly_found(step: Step, passages: Lookup, sentences: SentenceChoice | None = None) -> list[Supervised]:
    """Of a hop with several positives, the queries that know one of them, or all but one, and are to find the others.

    A retriever that found them together is never asked to go from one to the other; a search that finds only one has to.
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
    """The facts that `pids` give to the query, FACTS_PER_HOP at most, passage by passage; blank sentences are none."""
    found = [_facts(state, passages(pid), sentences or first_sentences(1)) for pid in pids]
    turns = sorted((turn, place) for place, facts in enumerate(found) for turn in range(len(facts)))[:FACTS_PER_HOP]
    return tuple(found[place][turn] for place, turn in sorted((place, turn) for turn, place in turns))


def advance(state: State, taken: Iterable[str], facts: Iterable[Fact]) -> State:
    """The state after a hop that took the gold passages `taken` and added `facts`."""
    gone = set(taken)
    query = dataclasses.replace(state.query, facts=(*state.query.facts, *facts))
    remaining = tuple(pid for pid in state.remaining if pid not in gone)
    return State(state.example, query, remaining, state.hop + 1)


def _choose(state: State, ranking: Ranking, depth: Depth) -> tuple[list[Chosen], bool]:
    """The positives of a hop, and whether they are there only by the fallback."""
    ranked = _ranked(state, ranking)
    if depth is None:
        return ranked, False
    within = [one for one in ranked if one.rank is not None and one.rank <= depth]
    best = [one for one in ranked[:1] if one.rank is not None and not within]
    return within or best, bool(best)


def _ranked(state: State, ranking: Ranking) -> list[Chosen]:
    """The remaining gold passages, best-ranked first; those that are not in the ranking come last, as they stood."""
    used = set(state.example.gold).difference(state.remaining)
    eligible = (pid for pid in ranking.pids if pid not in used)
    ranks = {pid: rank for rank, pid in enumerate(eligible, 1)}
    chosen = [Chosen(pid, ranks.get(pid)) for pid in state.remaining]
    return sorted(chosen, key=lambda one: one.rank or len(ranking) + 1)


def _step(
    state: State,
    chosen: Sequence[Chosen],
    ranking: Ranking,
    facts: tuple[Fact, ...],
    negative_depth: int,
    fallback: bool,
) -> Step:
    after = advance(state, [one.pid for one in chosen], facts)
    return Step(_supervised(state, chosen, ranking, negative_depth), tuple(chosen), facts, fallback, after)


def _supervised(state: State, chosen: Iterable[Chosen], ranking: Ranking, negative_depth: int) -> Supervised:
    gold = set(state.example.gold)
    negatives = tuple(pid for pid in ranking.pids[:negative_depth] if pid not in gold)
    return Supervised(state.example.qid, state.hop, state.query, tuple(one.pid for one in chosen), negatives)


def _facts(state: State, passage: Passage, choose: SentenceChoice) -> list[Fact]:
    """The gold sentences of a passage that are not blank; if there is none, those that `choose` picks."""
    sentences = passage.sentences
    known = sorted(sid for pid, sid in state.example.facts if pid == passage.pid and sentences[sid])
    chosen = known or [sid for sid in choose(state.example, passage) if sentences[sid]]
    return [Fact(passage.pid, sid, passage.title, sentences[sid], hop=state.hop) for sid in chosen]
