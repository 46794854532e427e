"""Generate claims and questions from a graph.

    graph = read_graph(read_passages(["docs/"]))
    for claim in synthesize(graph, SynthesisConfig(limit=1000)):
        claim.to_json()

The same graph and settings give the same claims in the same order.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from baleen.core.progress import progress, track
from baleen.core.records import Record
from baleen.data.example import REFUTED, SUPPORTED
from baleen.synthesis import questions
from baleen.synthesis.avoiding import Avoided
from baleen.synthesis.drafting import Drafter
from baleen.synthesis.drafts import BRIDGE, CHAIN, COMPARISON, Draft
from baleen.synthesis.falsehoods import Falsifier
from baleen.synthesis.gaps import GAP, gap
from baleen.synthesis.graph import Graph
from baleen.synthesis.phrases import GLUE, Describer, Part
from baleen.synthesis.quality import fingerprint, names_any, reads_well
from baleen.synthesis.settings import SynthesisConfig
from baleen.synthesis.solving import SingleHop

BATCH = 4096  # claims per batch of searches
# Shares of questions: for an entity if possible; else for a year or order; answered no.
ASKED, DATED, DENIED = 0.7, 0.6, 0.5
MOST_ASKED = 6  # questions for the same gap of the same sentence
MISSES = 3  # failures in a row, per kind and number of hops, after which a page is dropped


@dataclass(frozen=True, slots=True)
class Claim(Record):
    """A claim or question with its sources: a line of the file that `baleen train` reads.

    `gold` and `order` are the same passages, `order` in the order of hops.  `pieces` has the source of each part of
    the text, as {"text", "id", "sid"}.  `made` is the change that made a claim false, or "gap".  `rank` is the worst
    rank of a gold passage in one word search.
    """

    id: str
    text: str
    gold: tuple[str, ...]
    facts: tuple[tuple[str, int], ...]
    hops: int
    kind: str
    order: tuple[str, ...]
    pieces: tuple[dict[str, Any], ...]
    label: str | None = None
    answer: str | None = None
    made: str | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A draft as a statement or question, with its label or answer."""

    text: str
    kind: str
    draft: Draft
    label: str | None = None
    answer: str | None = None
    made: str | None = None


class Synthesizer:
    """Drafts claims, turns them into statements or questions, and keeps the good ones."""

    def __init__(self, graph: Graph, config: SynthesisConfig, avoided: Avoided | None = None) -> None:
        self.graph, self.config, self.avoided = graph, config, avoided or Avoided()
        mentioned = graph.mentioned
        describer = Describer(
            graph.pages,
            lambda number: bool(graph.pages[number].kind) and mentioned[number] <= config.max_mentions,
            max(config.hops),
        )
        self.drafter = Drafter(graph.pages, describer)
        self.falsifier = Falsifier(graph.pages, lambda number: graph.texts[number])
        self._rng = random.Random(config.seed)
        cells = [(kind, hops) for kind in config.kinds for hops in config.hops]
        self._decks = {
            cell: _Deck(self.drafter.candidates(*cell), self._rng)
            for cell in track(cells, "looking for chains", unit="kinds")
        }
        self._starts: Counter[int] = Counter()
        self._asked: Counter[tuple[int, int, str]] = Counter()
        self._seen: set[str] = set()
        self.dropped: Counter[str] = Counter()

    def claims(self) -> Iterator[Claim]:
        """Yield up to `limit` claims; fewer if the corpus has no more."""
        search, made = SingleHop(track(self.graph.texts, "indexing words", unit="passages")), 0
        with progress("synthesizing", self.config.limit, "claims") as bar:
            for batch in self._batches():
                ranks = search.hardest_ranks([each.text for each in batch], [each.draft.order for each in batch])
                for each, rank in zip(batch, ranks.tolist(), strict=True):
                    if made == self.config.limit:
                        return
                    if rank <= self.config.solved_depth and self._rng.random() >= self.config.solved:
                        self.dropped["solved by one search"] += 1
                        continue
                    yield self._claim(made, each, rank)
                    made += 1
                    bar.advance()

    def _batches(self) -> Iterator[list[_Candidate]]:
        batch: list[_Candidate] = []
        kinds, hops = self.config.kinds, self.config.hops
        shares = {(kind, number): kinds[kind] * hops[number] for kind in kinds for number in hops}
        cells = {cell: share for cell, share in shares.items() if share}
        while cells:
            cell = _drawn(cells, self._rng)
            made = self._candidate(*cell)
            if made is None:
                del cells[cell]
                continue
            batch.append(made)
            if len(batch) == min(BATCH, 2 * self.config.limit):
                yield batch
                batch = []
        if batch:
            yield batch

    def _candidate(self, kind: str, hops: int) -> _Candidate | None:
        """Make a claim of one kind and length; None when no page is left."""
        deck = self._decks[kind, hops]
        while (number := deck.draw()) is not None:
            made = self._draw(kind, hops, number)
            deck.note(number, hit=made is not None)
            if made is not None:
                return made
        return None

    def _draw(self, kind: str, hops: int, number: int) -> _Candidate | None:
        """Draft about one page, turn the draft into a claim or question, and check it."""
        rng, config = self._rng, self.config
        question = rng.random() < config.questions
        gapped = question and kind != COMPARISON and config.gaps > 0 and rng.random() < config.gaps
        ask = question and not gapped and kind in {CHAIN, BRIDGE} and rng.random() < ASKED
        named = rng.random() >= config.unnamed
        draft = self.drafter.draft(kind, self.graph.pages[number], hops, rng, named=named, ask=ask)
        turn = self._gap if gapped else self._question if question else self._statement
        made = None if draft is None else turn(draft)
        if made is None or self._starts[made.draft.order[0]] >= config.per_page or not self._accept(made):
            return None
        self._starts[made.draft.order[0]] += 1
        return made

    def _statement(self, draft: Draft) -> _Candidate | None:
        label = _drawn(self.config.labels, self._rng)
        if label == SUPPORTED:
            return _Candidate(draft.text, draft.kind, draft, SUPPORTED)
        turn = self.falsifier.refute if label == REFUTED else self.falsifier.unsettle
        false = turn(draft, self._rng)
        if false is None:
            return None
        return _Candidate(false.draft.text, draft.kind, false.draft, false.label, made=false.how)

    def _gap(self, draft: Draft) -> _Candidate | None:
        """Make a question with a gap; the same gap of a sentence is asked for a limited number of times."""
        asked = gap(draft, self.graph.pages, self.graph.texts.__getitem__, self._rng)
        if asked is None:
            return None
        (changed,) = set(asked.draft.parts) - set(draft.parts)
        said = changed.page, changed.sid, asked.answer
        self._asked[said] += 1
        if self._asked[said] > MOST_ASKED:
            return None
        return _Candidate(asked.text, draft.kind, asked.draft, answer=asked.answer, made=GAP)

    def _question(self, draft: Draft) -> _Candidate | None:
        asked = questions.in_place(draft, self.graph.pages)
        if asked is None and self._rng.random() < DATED:
            asked = questions.year(draft, self.graph.pages) or questions.first(draft, self.graph.pages)
        if asked is not None:
            return _Candidate(asked.text, draft.kind, asked.draft, answer=asked.answer)
        false = self.falsifier.refute(draft, self._rng) if self._rng.random() < DENIED else None
        asked = questions.yes_or_no(draft if false is None else false.draft, holds=false is None)
        return _Candidate(asked.text, draft.kind, asked.draft, answer=asked.answer, made=false.how if false else None)

    def _accept(self, made: _Candidate) -> bool:
        """Check a claim, and count the reason if it is dropped."""
        names = [self.graph.pages[number].name for number in made.draft.hidden]
        if not reads_well(made.text):
            return self._drop("does not read well")
        if names_any(made.text, names) or (made.kind != COMPARISON and _gives_away(made)):
            return self._drop("names what is to be found")
        if self.avoided.is_like(made.text, made.draft.order):
            return self._drop("like a question to avoid")
        mark = fingerprint(made.text)
        if mark in self._seen:
            return self._drop("made before")
        self._seen.add(mark)
        return True

    def _drop(self, why: str) -> bool:
        self.dropped[why] += 1
        return False

    def _piece(self, part: Part) -> dict[str, Any]:
        page, sid = part.lender or (part.page, part.sid)
        return {"text": part.text.strip(), "id": self.graph.pages[page].pid, "sid": sid}

    def _claim(self, number: int, made: _Candidate, rank: int) -> Claim:
        pids = [page.pid for page in (self.graph.pages[each] for each in made.draft.order)]
        pieces = tuple(self._piece(part) for part in made.draft.parts if part.page != GLUE)
        facts = sorted((made.draft.order.index(page), sid) for page, sid in made.draft.facts)
        return Claim(
            id=f"{self.config.seed}-{number:06d}",
            text=made.text,
            gold=tuple(sorted(pids)),
            facts=tuple((pids[place], sid) for place, sid in facts),
            hops=len(pids),
            kind=made.kind,
            order=tuple(pids),
            pieces=pieces,
            label=made.label,
            answer=made.answer,
            made=made.made,
            rank=rank,
        )


class _Deck:
    """Pages in random order, reshuffled when used up; a page that fails too often in a row is dropped."""

    def __init__(self, numbers: Sequence[int], rng: random.Random) -> None:
        self._numbers, self._rng = list(numbers), rng
        self._left: list[int] = []
        self._misses: Counter[int] = Counter()

    def draw(self) -> int | None:
        if not self._left:
            self._numbers = [number for number in self._numbers if self._misses[number] < MISSES]
            self._left = self._rng.sample(self._numbers, len(self._numbers))
        return self._left.pop() if self._left else None

    def note(self, number: int, *, hit: bool) -> None:
        """Record whether a page gave a claim."""
        self._misses[number] = 0 if hit else self._misses[number] + 1


def _drawn(shares: Any, rng: random.Random) -> Any:
    return rng.choices(list(shares), list(shares.values()))[0]


def _gives_away(made: _Candidate) -> bool:
    """Whether a question contains its answer, unless that is "yes" or "no"."""
    answer = made.answer
    return answer is not None and answer not in {questions.YES, questions.NO} and names_any(made.text, [answer])


def synthesize(graph: Graph, config: SynthesisConfig, avoided: Avoided | None = None) -> Iterator[Claim]:
    return Synthesizer(graph, config, avoided).claims()
