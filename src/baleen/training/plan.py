"""How the retrievers of a run are trained, or which one is taken as it is: the [retriever] of a plan.

How the cross-encoder of a run is trained: the [reading] of a plan.

A run's plan: what `baleen train CONFIG.toml` reads.

    hops = 4
    missing = "drop"                    a gold passage that the corpus lacks: "fail", or leave its question out

    [[collections]]                     a corpus, and questions over it
    name = "wiki"
    corpus = ["wiki.jsonl.gz"]
    train = [{ dataset = "hover", file = "hover_train.json" }]      Source: weight, limit, order and searched beside
    dev = [{ dataset = "hover", file = "hover_dev.json" }]
    sample = 100_000                    search so many of its passages only; may be left out

    [retriever]                         RetrieverPlan; [retriever.encoder], [retriever.training], [retriever.learning]
    [reading]                           ReadingPlan; [reading.first], [reading.training], [reading.learning]; may be left out

A plan that is another but for a few settings says whose they are otherwise, and those few:

    like = "small.toml"                 a file beside it
    [reading.training]
    seed = 1

Tables are taken together key by key, lists such as the collections taken as a whole.

Paths are relative to the file.  A `backbone`, or a retriever that is `ready`, is a folder beside it, or whatever
`checkpoint.resolve` makes of the name.
An [ablation] beside them is for `experiments/ablation.py`, and ignored here.
Every key that is not known is refused with the nearest that is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from baleen.core.config import NO_SETTING, from_mapping, read_toml
from baleen.core.errors import ConfigError
from baleen.models.cross_encoder import HEADS, THREE_LABELS, TWO_LABELS, HeadConfig
from baleen.models.pairs import CrossConfig
from baleen.models.tokens import EncoderConfig
from baleen.training.cross_encoder.task import ReadingTraining
from baleen.training.data import CollectionPlan, Missing
from baleen.training.loop.config import TrainConfig
from baleen.training.retriever.batches import RetrieverTraining

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


APART = ("facts", "reranker", "verifier", "answerer")  # after "sentences", in this order


@dataclass(frozen=True)
class CrossEncoderPlan:
    """What is trained, from what, and for how long.

    `backbone` is an encoder of Hugging Face, or a cross-encoder of ours.  With `shared` all heads have one backbone and
    take turns by `weights`; else each has its own.  A sequence has at most `length` tokens, of which claim and facts
    take `query_length`.

    `depth` passages of each hop are read; negatives of stage 1 and of the reranker lie within the first `negatives` of
    a hop, the last of which goes on where there are more hops.  `infer` takes sentences of gold passages none of which is
    known for gold: likely ones by their words for stage 1, and for what comes after it the one that stage 1 likes best.  `labels` are 2 or 3.
    The verifier reads a share `incomplete` of the claims that have several gold facts with one of them missing.
    `mention_boost` is what the scores of passages are raised by that a query or a passage which carries a fact names, when
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
    mention_boost: float = 0.0
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
        if not 0 <= self.mention_boost < math.inf:
            raise ConfigError(f"mention_boost = {self.mention_boost}, which should be a number, 0 or above")
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


ABLATION, LIKE = "ablation", "like"
# What is not told where a plan does without: runs that were begun before there was such a setting go on.
_UNTOLD = {"ready": None, "mention_boost": 0.0, "dropout": None}


@dataclass(frozen=True)
class RunPlan:
    """Everything that a run is made of; `root` is where its paths start."""

    collections: tuple[CollectionPlan, ...]
    retriever: RetrieverPlan
    reading: CrossEncoderPlan | None = None
    hops: int = 4
    missing: Missing = "fail"
    root: Path = field(default=Path(), metadata=NO_SETTING)

    def __post_init__(self) -> None:
        if self.hops < 1:
            raise ConfigError(f"hops = {self.hops}, which should be at least 1")
        if not self.collections:
            raise ConfigError("a plan needs at least one of [[collections]]: a corpus and questions over it")

    def backbone(self, name: str) -> str:
        """A backbone as it is found from anywhere: the folder of that name beside the plan, else the name itself."""
        return str(self.root / name) if (self.root / name).is_dir() else name

    @property
    def placed_retriever(self) -> RetrieverPlan:
        """The retriever's plan, with what it starts from or takes as it is found from anywhere."""
        plan = self.retriever
        if plan.ready is not None:
            return replace(plan, ready=self.backbone(plan.ready))
        assert plan.backbone is not None
        return replace(plan, backbone=self.backbone(plan.backbone))

    def check_processes(self, count: int) -> None:
        """A ConfigError where a batch does not divide between so many processes."""
        own = {} if self.retriever.ready is not None else {"retriever.training": self.retriever.training}
        trainings = {**own, **(self.reading.trainings if self.reading else {})}
        for name, training in trainings.items():
            if training.batch_size % (count * training.accumulate):
                raise ConfigError(
                    f"{name}: batch_size = {training.batch_size} does not divide into {training.accumulate} passes of "
                    f"{count} processes: change one of them"
                )

    def told(self) -> dict[str, Any]:
        """As JSON holds it, without the place of the file; what is not asked for is not told."""
        return {key: _asked_for(value) for key, value in asdict(self).items() if key != "root"}


def _asked_for(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _asked_for(each) for key, each in value.items() if key not in _UNTOLD or each != _UNTOLD[key]}


def data_of(told: Mapping[str, Any]) -> Any:
    """Which passages and questions there are, of what `told` says: all about collections but how often each is taken."""
    return told["missing"], [{**plan, **_unweighted(plan)} for plan in told["collections"]]


def _unweighted(collection: Mapping[str, Any]) -> dict[str, Any]:
    return {part: [{**source, "weight": None} for source in collection[part]] for part in ("train", "dev")}


def read_plan(path: Path) -> RunPlan:
    """The plan in a TOML file."""
    settings = {key: value for key, value in read_settings(path).items() if key != ABLATION}
    return replace(from_mapping(RunPlan, settings, str(path)), root=path.parent)


def read_settings(path: Path, after: tuple[Path, ...] = ()) -> dict[str, Any]:
    """What a file says, on what the plan that it is `like` says; `after` are those that led to this one."""
    own = read_toml(path)
    other = own.pop(LIKE, None)
    if other is None:
        return own
    if not isinstance(other, str) or not other or Path(other).name != other or other == "..":
        raise ConfigError(
            f"{path}: {LIKE} = {other!r}, which should name a file beside it, as paths are relative to it"
        )
    base = path.with_name(other)
    if base in (path, *after):
        raise ConfigError(f"{path}: {LIKE} = {other!r}, which is like this one itself")
    return _over(read_settings(base, (*after, path)), own)


def _over(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with what `own` says in its place, in tables of both key by key."""
    both = {key: _over(base[key], own[key]) for key in base.keys() & own.keys() if _tables(base[key], own[key])}
    return {**base, **own, **both}


def _tables(*values: Any) -> bool:
    return all(isinstance(value, Mapping) for value in values)
