"""A run's plan: what `baleen train CONFIG.toml` reads.

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

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from baleen.config import NO_SETTING, from_mapping, read_toml
from baleen.errors import ConfigError
from baleen.training.reading_plan import ReadingPlan
from baleen.training.retriever_plan import RetrieverPlan
from baleen.training.world import CollectionPlan, Missing

ABLATION, LIKE = "ablation", "like"
# What is not told where a plan does without: runs that were begun before there was such a setting go on.
_UNTOLD = {"ready": None, "named_bonus": 0.0, "dropout": None}


@dataclass(frozen=True)
class RunPlan:
    """Everything that a run is made of; `root` is where its paths start."""

    collections: tuple[CollectionPlan, ...]
    retriever: RetrieverPlan
    reading: ReadingPlan | None = None
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
