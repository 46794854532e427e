"""Batches of retriever training: queries, each with a positive passage and drawn negatives.

Little of a batch is padding (see packing.py), and a passage that several queries share is encoded once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from baleen.core.errors import ConfigError, TrainingError
from baleen.core.types import Lookup
from baleen.models.tokens import RetrieverInputs, move_tensors
from baleen.training.hop_order.supervision import Supervised
from baleen.training.loop.logs import Load
from baleen.training.loop.sampling import WHOLE_BATCH, Order, Part, Weights, record_weights
from baleen.training.packing import RetrieverGroups, RetrieverPack
from baleen.training.retriever.rows import Ids, PassageRows, QueryRows, Row, pad_token


@dataclass(frozen=True)
class RetrieverTraining:
    """Settings of retriever training; the defaults are the paper's.

    negatives       passages drawn for each query besides its positive
    in_batch        also use the passages of the other queries of the batch (of the same process and pass) as negatives
    temperature     divisor of scores
    packing         put many texts into one row (None: on a GPU, if the backbone supports it)
    most_padding    largest share of padding without packing
    """

    negatives: int = 1
    in_batch: bool = False
    temperature: float = 1.0
    packing: bool | None = None
    most_padding: float = 0.125

    def __post_init__(self) -> None:
        if self.negatives < 0 or (self.negatives == 0 and not self.in_batch):
            raise ConfigError(f"negatives = {self.negatives}, which should be at least 1, or 0 with in_batch")
        if self.temperature <= 0:
            raise ConfigError(f"temperature = {self.temperature}, which should be above 0")
        if not 0 <= self.most_padding < 1:
            raise ConfigError(f"most_padding = {self.most_padding}, which should be a share below 1")


@dataclass(frozen=True, eq=False)
class RetrieverBatch:
    """B queries and P passages, collated as `texts`.

    `columns` (B, 1 + n) has each query's passages, its positive first.  `forbidden` (B, P) bool marks other positives of
    its question, which are no negatives.
    """

    texts: RetrieverGroups | RetrieverPack
    columns: Tensor
    forbidden: Tensor
    load: Load

    def to(self, device: torch.device) -> Self:
        return dataclasses.replace(self, **move_tensors(self, device), texts=self.texts.to(device))


class RetrieverBatches:
    """Batches of `records`, drawn by `seed`; `passage` finds a passage by its pid.

    `weights` by qid set how often the records of a question are drawn.  `tokens` are known tokens of passages, by pid.
    `packing` makes each batch a `RetrieverPack`.
    """

    def __init__(
        self,
        inputs: RetrieverInputs,
        records: Sequence[Supervised],
        passage: Lookup,
        config: RetrieverTraining,
        *,
        batch_size: int,
        seed: int,
        packing: bool = False,
        weights: Weights | None = None,
        tokens: Mapping[str, Ids] | None = None,
    ) -> None:
        _check(records, config)
        self._packing, self._pad = packing, pad_token(inputs)
        self._records, self._config = records, config
        self._order = Order(len(records), batch_size, seed, record_weights(records, weights))
        self._queries = QueryRows(inputs, lambda row: records[row].query)
        self._passages = PassageRows(inputs, passage, tokens)
        self._gold: dict[str, set[str]] = {}
        for record in records:
            self._gold.setdefault(record.qid, set()).update(record.positives)

    def batch(self, step: int, part: Part = WHOLE_BATCH) -> RetrieverBatch:
        places = self._order.places(step, part)
        rows = [self._order.row(place) for place in places]
        records = [self._records[row] for row in rows]
        drawn = [self._draw(record, place) for record, place in zip(records, places, strict=True)]
        pids = list(dict.fromkeys(pid for chosen in drawn for pid in chosen))
        number = {pid: column for column, pid in enumerate(pids)}
        columns = torch.tensor([[number[pid] for pid in chosen] for chosen in drawn])
        texts = [*self._queries.rows(rows), *self._passages.rows(pids)]
        collated = self._collate(texts[: len(rows)], texts[len(rows) :])
        return RetrieverBatch(
            collated,
            columns,
            self._forbidden(records, pids, columns),
            Load(len(rows), sum(map(len, texts)), collated.slots, sum(len(text) ** 2 for text in texts)),
        )

    def _collate(self, queries: Sequence[Row], passages: Sequence[Row]) -> RetrieverGroups | RetrieverPack:
        if self._packing:
            return RetrieverPack.of(queries, passages)
        return RetrieverGroups.of(queries, passages, self._pad, self._config.most_padding)

    def _draw(self, record: Supervised, place: int) -> list[str]:
        """One of the record's positives and some of its negatives, with repetition if there are too few."""
        rng = self._order.rng(place)
        positive = record.positives[rng.integers(len(record.positives))]
        if not self._config.negatives:
            return [positive]
        few = len(record.negatives) < self._config.negatives
        picked = rng.choice(len(record.negatives), self._config.negatives, replace=few)
        return [positive, *(record.negatives[i] for i in picked)]

    def _forbidden(self, records: Sequence[Supervised], pids: Sequence[str], columns: Tensor) -> Tensor:
        gold = torch.tensor([[pid in self._gold[record.qid] for pid in pids] for record in records])
        return gold.scatter(1, columns[:, :1], False)


def _check(records: Iterable[Supervised], config: RetrieverTraining) -> None:
    for record in records:
        lacking = "positives" if not record.positives else "negatives"
        if not record.positives or (config.negatives and not record.negatives):
            raise TrainingError(f"query '{record.qid}' has no {lacking} at hop {record.hop}: leave such records out")
