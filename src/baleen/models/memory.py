"""The tokens of texts that were read before, and many new texts tokenised at once.

A claim is read beside many passages, and a passage beside many claims.  A tokenizer takes a list of texts on all cores,
and each text of it for far less than one that comes alone.

Passages as stage 1 of the condenser reads them: every sentence behind a marker, tokenised once.

A passage is found for many queries.  What is kept of it is laid beside each of them as it is.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import islice
from threading import Lock
from typing import NamedTuple

from tokenizers import Tokenizer

from baleen.core.types import Passage, Span


class TokenCache:
    """Bare ids by text, of at most `size` texts: the oldest go first."""

    def __init__(self, tokenizer: Tokenizer, size: int) -> None:
        self._tokenizer, self._size = tokenizer, size
        self._known: dict[str, array[int]] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._known)

    def ids(self, text: str) -> list[int]:
        known = self._known.get(text)
        if known is None:
            known = array("i", self._tokenizer.encode(text, add_special_tokens=False).ids)
            self._keep({text: known})
        return known.tolist()

    def learn(self, texts: Iterable[str]) -> None:
        """Tokenise those of the texts that are not known, all at once."""
        new = list(dict.fromkeys(text for text in texts if text not in self._known))
        if new:
            encoded = self._tokenizer.encode_batch_fast(new, add_special_tokens=False)
            self._keep({text: array("i", each.ids) for text, each in zip(new, encoded, strict=True)})

    def _keep(self, found: dict[str, array[int]]) -> None:
        with self._lock:
            self._known.update(found)
            for text in list(islice(self._known, max(0, len(self._known) - self._size))):
                del self._known[text]


class TokenisedPassage(NamedTuple):
    """The tokens of a title, and of all sentences but blank ones end to end: that of `sids[i]` at `places[i]`.

    What stands at a sentence's place is its marker.
    """

    title: array[int]
    ids: array[int]
    places: tuple[int, ...]
    sids: tuple[int, ...]

    def fits(self, room: int) -> bool:
        """Whether it has a sentence, and goes into so many tokens with a title that takes a quarter of them at most."""
        return bool(self.sids) and len(self.title) <= room // 4 and len(self.title) + len(self.ids) <= room

    def sentences(self) -> list[tuple[int, list[int]]]:
        """Each sid with the tokens of its sentence."""
        ends = (*self.places[1:], len(self.ids))
        return [
            (sid, self.ids[place + 1 : end].tolist())
            for sid, place, end in zip(self.sids, self.places, ends, strict=False)
        ]


class PassageCache:
    """Passages that were asked for, at most `size` of them: those that came first go first."""

    def __init__(self, tokenizer: Tokenizer, marker: int, size: int) -> None:
        self._tokenizer, self._marker, self._size = tokenizer, marker, size
        self._known: dict[tuple[str, str, tuple[Span, ...]], TokenisedPassage] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._known)

    def of(self, passage: Passage) -> TokenisedPassage:
        known = self._known.get((passage.title, passage.text, passage.spans))
        return known or self._learnt([passage])[0]

    def learn(self, passages: Iterable[Passage]) -> None:
        """Tokenise those of the passages that are not known, all at once."""
        keyed = {(each.title, each.text, each.spans): each for each in passages}
        new = [passage for key, passage in keyed.items() if key not in self._known]
        if new:
            self._learnt(new)

    def _learnt(self, passages: Sequence[Passage]) -> list[TokenisedPassage]:
        written = [[(sid, text) for sid, text in enumerate(each.sentences) if text.strip()] for each in passages]
        texts = [
            text
            for each, own in zip(passages, written, strict=True)
            for text in (each.title, *(text for _, text in own))
        ]
        encoded = iter(self._tokenizer.encode_batch_fast(texts, add_special_tokens=False))
        made = [
            self._marked(next(encoded).ids, [sid for sid, _ in own], [each.ids for each in islice(encoded, len(own))])
            for own in written
        ]
        self._keep(passages, made)
        return made

    def _marked(self, title: list[int], sids: list[int], sentences: list[list[int]]) -> TokenisedPassage:
        ids, places = list[int](), list[int]()
        for sentence in sentences:
            places.append(len(ids))
            ids.append(self._marker)
            ids += sentence
        return TokenisedPassage(array("i", title), array("i", ids), tuple(places), tuple(sids))

    def _keep(self, passages: Sequence[Passage], made: Sequence[TokenisedPassage]) -> None:
        with self._lock:
            for passage, each in zip(passages, made, strict=True):
                self._known[passage.title, passage.text, passage.spans] = each
            for key in list(islice(self._known, max(0, len(self._known) - self._size))):
                del self._known[key]
