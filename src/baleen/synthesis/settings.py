"""Settings of a synthesis."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from baleen.core.errors import ConfigError
from baleen.data.example import NOT_ENOUGH, REFUTED, SUPPORTED
from baleen.synthesis.drafts import BRIDGE, CHAIN, COMPARISON, INTERSECTION, KINDS, TREE

CLAIM_LABELS = (SUPPORTED, REFUTED, NOT_ENOUGH)


def _hops() -> Mapping[int, float]:
    return {2: 0.4, 3: 0.35, 4: 0.25}


def _kinds() -> Mapping[str, float]:
    return {CHAIN: 0.35, BRIDGE: 0.25, TREE: 0.2, INTERSECTION: 0.12, COMPARISON: 0.08}


def _labels() -> Mapping[str, float]:
    return {SUPPORTED: 0.5, REFUTED: 0.35, NOT_ENOUGH: 0.15}


@dataclass(frozen=True)
class SynthesisConfig:
    """Shares are targets: if a corpus lacks one kind, others make up for it.

    `questions`: share of questions.  `gaps`: share of questions that leave out a name, year or number.
    `unnamed`: share of chains and trees that name none of their pages.  `solved`: share to keep of claims that one word
    search solves, with all gold passages in its top `solved_depth`.  `max_mentions`: a page with more mentions is not
    described, since "a country in Europe" says little.  `per_page`: maximum number of claims that start at a page.
    """

    limit: int = 1000
    seed: int = 0
    hops: Mapping[int, float] = field(default_factory=_hops)
    kinds: Mapping[str, float] = field(default_factory=_kinds)
    labels: Mapping[str, float] = field(default_factory=_labels)
    questions: float = 0.3
    gaps: float = 0.0
    unnamed: float = 0.3
    solved: float = 0.5
    solved_depth: int = 20
    max_mentions: int = 400
    per_page: int = 12

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ConfigError(f"a limit of {self.limit} claims; expected at least 1")
        for name in ("questions", "gaps", "unnamed", "solved"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} = {getattr(self, name)}; expected a share between 0 and 1")
        if any(hops < 2 for hops in self.hops) or not self.hops:
            raise ConfigError(f"hops {sorted(self.hops)}; expected one or more numbers from 2 on")
        for name, known in (("kinds", KINDS), ("labels", CLAIM_LABELS)):
            unknown = set(getattr(self, name)) - set(known)
            if unknown:
                raise ConfigError(f"{name} {sorted(unknown)} are not known; expected some of {', '.join(known)}")
        for name in ("hops", "kinds", "labels"):
            shares = list(getattr(self, name).values())
            if not all(0 <= share < math.inf for share in shares) or not any(shares):
                raise ConfigError(f"shares of {name} {shares}; expected numbers from 0 on, one of them above 0")

    def balanced(self) -> SynthesisConfig:
        """Give equal shares to all hops, kinds and labels that have one."""
        return replace(self, hops=_equal(self.hops), kinds=_equal(self.kinds), labels=_equal(self.labels))


def _equal(shares: Mapping[Any, float]) -> Mapping[Any, float]:
    return {name: 1.0 for name, share in shares.items() if share}
