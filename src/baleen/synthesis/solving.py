"""The worst rank of a claim's gold passages in one BM25 search.

Claims whose passages are all found at once teach nothing about hops.  Words in more than one passage of `COMMON` are
ignored: they cost most of the time and change few ranks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numba
import numpy as np
import numpy.typing as npt

_WORD = re.compile(r"[^\W_]+")
COMMON = 20
K1, B = 1.2, 0.75


class SingleHop:
    """A BM25 index over passages."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._vocabulary: dict[str, int] = {}
        lengths, chunks = [], []
        for text in texts:
            ids = [self._vocabulary.setdefault(word, len(self._vocabulary)) for word in _WORD.findall(text.lower())]
            lengths.append(len(ids))
            chunks.append(np.array(ids, np.int32))
        self.passages = len(lengths)
        self._index(np.array(lengths, np.int64), np.concatenate(chunks) if chunks else np.zeros(0, np.int32))

    def _index(self, lengths: npt.NDArray[np.int64], words: npt.NDArray[np.int32]) -> None:
        """Build the postings of each word: its passages and its score in each."""
        passages = np.repeat(np.arange(self.passages, dtype=np.int64), lengths)
        keys, counts = np.unique(words.astype(np.int64) * max(self.passages, 1) + passages, return_counts=True)
        word, self._holders = np.divmod(keys, max(self.passages, 1))
        self._holders = self._holders.astype(np.int32)
        frequency = np.bincount(word, minlength=len(self._vocabulary))
        self._starts = np.concatenate([[0], np.cumsum(frequency)])
        rarity = np.log1p((self.passages - frequency + 0.5) / (frequency + 0.5))
        norm = K1 * (1 - B + B * lengths / max(lengths.mean(), 1.0)) if len(lengths) else lengths
        self._worth = (rarity[word] * counts * (K1 + 1) / (counts + norm[self._holders])).astype(np.float32)
        self._rare = frequency * COMMON <= max(self.passages, COMMON)

    def hardest_ranks(self, texts: Sequence[str], gold: Sequence[Sequence[int]]) -> npt.NDArray[np.int64]:
        """Worst rank, from 1, of each text's gold passages."""
        words = [self._query(text) for text in texts]
        ranks: npt.NDArray[np.int64] = _hardest(
            *_ragged(words), *_ragged(gold), self._starts, self._holders, self._worth, self.passages
        )
        return ranks

    def _query(self, text: str) -> list[int]:
        found = {self._vocabulary.get(word, -1) for word in _WORD.findall(text.lower())}
        return sorted(word for word in found if word >= 0 and self._rare[word])


def _ragged(rows: Sequence[Sequence[int]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return starts, np.array([item for row in rows for item in row], np.int64)


@numba.njit(parallel=True, cache=True)
def _hardest(  # type: ignore[no-untyped-def]
    word_starts, words, gold_starts, gold, starts, holders, worth, passages
):
    ranks = np.zeros(len(word_starts) - 1, np.int64)
    for row in numba.prange(len(ranks)):
        scores = np.zeros(passages, np.float32)
        for word in words[word_starts[row] : word_starts[row + 1]]:
            for place in range(starts[word], starts[word + 1]):
                scores[holders[place]] += worth[place]
        own = gold[gold_starts[row] : gold_starts[row + 1]]
        least = np.float32(np.inf)
        for passage in own:
            least = min(least, scores[passage])
        above = 0
        for passage in range(passages):
            above += scores[passage] >= least
        ranks[row] = above
    return ranks
