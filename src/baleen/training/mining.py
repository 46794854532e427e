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
from baleen.tokenization import InputMaker, padded
from baleen.types import Hit, Passage, Query, Ranking
from baleen.vectors import QueryVectors

CHUNK = 4096  # passages tokenised at once
LOWEST = -1.01  # below every cosine, rounded as they are
HALVINGS = 14
SCORE_BUDGET = 2**29  # similarities that are held at once; sets how many queries are searched together


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
        vectors = self.encoder.encode_queries(queries)
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
        """Queries of like length, as many together as the budget allows for the longest of them."""
        if not order:
            return
        widest = max(block.vectors.shape[0] * block.vectors.shape[1] for block in self.blocks)
        start = 0
        while start < len(order):
            stop = start + 1
            while stop < len(order) and (stop + 1 - start) * _lanes(vectors[order[stop]]) * widest <= SCORE_BUDGET:
                stop += 1
            yield tuple(order[start:stop])
            start = stop

    @torch.inference_mode()
    def _rank(self, queries: Sequence[QueryVectors], k: int, excluded: Sequence[Sequence[int]]) -> list[Ranking]:
        parts = [self._lanes([getattr(query, part) for query in queries]) for part in ("query", "facts")]
        scores = torch.full((len(queries), len(self.corpus)), -torch.inf, device=self.encoder.device)
        for block in self.blocks:
            total = sum(
                self._score(lanes, mask, block, keep)
                for (lanes, mask), keep in zip(parts, self.encoder.focus, strict=True)
            )
            scores[:, block.rows] = total
        for row, numbers in enumerate(excluded):
            scores[row, numbers] = -torch.inf
        best = scores.topk(min(k, scores.shape[1]), dim=1)
        return [
            self._ranking(*pair) for pair in zip(best.indices.cpu().tolist(), best.values.cpu().tolist(), strict=True)
        ]

    def _ranking(self, numbers: Sequence[int], scores: Sequence[float]) -> Ranking:
        hits = [
            Hit(self.corpus.pids[number], score)
            for number, score in zip(numbers, scores, strict=True)
            if score > -np.inf
        ]
        return Ranking(tuple(sorted(hits, key=lambda hit: (-hit.score, hit.pid))))

    def _lanes(self, vectors: Sequence[npt.NDArray[np.float32]]) -> tuple[Tensor, Tensor]:
        """Vectors of several queries side by side: (Q, N, d), and (Q, N) bool for those that are real."""
        width = max(map(len, vectors))
        lanes = torch.zeros(len(vectors), width, self.encoder.dim)
        for row, own in enumerate(vectors):
            lanes[row, : len(own)] = torch.from_numpy(own)
        mask = padded([[True] * len(own) + [False] * (width - len(own)) for own in vectors], False).bool()
        return lanes.to(self.encoder.device, self._half), mask.to(self.encoder.device)

    def _score(self, lanes: Tensor, mask: Tensor, block: Block, keep: int | None) -> Tensor:
        """One term of the focused score, of every query with every passage of a block: (Q, P)."""
        queries, width, dim = lanes.shape
        passages, tokens, _ = block.vectors.shape
        if not width:
            return torch.zeros(queries, passages, device=lanes.device)
        similarity = lanes.reshape(-1, dim) @ block.vectors.reshape(-1, dim).T  # (Q * N, P * M)
        matches = similarity.view(queries, width, passages, tokens).amax(dim=3).float()  # (Q, N, P)
        return sum_of_largest(matches, mask, keep)


def sum_of_largest(matches: Tensor, mask: Tensor, keep: int | None) -> Tensor:
    """The sum of the `keep` largest valid similarities of each column: (Q, N, P), (Q, N) bool -> (Q, P).

    What `scoring.focus` gives, to a thousandth and without sorting: the sum of the k largest is the least value over t of
    `k t + sum(max(x - t, 0))`, and where fewer than k are larger than t, t is too high.
    """
    count = mask.sum(dim=1, keepdim=True).float()  # (Q, 1)
    if keep is None or keep >= matches.shape[1]:
        return torch.where(mask.unsqueeze(2), matches, 0.0).sum(dim=1)
    wanted = count.clamp(max=keep)
    valid = matches.masked_fill(~mask.unsqueeze(2), LOWEST)
    low = torch.full((matches.shape[0], matches.shape[2]), LOWEST, device=matches.device)  # (Q, P)
    high = torch.full_like(low, -LOWEST)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        above = (valid > middle.unsqueeze(1)).sum(dim=1) >= wanted
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return wanted * low + (valid - low.unsqueeze(1)).clamp(min=0).sum(dim=1)


def _lanes(vectors: QueryVectors) -> int:
    return len(vectors.query) + len(vectors.facts)


def _chunks(passages: Iterable[Passage], size: int) -> Iterator[list[Passage]]:
    source = iter(passages)
    while chunk := list(islice(source, size)):
        yield chunk
