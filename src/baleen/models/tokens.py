"""Inputs of the retriever: claims, facts and passages as token ids, in batches.

    query       [CLS] [unused0] claim [SEP] [MASK] ... [MASK]   then   fact [SEP] fact [SEP]   in one sequence
    passage     [CLS] [unused1] title | text [SEP]

Text never becomes a special token, even if it contains "[MASK]".  `token_batches` groups rows by length, and
`restore_order` puts their vectors back in order.
"""

from __future__ import annotations

import dataclasses
import string
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer
from torch import Tensor

from baleen.core.errors import CheckpointError, ConfigError
from baleen.core.types import Fact, Passage, Query
from baleen.core.vectors import Floats, PassageVectors
from baleen.models.markup import fact_text, passage_text

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


_WORD_STARTS = "Ġ▁"  # a leading space in byte-level and sentencepiece vocabularies


@dataclass(frozen=True)
class EncoderConfig:
    """Settings of an encoder and of its score; lengths are in tokens, with special tokens.

    `mask_padding` fills a query up to `query_length` with mask tokens, whose vectors take part in the score;
    `attend_to_masks` lets other tokens attend to them.  `drop_punctuation` drops the vectors of a passage's
    punctuation.  The score sums over `query_focus` and `facts_focus` vectors (None: all).
    """

    dim: int = 128
    query_length: int = 64
    facts_length: int = 448
    passage_length: int = 256
    query_marker: str = "[unused0]"
    passage_marker: str = "[unused1]"
    mask_padding: bool = True
    attend_to_masks: bool = False
    drop_punctuation: bool = True
    query_focus: int | None = 32
    facts_focus: int | None = 8

    def __post_init__(self) -> None:
        minimums = {
            "dim": 1,
            "query_length": 4,
            "facts_length": 0,
            "passage_length": 4,
            "query_focus": 1,
            "facts_focus": 1,
        }
        for name, minimum in minimums.items():
            value = getattr(self, name)
            if value is not None and value < minimum:
                raise ConfigError(f"{name} = {value}, expected at least {minimum}")
        if not self.query_marker or not self.passage_marker:
            raise ConfigError("query_marker or passage_marker is empty, expected a token each")


@dataclass(frozen=True)
class SpecialTokens:
    """The tokenizer's special tokens by role."""

    cls: str
    sep: str
    pad: str
    mask: str | None = None


@dataclass(frozen=True)
class QueryIds:
    """Token ids of one query: `claim` with its mask padding, `claim_length` without it, and `facts`."""

    claim: list[int]
    claim_length: int
    facts: list[int]

    def __len__(self) -> int:
        return len(self.claim) + len(self.facts)


@dataclass(frozen=True, eq=False)
class QueryBatch:
    """Padded queries: `ids` (B, T) int64, `attention` (B, T) bool.

    Row i holds its claim, with mask padding, in the first `claim_lengths[i]` columns and its facts in the next
    `facts_lengths[i]`; the widths are the largest lengths.
    """

    ids: Tensor
    attention: Tensor
    claim_lengths: Tensor
    facts_lengths: Tensor
    claim_width: int
    facts_width: int

    def to(self, device: torch.device) -> Self:
        return dataclasses.replace(self, **move_tensors(self, device))


@dataclass(frozen=True, eq=False)
class PassageBatch:
    """Padded passages: `ids` (B, T) int64, `attention` (B, T) bool, `keep` (B, T) bool for the vectors to keep."""

    ids: Tensor
    attention: Tensor
    keep: Tensor

    def to(self, device: torch.device) -> Self:
        return dataclasses.replace(self, **move_tensors(self, device))


def move_tensors(batch: DataclassInstance, device: torch.device) -> dict[str, Any]:
    """Return the tensor fields of `batch`, moved to `device`."""
    values = {field.name: getattr(batch, field.name) for field in dataclasses.fields(batch)}
    return {name: to_device(value, device) for name, value in values.items() if isinstance(value, Tensor)}


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Move a tensor to `device` without waiting for the GPU's queue."""
    pageable = device.type == "cuda" and tensor.device.type == "cpu" and not tensor.is_pinned()
    return (tensor.pin_memory() if pageable else tensor).to(device, non_blocking=True)


class RetrieverInputs:
    """Turns queries and passages into ids, and ids into batches, with one tokenizer and one configuration."""

    def __init__(self, tokenizer_json: str, tokens: SpecialTokens, config: EncoderConfig) -> None:
        if config.mask_padding and tokens.mask is None:
            raise ConfigError("the tokenizer has no mask token to pad queries with: set mask_padding to false")
        self.tokenizer_json, self.tokens, self.config = tokenizer_json, tokens, config
        self.tokenizer = plain_tokenizer(tokenizer_json)
        self._cls, self._sep, self._pad = (self._id(token) for token in (tokens.cls, tokens.sep, tokens.pad))
        self._mask = self._id(tokens.mask) if tokens.mask is not None else self._pad
        self._query_marker, self._passage_marker = self._id(config.query_marker), self._id(config.passage_marker)
        self._dropped = _punctuation(self.tokenizer) & config.drop_punctuation

    def _id(self, token: str) -> int:
        number = self.tokenizer.token_to_id(token)
        if number is None:
            raise ConfigError(f"the tokenizer has no token {token!r}")
        return int(number)

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Return token ids without special tokens, of any length."""
        return [encoding.ids for encoding in self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    def query_ids(self, queries: Sequence[Query]) -> list[QueryIds]:
        claims = self.tokenize([query.text for query in queries])
        facts = iter(self.tokenize([fact_text(fact) for query in queries for fact in query.facts]))
        rows = []
        for query, claim in zip(queries, claims, strict=True):
            wrapped = self._wrap(self._query_marker, claim, self.config.query_length)
            masks = self.config.query_length - len(wrapped) if self.config.mask_padding else 0
            joined = self._join(query.facts, [next(facts) for _ in query.facts])
            rows.append(QueryIds(wrapped + [self._mask] * masks, len(wrapped), joined))
        return rows

    def passage_ids(self, passages: Iterable[Passage]) -> list[list[int]]:
        texts = [passage_text(passage.title, passage.text) for passage in passages]
        return [self._wrap(self._passage_marker, ids, self.config.passage_length) for ids in self.tokenize(texts)]

    def _wrap(self, marker: int, ids: list[int], limit: int) -> list[int]:
        return [self._cls, marker, *ids[: limit - 3], self._sep]

    def _join(self, facts: Sequence[Fact], ids: Sequence[list[int]]) -> list[int]:
        """Join the facts that fit, with a separator after each."""
        kept = latest_facts_within(facts, ids, self.config.facts_length)
        return [number for fact in kept for number in (*fact, self._sep)]

    def decode_query(self, row: QueryIds) -> str:
        """Return the tokens of a query as text, with special tokens and without mask padding."""
        numbers = row.claim[: row.claim_length] + row.facts
        return str(self.tokenizer.decode(numbers, skip_special_tokens=False))

    def token_names(self, numbers: Sequence[int]) -> list[str]:
        """Return the vocabulary's spelling of tokens."""
        return [str(self.tokenizer.id_to_token(number)) for number in numbers]

    def passage_tokens(self, passage: Passage) -> list[str]:
        """Return the tokens whose vectors an index stores for a passage, in order."""
        batch = self.passage_batch(self.passage_ids([passage]))
        return self.token_names(batch.ids[0][batch.keep[0]].tolist())

    def query_batch(self, rows: Sequence[QueryIds]) -> QueryBatch:
        masks = self.config.attend_to_masks
        attention = [
            [True] * row.claim_length + [masks] * (len(row.claim) - row.claim_length) + [True] * len(row.facts)
            for row in rows
        ]
        return QueryBatch(
            ids=padded([row.claim + row.facts for row in rows], self._pad),
            attention=padded(attention, False),
            claim_lengths=torch.tensor([len(row.claim) for row in rows]),
            facts_lengths=torch.tensor([len(row.facts) for row in rows]),
            claim_width=max(len(row.claim) for row in rows),
            facts_width=max(len(row.facts) for row in rows),
        )

    def passage_batch(self, rows: Sequence[Sequence[int] | npt.NDArray[np.int32]]) -> PassageBatch:
        ids = padded(rows, self._pad)
        attention = torch.arange(ids.shape[1]) < torch.tensor([[len(row)] for row in rows])
        return PassageBatch(ids, attention, attention & ~self._dropped[ids])


def latest_facts_within(
    facts: Sequence[Fact], ids: Sequence[list[int]], room: int, separator: int = 1
) -> list[list[int]]:
    """Return the ids of the facts that fit into `room` tokens, with a separator each, in the order of `facts`.

    Facts of older hops are dropped first, and within a hop those with lower scores.  Facts are not cut, except the best
    one if it is too long alone.
    """
    ranked = sorted(range(len(facts)), key=lambda number: (-facts[number].hop, -facts[number].score, -number))
    kept: list[int] = []
    left = room
    for number in ranked:
        left -= len(ids[number]) + separator
        if left < 0:
            break
        kept.append(number)
    if kept or not ranked or room <= separator:
        return [ids[number] for number in sorted(kept)]
    return [ids[ranked[0]][: room - separator]]


def plain_tokenizer(tokenizer_json: str) -> Tokenizer:
    """Make a tokenizer that does not truncate or pad and never reads text as a special token."""
    try:
        tokenizer = Tokenizer.from_str(tokenizer_json)
    except Exception as error:  # the tokenizers library raises nothing narrower
        raise CheckpointError(f"tokenizer.json does not describe a tokenizer: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer


def padded(rows: Sequence[Sequence[int] | npt.NDArray[Any]], value: int) -> Tensor:
    """Pad rows with `value` to one (B, T) tensor, int64 or, if `value` is a bool, bool."""
    filled = np.full((len(rows), max(map(len, rows))), value, bool if isinstance(value, bool) else np.int64)
    for place, row in enumerate(rows):
        filled[place, : len(row)] = row
    return torch.from_numpy(filled)


def _punctuation(tokenizer: Tokenizer) -> Tensor:
    """(vocabulary,) bool: which tokens are one punctuation character, with or without a space before it."""
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    mask = torch.zeros(max(vocabulary.values()) + 1, dtype=torch.bool)
    marks = {start + mark for start in ("", *_WORD_STARTS) for mark in string.punctuation}
    mask[[number for token, number in vocabulary.items() if token in marks]] = True
    return mask


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Vectors of some rows, end to end: the next `lengths[j]` of `vectors` (total, d) belong to row `rows[j]`."""

    rows: Sequence[int]
    vectors: Tensor
    lengths: Sequence[int]


def token_batches(rows: Sequence[Sized], batch_tokens: int) -> Iterator[list[int]]:
    """Yield batches of row indices, longest rows first, of at most `batch_tokens` tokens with padding.

    A row that is longer than that is a batch of its own.
    """
    batch: list[int] = []
    for i in sorted(range(len(rows)), key=lambda i: -len(rows[i])):
        if batch and (len(batch) + 1) * len(rows[batch[0]]) > batch_tokens:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def restore_order(parts: Sequence[EncodedRows]) -> PassageVectors:
    """Return the vectors of all rows, ordered by row index."""
    pieces: dict[int, Floats] = {}
    for part in parts:
        split = np.split(part.vectors.cpu().numpy(), np.cumsum(part.lengths)[:-1])
        pieces.update(zip(part.rows, split, strict=True))
    return PassageVectors.of([pieces[i] for i in range(len(pieces))])
