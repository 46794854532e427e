"""The tokens of texts that were read before, and many new texts tokenised at once.

A claim is read beside many passages, and a passage beside many claims.  A tokenizer takes a list of texts on all cores,
and each text of it for far less than one that comes alone.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import islice
from threading import Lock

from tokenizers import Tokenizer


class TokenMemory:
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
