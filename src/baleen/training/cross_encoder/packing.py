"""Two ways to send sequences of unequal length through a cross-encoder, with the same scores at the end.

    Grouped     groups of like length, each padded to its longest: works with every backbone
    Packed      all sequences in one row of tokens, none of which sees another's: one pass, and no padding

layouts.py has the same for retrievers, and says why.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Self

import numpy as np
import torch
from torch import Tensor

from baleen.models.cross_encoder import CrossModel
from baleen.models.packing import PackedTexts, attending_within
from baleen.models.pairs import CrossBatch, CrossInput, CrossInputs
from baleen.models.tokens import move_tensors, to_device
from baleen.training.packing import first_position, grouped, packs


@dataclass(frozen=True, eq=False)
class Grouped:
    """The places of all `groups`, end to end, hold the i-th place of the sequences in order at `order[i]` (P,) int64."""

    groups: tuple[CrossBatch, ...]
    order: Tensor

    @classmethod
    def of(cls, inputs: CrossInputs, rows: Sequence[CrossInput], most_padding: float) -> Self:
        """In as few groups as keep the padding below the share `most_padding`."""
        picked = grouped([len(row) for row in rows], most_padding)
        edges = [0, *accumulate(len(row.places) for row in rows)]
        laid = np.concatenate([np.arange(edges[i], edges[i + 1]) for group in picked for i in group])
        groups = tuple(inputs.batch([rows[i] for i in group]) for group in picked)
        return cls(groups, torch.from_numpy(np.argsort(laid)))

    @property
    def slots(self) -> int:
        return sum(group.ids.numel() for group in self.groups)

    def to(self, device: torch.device) -> Self:
        groups = tuple(group.to(device) for group in self.groups)
        return dataclasses.replace(self, groups=groups, order=to_device(self.order, device))

    def scores(self, model: CrossModel, head: str) -> Tensor:
        return torch.cat([model(head, group) for group in self.groups]).index_select(0, self.order)


@dataclass(frozen=True, eq=False)
class Packed:
    """All sequences end to end: `ids`, `types`, `positions` (1, T) int64, and the `texts` that they are.

    `places` (P,) int64 says where each place that is read stands in the row.
    """

    ids: Tensor
    types: Tensor
    positions: Tensor
    places: Tensor
    texts: PackedTexts

    @classmethod
    def of(cls, rows: Sequence[CrossInput]) -> Self:
        lengths = [len(row) for row in rows]
        texts, starts = PackedTexts.of(lengths), [0, *accumulate(lengths)]
        ids = np.fromiter(chain.from_iterable(row.ids for row in rows), np.int64, starts[-1])
        positions = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)
        types = (positions >= np.repeat([row.right for row in rows], lengths)).astype(np.int64)
        places = [start + place for start, row in zip(starts, rows, strict=False) for place in row.places]
        laid = [torch.from_numpy(array).unsqueeze(0) for array in (ids, types, positions)]
        return cls(laid[0], laid[1], laid[2], torch.tensor(places), texts)

    @property
    def slots(self) -> int:
        return self.ids.numel()

    def to(self, device: torch.device) -> Self:
        return dataclasses.replace(self, **move_tensors(self, device), texts=self.texts.to(device))

    def scores(self, model: CrossModel, head: str) -> Tensor:
        positions = self.positions + first_position(model.backbone)
        with attending_within(model.backbone, self.texts):
            hidden = model.encode(self.ids, self.types, position_ids=positions)
        return model.apply_head(head, hidden.squeeze(0).index_select(0, self.places))


def can_pack(model: CrossModel, inputs: CrossInputs) -> bool:
    """Whether the backbone gives packed sequences the scores that it gives them alone: tried, as no property tells."""
    rows = [CrossInput(list(range(5, 5 + size)), 2, list(range(size)), list(range(size))) for size in (9, 3, 7)]
    device, head = next(model.parameters()).device, next(iter(model.heads))
    apart, packed = Grouped.of(inputs, rows, 0.0).to(device), Packed.of(rows).to(device)
    return packs(model, lambda: [apart.scores(model, head)], lambda: [packed.scores(model, head)])
