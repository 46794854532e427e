"""Two ways to send sequences of unequal length through a cross-encoder, with the same scores at the end.

    Grouped     groups of like length, each padded to its longest: works with every backbone
    Packed      many sequences in one row of tokens, none of which sees another's: one pass, and next to no padding

layouts.py has the same for retrievers, and says why.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

import numpy as np
import torch
from torch import Tensor

from baleen.crossencoder import CrossModel
from baleen.crossinputs import CrossBatch, CrossInput, CrossInputs
from baleen.tokenization import moved
from baleen.training.grouping import grouped
from baleen.training.layouts import first_position, packed

_MULTIPLE = 64  # of which a packed row's width is one
_NARROWEST = 256
_WIDTHS = 6  # that are tried, up to twice the longest sequence
_PER_TOKEN = 4608  # a layer's work on a token, counted in tokens attended to, in a backbone 768 wide


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
        return dataclasses.replace(self, groups=groups, order=self.order.to(device, non_blocking=True))

    def scores(self, model: CrossModel, head: str) -> Tensor:
        return torch.cat([model(head, group) for group in self.groups]).index_select(0, self.order)


@dataclass(frozen=True, eq=False)
class Packed:
    """R rows of T tokens, each sequence whole within a row: `ids`, `types`, `positions` (R, T) int64.

    A token attends to those of its sequence, which have the same number in `texts` (R, T) int64; 0 is padding.
    `places` (P,) int64 says where each place that is read stands in the rows put end to end.
    """

    ids: Tensor
    types: Tensor
    positions: Tensor
    texts: Tensor
    places: Tensor

    @classmethod
    def of(cls, inputs: CrossInputs, rows: Sequence[CrossInput]) -> Self:
        width, starts = _cheapest([len(row) for row in rows])
        padding, count = inputs.tokenizer.token_to_id(inputs.tokens.pad), np.arange(width)
        assert padding is not None
        ids, types, positions, texts = np.zeros((4, _slots(starts, width)), np.int64)
        ids += padding
        for number, (start, row) in enumerate(zip(starts, rows, strict=True), 1):
            part = slice(start, start + len(row))
            ids[part], positions[part], texts[part] = row.ids, count[: len(row)], number
            types[start + row.right : start + len(row)] = 1
        arrays = {"ids": ids, "types": types, "positions": positions, "texts": texts}
        places = [start + place for start, row in zip(starts, rows, strict=True) for place in row.places]
        laid = {name: torch.from_numpy(array).view(-1, width) for name, array in arrays.items()}
        return cls(**laid, places=torch.tensor(places))

    @property
    def slots(self) -> int:
        return self.ids.numel()

    def to(self, device: torch.device) -> Self:
        return dataclasses.replace(self, **moved(self, device))

    def scores(self, model: CrossModel, head: str) -> Tensor:
        attention = (self.texts.unsqueeze(2) == self.texts.unsqueeze(1)).unsqueeze(1)  # (R, 1, T, T)
        positions = self.positions + first_position(model.backbone)
        hidden = model.encode(self.ids, self.types, attention_mask=attention, position_ids=positions)
        return model.read(head, hidden.flatten(0, 1).index_select(0, self.places))


def _cheapest(lengths: Sequence[int]) -> tuple[int, list[int]]:
    """The width of rows into which these lengths go with the least work, and where each of them starts.

    Wide rows have less padding, and more to attend to.
    """
    least = max(_NARROWEST, *lengths)
    tried = {-(-round(least * (1 + n / (_WIDTHS - 1))) // _MULTIPLE) * _MULTIPLE for n in range(_WIDTHS)}
    found = [(width, packed(lengths, width)) for width in sorted(tried)]
    return min(found, key=lambda each: _slots(each[1], each[0]) * (_PER_TOKEN + each[0]))


def _slots(starts: Sequence[int], width: int) -> int:
    return (max(starts) // width + 1) * width


def can_pack(model: CrossModel, inputs: CrossInputs) -> bool:
    """Whether the backbone gives packed sequences the scores that it gives them alone: tried, as no property tells."""
    rows = [CrossInput(list(range(5, 5 + size)), 2, list(range(size)), list(range(size))) for size in (9, 3, 7)]
    device, training, head = next(model.parameters()).device, model.training, next(iter(model.heads))
    model.eval()
    try:
        with torch.no_grad():
            apart = Grouped.of(inputs, rows, 0.0).to(device).scores(model, head)
            together = Packed.of(inputs, rows).to(device).scores(model, head)
    except (TypeError, ValueError, RuntimeError, IndexError):  # what backbones say to arguments that they do not know
        return False
    finally:
        model.train(training)
    return torch.allclose(apart, together, atol=1e-3)
