"""Two ways to send texts of unequal length through FLIPR, with the same vectors at the end.

    Grouped     groups of like length, each padded to its longest: works with every backbone
    Packed      many texts in one row of tokens, none of which sees another's: one pass, and next to no padding

A pass costs a GPU's driver a fixed time for every layer, whatever its size, so that few large passes win there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize, pad

from baleen.flipr import FLIPR, EncodedPassages, EncodedQueries
from baleen.tokenization import PassageBatch, QueryBatch
from baleen.training.grouping import grouped
from baleen.training.token_rows import Row, passage_batch, query_batch

_MULTIPLE = 64  # of which a packed row's width is one
_NARROWEST = 256


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
    """R rows of T tokens, each text whole within a row.

    `ids` and `positions` (R, T) int64 are what the model reads; a token attends to those of its text (the same number
    in `texts`, 0 is padding) that are `seen` (R, T) bool.  `query` (B, N), `facts` (B, L) and `passages` (P, M) int64
    say where each vector stands in the rows put end to end, and their masks which of them there are.
    """

    ids: Tensor
    positions: Tensor
    texts: Tensor
    seen: Tensor
    query: Tensor
    query_mask: Tensor
    facts: Tensor
    facts_mask: Tensor
    passages: Tensor
    passage_mask: Tensor

    @classmethod
    def of(cls, queries: Sequence[Row], passages: Sequence[Row], padding: int) -> Self:
        rows = [*queries, *passages]
        width = -(-max(_NARROWEST, *map(len, rows)) // _MULTIPLE) * _MULTIPLE
        starts = packed([len(row) for row in rows], width)
        ids, positions, texts, seen = _filled(rows, starts, width, padding)
        count = len(queries)
        ends = [start + row.claim for start, row in zip(starts[:count], queries, strict=True)]
        query, query_mask = _indices(starts[:count], [row.claim for row in queries])
        facts, facts_mask = _indices(ends, [row.facts for row in queries])
        found, passage_mask = _indices(starts[count:], [len(row) for row in passages])
        passage_mask[passage_mask.clone()] = torch.from_numpy(np.concatenate([row.flags for row in passages]))
        return cls(ids, positions, texts, seen, query, query_mask, facts, facts_mask, found, passage_mask)

    @property
    def slots(self) -> int:
        return self.ids.numel()

    def to(self, device: torch.device) -> Self:
        return dataclasses.replace(self, **_moved(self, device))

    def encode(self, model: FLIPR) -> tuple[EncodedQueries, EncodedPassages]:
        vectors = self._vectors(model).flatten(0, 1)  # (R * T, d)
        query, facts, passages = (_taken(vectors, index) for index in (self.query, self.facts, self.passages))
        return EncodedQueries(query, self.query_mask, facts, self.facts_mask), EncodedPassages(
            passages, self.passage_mask
        )

    def _vectors(self, model: FLIPR) -> Tensor:
        """As FLIPR makes them, with attention only within a text: (R, T, d)."""
        same = self.texts.unsqueeze(2) == self.texts.unsqueeze(1)  # (R, T, T)
        attention = (same & self.seen.unsqueeze(1)).unsqueeze(1)  # (R, 1, T, T)
        positions = self.positions + first_position(model.backbone)
        hidden = model.backbone(input_ids=self.ids, attention_mask=attention, position_ids=positions).last_hidden_state
        with torch.autocast(hidden.device.type, enabled=False):
            return normalize(linear(hidden.float(), model.projection.weight.float()), dim=-1)


def packed(lengths: Sequence[int], width: int) -> list[int]:
    """Where each of these lengths starts when they are put into rows of `width`: the first row with room, longest first."""
    room: list[int] = []
    starts = [0] * len(lengths)
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        row = next((row for row, left in enumerate(room) if left >= lengths[i]), len(room))
        if row == len(room):
            room.append(width)
        starts[i] = row * width + width - room[row]
        room[row] -= lengths[i]
    return starts


def _filled(rows: Sequence[Row], starts: Sequence[int], width: int, padding: int) -> tuple[Tensor, ...]:
    """`ids`, `positions`, `texts` and `seen` of `Packed`."""
    slots = (max(starts) // width + 1) * width
    ids, positions = np.full(slots, padding, np.int64), np.zeros(slots, np.int64)
    texts, seen, count = np.zeros(slots, np.int64), np.ones(slots, bool), np.arange(width)
    for number, (start, row) in enumerate(zip(starts, rows, strict=True), 1):
        part = slice(start, start + len(row))
        ids[part], positions[part], texts[part] = row.ids, count[: len(row)], number
        if row.claim:
            seen[part] = row.flags
    return tuple(torch.from_numpy(array).view(-1, width) for array in (ids, positions, texts, seen))


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
    device, training = next(model.parameters()).device, model.training
    model.eval()
    try:
        with torch.no_grad():
            apart = Grouped.of(rows[:2], rows[2:], padding, 0.0).to(device).encode(model)
            together = Packed.of(rows[:2], rows[2:], padding).to(device).encode(model)
    except (TypeError, ValueError, RuntimeError, IndexError):  # what backbones say to arguments that they do not know
        return False
    finally:
        model.train(training)
    pairs = zip(
        (*_tensors(apart[0]), *_tensors(apart[1])), (*_tensors(together[0]), *_tensors(together[1])), strict=True
    )
    return all(_same(one, other) for one, other in pairs)


def _tensors(encoded: EncodedQueries | EncodedPassages) -> list[tuple[Tensor, Tensor]]:
    if isinstance(encoded, EncodedPassages):
        return [(encoded.vectors, encoded.mask)]
    return [(encoded.query, encoded.query_mask), (encoded.facts, encoded.facts_mask)]


def _same(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> bool:
    return torch.equal(one[1], other[1]) and torch.allclose(one[0][one[1]], other[0][other[1]], atol=1e-3)


def _moved(layout: Grouped | Packed, device: torch.device) -> dict[str, Any]:
    return {field.name: _on(getattr(layout, field.name), device) for field in dataclasses.fields(layout)}


def _on(value: Any, device: torch.device) -> Any:
    return tuple(part.to(device) for part in value) if isinstance(value, tuple) else value.to(device, non_blocking=True)
