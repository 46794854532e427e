"""Two layouts that send rows of unequal length through a model, with equal outputs.

    groups      batches of rows of similar length, each padded to its longest row; works with every backbone
    pack        all rows in one row of tokens, with attention only within each; one pass, no padding

Every pass costs a GPU a fixed launch time per layer, so one large pass is faster there than several small ones.
`Groups` and `Pack` hold the layout; their subclasses read it with a retriever (`encode`) or a cross-encoder (`scores`).
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize, pad

from baleen.core.errors import ConfigError
from baleen.models.cross_encoder import CrossModel
from baleen.models.encoder import FLIPR, EncodedPassages, EncodedQueries
from baleen.models.packing import PackedTexts, attending_within
from baleen.models.pairs import CrossBatch, CrossInput, CrossInputs
from baleen.models.tokens import PassageBatch, QueryBatch, move_tensors, to_device
from baleen.training.retriever.rows import Row, passage_batch, query_batch

log = logging.getLogger(__name__)

Numbers = npt.NDArray[np.int64]


class PaddedBatch(Protocol):
    @property
    def ids(self) -> Tensor: ...

    def to(self, device: torch.device) -> Self: ...


Batch = TypeVar("Batch", bound=PaddedBatch)
AnyRow = TypeVar("AnyRow", bound=Sized)


def resolve_packing(requested: bool | None, device: torch.device, can_pack: Callable[[], bool]) -> bool:
    """Whether to pack: None packs on a GPU if the backbone can; True fails if it cannot."""
    if requested is None and device.type != "cuda":
        return False
    possible = requested is not False and can_pack()
    if requested and not possible:
        raise ConfigError("packing = true, but the backbone does not keep texts in one row apart: set it to false")
    return possible


# Groups


def group_by_length(lengths: Sequence[int], most_padding: float) -> list[list[int]]:
    """Indices of rows in the fewest groups with at most this share of padding; longest rows first.

    A group is as wide as its longest row.  No other grouping into as many groups has less padding.
    """
    widths, counts = np.unique(np.asarray(lengths), return_counts=True)
    filled = np.concatenate([[0], np.cumsum(counts)])
    bounds = _bounds(widths, filled, most_padding)
    order = np.argsort(lengths, kind="stable")
    pieces = np.split(order, filled[bounds[1:-1]])
    return [piece.tolist() for piece in reversed(pieces)]


def _bounds(widths: Numbers, filled: Numbers, most_padding: float) -> list[int]:
    """Indices that cut the sorted distinct widths into groups, by dynamic programming over the number of groups.

    `filled[i]` rows are narrower than `widths[i]`.  A greedy pass over the sorted rows makes 1.3 to 1.7 times as many
    groups.
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


@dataclass(frozen=True, eq=False)
class Groups(Generic[Batch]):
    """Padded batches of rows, and where to find each row's outputs among theirs.

    With the outputs of all batches end to end, the i-th output in the order of the rows is at `order[i]` (int64).
    """

    batches: tuple[Batch, ...]
    order: Tensor

    @classmethod
    def of(
        cls,
        rows: Sequence[AnyRow],
        batch: Callable[[Sequence[AnyRow]], Batch],
        most_padding: float,
        outputs: Callable[[AnyRow], int] = lambda _: 1,
    ) -> Self:
        """Group `rows`; `outputs` counts the outputs that the model makes of a row."""
        groups = group_by_length([len(row) for row in rows], most_padding)
        edges = [0, *accumulate(map(outputs, rows))]
        made = np.concatenate([np.arange(edges[i], edges[i + 1]) for group in groups for i in group])
        batches = tuple(batch([rows[i] for i in group]) for group in groups)
        return cls(batches, torch.from_numpy(np.argsort(made)))

    @property
    def slots(self) -> int:
        return sum(batch.ids.numel() for batch in self.batches)

    def to(self, device: torch.device) -> Self:
        batches = tuple(batch.to(device) for batch in self.batches)
        return dataclasses.replace(self, batches=batches, order=to_device(self.order, device))

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """Outputs of the batches (n, m, ...) in the order of the rows, padded with 0 to the largest m."""
        width = max(part.shape[1] for part in parts)
        filled = [pad(part, [0, 0] * (part.dim() - 2) + [0, width - part.shape[1]]) for part in parts]
        return torch.cat(filled).index_select(0, self.order)


@dataclass(frozen=True, eq=False)
class RetrieverGroups:
    """Groups of queries and groups of passages."""

    queries: Groups[QueryBatch]
    passages: Groups[PassageBatch]

    @classmethod
    def of(cls, queries: Sequence[Row], passages: Sequence[Row], padding: int, most_padding: float) -> Self:
        return cls(
            Groups.of(queries, lambda rows: query_batch(rows, padding), most_padding),
            Groups.of(passages, lambda rows: passage_batch(rows, padding), most_padding),
        )

    @property
    def slots(self) -> int:
        return self.queries.slots + self.passages.slots

    def to(self, device: torch.device) -> Self:
        return dataclasses.replace(self, queries=self.queries.to(device), passages=self.passages.to(device))

    def encode(self, model: FLIPR) -> tuple[EncodedQueries, EncodedPassages]:
        queries = [model.forward_queries(batch) for batch in self.queries.batches]
        passages = [model.forward_passages(batch) for batch in self.passages.batches]
        join_queries, join_passages = self.queries.join, self.passages.join
        return (
            EncodedQueries(
                join_queries([each.query for each in queries]),
                join_queries([each.query_mask for each in queries]),
                join_queries([each.facts for each in queries]),
                join_queries([each.facts_mask for each in queries]),
            ),
            EncodedPassages(
                join_passages([each.vectors for each in passages]), join_passages([each.mask for each in passages])
            ),
        )


class CrossEncoderGroups(Groups[CrossBatch]):
    """Groups of cross-encoder sequences; a sequence has an output for each place that is read."""

    @classmethod
    def lay_out(cls, inputs: CrossInputs, rows: Sequence[CrossInput], most_padding: float) -> Self:
        return cls.of(rows, inputs.batch, most_padding, lambda row: len(row.places))

    def scores(self, model: CrossModel, head: str) -> Tensor:
        return self.join([model(head, batch) for batch in self.batches])


# Packs


@dataclass(frozen=True, eq=False)
class Pack:
    """Rows end to end in one row of tokens: `ids` and `positions` (1, T) int64, and the `texts` they consist of."""

    ids: Tensor
    positions: Tensor
    texts: PackedTexts

    @property
    def slots(self) -> int:
        return self.ids.numel()

    def to(self, device: torch.device) -> Self:
        return dataclasses.replace(self, **move_tensors(self, device), texts=self.texts.to(device))


@dataclass(frozen=True, eq=False)
class RetrieverPack(Pack):
    """All queries, then all passages.

    `query` (B, N), `facts` (B, L) and `passages` (P, M) int64 are the places of their vectors in the row; each has a
    mask of the places that are real.
    """

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
        attended = np.concatenate([row.flags if row.claim else np.ones(len(row), bool) for row in rows])
        fact_starts = [start + row.claim for start, row in zip(starts, queries, strict=False)]
        query, query_mask = _ranges(starts[:count], [row.claim for row in queries])
        facts, facts_mask = _ranges(fact_starts, [row.facts for row in queries])
        found, passage_mask = _ranges(starts[count:-1], lengths[count:])
        passage_mask[passage_mask.clone()] = torch.from_numpy(np.concatenate([row.flags for row in passages]))
        return cls(
            _one_row(ids),
            _one_row(_positions(lengths)),
            PackedTexts.of(lengths, attended),
            query,
            query_mask,
            facts,
            facts_mask,
            found,
            passage_mask,
        )

    def encode(self, model: FLIPR) -> tuple[EncodedQueries, EncodedPassages]:
        vectors = self._vectors(model)  # (T, d)
        query, facts, passages = (_gather(vectors, index) for index in (self.query, self.facts, self.passages))
        return EncodedQueries(query, self.query_mask, facts, self.facts_mask), EncodedPassages(
            passages, self.passage_mask
        )

    def _vectors(self, model: FLIPR) -> Tensor:
        """Projected, normalised vectors of all tokens: (T, d)."""
        positions = self.positions + first_position(model.backbone)
        with attending_within(model.backbone, self.texts):
            hidden = model.backbone(input_ids=self.ids, position_ids=positions).last_hidden_state.squeeze(0)
        with torch.autocast(hidden.device.type, enabled=False):
            return normalize(linear(hidden.float(), model.projection.weight.float()), dim=-1)


@dataclass(frozen=True, eq=False)
class CrossEncoderPack(Pack):
    """Cross-encoder sequences with their token `types` (1, T) int64; `places` (P,) int64 are the tokens to read."""

    types: Tensor
    places: Tensor

    @classmethod
    def of(cls, rows: Sequence[CrossInput]) -> Self:
        lengths = [len(row) for row in rows]
        starts = [0, *accumulate(lengths)]
        ids = np.fromiter(chain.from_iterable(row.ids for row in rows), np.int64, starts[-1])
        positions = _positions(lengths)
        types = (positions >= np.repeat([row.right for row in rows], lengths)).astype(np.int64)
        places = [start + place for start, row in zip(starts, rows, strict=False) for place in row.places]
        return cls(_one_row(ids), _one_row(positions), PackedTexts.of(lengths), _one_row(types), torch.tensor(places))

    def scores(self, model: CrossModel, head: str) -> Tensor:
        positions = self.positions + first_position(model.backbone)
        with attending_within(model.backbone, self.texts):
            hidden = model.encode(self.ids, self.types, position_ids=positions)
        return model.apply_head(head, hidden.squeeze(0).index_select(0, self.places))


def _positions(lengths: Sequence[int]) -> Numbers:
    """Position of every token within its own text: (T,)."""
    starts = [0, *accumulate(lengths)]
    positions: Numbers = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)
    return positions


def _one_row(numbers: Numbers) -> Tensor:
    return torch.from_numpy(numbers).unsqueeze(0)


def _ranges(starts: Sequence[int], lengths: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Numbers from each start on (B, longest) int64, 0 past its length, and a mask of those within it."""
    columns = torch.arange(max(lengths))
    mask = columns < torch.tensor(lengths).unsqueeze(1)
    return (torch.tensor(starts).unsqueeze(1) + columns) * mask, mask


def _gather(vectors: Tensor, index: Tensor) -> Tensor:
    return vectors.index_select(0, index.flatten()).view(*index.shape, vectors.shape[1])


def first_position(backbone: nn.Module) -> int:
    """Position id of a text's first token: 0, or one past the padding id in backbones that count like RoBERTa."""
    for name, part in backbone.named_modules():
        if name.endswith("position_embeddings") and isinstance(part, nn.Embedding):
            return 0 if part.padding_idx is None else part.padding_idx + 1
    return 0


# No property of a backbone tells whether it can pack, so both layouts are tried on a few tokens


def can_pack_retriever(model: FLIPR, padding: int) -> bool:
    """Whether the backbone makes the same vectors of packed and of padded texts."""
    rows = [Row.of(list(range(5, 5 + length)), claim) for length, claim in ((7, 4), (3, 3), (9, 0), (4, 0))]
    device = next(model.parameters()).device
    groups = RetrieverGroups.of(rows[:2], rows[2:], padding, 0.0).to(device)
    pack = RetrieverPack.of(rows[:2], rows[2:]).to(device)
    return _same_outputs(model, lambda: _real(*groups.encode(model)), lambda: _real(*pack.encode(model)))


def can_pack_cross_encoder(model: CrossModel, inputs: CrossInputs) -> bool:
    """Whether the backbone gives packed and padded sequences the same scores."""
    rows = [CrossInput(list(range(5, 5 + size)), 2, list(range(size)), list(range(size))) for size in (9, 3, 7)]
    device, head = next(model.parameters()).device, next(iter(model.heads))
    groups, pack = CrossEncoderGroups.lay_out(inputs, rows, 0.0).to(device), CrossEncoderPack.of(rows).to(device)
    return _same_outputs(model, lambda: [groups.scores(model, head)], lambda: [pack.scores(model, head)])


def _real(queries: EncodedQueries, passages: EncodedPassages) -> list[Tensor]:
    parts = [
        (queries.query, queries.query_mask),
        (queries.facts, queries.facts_mask),
        (passages.vectors, passages.mask),
    ]
    return [vectors[mask] for vectors, mask in parts]


def _same_outputs(model: nn.Module, padded: Callable[[], list[Tensor]], packed: Callable[[], list[Tensor]]) -> bool:
    """Compare both layouts in float32 and in bfloat16, which may use other kernels; on a GPU, log why they differ."""
    device, training = next(model.parameters()).device, model.training
    model.eval()
    try:
        with torch.no_grad():
            error = _difference(padded(), packed())
            with torch.autocast(device.type, torch.bfloat16):
                rounded_error = _difference(padded(), packed())
    except (TypeError, ValueError, RuntimeError, IndexError) as failure:  # from backbones that lack an argument
        why = f"{type(failure).__name__}: {failure}"
    else:
        if error <= 1e-3 and rounded_error <= 0.05:
            return True
        why = f"outputs of packed texts differ by {error:.2g}, in bfloat16 by {rounded_error:.2g}"
    finally:
        model.train(training)
    if device.type == "cuda":
        log.warning("texts are padded, not packed: %s", why)
    return False


def _difference(ones: Sequence[Tensor], others: Sequence[Tensor]) -> float:
    """Largest difference between two numbers, relative to the largest number or to 1."""
    if [one.shape for one in ones] != [other.shape for other in others]:
        return math.inf
    pairs = [(one.float(), other.float()) for one, other in zip(ones, others, strict=True) if one.numel()]
    return max(float((one - other).abs().max() / one.abs().max().clamp(min=1)) for one, other in pairs)
