"""Tokens of queries and passages, made once and laid out in batches fast enough for any GPU.

The batches are those of `InputMaker`, which lays lists out side by side: fine once, slow at every step.  layouts.py has
two ways to send such rows through a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from baleen.errors import TrainingError
from baleen.tokenization import InputMaker, PassageBatch, QueryBatch
from baleen.types import Lookup, Passage, Query

Ids = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Row:
    """One text: its `ids`, and a flag for each; of a query, how many of the ids are the `claim`'s."""

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
    """Passages by pid, each looked up and tokenised once; a flag says whether a token's vector is kept.

    `tokens`, by pid, are those that are known already.
    """

    def __init__(self, inputs: InputMaker, passage: Lookup, tokens: Mapping[str, Ids] | None = None) -> None:
        self._inputs, self._passage, self._tokens = inputs, passage, tokens or {}
        self._known: dict[str, Row] = {}

    def rows(self, pids: Sequence[str]) -> list[Row]:
        missing = [pid for pid in dict.fromkeys(pids) if pid not in self._known]
        if missing:
            ids = self._ids(missing)
            keep = self._inputs.passage_batch(ids).keep.numpy()
            for pid, row, flags in zip(missing, ids, keep, strict=True):
                self._known[pid] = Row(row, flags[: len(row)].copy())
        return [self._known[pid] for pid in pids]

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
    """Queries by number, each tokenised once; a flag says whether a token is attended to."""

    def __init__(self, inputs: InputMaker, query: Callable[[int], Query]) -> None:
        self._inputs, self._query = inputs, query
        self._known: dict[int, Row] = {}

    def rows(self, numbers: Sequence[int]) -> list[Row]:
        missing = [number for number in dict.fromkeys(numbers) if number not in self._known]
        if missing:
            rows = self._inputs.query_ids([self._query(number) for number in missing])
            attention = self._inputs.query_batch(rows).attention.numpy()
            for number, row, flags in zip(missing, rows, attention, strict=True):
                ids = np.array(row.claim + row.facts, np.int32)
                self._known[number] = Row(ids, flags[: len(row)].copy(), len(row.claim))
        return [self._known[number] for number in numbers]


def passage_batch(rows: Sequence[Row], padding: int) -> PassageBatch:
    """Passages side by side, filled up with the token `padding`."""
    ids, attention, keep = _laid_out(rows, padding)
    return PassageBatch(ids, attention, keep)


def query_batch(rows: Sequence[Row], padding: int) -> QueryBatch:
    """Queries side by side, filled up with the token `padding`."""
    ids, _, attention = _laid_out(rows, padding)
    claims, facts = [row.claim for row in rows], [row.facts for row in rows]
    return QueryBatch(ids, attention, torch.tensor(claims), torch.tensor(facts), max(claims), max(facts))


def pad_token(inputs: InputMaker) -> int:
    """The id of what rows are filled up with."""
    number = inputs.tokenizer.token_to_id(inputs.tokens.pad)
    assert number is not None
    return int(number)


def _laid_out(rows: Sequence[Row], padding: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows side by side: ids (B, T) int64 filled up with `padding`, what is no padding (B, T) bool, flags (B, T) bool."""
    shape = len(rows), max(map(len, rows))
    ids, filled, flags = np.full(shape, padding), np.zeros(shape, bool), np.zeros(shape, bool)
    arrays: tuple[npt.NDArray[Any], ...] = ids, filled, flags
    for place, row in enumerate(rows):
        for array, values in zip(arrays, (row.ids, True, row.flags), strict=True):
            array[place, : len(row)] = values
    return torch.from_numpy(ids), torch.from_numpy(filled), torch.from_numpy(flags)
