"""The corpora of a world, tokenised once and encoded by one retriever after another.

A whole corpus in a device's memory, searched exactly: where training finds its positives and negatives.

    corpus = TokenisedCorpus.of(encoder.inputs, passages)       once: the tokens stay the same while encoders change
    haystack = Haystack(encoder, corpus)                        after each retriever
    haystack.rank(queries, 1000)

There is nothing to compress and nothing to write, so that a retriever's corpus is ready in the time of encoding it.
Several processes share it: each encodes and searches its part, and all of them get what all found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from baleen.core.machine import StageTimer
from baleen.core.progress import progress
from baleen.core.types import Hit, Passage, Query, Ranking
from baleen.core.vectors import QueryVectors
from baleen.models.device import inference
from baleen.models.encoder import Encoder
from baleen.models.tokens import RetrieverInputs, token_batches
from baleen.training.data import TrainingData
from baleen.training.hop_order.maxsim import Lanes, focused_scores, kind
from baleen.training.loop.distributed import Processes

CHUNK = 4096  # passages tokenised at once
SCORE_BUDGET = {"cpu": 2**28, "gpu": 2**30}  # scores, and matches, that are held at once by the queries of one search


@dataclass(frozen=True, eq=False)
class TokenisedCorpus:
    """Passages by number: their pids, and their tokens as the passage encoder reads them."""

    pids: Sequence[str]
    ids: Sequence[npt.NDArray[np.int32]]

    @classmethod
    def of(cls, inputs: RetrieverInputs, passages: Iterable[Passage]) -> Self:
        pids: list[str] = []
        ids: list[npt.NDArray[np.int32]] = []
        with progress("tokenising", unit="passages") as bar:
            for chunk in _chunks(passages, CHUNK):
                pids += [passage.pid for passage in chunk]
                ids += [np.array(row, np.int32) for row in inputs.passage_ids(chunk)]
                bar.advance(len(chunk))
        return cls(pids, ids)

    def __len__(self) -> int:
        return len(self.pids)


@dataclass(frozen=True, eq=False)
class PassageBlock:
    """Passages of like length: their numbers (P,), and their vectors (P, M, d), on a GPU in float16.

    Where a passage has fewer than M vectors that count, its first one is repeated, which changes no maximum.
    """

    rows: Tensor
    vectors: Tensor


class TopPassages(NamedTuple):
    """The best passages of each query by number (Q, k) int64, and their scores (Q, k), -inf where there is none."""

    numbers: Tensor
    scores: Tensor

    @classmethod
    def nothing(cls, queries: int, width: int, device: torch.device) -> Self:
        numbers = torch.zeros(queries, width, dtype=torch.int64, device=device)
        return cls(numbers, torch.full((queries, width), -torch.inf, device=device))

    def take(self, rows: Sequence[int], scores: Tensor) -> None:
        """Fill in these rows by the scores of all columns; where those are too few, what is left stays empty."""
        width = min(self.scores.shape[1], scores.shape[1])
        found, where = scores.topk(width, dim=1), torch.tensor(rows, device=scores.device)
        self.numbers[where, :width], self.scores[where, :width] = found.indices, found.values


class ExactIndex:
    """Every passage's vectors by one encoder, on its device; of several processes each holds its share of them.

    `clock` is told the seconds of encoding and of searching.
    """

    def __init__(
        self,
        encoder: Encoder,
        corpus: TokenisedCorpus,
        processes: Processes | None = None,
        clock: StageTimer | None = None,
    ) -> None:
        self.encoder, self.corpus = encoder, corpus
        self.processes, self.clock = processes or Processes(), clock or StageTimer(1)
        self._own = range(self.processes.rank, len(corpus), self.processes.size)  # numbers of the passages held here
        self._number = {pid: number for number, pid in enumerate(corpus.pids)}
        self._stored_dtype = torch.float16 if encoder.device.type == "cuda" else torch.float32
        with self.clock("encode"):
            self.blocks = self._encoded()

    def _encoded(self) -> list[PassageBlock]:
        encoder, blocks = self.encoder, []
        ids = [self.corpus.ids[number] for number in self._own]
        with inference(encoder.model, encoder.dtype), progress("encoding", len(ids), "passages") as bar:
            for rows in token_batches(ids, encoder.batch_tokens):
                blocks.append(self._encode(rows, [ids[row] for row in rows]))
                bar.advance(len(rows))
        if encoder.device.type == "cuda":
            torch.cuda.synchronize(encoder.device)
        return blocks

    def _encode(self, rows: list[int], ids: Sequence[npt.NDArray[np.int32]]) -> PassageBlock:
        batch = self.encoder.inputs.passage_batch(ids)
        encoded = self.encoder.model.forward_passages(batch.to(self.encoder.device))
        vectors = torch.where(encoded.mask.unsqueeze(2), encoded.vectors, encoded.vectors[:, :1])
        return PassageBlock(torch.tensor(rows, device=self.encoder.device), vectors.to(self._stored_dtype))

    def rank(
        self,
        queries: Sequence[Query],
        k: int,
        exclude: Sequence[Collection[str]] = (),
        *,
        boosted: Sequence[Collection[str]] = (),
        bonus: float = 0.0,
    ) -> list[Ranking]:
        """The k best passages of each query, best first, without those that `exclude` has for it.

        The scores of those that `favoured` has for it are raised by `bonus`.
        """
        if not queries:
            return []
        with self.clock("search"):
            best = self._shared(self._best(queries, k, exclude, boosted, bonus))
            pairs = zip(best.numbers.tolist(), best.scores.tolist(), strict=True)
            return [self._ranking(numbers, scores) for numbers, scores in pairs]

    @torch.inference_mode()
    def _best(
        self,
        queries: Sequence[Query],
        k: int,
        exclude: Sequence[Collection[str]],
        boosted: Sequence[Collection[str]],
        bonus: float,
    ) -> TopPassages:
        """Of the passages held here, k columns wide or as many as the corpus has."""
        vectors = self.encoder.encode_queries(queries)
        order = sorted(range(len(queries)), key=lambda i: _lanes(vectors[i]))
        best = TopPassages.nothing(len(queries), min(k, len(self.corpus)), self.encoder.device)
        with progress("searching", len(queries), "queries") as bar:
            for picked in self._groups(order, vectors):
                scores = self._scores([vectors[i] for i in picked])
                for row, i in enumerate(picked):
                    if boosted:
                        scores[row, self._columns(boosted[i])] += bonus
                    if exclude:
                        scores[row, self._columns(exclude[i])] = -torch.inf
                best.take(picked, scores)
                bar.advance(len(picked))
        return TopPassages(best.numbers * self.processes.size + self.processes.rank, best.scores)

    def _columns(self, pids: Collection[str]) -> list[int]:
        """Where passages stand among those held here."""
        numbers = (self._number[pid] for pid in pids)
        return [number // self.processes.size for number in numbers if number in self._own]

    def _shared(self, best: TopPassages) -> TopPassages:
        """The best of all processes' best."""
        numbers, scores = map(self.processes.gather_columns, best)
        found = scores.topk(best.scores.shape[1], dim=1)
        return TopPassages(numbers.gather(1, found.indices).cpu(), found.values.cpu())

    def _groups(self, order: Sequence[int], vectors: Sequence[QueryVectors]) -> Iterator[tuple[int, ...]]:
        """Queries of like length, as many together as the budget allows: of their scores, and of their matches."""
        budget = SCORE_BUDGET[kind(self.encoder.device)]
        most = max((len(block.rows) for block in self.blocks), default=1)
        start, lanes = 0, 0
        for place, number in enumerate(order):
            lanes += _lanes(vectors[number])
            if place > start and max(lanes * most, (place + 1 - start) * len(self._own)) > budget:
                yield tuple(order[start:place])
                start, lanes = place, _lanes(vectors[number])
        yield tuple(order[start:])

    def _scores(self, queries: Sequence[QueryVectors]) -> Tensor:
        """Of every query with every passage held here: (Q, passages)."""
        device = self.encoder.device
        parts = [
            Lanes.of([getattr(query, part) for query in queries], device, self._stored_dtype)
            for part in ("query", "facts")
        ]
        scores = torch.full((len(queries), len(self._own)), -torch.inf, device=device)
        for block in self.blocks:
            terms = [
                focused_scores(lanes, block.vectors, keep)
                for lanes, keep in zip(parts, self.encoder.focus, strict=True)
            ]
            scores[:, block.rows] = terms[0] + terms[1]
        return scores

    def _ranking(self, numbers: Sequence[int], scores: Sequence[float]) -> Ranking:
        hits = [
            Hit(self.corpus.pids[number], score)
            for number, score in zip(numbers, scores, strict=True)
            if score > -np.inf
        ]
        if len(set(scores)) < len(scores):  # equals stand in the order of their pids
            hits.sort(key=lambda hit: (-hit.score, hit.pid))
        return Ranking(tuple(hits))


def _lanes(vectors: QueryVectors) -> int:
    return len(vectors.query) + len(vectors.facts)


def _chunks(passages: Iterable[Passage], size: int) -> Iterator[list[Passage]]:
    source = iter(passages)
    while chunk := list(islice(source, size)):
        yield chunk


class MiningIndex:
    """One haystack for each collection, encoded when it is first asked; a query is ranked in that of its own."""

    def __init__(
        self,
        encoder: Encoder,
        corpora: Mapping[str, TokenisedCorpus],
        processes: Processes | None = None,
        clock: StageTimer | None = None,
    ) -> None:
        self._encoder, self._corpora, self._processes, self._clock = encoder, corpora, processes, clock
        self._stacks: dict[str, ExactIndex] = {}

    def rank(
        self,
        queries: Sequence[Query],
        collections: Sequence[str],
        k: int,
        exclude: Sequence[Collection[str]] = (),
        *,
        boosted: Sequence[Collection[str]] = (),
        bonus: float = 0.0,
    ) -> list[Ranking]:
        """The k best passages of each query in its collection; see `Haystack.rank`."""
        found: dict[int, Ranking] = {}
        for name in dict.fromkeys(collections):
            places = [place for place, own in enumerate(collections) if own == name]
            without, raised = ([pids[place] for place in places] if pids else () for pids in (exclude, boosted))
            asked = [queries[place] for place in places]
            rankings = self._stack(name).rank(asked, k, without, boosted=raised, bonus=bonus)
            found.update(zip(places, rankings, strict=True))
        return [found[place] for place in range(len(queries))]

    def _stack(self, name: str) -> ExactIndex:
        if name not in self._stacks:
            self._stacks[name] = ExactIndex(self._encoder, self._corpora[name], self._processes, self._clock)
        return self._stacks[name]


class TokenisedCorpora(dict[str, TokenisedCorpus]):
    """The tokens of every collection of a world."""

    @cached_property
    def by_pid(self) -> dict[str, npt.NDArray[np.int32]]:
        """Of every passage."""
        return {pid: ids for corpus in self.values() for pid, ids in zip(corpus.pids, corpus.ids, strict=True)}

    @classmethod
    def of(cls, inputs: RetrieverInputs, data: TrainingData) -> Self:
        return cls(
            {name: TokenisedCorpus.of(inputs, (data.passages[pid] for pid in pids)) for name, pids in data.pids.items()}
        )
