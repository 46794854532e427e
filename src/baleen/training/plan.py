"""A run's plan: what `baleen train CONFIG.toml` reads.

    hops = 4
    missing = "drop"                    a gold passage that the corpus lacks: "fail", or leave its question out

    [[collections]]                     a corpus, and questions over it
    name = "wiki"
    corpus = ["wiki.jsonl.gz"]
    train = [{ dataset = "hover", file = "hover_train.json" }]
    dev = [{ dataset = "hover", file = "hover_dev.json" }]

    [retriever]                         RetrieverPlan; [retriever.encoder], [retriever.training], [retriever.learning]
    [reading]                           ReadingPlan; [reading.first], [reading.training], [reading.learning]

Paths are relative to the file.  Every key that is not known is refused with the nearest that is.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from baleen.config import from_mapping, read_toml
from baleen.errors import ConfigError
from baleen.training.reading_run import ReadingPlan
from baleen.training.rounds import RetrieverPlan
from baleen.training.world import CollectionPlan, Missing


@dataclass(frozen=True)
class RunPlan:
    """Everything that a run is made of; `root` is where its paths start."""

    root: Path
    collections: tuple[CollectionPlan, ...]
    retriever: RetrieverPlan
    reading: ReadingPlan | None = None
    hops: int = 4
    missing: Missing = "fail"

    def __post_init__(self) -> None:
        if self.hops < 1:
            raise ConfigError(f"hops = {self.hops}, which should be at least 1")
        if not self.collections:
            raise ConfigError("a plan needs at least one of [[collections]]: a corpus and questions over it")

    def told(self) -> dict[str, Any]:
        """As JSON holds it, without the place of the file."""
        return {key: value for key, value in asdict(self).items() if key != "root"}


def read_plan(path: Path) -> RunPlan:
    """The plan in a TOML file."""
    table = read_toml(path)
    if "retriever" not in table:
        raise ConfigError(f"{path}: there is no [retriever], which every run trains")
    return from_mapping(RunPlan, {**table, "root": path.parent}, str(path))
