"""What a finished run left: its plan, what its stages came to, and where it was done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baleen.checkpoint import read_json
from baleen.errors import CheckpointError, TrainingError
from baleen.training.environment import Environment, read_environments
from baleen.training.run import SUMMARY
from baleen.training.run_folder import DONE, PLAN

PARTS = ("train", "dev")
READ = "read"  # where questions to train on that are not searched for are counted
SYNTHETIC, RESTATED = "synth", "restate"  # in the name of a file or of its collection
_APART = ("facts", "reranker", "verifier", "answerer")


@dataclass(frozen=True)
class DataFile:
    """A file of questions as the plan has it; of those that are not `searched` for the readers alone learn.

    `questions` are the usable ones of its dataset in this part of the collection, None where the run does not say;
    `shared` with other files of the same dataset there, which are counted together.
    """

    collection: str
    part: str
    dataset: str
    file: str
    weight: float
    limit: int | None
    order: str
    searched: bool
    questions: int | None
    shared: bool

    @property
    def synthetic(self) -> bool:
        """Whether its name, or its collection's, says that it was synthesised."""
        return SYNTHETIC in self._called

    @property
    def restated(self) -> bool:
        """Whether they say that it was made of people's questions."""
        return RESTATED in self._called and not self.synthetic

    @property
    def made(self) -> bool:
        """Whether a program wrote it, not people."""
        return self.synthetic or self.restated

    @property
    def _called(self) -> str:
        return f"{self.collection} {Path(self.file).name}".lower()


@dataclass(frozen=True)
class RunRecord:
    """A run that is done; `plan` and `summary` as they stand on disk, `environments` in order."""

    root: Path
    plan: Mapping[str, Any]
    summary: Mapping[str, Any]
    environments: Sequence[Environment]

    @property
    def stages(self) -> Mapping[str, Mapping[str, Any]]:
        """The report of each, in order."""
        return {name: report for name, report in self.summary["stages"].items() if report is not None}

    @property
    def components(self) -> Mapping[str, str]:
        """Those of the model, with the stage that made each."""
        return dict(self.stages.get("model", {}).get("components", {}))

    @property
    def backbones(self) -> list[str]:
        """What training started from, each once."""
        parts = (self.plan["retriever"], self.plan.get("reading") or {})
        return list(dict.fromkeys(part["backbone"] for part in parts if part.get("backbone") is not None))

    @property
    def ready(self) -> str | None:
        """The retriever that was taken as it is; None where one was trained."""
        found: str | None = self.plan["retriever"].get("ready")
        return found

    @property
    def labels(self) -> int | None:
        """How many the verifier tells apart; None where there is none."""
        return (self.plan.get("reading") or {}).get("labels") if "verifier" in self.components else None

    def counted(self, collection: str) -> Mapping[str, Any]:
        """What the summary counts of a collection: `passages`, and questions by dataset of each part."""
        found = self.summary.get("data", {}).get(collection, {})
        return found if isinstance(found, Mapping) else {}

    def files(self) -> Iterator[DataFile]:
        """Every file of questions, part by part."""
        for part in PARTS:
            for collection in self.plan["collections"]:
                sources = collection.get(part, [])
                for source in sources:
                    alike = [other for other in sources if _counted_with(other, part) == _counted_with(source, part)]
                    yield self._file(collection["name"], part, source, shared=len(alike) > 1)

    def _file(self, collection: str, part: str, source: Mapping[str, Any], *, shared: bool) -> DataFile:
        dataset, searched = _counted_with(source, part)
        counts = self.counted(collection).get(part if searched else READ)
        return DataFile(
            collection,
            part,
            dataset,
            source["file"],
            source.get("weight", 1.0),
            source.get("limit"),
            source.get("order", "plan"),
            searched,
            None if counts is None else counts.get(dataset, 0),
            shared,
        )

    def settings_of(self, stage: str) -> Mapping[str, Any]:
        """How a stage was trained, as the plan has it, but for its steps; nothing for one that trains nothing."""
        reading = self.plan.get("reading") or {}
        if stage.startswith("retriever"):
            return {} if self.ready is not None else dict(self.plan["retriever"].get("training", {}))
        own = {"sentences": "first", "reading": "training", **{head: head for head in _APART}}.get(stage)
        return {} if own is None else dict(reading.get(own) or reading.get("training", {}))


def _counted_with(source: Mapping[str, Any], part: str) -> tuple[str, bool]:
    """What files whose questions are counted together have in common: the dataset, and being searched for or not."""
    return source["dataset"], part != "train" or source.get("searched", True)


def read_run(root: Path) -> RunRecord:
    """The run in `root`; anything else, and one that is not finished, is a TrainingError."""
    if not (root / PLAN).is_file():
        raise TrainingError(f"{root}: not the folder of a run, as it has no {PLAN}; expected what `baleen train` wrote")
    if not (root / SUMMARY).is_file():
        done = sum(1 for _ in root.glob(f"*/{DONE}"))
        raise TrainingError(
            f"{root}: the run is not finished ({done} stages are done, and there is no {SUMMARY}): start `baleen train` "
            "again, and it goes on"
        )
    plan, summary = _read(root / PLAN), _read(root / SUMMARY)
    _check(root / PLAN, {"collections": list, "retriever": dict}, plan)
    _check(root / PLAN, {"ready" if "ready" in plan["retriever"] else "backbone": str}, plan["retriever"])
    for collection in plan["collections"]:
        _check(root / PLAN, {"name": str, "corpus": list}, collection)
        for source in (each for part in PARTS for each in collection.get(part, [])):
            _check(root / PLAN, {"dataset": str, "file": str}, source)
    _check(root / SUMMARY, {"stages": dict}, summary)
    return RunRecord(root, plan, summary, read_environments(root))


def _read(file: Path) -> dict[str, Any]:
    try:
        return read_json(file)
    except CheckpointError as error:
        raise TrainingError(str(error)) from None


def _check(file: Path, expected: Mapping[str, type], found: Mapping[str, Any]) -> None:
    for key, kind in expected.items():
        if not isinstance(found.get(key), kind):
            raise TrainingError(f"{file}: has no '{key}', so that it is not what `baleen train` writes")
