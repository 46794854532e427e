"""Caches of tokenised texts and passages, which threads may share.

A claim is read with many passages, and a passage with many claims, so their tokens are kept.  Adding many texts in one
call is much faster than one at a time: the tokenizer then uses all cores.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import islice
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

from tokenizers import Tokenizer

from baleen.core.types import Passage, Span

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class BoundedCache(Generic[Key, Value]):
    """At most `size` entries; the oldest are dropped first.  Every method is atomic, so threads may share it."""

    def __init__(self, size: int) -> None:
        self._size, self._entries, self._lock = size, dict[Key, Value](), Lock()

    def __len__(self) -> int:
        with self._lock:
            return len(self._entries)

    def get(self, key: Key) -> Value | None:
        with self._lock:
            return self._entries.get(key)

    def missing(self, keys: Iterable[Key]) -> list[Key]:
        """The keys without an entry, each once, in order."""
        wanted = dict.fromkeys(keys)
        with self._lock:
            return [key for key in wanted if key not in self._entries]

    def add(self, entries: Mapping[Key, Value]) -> None:
        with self._lock:
            self._entries.update(entries)
            for key in list(islice(self._entries, max(0, len(self._entries) - self._size))):
                del self._entries[key]


class TokenCache:
    """Token ids by text, without special tokens, for at most `size` texts."""

    def __init__(self, tokenizer: Tokenizer, size: int) -> None:
        self._tokenizer = tokenizer
        self._cache: BoundedCache[str, array[int]] = BoundedCache(size)

    def __len__(self) -> int:
        return len(self._cache)

    def ids(self, text: str) -> list[int]:
        known = self._cache.get(text)
        if known is None:
            known = array("i", self._tokenizer.encode(text, add_special_tokens=False).ids)
            self._cache.add({text: known})
        return known.tolist()

    def add(self, texts: Iterable[str]) -> None:
        """Tokenise all uncached texts in one call."""
        new = self._cache.missing(texts)
        if new:
            encoded = self._tokenizer.encode_batch_fast(new, add_special_tokens=False)
            self._cache.add({text: array("i", each.ids) for text, each in zip(new, encoded, strict=True)})


class TokenisedPassage(NamedTuple):
    """The tokens of a title, and of all sentences with text, end to end.

    `ids` has a marker before each sentence; that of sentence `sids[i]` is at `places[i]`.
    """

    title: array[int]
    ids: array[int]
    places: tuple[int, ...]
    sids: tuple[int, ...]

    def fits(self, room: int) -> bool:
        """Whether it has a sentence and needs at most `room` tokens, and its title at most a quarter of them."""
        return bool(self.sids) and len(self.title) <= room // 4 and len(self.title) + len(self.ids) <= room

    def sentences(self) -> list[tuple[int, list[int]]]:
        """Each sid with the tokens of its sentence, without the marker."""
        ends = (*self.places[1:], len(self.ids))
        return [
            (sid, self.ids[place + 1 : end].tolist())
            for sid, place, end in zip(self.sids, self.places, ends, strict=False)
        ]


PassageKey = tuple[str, str, tuple[Span, ...]]


class PassageCache:
    """Passages with a marker before each sentence, as stage 1 of the condenser reads them; at most `size` of them."""

    def __init__(self, tokenizer: Tokenizer, marker: int, size: int) -> None:
        self._tokenizer, self._marker = tokenizer, marker
        self._cache: BoundedCache[PassageKey, TokenisedPassage] = BoundedCache(size)

    def __len__(self) -> int:
        return len(self._cache)

    def get(self, passage: Passage) -> TokenisedPassage:
        """The passage's tokens, from the cache or tokenised now."""
        return self._cache.get(_key(passage)) or self._tokenise([passage])[0]

    def add(self, passages: Iterable[Passage]) -> None:
        """Tokenise all uncached passages in one call."""
        keyed = {_key(passage): passage for passage in passages}
        new = self._cache.missing(keyed)
        if new:
            self._tokenise([keyed[key] for key in new])

    def _tokenise(self, passages: Sequence[Passage]) -> list[TokenisedPassage]:
        written = [[(sid, text) for sid, text in enumerate(each.sentences) if text.strip()] for each in passages]
        texts = [
            text
            for each, own in zip(passages, written, strict=True)
            for text in (each.title, *(text for _, text in own))
        ]
        encoded = iter(self._tokenizer.encode_batch_fast(texts, add_special_tokens=False))
        made = [
            self._with_markers(
                next(encoded).ids, [sid for sid, _ in own], [each.ids for each in islice(encoded, len(own))]
            )
            for own in written
        ]
        self._cache.add(dict(zip(map(_key, passages), made, strict=True)))
        return made

    def _with_markers(self, title: list[int], sids: list[int], sentences: list[list[int]]) -> TokenisedPassage:
        ids, places = list[int](), list[int]()
        for sentence in sentences:
            places.append(len(ids))
            ids.append(self._marker)
            ids += sentence
        return TokenisedPassage(array("i", title), array("i", ids), tuple(places), tuple(sids))


def _key(passage: Passage) -> PassageKey:
    return passage.title, passage.text, passage.spans
