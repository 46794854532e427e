"""What a baseline is: one ranking for each text, and the settings that it depends on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from baleen.types import Hit, Ranking


class Baseline(Protocol):
    settings: dict[str, Any]

    def rank(self, texts: Sequence[str], k: int) -> list[Ranking]:
        """For each text the k best passages at most, best first."""
        ...


def ranking_of(pids: Sequence[str], rows: Sequence[int], scores: Sequence[float]) -> Ranking:
    """Rows of `pids` by score, equal scores in order of their pids."""
    hits = [Hit(pids[row], score) for row, score in zip(rows, scores, strict=True)]
    return Ranking(tuple(sorted(hits, key=lambda hit: (-hit.score, hit.pid))))
