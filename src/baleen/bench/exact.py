"""The exact best passages over the original float vectors, and recall against them.

`baleen.scoring` defines the score; here it runs over a stream of passages for all queries at once, so that a corpus of
any size has an exact answer in little memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from baleen.scoring import focused_score
from baleen.vectors import PassageVectors, QueryVectors

Array = npt.NDArray[Any]
Focus = tuple[int | None, int | None]

BLOCK = 256  # passages that are scored at once: their similarities to one query stay in the cache


def exact_top(vectors: Iterable[PassageVectors], queries: Sequence[QueryVectors], k: int, focus: Focus) -> Array:
    """Rows of the passages with the highest focused score, best first: (queries, k or as many as there are) int64."""
    with torch.inference_mode():
        best = torch.empty((len(queries), 0))
        rows = torch.empty((len(queries), 0), dtype=torch.int64)
        first = 0
        for block in blocks(vectors):
            scores = torch.stack([score(query, block, focus) for query in queries])  # (queries, passages)
            numbers = torch.arange(first, first + len(block)).expand(len(queries), -1)
            best, rows = torch.cat([best, scores], dim=1), torch.cat([rows, numbers], dim=1)
            best, order = best.topk(min(k, best.shape[1]), dim=1)
            rows = rows.gather(1, order)
            first += len(block)
        return rows.numpy()


def score(query: QueryVectors, block: Tensor, focus: Focus) -> Tensor:
    """The focused score of one query with passages (p, m, d) of a block: (p,)."""
    claim, facts = (torch.from_numpy(part)[None] for part in (query.query, query.facts))
    limits = {"query_focus": focus[0], "facts_focus": focus[1]}
    return focused_score(claim, None, facts, None, block, None, **limits)[0]


def blocks(vectors: Iterable[PassageVectors]) -> Iterator[Tensor]:
    """Passages as (p, m, d) float32, p up to BLOCK; a shorter one repeats its last vector, which moves no maximum."""
    for part in vectors:
        for first in range(0, len(part), BLOCK):
            lengths = part.lengths[first : first + BLOCK]
            places = np.minimum(np.arange(lengths.max(initial=0)), lengths[:, None] - 1)
            rows = part.offsets[first : first + len(lengths), None] + places
            yield torch.from_numpy(part.vectors[rows].astype(np.float32))


def recall(found: Sequence[Collection[str]], expected: Sequence[Collection[str]]) -> float:
    """The mean share of what was expected for a query that was found for it."""
    shares = [len({*have} & {*want}) / len(want) for have, want in zip(found, expected, strict=True)]
    return sum(shares) / len(shares)
