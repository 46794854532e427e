"""How the cross-encoder of a run is trained: the [reading] of a plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from baleen.crossencoder import HEADS, THREE_LABELS, TWO_LABELS, HeadConfig
from baleen.crossinputs import CrossConfig
from baleen.errors import ConfigError
from baleen.training.reading_batches import ReadingTraining
from baleen.training.settings import TrainConfig

APART = ("facts", "reranker", "verifier", "answerer")  # after "sentences", in this order


@dataclass(frozen=True)
class ReadingPlan:
    """What is trained, from what, and for how long.

    `backbone` is an encoder of Hugging Face, or a cross-encoder of ours.  With `shared` all heads have one backbone and
    take turns by `weights`; else each has its own.  A sequence has at most `length` tokens, of which claim and facts
    take `query_length`.

    `depth` passages of each hop are read; negatives of stage 1 and of the reranker lie within the first `negatives` of
    a hop, the last of which goes on where there are more hops.  `infer` takes sentences of gold passages none of which is
    known for gold: likely ones by their words for stage 1, and for what comes after it the one that stage 1 likes best.  `labels` are 2 or 3.
    The verifier reads a share `incomplete` of the claims that have several gold facts with one of them missing.
    `named_bonus` is what the scores of passages are raised by that a query or a passage which carries a fact names, when
    what is read is searched for; the model that comes out is set to the same.

    `first` is how stage 1 is trained before the others (and with `shared` the reranker beside it), `training` how the
    rest is; where heads are apart, `facts`, `reranker`, `verifier` and `answerer` may each have a training of its own.
    """

    backbone: str
    shared: bool = True
    length: int = 512
    query_length: int = 256
    depth: int = 25
    negatives: tuple[int, ...] = (20,)
    infer: bool = True
    labels: int = 2
    incomplete: float = 0.0
    named_bonus: float = 0.0
    weights: Mapping[str, int] = field(default_factory=dict)
    first: TrainConfig = field(default_factory=TrainConfig)
    training: TrainConfig = field(default_factory=TrainConfig)
    facts: TrainConfig | None = None
    reranker: TrainConfig | None = None
    verifier: TrainConfig | None = None
    answerer: TrainConfig | None = None
    learning: ReadingTraining = field(default_factory=ReadingTraining)

    def __post_init__(self) -> None:
        if self.labels not in (2, 3):
            raise ConfigError(f"labels = {self.labels}, which should be 2 or 3")
        if not 0 <= self.incomplete <= 1:
            raise ConfigError(f"incomplete = {self.incomplete}, which should be a share, from 0 to 1")
        if not 0 <= self.named_bonus < math.inf:
            raise ConfigError(f"named_bonus = {self.named_bonus}, which should be a number, 0 or above")
        if self.depth < 1 or min(self.negatives, default=0) < 1:
            raise ConfigError(
                f"depth = {self.depth} and negatives = {list(self.negatives)}, which should be numbers of at least 1"
            )
        for head, weight in self.weights.items():
            if head not in HEADS:
                raise ConfigError(f"weights: there is no head '{head}'; known are {', '.join(HEADS)}")
            if weight < 1:
                raise ConfigError(f"weights: {head} = {weight}, which should be at least 1")
        own = [head for head in APART if getattr(self, head) is not None]
        if self.shared and own:
            raise ConfigError(f"{own[0]} has a training of its own, which it can have only with shared = false")
        _ = self.inputs

    @property
    def inputs(self) -> CrossConfig:
        return CrossConfig(self.length, self.query_length)

    @property
    def heads(self) -> dict[str, HeadConfig]:
        verifier = HeadConfig(TWO_LABELS if self.labels == 2 else THREE_LABELS, pooled=True)
        return {**HEADS, "verifier": verifier}

    @property
    def stages(self) -> list[str]:
        """In the order in which they are done."""
        return ["rankings", "sentences", "scores", *(["reading"] if self.shared else APART)]

    def stage(self, head: str) -> str:
        """The stage whose checkpoint has the head as it comes out at the end."""
        return "reading" if self.shared else head

    def training_of(self, head: str) -> TrainConfig:
        own: TrainConfig | None = getattr(self, head)
        return own or self.training

    @property
    def trainings(self) -> dict[str, TrainConfig]:
        """Every training that is done, by the way to its settings."""
        rest = {} if self.shared else {f"reading.{head}": self.training_of(head) for head in APART}
        return {"reading.first": self.first, **(rest or {"reading.training": self.training})}

    def negatives_at(self, hop: int) -> int:
        return self.negatives[min(hop, len(self.negatives)) - 1]
