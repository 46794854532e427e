"""Rows of unequal length in few groups of like length: little padding, and few passes through a model.

Tokens of queries and passages, made once and laid out in batches fast enough for any GPU.

The batches are those of `InputMaker`, which lays lists out side by side: fine once, slow at every step.  layouts.py has
two ways to send such rows through a model.

Two ways to send texts of unequal length through FLIPR, with the same vectors at the end.

    Grouped     groups of like length, each padded to its longest: works with every backbone
    Packed      all texts in one row of tokens, none of which sees another's: one pass, and no padding

A pass costs a GPU's driver a fixed time for every layer, whatever its size, so that few large passes win there.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize, pad

from baleen.core.errors import TrainingError
from baleen.core.types import Lookup, Passage, Query
from baleen.models.encoder import FLIPR, EncodedPassages, EncodedQueries
from baleen.models.packing import PackedTexts, attending_within
from baleen.models.tokens import PassageBatch, QueryBatch, RetrieverInputs, to_device

Numbers = npt.NDArray[np.int64]


def grouped(lengths: Sequence[int], most_padding: float) -> list[list[int]]:
    """The indices of rows of these lengths in the fewest groups that pad at most this share of their slots.

    A group is as wide as its longest row.  Rows of like length share a group, and the groups are the best that can be
    had of their number; a group is shorter than the one before it.
    """
    widths, counts = np.unique(np.asarray(lengths), return_counts=True)
    filled = np.concatenate([[0], np.cumsum(counts)])
    bounds = _bounds(widths, filled, most_padding)
    order = np.argsort(lengths, kind="stable")
    pieces = np.split(order, filled[bounds[1:-1]])
    return [piece.tolist() for piece in reversed(pieces)]


def _bounds(widths: Numbers, filled: Numbers, most_padding: float) -> list[int]:
    """Where to cut the sorted distinct widths: by dynamic programming over the number of groups.

    `filled[i]` rows are narrower than `widths[i]`.
    """
    kinds = len(widths)
    tokens = int((np.diff(filled) * widths).sum())
    sizes = (filled[None, 1:] - filled[:-1, None]) * widths[None, :]  # (from, to): slots of one group of those widths
    costs = np.where(np.tril(np.ones_like(sizes), -1), np.inf, sizes)
    best = costs[0]  # (to,): slots of the cheapest grouping that ends there
    cuts: list[Numbers] = []
    while best[-1] * (1 - most_padding) > tokens and len(cuts) < kinds:
        joined = np.concatenate([[np.inf], best[:-1]])[:, None] + costs  # (from, to): the last group starts at `from`
        cuts.append(joined.argmin(axis=0))
        best = joined.min(axis=0)
    bounds, end = [kinds], kinds
    for cut in reversed(cuts):
        end = int(cut[end - 1])
        bounds.append(end)
    return [0, *reversed(bounds)]


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

    def __init__(self, inputs: RetrieverInputs, passage: Lookup, tokens: Mapping[str, Ids] | None = None) -> None:
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

    def __init__(self, inputs: RetrieverInputs, query: Callable[[int], Query]) -> None:
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


def pad_token(inputs: RetrieverInputs) -> int:
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


log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Grouped:
    """Rows of the `queries` groups, end to end, hold query i at `query_places[i]` (B,); likewise passages, (P,)."""

    queries: tuple[QueryBatch, ...]
    query_places: Tensor
    passages: tuple[PassageBatch, ...]
    passage_places: Tensor

    @classmethod
    def of(cls, queries: Sequence[Row], passages: Sequence[Row], padding: int, most_padding: float) -> Self:
        """In as few groups as keep the padding below the share `most_padding`."""
        query_groups = grouped([len(row) for row in queries], most_padding)
        passage_groups = grouped([len(row) for row in passages], most_padding)
        return cls(
            tuple(query_batch([queries[i] for i in group], padding) for group in query_groups),
            _places(query_groups),
            tuple(passage_batch([passages[i] for i in group], padding) for group in passage_groups),
            _places(passage_groups),
        )

    @property
    def slots(self) -> int:
        groups: list[QueryBatch | PassageBatch] = [*self.queries, *self.passages]
        return sum(group.ids.numel() for group in groups)

    def to(self, device: torch.device) -> Self:
        return dataclasses.replace(self, **_moved(self, device))

    def encode(self, model: FLIPR) -> tuple[EncodedQueries, EncodedPassages]:
        queries = [model.forward_queries(group) for group in self.queries]
        passages = [model.forward_passages(group) for group in self.passages]
        return (
            EncodedQueries(
                _joined([group.query for group in queries], self.query_places),
                _joined([group.query_mask for group in queries], self.query_places),
                _joined([group.facts for group in queries], self.query_places),
                _joined([group.facts_mask for group in queries], self.query_places),
            ),
            EncodedPassages(
                _joined([group.vectors for group in passages], self.passage_places),
                _joined([group.mask for group in passages], self.passage_places),
            ),
        )


def _places(groups: Sequence[Sequence[int]]) -> Tensor:
    """Where each row stands when the groups are put end to end: (rows,) int64."""
    return torch.argsort(torch.tensor([row for group in groups for row in group]))


def _joined(parts: Sequence[Tensor], places: Tensor) -> Tensor:
    """Parts (b, m, ...) end to end, filled up with 0 to the widest m, and the rows at `places` taken from there."""
    width = max(part.shape[1] for part in parts)
    filled = [pad(part, [0, 0] * (part.dim() - 2) + [0, width - part.shape[1]]) for part in parts]
    return torch.cat(filled).index_select(0, places)


@dataclass(frozen=True, eq=False)
class Packed:
    """All queries and then all passages, end to end.

    `ids` and `positions` (1, T) int64 are what the model reads, made of `texts`.  `query` (B, N), `facts` (B, L) and
    `passages` (P, M) int64 say where each vector stands in the row, and their masks which of them there are.
    """

    ids: Tensor
    positions: Tensor
    texts: PackedTexts
    query: Tensor
    query_mask: Tensor
    facts: Tensor
    facts_mask: Tensor
    passages: Tensor
    passage_mask: Tensor

    @classmethod
    def of(cls, queries: Sequence[Row], passages: Sequence[Row]) -> Self:
        rows, count = [*queries, *passages], len(queries)
        lengths = [len(row) for row in rows]
        starts = [0, *accumulate(lengths)]
        ids = np.concatenate([row.ids for row in rows]).astype(np.int64)
        positions = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)
        seen = np.concatenate([row.flags if row.claim else np.ones(len(row), bool) for row in rows])
        ends = [start + row.claim for start, row in zip(starts, queries, strict=False)]
        query, query_mask = _indices(starts[:count], [row.claim for row in queries])
        facts, facts_mask = _indices(ends, [row.facts for row in queries])
        found, passage_mask = _indices(starts[count:-1], lengths[count:])
        passage_mask[passage_mask.clone()] = torch.from_numpy(np.concatenate([row.flags for row in passages]))
        texts = PackedTexts.of(lengths, seen)
        row, counted = (torch.from_numpy(array).unsqueeze(0) for array in (ids, positions))
        return cls(row, counted, texts, query, query_mask, facts, facts_mask, found, passage_mask)

    @property
    def slots(self) -> int:
        return self.ids.numel()

    def to(self, device: torch.device) -> Self:
        return dataclasses.replace(self, **_moved(self, device))

    def encode(self, model: FLIPR) -> tuple[EncodedQueries, EncodedPassages]:
        vectors = self._vectors(model)  # (T, d)
        query, facts, passages = (_taken(vectors, index) for index in (self.query, self.facts, self.passages))
        return EncodedQueries(query, self.query_mask, facts, self.facts_mask), EncodedPassages(
            passages, self.passage_mask
        )

    def _vectors(self, model: FLIPR) -> Tensor:
        """As FLIPR makes them, with attention only within a text: (T, d)."""
        positions = self.positions + first_position(model.backbone)
        with attending_within(model.backbone, self.texts):
            hidden = model.backbone(input_ids=self.ids, position_ids=positions).last_hidden_state.squeeze(0)
        with torch.autocast(hidden.device.type, enabled=False):
            return normalize(linear(hidden.float(), model.projection.weight.float()), dim=-1)


def _indices(starts: Sequence[int], lengths: Sequence[int]) -> tuple[Tensor, Tensor]:
    """(B, longest) int64 that count up from each start, 0 past its length; and (B, longest) bool up to there."""
    columns = torch.arange(max(lengths))
    mask = columns < torch.tensor(lengths).unsqueeze(1)
    return (torch.tensor(starts).unsqueeze(1) + columns) * mask, mask


def _taken(vectors: Tensor, index: Tensor) -> Tensor:
    return vectors.index_select(0, index.flatten()).view(*index.shape, vectors.shape[1])


def first_position(backbone: nn.Module) -> int:
    """The position of a text's first token: 0, or past the one that padding has, as RoBERTa counts."""
    for name, part in backbone.named_modules():
        if name.endswith("position_embeddings") and isinstance(part, nn.Embedding):
            return 0 if part.padding_idx is None else part.padding_idx + 1
    return 0


def can_pack(model: FLIPR, padding: int) -> bool:
    """Whether the backbone gives packed texts the vectors that it gives them alone: tried, as no property tells."""
    rows = [Row.of(list(range(5, 5 + length)), claim) for length, claim in ((7, 4), (3, 3), (9, 0), (4, 0))]
    device = next(model.parameters()).device
    apart = Grouped.of(rows[:2], rows[2:], padding, 0.0).to(device)
    packed = Packed.of(rows[:2], rows[2:]).to(device)
    return packs(model, lambda: _real(*apart.encode(model)), lambda: _real(*packed.encode(model)))


def _real(queries: EncodedQueries, passages: EncodedPassages) -> list[Tensor]:
    parts = [
        (queries.query, queries.query_mask),
        (queries.facts, queries.facts_mask),
        (passages.vectors, passages.mask),
    ]
    return [vectors[mask] for vectors, mask in parts]


def packs(model: nn.Module, apart: Callable[[], list[Tensor]], together: Callable[[], list[Tensor]]) -> bool:
    """Whether a model makes the same of texts both ways, in float32 and in bfloat16, for which it may have other kernels.

    Where a GPU has to do without, a warning says why.
    """
    device, training = next(model.parameters()).device, model.training
    model.eval()
    try:
        with torch.no_grad():
            off = _difference(apart(), together())
            with torch.autocast(device.type, torch.bfloat16):
                rounded = _difference(apart(), together())
    except (TypeError, ValueError, RuntimeError, IndexError) as error:  # what backbones say to what they do not know
        why = f"{type(error).__name__}: {error}"
    else:
        if off <= 1e-3 and rounded <= 0.05:
            return True
        why = f"what it makes of packed texts is off by {off:.2g}, in bfloat16 by {rounded:.2g}"
    finally:
        model.train(training)
    if device.type == "cuda":
        log.warning("texts are padded, not packed: %s", why)
    return False


def _difference(ones: Sequence[Tensor], others: Sequence[Tensor]) -> float:
    """The largest between any two numbers, as a share of the largest number, or of 1."""
    if [one.shape for one in ones] != [other.shape for other in others]:
        return math.inf
    pairs = [(one.float(), other.float()) for one, other in zip(ones, others, strict=True) if one.numel()]
    return max(float((one - other).abs().max() / one.abs().max().clamp(min=1)) for one, other in pairs)


def _moved(layout: Grouped | Packed, device: torch.device) -> dict[str, Any]:
    return {field.name: _on(getattr(layout, field.name), device) for field in dataclasses.fields(layout)}


def _on(value: Any, device: torch.device) -> Any:
    if isinstance(value, Tensor):
        return to_device(value, device)
    return tuple(part.to(device) for part in value) if isinstance(value, tuple) else value.to(device)
