"""What a run trains on: collections of passages, and the questions over each, under names that hold across them.

Passages and questions of several collections live side by side, so a pid becomes `collection/pid` and a qid
`collection/dataset/qid`; `Question` says which collection an example is searched in.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from baleen import corpus
from baleen.datasets import Catalogue, Example, GoldReport, read_examples, resolve_gold
from baleen.errors import ConfigError, DatasetError
from baleen.types import Passage

log = logging.getLogger(__name__)

Missing = Literal["fail", "drop"]


@dataclass(frozen=True)
class Source:
    """A file of questions, in the shape of a dataset."""

    dataset: str
    file: str


@dataclass(frozen=True)
class CollectionPlan:
    """A corpus and the questions over it; paths are relative to the file that names them."""

    name: str
    corpus: tuple[str, ...]
    train: tuple[Source, ...] = ()
    dev: tuple[Source, ...] = ()

    def __post_init__(self) -> None:
        if not self.name or "/" in self.name:
            raise ConfigError(f"name = {self.name!r}, which should name a collection, without a '/'")


@dataclass(frozen=True)
class Question:
    """An example, where it is searched, and the dataset that it is of."""

    example: Example
    collection: str
    dataset: str


@dataclass(frozen=True, eq=False)
class World:
    """Everything of all collections, by pid."""

    passages: dict[str, Passage]
    pids: dict[str, list[str]]
    train: list[Question]
    dev: list[Question]

    def passage(self, pid: str) -> Passage:
        return self.passages[pid]


def load_world(plans: Sequence[CollectionPlan], root: Path, missing: Missing = "fail") -> World:
    """Read every collection and its questions; `missing` says what a gold passage that no corpus has leads to."""
    names = [plan.name for plan in plans]
    if len(set(names)) < len(names):
        raise ConfigError(f"the collections are named {', '.join(names)}; expected a name for each of them")
    world = World({}, {}, [], [])
    for plan in plans:
        passages = list(corpus.read([root / file for file in plan.corpus]))
        log.info("%s: %s passages", plan.name, f"{len(passages):,}")
        catalogue = Catalogue.of(passages)
        named = {passage.pid: passage for passage in (_named(plan.name, each) for each in passages)}
        world.passages.update(named)
        world.pids[plan.name] = list(named)
        world.train.extend(_questions(plan, plan.train, root, catalogue, missing))
        world.dev.extend(_questions(plan, plan.dev, root, catalogue, missing))
    if not world.train:
        raise DatasetError("there is nothing to train on: no file of questions has a usable example")
    return world


def _named(collection: str, passage: Passage) -> Passage:
    return dataclasses.replace(passage, pid=f"{collection}/{passage.pid}")


def _questions(
    plan: CollectionPlan, sources: Iterable[Source], root: Path, catalogue: Catalogue, missing: Missing
) -> list[Question]:
    """Of one part of a plan; a question may stand in one file only."""
    questions: dict[str, Question] = {}
    for source in sources:
        examples, report = resolve_gold(read_examples(source.dataset, root / source.file), catalogue, missing)
        _tell(source, len(examples), report)
        for each in examples:
            placed = _placed(plan.name, source.dataset, each)
            if placed.qid in questions:
                raise DatasetError(f"{source.file}: the id {each.qid!r} of {source.dataset} stands in another file too")
            questions[placed.qid] = Question(placed, plan.name, source.dataset)
    return list(questions.values())


def _tell(source: Source, count: int, report: GoldReport) -> None:
    log.info("%s: %s questions of %s", source.file, f"{count:,}", source.dataset)
    if report.dropped:
        log.warning(
            "%s: %s questions were left out for gold passages that the corpus lacks", source.file, len(report.dropped)
        )


def _placed(collection: str, dataset: str, example: Example) -> Example:
    return dataclasses.replace(
        example,
        qid=f"{collection}/{dataset}/{example.qid}",
        gold=tuple(f"{collection}/{pid}" for pid in example.gold),
        facts=tuple((f"{collection}/{pid}", sid) for pid, sid in example.facts),
        order=tuple(f"{collection}/{pid}" for pid in example.order),
    )
