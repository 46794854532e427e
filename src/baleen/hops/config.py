"""The settings of a run: tasks, pipeline, hops, passages per hop, thresholds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypedDict, get_args

from baleen.core.config import NO_SETTING
from baleen.core.errors import ConfigError
from baleen.core.types import RankedBy

Pipeline = Literal["condense", "rerank", "hybrid"]
TaskName = Literal["verify", "ask"]


@dataclass(frozen=True)
class Task:
    """What to do with a text: the noun for it, the component that reads its facts, and the kind of outcome."""

    name: TaskName
    noun: str
    component: str
    outcome: str


VERIFY = Task("verify", "claim", "verifier", "verdict")
ASK = Task("ask", "question", "answerer", "answer")
TASKS: Mapping[TaskName, Task] = {"verify": VERIFY, "ask": ASK}


class RunOptions(TypedDict, total=False):
    """The fields of `RunConfig` as keyword arguments; None leaves an option to the model."""

    pipeline: Pipeline | None
    hops: int | None
    k: int | Sequence[int] | None
    stop_early: bool | None
    untrained: bool | None
    ranked_by: RankedBy | None
    mention_boost: float | None
    keep: float | None
    read: float | None
    final: float | None


class Thresholds(NamedTuple):
    """Minimum fact scores to stay in the query, to reach the reader, to be reported: keep <= read <= final."""

    keep: float
    read: float
    final: float


@dataclass(frozen=True)
class CondenserConfig:
    """Limits of the condenser.

    pool            new sentences of a hop that stage 2 scores, beside all earlier facts
    keep            minimum fact score to stay in the query
    read            minimum fact score to reach the reader after the last hop (None: that of `final`)
    final           minimum fact score to be reported
    max_facts       most facts (None: no limit)
    min_passages    passages that final facts come from at least; the best sentences of further passages fill them up

    keep <= read <= final.  Each threshold that is None takes the value of its neighbour, so that one given value is used
    for all three; without any they are 0.
    """

    pool: int = 9
    keep: float | None = None
    read: float | None = None
    final: float | None = None
    max_facts: int | None = None
    min_passages: int = 0

    def __post_init__(self) -> None:
        for name in ("pool", "max_facts"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} = {value}, which should be at least 1")
        if not 0 <= self.min_passages <= (math.inf if self.max_facts is None else self.max_facts):
            raise ConfigError(
                f"min_passages = {self.min_passages}, which should be 0 or more, and no more than max_facts = {self.max_facts}"
            )
        for name, value in self._given.items():
            if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
                raise ConfigError(f"{name} = {value!r}, which should be a finite number")
        if list(self._given.values()) != sorted(self._given.values()):
            found = ", ".join(f"{name} = {value:g}" for name, value in self._given.items())
            raise ConfigError(f"{found}; expected keep <= read <= final")

    @property
    def thresholds(self) -> Thresholds:
        """All three thresholds, with the defaults filled in."""
        given = list(self._given.values()) or [0.0]
        keep = given[0] if self.keep is None else self.keep
        final = given[-1] if self.final is None else self.final
        return Thresholds(keep, final if self.read is None else self.read, final)

    @property
    def _given(self) -> dict[str, float]:
        named = {"keep": self.keep, "read": self.read, "final": self.final}
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True)
class RunConfig:
    """Options of a run.

    pipeline        how the passages of a hop are condensed
    hops            number of hops (None: as many as `k` has numbers, or 4)
    k               passages to retrieve per hop: one number, or one per hop, of which the last holds for further hops
    stop_early      end at the first hop that adds no fact
    untrained       use reranker scores instead of a trained condenser; skip a missing reader
    ranked_by       order of the passages of all hops: facts first, then by hop and rank ("hops"), or by the best
                    sentence of each ("evidence")
    mention_boost   score added to passages mentioned by title in the claim or its evidence (0 = off)
    keep, read, final   minimum fact score to stay in the query, to reach the reader, to be reported (None: the model's)
    """

    pipeline: Pipeline = "condense"
    hops: int | None = None
    k: int | Sequence[int] = 25
    stop_early: bool = False
    untrained: bool = False
    ranked_by: RankedBy = "hops"
    mention_boost: float = 0.0
    keep: float | None = field(default=None, metadata=NO_SETTING)
    read: float | None = field(default=None, metadata=NO_SETTING)
    final: float | None = field(default=None, metadata=NO_SETTING)

    def __post_init__(self) -> None:
        for name, known in (("pipeline", get_args(Pipeline)), ("ranked_by", get_args(RankedBy))):
            if getattr(self, name) not in known:
                renamed = " ('reading' is now 'evidence')" if getattr(self, name) == "reading" else ""
                raise ConfigError(f"{name} = {getattr(self, name)!r} should be one of {', '.join(known)}{renamed}")
        counts = [*self._given, *([] if self.hops is None else [self.hops])]
        if not self._given or not all(isinstance(count, int) and count >= 1 for count in counts):
            raise ConfigError(f"hops = {self.hops!r} and k = {self.k!r}: both should be whole numbers, at least 1")
        number = isinstance(self.mention_boost, (int, float)) and not isinstance(self.mention_boost, bool)
        if not (number and 0 <= self.mention_boost < math.inf):
            raise ConfigError(f"mention_boost = {self.mention_boost!r} should be a number, 0 or above")
        CondenserConfig(keep=self.keep, read=self.read, final=self.final)  # checks the thresholds
        if self.thresholds and self.pipeline == "rerank":
            raise ConfigError(
                f"{', '.join(self.thresholds)}: thresholds are for a condenser, and pipeline = 'rerank' has none; "
                "leave them out"
            )

    @property
    def thresholds(self) -> dict[str, float]:
        """The thresholds that outrank the model's, by name."""
        given = {"keep": self.keep, "read": self.read, "final": self.final}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def depths(self) -> tuple[int, ...]:
        """Passages of each hop."""
        hops = self.hops if self.hops is not None else 4 if isinstance(self.k, int) else len(self._given)
        return (*self._given[:hops], *self._given[-1:] * (hops - len(self._given)))

    @property
    def _given(self) -> tuple[int, ...]:
        return tuple(self.k) if isinstance(self.k, Sequence) else (self.k,)
