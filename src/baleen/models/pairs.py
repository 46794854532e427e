"""What goes into a cross-encoder: two texts side by side, and the places at which a head reads a score off them.

    condenser, stage 1      [CLS] claim # facts [SEP] title [MASK] s0 [MASK] s1 ... [SEP]       a score at every marker
    condenser, stage 2      [CLS] claim [SEP] [MASK] fact [MASK] fact ... [SEP]                 a score at every marker
    reranker                [CLS] claim # passages chosen before [SEP] title | text [SEP]       a score at [CLS]
    readers                 [CLS] claim [SEP] fact # fact ... [SEP]                             at [CLS], at every token

Sequences are laid out token by token, and each place is noted with what it stands for (a sentence, a fact, a token)
as it is laid: whatever is cut, empty or read in windows, a score cannot slip to the sentence beside.
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

_SPECIAL = 3  # [CLS], and a [SEP] behind either side


@dataclass(frozen=True)
class CrossConfig:
    """How texts are laid out; lengths are in tokens.

    A sequence has at most `length` tokens, of which claim and facts on its left take at most `query_length`.  `marker`
    stands before a sentence or fact that is to be scored.  `heads` says what is read off: name -> {"outputs", ...}.
    """

    length: int = 512
    query_length: int = 256
    marker: str = "[MASK]"
    heads: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.query_length < 8:
            raise ConfigError(f"query_length = {self.query_length}, which should be at least 8")
        if self.length < self.query_length + 16:
            raise ConfigError(
                f"length = {self.length} leaves too little beside query_length = {self.query_length}: "
                f"set it to at least {self.query_length + 16}"
            )


@dataclass(frozen=True)
class CrossInput:
    """One sequence: its tokens, where its right side starts, and the `places` that are read, `keys[i]` at `places[i]`."""

    ids: Sequence[int]
    right: int
    places: list[int]
    keys: list[int]

    def __len__(self) -> int:
        return len(self.ids)

    def at_cls(self) -> CrossInput:
        """The same sequence, read at [CLS] alone."""
        return dataclasses.replace(self, places=[0], keys=[0])


class Word(NamedTuple):
    """One token of a fact, and where it stands in the fact's text."""

    fact: int
    start: int
    end: int


@dataclass(frozen=True, eq=False)
class CrossBatch:
    """Sequences side by side: `ids`, `types` (B, T) int64, `attention` (B, T) bool, and the places read (P,) each."""

    ids: Tensor
    types: Tensor
    attention: Tensor
    rows: Tensor
    places: Tensor

    def to(self, device: torch.device) -> Self:
        return dataclasses.replace(self, **move_tensors(self, device))


class CrossInputs:
    """Turns queries, passages and facts into sequences, by one tokenizer and one configuration.

    The tokens of the last `remembered` texts are kept: a claim is read beside many passages, and in training all texts
    come again.
    """

    def __init__(
        self, tokenizer_json: str, tokens: SpecialTokens, config: CrossConfig, remembered: int = 1 << 16
    ) -> None:
        self.tokenizer_json, self.tokens, self.config = tokenizer_json, tokens, config
        self.tokenizer = plain_tokenizer(tokenizer_json)
        self._memory, self._words = TokenCache(self.tokenizer, remembered), lru_cache(remembered)(self._read_words)
        self._cls, self._sep, self._pad = (self._id(token) for token in (tokens.cls, tokens.sep, tokens.pad))
        self._marker = self._id(config.marker)
        self._marked_passages = PassageCache(self.tokenizer, self._marker, remembered)
        self._between = self._tokens(FACT_SEPARATOR.strip())

    def _id(self, token: str) -> int:
        number = self.tokenizer.token_to_id(token)
        if number is None:
            raise ConfigError(f"the tokenizer has no token {token!r}")
        return int(number)

    def with_cache_size(self, texts: int) -> CrossInputs:
        """The same inputs, with room for the tokens of this many texts."""
        return CrossInputs(self.tokenizer_json, self.tokens, self.config, texts)

    def cache_passages(self, passages: Iterable[Passage], *, sentences: bool) -> None:
        """Tokenise passages that are about to be read, by sentence or whole, together: faster, and nothing else."""
        if sentences:
            self._marked_passages.learn(passages)
        else:
            self._memory.learn(passage_text(each.title, text) for each in passages for text in (each.text, ""))

    def cache_queries(self, queries: Iterable[Query]) -> None:
        """The same, of queries and their facts."""
        self._memory.learn(text for each in queries for text in (each.text, *map(fact_text, each.facts)))

    def cache_facts(self, facts: Iterable[Fact]) -> None:
        """The same, of facts."""
        self._memory.learn(map(fact_text, facts))

    def _tokens(self, text: str) -> list[int]:
        return self._memory.ids(text)

    def _read_words(self, text: str) -> tuple[array[int], array[int], array[int]]:
        """The tokens of a text, and where each starts and ends in it."""
        encoded = self.tokenizer.encode(text, add_special_tokens=False)
        starts, ends = ([offset[side] for offset in encoded.offsets] for side in (0, 1))
        return array("i", encoded.ids), array("i", starts), array("i", ends)

    # What each stage reads

    def sentences(self, query: Query, passage: Passage) -> list[CrossInput]:
        """The passage in as many windows as it takes; keys are the sids, each once, those of empty sentences left out."""
        return self.sentences_of(query, [passage])[0]

    def sentences_of(self, query: Query, passages: Iterable[Passage]) -> list[list[CrossInput]]:
        """The same of several passages, beside a query that is laid out once."""
        left = self._query(query)
        before, room = array("i", [self._cls, *left, self._sep]), self._room(left)
        return [
            self._whole(before, marked) if marked.fits(room) else self._in_windows(left, marked)
            for marked in map(self._marked_passages.of, passages)
        ]

    def _whole(self, before: array[int], passage: TokenisedPassage) -> list[CrossInput]:
        """A passage that fits as it is, which most do."""
        start = len(before) + len(passage.title)
        ids = before + passage.title + passage.ids
        ids.append(self._sep)
        return [CrossInput(ids, len(before), [start + place for place in passage.places], list(passage.sids))]

    def _in_windows(self, left: list[int], passage: TokenisedPassage) -> list[CrossInput]:
        room = self._room(left)
        title = passage.title[: room // 4].tolist()
        return [self._marked(left, title, part) for part in _windows(passage.sentences(), room - len(title))]

    def facts(self, claim: str, facts: Sequence[Fact]) -> list[CrossInput]:
        """All facts side by side, in further windows what does not fit; keys are places in `facts`."""
        left = self._query(Query(claim))
        marked = [(number, self._tokens(fact_text(fact))) for number, fact in enumerate(facts)]
        return [self._marked(left, [], part) for part in _windows(marked, self._room(left))]

    def passage(self, query: Query, passage: Passage) -> list[CrossInput]:
        """Query and passage, a long one in windows under its title; the place read is [CLS]."""
        left, text = self._query(query), self._tokens(passage_text(passage.title, passage.text))
        room = self._room(left)
        title = self._tokens(passage_text(passage.title, ""))[: room // 4]
        step = room - len(title)
        further = (title + text[start : start + step] for start in range(room, len(text), step))
        return [self._pair(left, right) for right in (text[:room], *further)]

    def sentence(self, query: Query, title: str, sentence: str) -> CrossInput:
        """Query and a single sentence under its title; the place read is [CLS]."""
        left = self._query(query)
        return self._pair(left, self._tokens(passage_text(title, sentence))[: self._room(left)])

    def evidence(self, query: Query) -> tuple[CrossInput, list[Word]]:
        """The claim and its facts, the best ones that fit, in their order; every token of a fact has a key into the words.

        The place that is [CLS] comes first, with the key -1.
        """
        left = self._query(Query(query.text))
        ids, words = self._evidence(query.facts, self._room(left))
        base = self._pair(left, ids)
        inside = [number for number, word in enumerate(words) if word is not None]
        kept = [word for word in words if word is not None]
        places = [0, *(base.right + number for number in inside)]
        return CrossInput(base.ids, base.right, places, [-1, *range(len(kept))]), kept

    # How they are laid out

    def _query(self, query: Query) -> list[int]:
        """`claim # fact # fact`: the claim has at least half of the room, old facts give way to new ones."""
        limit = self.config.query_length
        facts = [self._tokens(fact_text(fact)) for fact in query.facts]
        wanted = sum(len(fact) + len(self._between) for fact in facts)
        claim = self._tokens(query.text)[: max(limit - wanted, limit // 2)]
        for fact in latest_facts_within(query.facts, facts, limit - len(claim), len(self._between)):
            claim += self._between + fact
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
        """Tokens of the facts that fit, and for each token the word it is; a separator is none."""
        read = [self._words(fact_text(fact)) for fact in facts]
        sizes = [len(numbers) + len(self._between) for numbers, _, _ in read]
        ids: list[int] = []
        words: list[Word | None] = []
        for number in _best_within(facts, sizes, room + len(self._between)):  # the first has no separator
            between = self._between if ids else []
            numbers, starts, ends = read[number]
            ids += [*between, *numbers]
            words += [None for _ in between]
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
    """Consecutive texts in groups of at most `room` tokens with a marker each; one that is longer alone is cut."""
    window: list[tuple[int, list[int]]] = []
    left = room
    for key, ids in marked:
        whole = ids[: room - 1]
        if window and len(whole) + 1 > left:
            yield window
            window, left = [], room
        window.append((key, whole))
        left -= len(whole) + 1
    if window:
        yield window


def _best_within(facts: Sequence[Fact], sizes: Sequence[int], room: int) -> list[int]:
    """The facts with the highest scores whose sizes fit into `room`, and at least one, in the order of `facts`."""
    kept: list[int] = []
    for number in sorted(range(len(facts)), key=lambda number: -facts[number].score):
        if kept and sizes[number] > room:
            continue
        kept.append(number)
        room -= sizes[number]
    return sorted(kept)
