"""Inputs of the cross-encoder: two texts in one sequence, and the places that a head scores.

    condenser, stage 1      [CLS] claim # facts [SEP] title [MASK] s0 [MASK] s1 ... [SEP]       scores every marker
    condenser, stage 2      [CLS] claim [SEP] [MASK] fact [MASK] fact ... [SEP]                 scores every marker
    reranker                [CLS] claim # earlier passages [SEP] title | text [SEP]             scores [CLS]
    readers                 [CLS] claim [SEP] fact # fact ... [SEP]                             [CLS], or every token

Each place is noted with its key (a sentence, a fact, a token) while the sequence is built.  So a score cannot move to a
neighbouring sentence, whether texts are cut, empty or split into windows.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from baleen.core.errors import ConfigError
from baleen.core.types import Fact, Passage, Query
from baleen.models.markup import FACT_SEPARATOR, fact_text, passage_text
from baleen.models.memory import PassageCache, TokenCache, TokenisedPassage
from baleen.models.tokens import SpecialTokens, latest_facts_within, move_tensors, plain_tokenizer

_SPECIAL = 3  # [CLS], and a [SEP] after each side


@dataclass(frozen=True)
class CrossConfig:
    """Settings of a cross-encoder; lengths are in tokens.

    A sequence has at most `length` tokens, and its left side (claim and facts) at most `query_length`.  `marker`
    precedes every sentence or fact to score.  `heads` are the fields of a HeadConfig by name.
    """

    length: int = 512
    query_length: int = 256
    marker: str = "[MASK]"
    heads: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.query_length < 8:
            raise ConfigError(f"query_length = {self.query_length}, expected at least 8")
        if self.length < self.query_length + 16:
            raise ConfigError(
                f"length = {self.length} leaves too little beside query_length = {self.query_length}: "
                f"set it to at least {self.query_length + 16}"
            )


@dataclass(frozen=True)
class CrossInput:
    """One sequence: its token ids, where its right side starts, and the `places` to score with their `keys`."""

    ids: Sequence[int]
    right: int
    places: list[int]
    keys: list[int]

    def __len__(self) -> int:
        return len(self.ids)

    def at_cls(self) -> CrossInput:
        """Return the same sequence, scored at [CLS] alone."""
        return dataclasses.replace(self, places=[0], keys=[0])


class Word(NamedTuple):
    """One token of a fact, with its character span in the fact's text."""

    fact: int
    start: int
    end: int


@dataclass(frozen=True, eq=False)
class CrossBatch:
    """Padded sequences: `ids`, `types` (B, T) int64, `attention` (B, T) bool; `rows`, `places` (P,) int64 to score."""

    ids: Tensor
    types: Tensor
    attention: Tensor
    rows: Tensor
    places: Tensor

    def to(self, device: torch.device) -> Self:
        return dataclasses.replace(self, **move_tensors(self, device))


class CrossInputs:
    """Turns queries, passages and facts into sequences, with one tokenizer and one configuration.

    The tokens of the last `cache_size` texts are cached.  Threads may share one object.
    """

    def __init__(
        self, tokenizer_json: str, tokens: SpecialTokens, config: CrossConfig, cache_size: int = 1 << 16
    ) -> None:
        self.tokenizer_json, self.tokens, self.config = tokenizer_json, tokens, config
        self.tokenizer = plain_tokenizer(tokenizer_json)
        self._cls, self._sep, self._pad = (self._id(token) for token in (tokens.cls, tokens.sep, tokens.pad))
        self._marker = self._id(config.marker)
        self._token_cache = TokenCache(self.tokenizer, cache_size)
        self._passage_cache = PassageCache(self.tokenizer, self._marker, cache_size)
        self._words = lru_cache(cache_size)(self._read_words)
        self._separator = self._tokens(FACT_SEPARATOR.strip())

    def _id(self, token: str) -> int:
        number = self.tokenizer.token_to_id(token)
        if number is None:
            raise ConfigError(f"the tokenizer has no token {token!r}")
        return int(number)

    def with_cache_size(self, texts: int) -> CrossInputs:
        """Return the same inputs with an empty cache for this many texts."""
        return CrossInputs(self.tokenizer_json, self.tokens, self.config, texts)

    def cache_passages(self, passages: Iterable[Passage], *, sentences: bool) -> None:
        """Tokenise passages in one call, by sentence or whole, which is faster than one at a time."""
        if sentences:
            self._passage_cache.add(passages)
        else:
            self._token_cache.add(passage_text(each.title, text) for each in passages for text in (each.text, ""))

    def cache_queries(self, queries: Iterable[Query]) -> None:
        """Tokenise queries and their facts in one call."""
        self._token_cache.add(text for each in queries for text in (each.text, *map(fact_text, each.facts)))

    def cache_facts(self, facts: Iterable[Fact]) -> None:
        """Tokenise facts in one call."""
        self._token_cache.add(map(fact_text, facts))

    def _tokens(self, text: str) -> list[int]:
        return self._token_cache.ids(text)

    def _read_words(self, text: str) -> tuple[array[int], array[int], array[int]]:
        """Return the token ids of a text, and where each token starts and ends in it."""
        encoded = self.tokenizer.encode(text, add_special_tokens=False)
        starts, ends = ([offset[side] for offset in encoded.offsets] for side in (0, 1))
        return array("i", encoded.ids), array("i", starts), array("i", ends)

    # The sequences of each stage

    def sentences(self, query: Query, passage: Passage) -> list[CrossInput]:
        """Lay a passage out in as many windows as it needs; keys are sids, without those of empty sentences."""
        return self.sentences_of(query, [passage])[0]

    def sentences_of(self, query: Query, passages: Iterable[Passage]) -> list[list[CrossInput]]:
        """Lay several passages out, each with the query."""
        left = self._query(query)
        before, room = array("i", [self._cls, *left, self._sep]), self._room(left)
        return [
            self._in_one(before, marked) if marked.fits(room) else self._in_windows(left, marked)
            for marked in map(self._passage_cache.get, passages)
        ]

    def _in_one(self, before: array[int], passage: TokenisedPassage) -> list[CrossInput]:
        start = len(before) + len(passage.title)
        ids = before + passage.title + passage.ids
        ids.append(self._sep)
        return [CrossInput(ids, len(before), [start + place for place in passage.places], list(passage.sids))]

    def _in_windows(self, left: list[int], passage: TokenisedPassage) -> list[CrossInput]:
        room = self._room(left)
        title = passage.title[: room // 4].tolist()
        return [self._marked(left, title, part) for part in _windows(passage.sentences(), room - len(title))]

    def facts(self, claim: str, facts: Sequence[Fact]) -> list[CrossInput]:
        """Lay all facts out, in as many windows as they need; keys are indices of `facts`."""
        left = self._query(Query(claim))
        marked = [(number, self._tokens(fact_text(fact))) for number, fact in enumerate(facts)]
        return [self._marked(left, [], part) for part in _windows(marked, self._room(left))]

    def passage(self, query: Query, passage: Passage) -> list[CrossInput]:
        """Lay a passage out, in windows that repeat the title if it is long; scored at [CLS]."""
        left, text = self._query(query), self._tokens(passage_text(passage.title, passage.text))
        room = self._room(left)
        title = self._tokens(passage_text(passage.title, ""))[: room // 4]
        step = room - len(title)
        later = (title + text[start : start + step] for start in range(room, len(text), step))
        return [self._pair(left, right) for right in (text[:room], *later)]

    def sentence(self, query: Query, title: str, sentence: str) -> CrossInput:
        """Lay one sentence out with its title; scored at [CLS]."""
        left = self._query(query)
        return self._pair(left, self._tokens(passage_text(title, sentence))[: self._room(left)])

    def evidence(self, query: Query) -> tuple[CrossInput, list[Word]]:
        """Lay a claim and its best facts out; return the words of the facts as well.

        Places are [CLS], with the key -1, and every token of a fact, with its index in the words.
        """
        left = self._query(Query(query.text))
        ids, words = self._evidence(query.facts, self._room(left))
        base = self._pair(left, ids)
        inside = [number for number, word in enumerate(words) if word is not None]
        kept = [word for word in words if word is not None]
        places = [0, *(base.right + number for number in inside)]
        return CrossInput(base.ids, base.right, places, [-1, *range(len(kept))]), kept

    # Layout

    def _query(self, query: Query) -> list[int]:
        """`claim # fact # fact`: the claim gets at least half of the room, and old facts are dropped first."""
        limit = self.config.query_length
        facts = [self._tokens(fact_text(fact)) for fact in query.facts]
        wanted = sum(len(fact) + len(self._separator) for fact in facts)
        claim = self._tokens(query.text)[: max(limit - wanted, limit // 2)]
        for fact in latest_facts_within(query.facts, facts, limit - len(claim), len(self._separator)):
            claim += self._separator + fact
        return claim

    def _room(self, left: list[int]) -> int:
        return self.config.length - _SPECIAL - len(left)

    def _pair(self, left: list[int], right: list[int]) -> CrossInput:
        return CrossInput([self._cls, *left, self._sep, *right, self._sep], len(left) + 2, [0], [0])

    def _marked(self, left: list[int], title: list[int], parts: Sequence[tuple[int, list[int]]]) -> CrossInput:
        right, places = list(title), []
        for _, ids in parts:
            places.append(len(left) + 2 + len(right))
            right += [self._marker, *ids]
        base = self._pair(left, right)
        return CrossInput(base.ids, base.right, places, [key for key, _ in parts])

    def _evidence(self, facts: Sequence[Fact], room: int) -> tuple[list[int], list[Word | None]]:
        """Return the tokens of the facts that fit, and for each token its Word, or None for a separator."""
        read = [self._words(fact_text(fact)) for fact in facts]
        sizes = [len(numbers) + len(self._separator) for numbers, _, _ in read]
        ids: list[int] = []
        words: list[Word | None] = []
        for number in _best_within(facts, sizes, room + len(self._separator)):  # the first has no separator
            separator = self._separator if ids else []
            numbers, starts, ends = read[number]
            ids += [*separator, *numbers]
            words += [None for _ in separator]
            words += [Word(number, start, end) for start, end in zip(starts, ends, strict=True)]
        return ids[:room], words[:room]

    def batch(self, rows: Sequence[CrossInput]) -> CrossBatch:
        lengths = torch.tensor([len(row) for row in rows]).unsqueeze(1)
        rights = torch.tensor([row.right for row in rows]).unsqueeze(1)
        columns = torch.arange(int(lengths.max()))
        attention = columns < lengths  # (B, T)
        ids = np.full(attention.shape, self._pad)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row.ids
        return CrossBatch(
            ids=torch.from_numpy(ids),
            types=((columns >= rights) & attention).long(),
            attention=attention,
            rows=torch.tensor([number for number, row in enumerate(rows) for _ in row.places]),
            places=torch.tensor([place for row in rows for place in row.places]),
        )


def _windows(marked: Sequence[tuple[int, list[int]]], room: int) -> Iterator[list[tuple[int, list[int]]]]:
    """Group consecutive texts into at most `room` tokens, with a marker each; cut a text that is too long alone."""
    window: list[tuple[int, list[int]]] = []
    left = room
    for key, ids in marked:
        cut = ids[: room - 1]
        if window and len(cut) + 1 > left:
            yield window
            window, left = [], room
        window.append((key, cut))
        left -= len(cut) + 1
    if window:
        yield window


def _best_within(facts: Sequence[Fact], sizes: Sequence[int], room: int) -> list[int]:
    """Pick the facts with the highest scores that fit into `room`, at least one; indices in order."""
    kept: list[int] = []
    for number in sorted(range(len(facts)), key=lambda number: -facts[number].score):
        if kept and sizes[number] > room:
            continue
        kept.append(number)
        room -= sizes[number]
    return sorted(kept)
