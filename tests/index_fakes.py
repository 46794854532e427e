"""An encoder without weights, and expected answers of an index by the definition of the focused score.

The vector of a word is drawn from its letters, so a word has the same vector in any passage, query or process.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from baleen.core.types import Hit, Passage, Ranking
from baleen.core.vectors import PassageVectors, QueryVectors

if TYPE_CHECKING:
    from baleen.index.index import Index
    from baleen.index.protocol import Searchable, SearchOptions

Array = npt.NDArray[Any]
Focus = tuple[int | None, int | None]


@cache
def direction(name: str, dim: int) -> Array:
    """The unit vector of a name."""
    seed = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
    vector = np.random.default_rng(seed).standard_normal(dim)
    return vector / np.linalg.norm(vector)


def word_vector(word: str, dim: int) -> Array:
    """(dim,) unit vector; words with the same part before the hyphen are near each other."""
    vector = direction(word.partition("-")[0], dim) + 0.6 * direction(word, dim)
    return vector / np.linalg.norm(vector)


@dataclass(frozen=True)
class WordEncoder:
    """One vector per word of a text; titles are not encoded.  Encoders with different names differ."""

    dim: int = 16
    name: str = "words"
    focus: Focus = (32, 8)
    batch: int = 5

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self.name} {self.dim}".encode()).hexdigest()

    def encode_passages(self, passages: Iterable[Passage]) -> Iterator[tuple[list[Passage], PassageVectors]]:
        waiting = iter(passages)
        while batch := list(islice(waiting, self.batch)):
            yield batch, PassageVectors.of([self.vectors(passage.text).astype(np.float16) for passage in batch])

    def encode_query(self, text: str, facts: str = "") -> QueryVectors:
        return QueryVectors(self.vectors(text), self.vectors(facts))

    def vectors(self, text: str) -> Array:
        """(words, dim) float32."""
        rows = [word_vector(word, self.dim) for word in text.split()]
        return np.array(rows, np.float32).reshape(-1, self.dim)


def passages_of(texts: Mapping[str, str]) -> list[Passage]:
    return [Passage.from_sentences(pid, f"Title of {pid}", [text]) for pid, text in texts.items()]


def random_text(chance: random.Random, words: int, stems: int = 40) -> str:
    """Words that hardly any other text has, on few enough stems to have neighbours."""
    return " ".join(f"stem{chance.randrange(stems)}-{chance.randrange(10**6)}" for _ in range(words))


def random_texts(count: int, *, seed: int = 0, longest: int = 12) -> dict[str, str]:
    chance = random.Random(seed)
    return {f"p{number}": random_text(chance, chance.randint(1, longest)) for number in range(count)}


def slow_scores(
    index: Index, vectors: QueryVectors, pids: Iterable[str], focus: Focus | None = None
) -> dict[str, float]:
    """Focused scores of passages by `scoring.py`, in double precision over the restored vectors."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    from baleen.index.scoring import focused_score

    pids = list(pids)
    if not pids:
        return {}
    restored = [torch.from_numpy(index.vectors(pid)).double() for pid in pids]
    passages = pad_sequence(restored, batch_first=True)  # (P, M, d)
    mask = torch.arange(passages.shape[1]) < torch.tensor([len(rows) for rows in restored])[:, None]
    claim, facts = (torch.from_numpy(part).double()[None] for part in (vectors.query, vectors.facts))
    keep = dict(zip(("query_focus", "facts_focus"), focus or index.focus, strict=True))
    scores = focused_score(claim, None, facts, None, passages, mask, **keep)
    return dict(zip(pids, scores[0].tolist(), strict=True))


def assert_ranks(ranking: Ranking, scores: Mapping[str, float], k: int, atol: float = 1e-4) -> None:
    """Check that `ranking` is the k best of `scores`, up to rounding errors of `atol`."""
    best = sorted(scores.values(), reverse=True)[:k]
    assert len(ranking) == len(best)
    assert len(set(ranking.pids)) == len(ranking), "each passage once"
    np.testing.assert_allclose([hit.score for hit in ranking], best, atol=atol)
    np.testing.assert_allclose([hit.score for hit in ranking], [scores[pid] for pid in ranking.pids], atol=atol)
    assert in_order(ranking.hits)


def staged_search(index: Index, vectors: QueryVectors, k: int, focus: Focus | None = None) -> Ranking:
    """Run every stage of a search, without limits; `Index.search` skips stages on a small index."""
    from baleen.index.cpu.search import Limits, Searcher
    from baleen.index.cpu.tables import Lanes
    from baleen.index.protocol import SearchOptions

    everything = SearchOptions(probes=10**6, candidates=10**6, refined=10**6)
    lanes = Lanes.of(vectors, index.codec, focus or index.focus)
    searcher = Searcher(index.codec, index.segments, threads=1)
    alive = [segment.alive for segment in index.segments]
    found = searcher.search(lanes, k, Limits.of(everything, k), alive, refine_all=False)
    places = zip(found.segments.tolist(), found.rows.tolist(), found.scores.tolist(), strict=True)
    hits = [Hit(index.segments[number].store.pid(row), score) for number, row, score in places]
    return Ranking(tuple(sorted(hits, key=lambda hit: (-hit.score, hit.pid))[:k]))


def search_all(
    index: Searchable, queries: Sequence[QueryVectors], k: int = 10, base: SearchOptions | None = None, **options: Any
) -> list[Ranking]:
    """Search with `base` and further options."""
    from baleen.index.protocol import SearchOptions

    return index.search(queries, k, replace(base or SearchOptions(), **options))


def search_one(
    index: Searchable, query: QueryVectors, k: int = 10, *, exclude: Collection[str] | None = None, **options: Any
) -> Ranking:
    """Search for one query; `exclude` holds its ids."""
    per_query = {} if exclude is None else {"exclude": [exclude]}
    return search_all(index, [query], k, **per_query, **options)[0]


def in_order(hits: Sequence[Hit]) -> bool:
    return list(hits) == sorted(hits, key=lambda hit: (-hit.score, hit.pid))
