"""The plan of a run: the TOML file that `baleen train CONFIG.toml` reads.

    hops = 4
    missing = "drop"                    for a gold passage that the corpus lacks: "fail", or drop its question

    [[collections]]                     a corpus and its questions: CollectionPlan
    name = "wiki"
    corpus = ["wiki.jsonl.gz"]
    train = [{ dataset = "hover", file = "hover_train.json" }]      Source; also weight, limit, order, searched
    dev = [{ dataset = "hover", file = "hover_dev.json" }]
    sample = 100_000                    optional: search this many of its passages only

    [retriever]                         RetrieverPlan; [retriever.encoder], [retriever.training], [retriever.learning]
    [reading]                           optional: CrossEncoderPlan; [reading.first], [reading.training], [reading.learning]

A plan can extend another one; tables are merged key by key, lists such as the collections are replaced:

    like = "small.toml"                 a file in the same folder
    [reading.training]
    seed = 1

Paths are relative to the file.  A `backbone` or a `ready` retriever is a folder in the same place, or any name that
`checkpoint.resolve_folder` knows.  `experiments/ablation.py` reads [ablation], which is ignored here.  Unknown keys
are refused, with the nearest known key.
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
from baleen.training.cross_encoder.task import HeadTraining
from baleen.training.data import CollectionPlan, Missing
from baleen.training.loop.config import TrainConfig
from baleen.training.retriever.batches import RetrieverTraining

Order = Literal["latent", "heuristic", "oracle"]

# Heads with a stage of their own where backbones are not shared, in order, after "sentences".
SEPARATE_HEADS = ("facts", "reranker", "verifier", "answerer")

ABLATION, LIKE = "ablation", "like"

_KEYS_WITH_READY = ("ready", "depths")
# Defaults that are left out of plan.json, so that runs older than these settings can be resumed.
_OMITTED_DEFAULTS = {"ready": None, "mention_boost": 0.0, "dropout": None}


@dataclass(frozen=True)
class RetrieverPlan:
    """How retrievers are trained, or which trained one is used.

    `backbone` is a Hugging Face encoder, or a retriever of ours to train further.  `ready` is a trained retriever, or a
    model with one, which is used unchanged: only the cross-encoder is trained, and of the settings below only `depths`
    may be set.

    `steps` are the training steps of R_1, R_2, ...; the last number repeats for further hops.  `final_steps` are those
    of the final retriever.  With `partial`, it also learns from queries that have only some of the facts of a hop, and
    must find the rest of that hop's passages.

    Positives of R_1 are within the first `first_depth` passages of the starting ranking, those of hop t within the
    first `positive_depth` of R_t.  Negatives are within `negative_depth`; `negatives_kept` of them, evenly spread over
    the ranks, are stored per query for sampling.  With `per_hop` false, R_1 ranks every hop, which saves one training
    and one encoding of the corpus per hop.  `depths` are the passages retrieved per hop when the final retriever is
    measured.
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
                "neither backbone nor ready is given: name an encoder to train from, or a trained retriever to use"
            )
        given = [each.name for each in fields(self) if getattr(self, each.name) != _default(each)]
        for_training = [name for name in given if name not in _KEYS_WITH_READY]
        if self.ready is not None and for_training:
            raise ConfigError(
                f"ready = {self.ready!r} is used unchanged, but {', '.join(for_training)} would train a retriever: "
                "leave out one or the other"
            )

    def trains(self, turn: int) -> bool:
        """Whether this hop has its own retriever."""
        return self.order == "latent" and (self.per_hop or turn == 1)


def _default(setting: Field[Any]) -> Any:
    return setting.default if setting.default_factory is MISSING else setting.default_factory()


@dataclass(frozen=True)
class CrossEncoderPlan:
    """How the condenser, the reranker and the readers are trained.

    `backbone` is a Hugging Face encoder, or a cross-encoder of ours.  With `shared`, all heads share one backbone and
    take turns by `weights`; else each has its own.  A sequence has up to `length` tokens, `query_length` of them for
    claim and facts.

    `depth` passages of each hop are read.  Negatives of stage 1 and of the reranker are within the first `negatives`
    passages of a hop; the last number repeats for further hops.  `infer` labels one sentence of each gold passage that
    has no gold sentence: by word overlap for stage 1, by the scores of stage 1 for later stages.  `labels` is 2 or 3.
    A share `incomplete` of the claims with several gold facts reach the verifier without one of them.
    `mention_boost` is added to the scores of mentioned passages when training data is retrieved, and is saved with the
    trained model.

    `first` trains stage 1 (with `shared`, and the reranker), `training` the rest.  Without `shared`, `facts`,
    `reranker`, `verifier` and `answerer` may each have their own training settings.
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
    learning: HeadTraining = field(default_factory=HeadTraining)

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
        own = [head for head in SEPARATE_HEADS if getattr(self, head) is not None]
        if self.shared and own:
            raise ConfigError(f"{own[0]} has its own training settings, which need shared = false")
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
        """Names of the stages, in order."""
        return ["rankings", "sentences", "scores", *(["reading"] if self.shared else SEPARATE_HEADS)]

    def stage(self, head: str) -> str:
        """The stage whose checkpoint holds the trained head."""
        return "reading" if self.shared else head

    def training_of(self, head: str) -> TrainConfig:
        own: TrainConfig | None = getattr(self, head)
        return own or self.training

    @property
    def trainings(self) -> dict[str, TrainConfig]:
        """Settings of every training, by their path in the plan."""
        rest = {} if self.shared else {f"reading.{head}": self.training_of(head) for head in SEPARATE_HEADS}
        return {"reading.first": self.first, **(rest or {"reading.training": self.training})}

    def negatives_at(self, hop: int) -> int:
        return self.negatives[min(hop, len(self.negatives)) - 1]


@dataclass(frozen=True)
class RunPlan:
    """A whole plan; its paths are relative to `root`."""

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

    def resolve(self, name: str) -> str:
        """The path of a folder beside the plan, or else the name itself."""
        return str(self.root / name) if (self.root / name).is_dir() else name

    @property
    def resolved_retriever(self) -> RetrieverPlan:
        """The retriever's plan with resolved paths."""
        plan = self.retriever
        if plan.ready is not None:
            return replace(plan, ready=self.resolve(plan.ready))
        assert plan.backbone is not None
        return replace(plan, backbone=self.resolve(plan.backbone))

    def check_processes(self, count: int) -> None:
        """Raise a ConfigError if a batch cannot be divided between `count` processes."""
        own = {} if self.retriever.ready is not None else {"retriever.training": self.retriever.training}
        trainings = {**own, **(self.reading.trainings if self.reading else {})}
        for name, training in trainings.items():
            if training.batch_size % (count * training.accumulate):
                raise ConfigError(
                    f"{name}: batch_size = {training.batch_size} does not divide into {training.accumulate} passes of "
                    f"{count} processes: change one of them"
                )

    def to_json(self) -> dict[str, Any]:
        """JSON values of all settings, without `root` and the omitted defaults."""
        return {key: _without_defaults(value) for key, value in asdict(self).items() if key != "root"}


def _without_defaults(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {
        key: _without_defaults(each)
        for key, each in value.items()
        if key not in _OMITTED_DEFAULTS or each != _OMITTED_DEFAULTS[key]
    }


def data_settings(plan: Mapping[str, Any]) -> Any:
    """The settings of a plan (`to_json`) that decide which passages and questions there are: all but weights."""
    return plan["missing"], [{**each, **_unweighted(each)} for each in plan["collections"]]


def _unweighted(collection: Mapping[str, Any]) -> dict[str, Any]:
    return {part: [{**source, "weight": None} for source in collection[part]] for part in ("train", "dev")}


def read_plan(path: Path) -> RunPlan:
    settings = {key: value for key, value in read_settings(path).items() if key != ABLATION}
    return replace(from_mapping(RunPlan, settings, str(path)), root=path.parent)


def read_settings(path: Path, extended_by: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Settings of a file, merged with those of the plan that it is `like`; `extended_by` guards against cycles."""
    own = read_toml(path)
    other = own.pop(LIKE, None)
    if other is None:
        return own
    if not isinstance(other, str) or not other or Path(other).name != other or other == "..":
        raise ConfigError(f"{path}: {LIKE} = {other!r}, which should name a file in the same folder")
    base = path.with_name(other)
    if base in (path, *extended_by):
        raise ConfigError(f"{path}: {LIKE} = {other!r}, which extends this plan itself")
    return _merge(read_settings(base, (*extended_by, path)), own)


def _merge(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Override `base` by `own`; tables in both are merged key by key."""
    both = {key: _merge(base[key], own[key]) for key in base.keys() & own.keys() if _tables(base[key], own[key])}
    return {**base, **own, **both}


def _tables(*values: Any) -> bool:
    return all(isinstance(value, Mapping) for value in values)
