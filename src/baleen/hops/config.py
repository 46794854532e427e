"""The settings of a run: pipeline, hops, passages per hop, thresholds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from baleen.core.config import NO_SETTING
from baleen.core.errors import ConfigError
from baleen.core.types import RankedBy
from baleen.hops.condenser import CondenserConfig, Threshold

Pipeline = Literal["condense", "rerank", "hybrid"]


@dataclass(frozen=True)
class RunConfig:
    """How a claim is taken through its hops.

    `k` is how many passages each hop retrieves: one number for all, or one for each, of which the last goes on where
    there are more `hops` (None: as many as `k` has numbers, or 4).  `stop_early` ends a run at the first hop that adds
    no fact; the paper always runs all.  `stand_in` puts the relevance score of the reranker in the place of a
    condenser, and does without a reader if need be.  `threshold` is what facts have to score above to be kept, or two
    numbers, for the way and for the end, or a third between them, for the reader; it is for a call to say (None: the
    condenser's own, among a model's settings).
    `ranked_by` is how the passages of all hops end up in one list: as the paper has it, or by what was read in them.
    `named_bonus` is what a passage's score is raised by if the claim names it, or a passage that carries a fact; with 0
    names are not looked for.
    """

    pipeline: Pipeline = "condense"
    hops: int | None = None
    k: int | Sequence[int] = 25
    stop_early: bool = False
    stand_in: bool = False
    ranked_by: RankedBy = "hops"
    named_bonus: float = 0.0
    threshold: Threshold | None = field(default=None, metadata=NO_SETTING)

    def __post_init__(self) -> None:
        for name, known in (("pipeline", get_args(Pipeline)), ("ranked_by", get_args(RankedBy))):
            if getattr(self, name) not in known:
                raise ConfigError(f"{name} = {getattr(self, name)!r} should be one of {', '.join(known)}")
        counts = [*self._given, *([] if self.hops is None else [self.hops])]
        if not self._given or not all(isinstance(count, int) and count >= 1 for count in counts):
            raise ConfigError(f"hops = {self.hops!r} and k = {self.k!r}: both should be whole numbers, at least 1")
        number = isinstance(self.named_bonus, (int, float)) and not isinstance(self.named_bonus, bool)
        if not (number and 0 <= self.named_bonus < math.inf):
            raise ConfigError(f"named_bonus = {self.named_bonus!r} should be a number, 0 or above")
        if self.threshold is not None:
            CondenserConfig(threshold=self.threshold)  # refuses what is no threshold
            if self.pipeline == "rerank":
                raise ConfigError("a threshold is for a condenser, and pipeline = 'rerank' has none: leave it out")

    @property
    def depths(self) -> tuple[int, ...]:
        """Passages of each hop."""
        hops = self.hops if self.hops is not None else 4 if isinstance(self.k, int) else len(self._given)
        return (*self._given[:hops], *self._given[-1:] * (hops - len(self._given)))

    @property
    def _given(self) -> tuple[int, ...]:
        return tuple(self.k) if isinstance(self.k, Sequence) else (self.k,)
