"""A whole corpus in a device's memory, searched exactly: where training finds its positives and negatives.

    corpus = TokenisedCorpus.of(encoder.inputs, passages)       once: the tokens stay the same while encoders change
    haystack = Haystack(encoder, corpus)                        after each retriever
    haystack.rank(queries, 1000)

There is nothing to compress and nothing to write, so that a retriever's corpus is ready in the time of encoding it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from baleen.batching import token_batches
from baleen.devices import inference
from baleen.encoder import Encoder
from baleen.progress import progress
from baleen.tokenization import InputMaker
from baleen.training.maxsim import Lanes, focused_scores, kind
from baleen.types import Hit, Passage, Query, Ranking
from baleen.vectors import QueryVectors

CHUNK = 4096  # passages tokenised at once
QUERIES_AT_ONCE = {"cpu": 32, "gpu": 256}  # that are encoded together
SCORE_BUDGET = {"cpu": 2**28, "gpu": 2**30}  # scores, and matches, that are held at once by the queries of one search


@dataclass(frozen=True, eq=False)
class TokenisedCorpus:
    """Passages by number: their pids, and their tokens as the passage encoder reads them."""

    pids: Sequence[str]
    ids: Sequence[npt.NDArray[np.int32]]

    @classmethod
    def of(cls, inputs: InputMaker, passages: Iterable[Passage]) -> Self:
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
class Block:
    """Passages of like length: their numbers (P,), and their vectors (P, M, d) in float16.

    Where a passage has fewer than M vectors that count, its first one is repeated, which changes no maximum.
    """

    rows: Tensor
    vectors: Tensor


class Haystack:
    """Every passage's vectors by one encoder, on its device."""

    def __init__(self, encoder: Encoder, corpus: TokenisedCorpus) -> None:
        self.encoder, self.corpus = encoder, corpus
        self._number = {pid: row for row, pid in enumerate(corpus.pids)}
        self._half = torch.float16 if encoder.device.type == "cuda" else torch.float32
        with inference(encoder.model, encoder.dtype), progress("encoding", len(corpus), "passages") as bar:
            self.blocks = []
            for rows in token_batches(corpus.ids, encoder.batch_tokens):
                self.blocks.append(self._encode(rows))
                bar.advance(len(rows))

    def _encode(self, rows: list[int]) -> Block:
        batch = self.encoder.inputs.passage_batch([self.corpus.ids[row] for row in rows])
        encoded = self.encoder.model.forward_passages(batch.to(self.encoder.device))
        vectors = torch.where(encoded.mask.unsqueeze(2), encoded.vectors, encoded.vectors[:, :1])
        return Block(torch.tensor(rows, device=self.encoder.device), vectors.to(self._half))

    def rank(self, queries: Sequence[Query], k: int, exclude: Sequence[Collection[str]] = ()) -> list[Ranking]:
        """The k best passages of each query, best first, without those that `exclude` names for it."""
        vectors = self.encoder.encode_queries(queries, QUERIES_AT_ONCE[kind(self.encoder.device)])
        order = sorted(range(len(queries)), key=lambda i: _lanes(vectors[i]))
        found: dict[int, Ranking] = {}
        with progress("searching", len(queries), "queries") as bar:
            for picked in self._groups(order, vectors):
                excluded = [[self._number[pid] for pid in exclude[i]] if exclude else [] for i in picked]
                rankings = self._rank([vectors[i] for i in picked], k, excluded)
                found.update(zip(picked, rankings, strict=True))
                bar.advance(len(picked))
        return [found[i] for i in range(len(queries))]

    def _groups(self, order: Sequence[int], vectors: Sequence[QueryVectors]) -> Iterator[tuple[int, ...]]:
        """Queries of like length, as many together as the budget allows: of their scores, and of their matches."""
        if not order:
            return
        most, budget = max(len(block.rows) for block in self.blocks), SCORE_BUDGET[kind(self.encoder.device)]
        start, lanes = 0, 0
        for place, number in enumerate(order):
            lanes += _lanes(vectors[number])
            if place > start and max(lanes * most, (place + 1 - start) * len(self.corpus)) > budget:
                yield tuple(order[start:place])
                start, lanes = place, _lanes(vectors[number])
        yield tuple(order[start:])

    @torch.inference_mode()
    def _rank(self, queries: Sequence[QueryVectors], k: int, excluded: Sequence[Sequence[int]]) -> list[Ranking]:
        scores = self._scores(queries)
        for row, numbers in enumerate(excluded):
            scores[row, numbers] = -torch.inf
        best = scores.topk(min(k, scores.shape[1]), dim=1)
        return [
            self._ranking(*pair) for pair in zip(best.indices.cpu().tolist(), best.values.cpu().tolist(), strict=True)
        ]

    def _scores(self, queries: Sequence[QueryVectors]) -> Tensor:
        """Of every query with every passage: (Q, passages)."""
        device = self.encoder.device
        parts = [
            Lanes.of([getattr(query, part) for query in queries], device, self._half) for part in ("query", "facts")
        ]
        scores = torch.full((len(queries), len(self.corpus)), -torch.inf, device=device)
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
