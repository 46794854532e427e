"""Seconds and tokens of the stages that a batch of claims goes through together."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from baleen.types import Condensed


class Stopwatch:
    """For `count` claims: a stage's seconds are shared evenly between them, tokens belong to the claim they are of."""

    def __init__(self, count: int) -> None:
        self.seconds: dict[str, float] = {}
        self.tokens: list[dict[str, int]] = [{} for _ in range(count)]

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = (time.perf_counter() - start) / max(1, len(self.tokens))
            self.seconds[stage] = self.seconds.get(stage, 0.0) + spent

    def read(self, number: int, stage: str, tokens: int) -> None:
        """Claim `number` had `tokens` read in a stage."""
        self.tokens[number][stage] = self.tokens[number].get(stage, 0) + tokens

    def stamp(self, number: int, condensed: Condensed) -> Condensed:
        return replace(condensed, seconds=dict(self.seconds), tokens=dict(self.tokens[number]))
