"""Exact search over whole corpora in device memory: the source of positives and negatives in training.

    corpus = TokenisedCorpus.of(encoder.inputs, passages)       once: all encoders of a run share the tokens
    index = ExactIndex(encoder, corpus)                         after each training of an encoder
    index.rank(queries, 1000)

    TokenisedCorpora        the corpora of all collections
    MiningIndex             an ExactIndex for each collection
    RetrieverIndexes        the MiningIndex of one retriever of a run after another

Vectors are neither compressed nor written, so a corpus is searchable as soon as it is encoded.  Several processes share
the work: each encodes and searches a part, and all of them get the merged rankings.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from baleen.core.machine import StageTimer
from baleen.core.parallel import chunks
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
SCORE_BUDGET = {"cpu": 2**28, "gpu": 2**30}  # scores, and matches, in memory for the queries of one search


@dataclass(frozen=True, eq=False)
class TokenisedCorpus:
    """Pids and tokens of passages, in the order of their numbers."""

    pids: Sequence[str]
    ids: Sequence[npt.NDArray[np.int32]]

    @classmethod
    def of(cls, inputs: RetrieverInputs, passages: Iterable[Passage]) -> Self:
        pids: list[str] = []
        ids: list[npt.NDArray[np.int32]] = []
        with progress("tokenising", unit="passages") as bar:
            for chunk in chunks(passages, CHUNK):
                pids += [passage.pid for passage in chunk]
                ids += [np.array(row, np.int32) for row in inputs.passage_ids(chunk)]
                bar.advance(len(chunk))
        return cls(pids, ids)

    def __len__(self) -> int:
        return len(self.pids)


@dataclass(frozen=True, eq=False)
class PassageBlock:
    """Passages of similar length: their numbers (P,) and vectors (P, M, d), in float16 on a GPU.

    A passage with fewer than M vectors repeats its first one, which changes no maximum.
    """

    rows: Tensor
    vectors: Tensor


class TopPassages(NamedTuple):
    """Numbers of the best passages of each query (Q, k) int64, and their scores (Q, k); -inf marks an empty place."""

    numbers: Tensor
    scores: Tensor

    @classmethod
    def empty(cls, queries: int, width: int, device: torch.device) -> Self:
        numbers = torch.zeros(queries, width, dtype=torch.int64, device=device)
        return cls(numbers, torch.full((queries, width), -torch.inf, device=device))

    def fill(self, rows: Sequence[int], scores: Tensor) -> None:
        """Fill in the best of all columns for these rows."""
        width = min(self.scores.shape[1], scores.shape[1])
        found, where = scores.topk(width, dim=1), torch.tensor(rows, device=scores.device)
        self.numbers[where, :width], self.scores[where, :width] = found.indices, found.values


class ExactIndex:
    """All passages as one encoder's vectors, on its device; each of several processes holds a share.

    `clock` records the seconds of encoding and of searching.
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
            self.blocks = self._encode_all()

    def _encode_all(self) -> list[PassageBlock]:
        encoder, blocks = self.encoder, []
        ids = [self.corpus.ids[number] for number in self._own]
        with inference(encoder.model, encoder.dtype), progress("encoding", len(ids), "passages") as bar:
            for rows in token_batches(ids, encoder.batch_tokens):
                blocks.append(self._encode_block(rows, [ids[row] for row in rows]))
                bar.advance(len(rows))
        if encoder.device.type == "cuda":
            torch.cuda.synchronize(encoder.device)
        return blocks

    def _encode_block(self, rows: list[int], ids: Sequence[npt.NDArray[np.int32]]) -> PassageBlock:
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
        boost: float = 0.0,
    ) -> list[Ranking]:
        """The k best passages of each query, best first.

        `exclude` and `boosted` have pids for each query: the first are left out, the scores of the second get `boost`
        added.
        """
        if not queries:
            return []
        with self.clock("search"):
            best = self._merge(self._best(queries, k, exclude, boosted, boost))
            pairs = zip(best.numbers.tolist(), best.scores.tolist(), strict=True)
            return [self._ranking(numbers, scores) for numbers, scores in pairs]

    @torch.inference_mode()
    def _best(
        self,
        queries: Sequence[Query],
        k: int,
        exclude: Sequence[Collection[str]],
        boosted: Sequence[Collection[str]],
        boost: float,
    ) -> TopPassages:
        """The best of this process's passages: k columns, or as many as the corpus has passages."""
        vectors = self.encoder.encode_queries(queries)
        order = sorted(range(len(queries)), key=lambda i: _lanes(vectors[i]))
        best = TopPassages.empty(len(queries), min(k, len(self.corpus)), self.encoder.device)
        with progress("searching", len(queries), "queries") as bar:
            for picked in self._groups(order, vectors):
                scores = self._scores([vectors[i] for i in picked])
                for row, i in enumerate(picked):
                    if boosted:
                        scores[row, self._columns(boosted[i])] += boost
                    if exclude:
                        scores[row, self._columns(exclude[i])] = -torch.inf
                best.fill(picked, scores)
                bar.advance(len(picked))
        return TopPassages(best.numbers * self.processes.size + self.processes.rank, best.scores)

    def _columns(self, pids: Collection[str]) -> list[int]:
        """Columns of the passages that this process holds."""
        numbers = (self._number[pid] for pid in pids)
        return [number // self.processes.size for number in numbers if number in self._own]

    def _merge(self, best: TopPassages) -> TopPassages:
        """The best of all processes."""
        numbers, scores = map(self.processes.gather_columns, best)
        found = scores.topk(best.scores.shape[1], dim=1)
        return TopPassages(numbers.gather(1, found.indices).cpu(), found.values.cpu())

    def _groups(self, order: Sequence[int], vectors: Sequence[QueryVectors]) -> Iterator[tuple[int, ...]]:
        """Queries of similar length, as many together as the budget for scores and matches allows."""
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
        """Scores of every query with every passage of this process: (Q, passages)."""
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
        if len(set(scores)) < len(scores):  # ties are in the order of pids
            hits.sort(key=lambda hit: (-hit.score, hit.pid))
        return Ranking(tuple(hits))


def _lanes(vectors: QueryVectors) -> int:
    return len(vectors.query) + len(vectors.facts)


class MiningIndex:
    """An exact index for each collection, encoded at its first search; a query is ranked in its own collection."""

    def __init__(
        self,
        encoder: Encoder,
        corpora: Mapping[str, TokenisedCorpus],
        processes: Processes | None = None,
        clock: StageTimer | None = None,
    ) -> None:
        self._encoder, self._corpora, self._processes, self._clock = encoder, corpora, processes, clock
        self._indexes: dict[str, ExactIndex] = {}

    def rank(
        self,
        queries: Sequence[Query],
        collections: Sequence[str],
        k: int,
        exclude: Sequence[Collection[str]] = (),
        *,
        boosted: Sequence[Collection[str]] = (),
        boost: float = 0.0,
    ) -> list[Ranking]:
        """The k best passages of each query in its collection; see `ExactIndex.rank`."""
        found: dict[int, Ranking] = {}
        for name in dict.fromkeys(collections):
            places = [place for place, own in enumerate(collections) if own == name]
            own_exclude, own_boosted = ([pids[at] for at in places] if pids else () for pids in (exclude, boosted))
            own_queries = [queries[place] for place in places]
            rankings = self._index(name).rank(own_queries, k, own_exclude, boosted=own_boosted, boost=boost)
            found.update(zip(places, rankings, strict=True))
        return [found[place] for place in range(len(queries))]

    def _index(self, name: str) -> ExactIndex:
        if name not in self._indexes:
            self._indexes[name] = ExactIndex(self._encoder, self._corpora[name], self._processes, self._clock)
        return self._indexes[name]


class TokenisedCorpora(dict[str, TokenisedCorpus]):
    """The tokens of every collection."""

    @cached_property
    def by_pid(self) -> dict[str, npt.NDArray[np.int32]]:
        """The tokens of every passage."""
        return {pid: ids for corpus in self.values() for pid, ids in zip(corpus.pids, corpus.ids, strict=True)}

    @classmethod
    def of(cls, inputs: RetrieverInputs, data: TrainingData) -> Self:
        return cls(
            {name: TokenisedCorpus.of(inputs, (data.passages[pid] for pid in pids)) for name, pids in data.pids.items()}
        )


class RetrieverIndexes:
    """The mining index of one stage's retriever at a time, and the seconds spent on it.

    `load` loads the retriever of a stage.  The retrievers of all stages read text as the one of `first` does.
    """

    def __init__(
        self, load: Callable[[str], Encoder], first: str, data: TrainingData, processes: Processes | None = None
    ) -> None:
        self._load, self._first, self._data, self._processes = load, first, data, processes
        self._kept: tuple[str, MiningIndex] | None = None
        self._clock = StageTimer(1)

    @cached_property
    def corpora(self) -> TokenisedCorpora:
        inputs = self._load(self._first).inputs
        with self._clock("tokenise"):
            return TokenisedCorpora.of(inputs, self._data)

    def of(self, stage: str) -> MiningIndex:
        """The index of a stage's retriever, kept until that of another stage is asked for."""
        if self._kept is None or self._kept[0] != stage:
            self.release()
            self._kept = stage, MiningIndex(self._load(stage), self.corpora, self._processes, self._clock)
        return self._kept[1]

    def release(self) -> None:
        """Free the memory of the encoded corpora, before a training."""
        self._kept = None
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def seconds(self) -> dict[str, float]:
        """Seconds of tokenising, encoding and searching since the last call."""
        spent = {part: round(seconds, 2) for part, seconds in self._clock.seconds.items()}
        self._clock.seconds.clear()
        return spent
