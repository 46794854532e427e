"""Token rows of queries and passages, tokenised once, and padded batches of them.

`RetrieverInputs` builds batches from lists, which is too slow to repeat at every step; these rows are arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from baleen.core.errors import TrainingError
from baleen.core.types import Lookup, Passage, Query
from baleen.models.tokens import PassageBatch, QueryBatch, RetrieverInputs

Ids = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Row:
    """Token ids of one text, a flag per token, and for a query the number of `claim` tokens (the rest are facts)."""

    ids: Ids
    flags: Flags
    claim: int = 0

    @classmethod
    def of(cls, ids: Sequence[int], claim: int = 0) -> Self:
        return cls(np.array(ids, np.int32), np.ones(len(ids), bool), claim)

    @property
    def facts(self) -> int:
        return len(self.ids) - self.claim

    def __len__(self) -> int:
        return len(self.ids)


class PassageRows:
    """Rows of passages by pid; a flag marks a token whose vector is kept.

    `tokens` holds token ids that are known already, by pid.
    """

    def __init__(self, inputs: RetrieverInputs, passage: Lookup, tokens: Mapping[str, Ids] | None = None) -> None:
        self._inputs, self._passage, self._tokens = inputs, passage, tokens or {}
        self._rows: dict[str, Row] = {}

    def rows(self, pids: Sequence[str]) -> list[Row]:
        missing = [pid for pid in dict.fromkeys(pids) if pid not in self._rows]
        if missing:
            ids = self._ids(missing)
            keep = self._inputs.passage_batch(ids).keep.numpy()
            for pid, row, flags in zip(missing, ids, keep, strict=True):
                self._rows[pid] = Row(row, flags[: len(row)].copy())
        return [self._rows[pid] for pid in pids]

    def _ids(self, pids: Sequence[str]) -> list[Ids]:
        new = [pid for pid in pids if pid not in self._tokens]
        read = self._inputs.passage_ids([self._look_up(pid) for pid in new]) if new else []
        made = dict(zip(new, (np.array(ids, np.int32) for ids in read), strict=True))
        return [made[pid] if pid in made else self._tokens[pid] for pid in pids]

    def _look_up(self, pid: str) -> Passage:
        try:
            return self._passage(pid)
        except KeyError:
            raise TrainingError(f"there is no passage '{pid}': the records were made with another corpus") from None


class QueryRows:
    """Rows of queries by number; a flag marks a token that is attended to."""

    def __init__(self, inputs: RetrieverInputs, query: Callable[[int], Query]) -> None:
        self._inputs, self._query = inputs, query
        self._rows: dict[int, Row] = {}

    def rows(self, numbers: Sequence[int]) -> list[Row]:
        missing = [number for number in dict.fromkeys(numbers) if number not in self._rows]
        if missing:
            rows = self._inputs.query_ids([self._query(number) for number in missing])
            attention = self._inputs.query_batch(rows).attention.numpy()
            for number, row, flags in zip(missing, rows, attention, strict=True):
                ids = np.array(row.claim + row.facts, np.int32)
                self._rows[number] = Row(ids, flags[: len(row)].copy(), len(row.claim))
        return [self._rows[number] for number in numbers]


def passage_batch(rows: Sequence[Row], padding: int) -> PassageBatch:
    """Passages as one batch, padded with the token id `padding`."""
    ids, attention, keep = _padded(rows, padding)
    return PassageBatch(ids, attention, keep)


def query_batch(rows: Sequence[Row], padding: int) -> QueryBatch:
    """Queries as one batch, padded with the token id `padding`."""
    ids, _, attention = _padded(rows, padding)
    claims, facts = [row.claim for row in rows], [row.facts for row in rows]
    return QueryBatch(ids, attention, torch.tensor(claims), torch.tensor(facts), max(claims), max(facts))


def pad_token(inputs: RetrieverInputs) -> int:
    """Id of the padding token."""
    number = inputs.tokenizer.token_to_id(inputs.tokens.pad)
    assert number is not None
    return int(number)


def _padded(rows: Sequence[Row], padding: int) -> tuple[Tensor, Tensor, Tensor]:
    """Padded ids (B, T) int64, a mask of real tokens (B, T) bool, and the flags (B, T) bool."""
    shape = len(rows), max(map(len, rows))
    ids, real, flags = np.full(shape, padding), np.zeros(shape, bool), np.zeros(shape, bool)
    arrays: tuple[npt.NDArray[Any], ...] = ids, real, flags
    for place, row in enumerate(rows):
        for array, values in zip(arrays, (row.ids, True, row.flags), strict=True):
            array[place, : len(row)] = values
    return torch.from_numpy(ids), torch.from_numpy(real), torch.from_numpy(flags)
