"""How the retrievers of a run are trained, or which one is taken as it is: the [retriever] of a plan."""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Literal

from baleen.encoder import EncoderConfig
from baleen.errors import ConfigError
from baleen.training.retriever_batches import RetrieverTraining
from baleen.training.settings import TrainConfig

Order = Literal["latent", "heuristic", "oracle"]

_NOT_OF_TRAINING = ("ready", "depths")


@dataclass(frozen=True)
class RetrieverPlan:
    """How retrievers are trained, or which one is `ready`.

    `backbone` is an encoder of Hugging Face, or a retriever of ours to go on from.  `ready` is a retriever of ours, or a
    model that has one, which is taken as it is: nothing is trained then but what reads what it finds, and of the settings
    below only `depths` may be set.

    `steps` are those of R_1, R_2, ..., the last of which goes on where there are more hops; `final_steps` those of the
    final retriever.

    With `partial`, the final retriever also learns from queries that know a part of what a hop found together, and are to
    find the rest of it.

    Positives of R_1 lie within `first_depth` of the start's ranking, those of a hop within `positive_depth` of R_t's.
    Negatives lie within `negative_depth`; of them `negatives_kept` are stored for each query, evenly spread over the
    ranks, which is more than are drawn of it.  With `per_hop` false, R_1 ranks every hop, which costs one training and
    one encoding of the corpus instead of one for each hop.  `depths` are how many passages each hop retrieves when the
    final retriever is measured.
    """

    backbone: str | None = None
    ready: str | None = None
    order: Order = "latent"
    steps: tuple[int, ...] = (10_000, 5_000)
    final_steps: int = 10_000
    first_depth: int = 20
    positive_depth: int = 10
    negative_depth: int = 1000
    negatives_kept: int = 100
    per_hop: bool = True
    partial: bool = False
    depths: tuple[int, ...] = (25, 25, 25, 25)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    training: TrainConfig = field(default_factory=TrainConfig)
    learning: RetrieverTraining = field(default_factory=RetrieverTraining)

    def __post_init__(self) -> None:
        self._check_origin()
        for name in ("final_steps", "first_depth", "positive_depth", "negative_depth", "negatives_kept"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} = {getattr(self, name)}, which should be at least 1")
        for name in ("steps", "depths"):
            if min(getattr(self, name), default=0) < 1:
                raise ConfigError(f"{name} = {list(getattr(self, name))}, which should be numbers of at least 1")

    def _check_origin(self) -> None:
        if self.ready is None and self.backbone is None:
            raise ConfigError(
                "neither backbone nor ready is given: name an encoder to train from, or a retriever that is trained already"
            )
        given = [each.name for each in fields(self) if getattr(self, each.name) != _default(each)]
        beside = [name for name in given if name not in _NOT_OF_TRAINING]
        if self.ready is not None and beside:
            raise ConfigError(
                f"ready = {self.ready!r} is a retriever to be taken as it is, and {', '.join(beside)} would train one: "
                "leave out the one or the other"
            )

    def trains(self, turn: int) -> bool:
        """Whether there is a retriever of this hop's own."""
        return self.order == "latent" and (self.per_hop or turn == 1)


def _default(setting: Field[Any]) -> Any:
    return setting.default if setting.default_factory is MISSING else setting.default_factory()
