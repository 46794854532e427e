"""What a run trains on: collections of passages, and the questions over each, under names that hold across them.

Passages and questions of several collections live side by side, so a pid becomes `collection/pid` and a qid
`collection/dataset/qid`; `Question` says which collection an example is searched in.

Names in a world: what `follower.py` is over an index, over the passages of a collection that are mined.

names = Names(world)
names.mentioned(Query("..."), "wiki")               {pid of a passage that is named: pid of the passage that names it}
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from baleen.core.errors import ConfigError, DatasetError
from baleen.core.types import Passage, Query
from baleen.data import corpus
from baleen.data.example import Example
from baleen.data.formats import read_examples
from baleen.data.gold import Catalogue, GoldReport, resolve_gold
from baleen.data.titles import MAX_SAME_TITLE, title_names
from baleen.hops.mentions import find_mentioned, mentioned_in

log = logging.getLogger(__name__)

Missing = Literal["fail", "drop"]

SEED = 0  # of what a limit keeps of a file, and a sample of a corpus


@dataclass(frozen=True)
class Source:
    """A file of questions, in the shape of a dataset.

    In training a question of `weight` 0.5 is taken half as often as one of 1, so that a large file need not drown a
    small one.  `limit` keeps a random part of the file, the same every time.  With `order` "given", questions whose hops
    the file has in order keep that order, whatever the others are ordered by.  Where `searched` is false, the questions
    are not searched for, which is what costs: stage 2 of the condenser and the readers alone learn from them.
    """

    dataset: str
    file: str
    weight: float = 1.0
    limit: int | None = None
    order: Literal["plan", "given"] = "plan"
    searched: bool = True

    def __post_init__(self) -> None:
        if not (0 < self.weight < math.inf):
            raise ConfigError(f"weight = {self.weight}, which should be above 0; leave the file out to take none of it")
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"limit = {self.limit}, which should be at least 1, or left out for the whole file")


@dataclass(frozen=True)
class CollectionPlan:
    """A corpus and the questions over it; paths are relative to the file that names them.

    `sample` searches so many passages of the corpus only, for a corpus that is too large to be mined whole: every gold
    passage of the questions, however many, and others drawn at random, the same every time.
    """

    name: str
    corpus: tuple[str, ...]
    train: tuple[Source, ...] = ()
    dev: tuple[Source, ...] = ()
    sample: int | None = None

    def __post_init__(self) -> None:
        if not self.name or "/" in self.name:
            raise ConfigError(f"name = {self.name!r}, which should name a collection, without a '/'")
        if self.sample is not None and self.sample < 1:
            raise ConfigError(f"sample = {self.sample}, which should be at least 1, or left out for the whole corpus")
        unsearched = next((source.file for source in self.dev if not source.searched), None)
        if unsearched is not None:
            raise ConfigError(f"{unsearched} has searched = false, but dev questions are always searched for")


@dataclass(frozen=True)
class Question:
    """An example, where its passages stand, the dataset that it is of, and what its file says of it."""

    example: Example
    collection: str
    dataset: str
    weight: float = 1.0
    ordered: bool = False
    searched: bool = True


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Everything of all collections: `passages` by pid, the `pids` of those that are searched, by collection.

    `read` are the questions to train on that are not searched for.
    """

    passages: dict[str, Passage]
    pids: dict[str, list[str]]
    train: list[Question]
    dev: list[Question]
    unsearched: list[Question] = field(default_factory=list)

    def passage(self, pid: str) -> Passage:
        return self.passages[pid]

    @property
    def weights(self) -> dict[str, float]:
        """How often questions are trained on, by qid, where that is not 1."""
        return {each.example.qid: each.weight for each in (*self.train, *self.unsearched) if each.weight != 1}


def load_training_data(plans: Sequence[CollectionPlan], root: Path, missing: Missing = "fail") -> TrainingData:
    """Read every collection and its questions; `missing` says what a gold passage that no corpus has leads to."""
    names = [plan.name for plan in plans]
    if len(set(names)) < len(names):
        raise ConfigError(f"the collections are named {', '.join(names)}; expected a name for each of them")
    world = TrainingData({}, {}, [], [])
    for plan in plans:
        passages = list(corpus.read_passages([root / file for file in plan.corpus]))
        log.info("%s: %s passages", plan.name, f"{len(passages):,}")
        catalogue = Catalogue.of(passages)
        train, dev = (_questions(plan, part, root, catalogue, missing) for part in (plan.train, plan.dev))
        searched, read = ([each for each in train if each.searched is whether] for whether in (True, False))
        named = {passage.pid: passage for passage in (_named(plan.name, each) for each in passages)}
        sample = _sampled(named, [*searched, *dev], plan)
        needed = {*sample, *_gold(read)}
        world.passages.update((pid, passage) for pid, passage in named.items() if pid in needed)
        world.pids[plan.name] = sample
        world.train.extend(searched)
        world.unsearched.extend(read)
        world.dev.extend(dev)
    if not world.train:
        raise DatasetError("there is nothing to train on: no file of questions has a usable example")
    return world


def _named(collection: str, passage: Passage) -> Passage:
    return dataclasses.replace(passage, pid=f"{collection}/{passage.pid}")


def _gold(questions: Iterable[Question]) -> set[str]:
    return {pid for question in questions for pid in question.example.gold}


def _sampled(passages: Mapping[str, Passage], questions: Iterable[Question], plan: CollectionPlan) -> list[str]:
    """As many as the plan searches, in their order: the gold ones, and of the others as many as there is room for."""
    pids = list(passages)
    if plan.sample is None or plan.sample >= len(pids):
        return pids
    gold = _gold(questions)
    room = max(0, plan.sample - len(gold))
    shuffled = np.random.default_rng(SEED).permutation(len(pids)).tolist()  # whatever is gold, others come in one order
    drawn = set(islice((pids[row] for row in shuffled if pids[row] not in gold), room))
    kept = [pid for pid in pids if pid in drawn or pid in gold]
    log.info("%s: %s passages are searched, %s of them gold", plan.name, f"{len(kept):,}", f"{len(gold):,}")
    return kept


def _questions(
    plan: CollectionPlan, sources: Iterable[Source], root: Path, catalogue: Catalogue, missing: Missing
) -> list[Question]:
    """Of one part of a plan; a question may stand in one file only."""
    questions: dict[str, Question] = {}
    for source in sources:
        examples, report = resolve_gold(read_examples(source.dataset, root / source.file), catalogue, missing)
        _tell(source, len(examples), report)
        for each in _limited(examples, source):
            placed = _placed(plan.name, source.dataset, each)
            if placed.qid in questions:
                raise DatasetError(f"{source.file}: the id {each.qid!r} of {source.dataset} stands in another file too")
            ordered = source.order == "given" and bool(placed.order)
            questions[placed.qid] = Question(placed, plan.name, source.dataset, source.weight, ordered, source.searched)
    return list(questions.values())


def _limited(examples: list[Example], source: Source) -> list[Example]:
    """As many as the source allows, in their order, whichever other files there are."""
    if source.limit is None or source.limit >= len(examples):
        return examples
    log.info("%s: %s of them are taken", source.file, f"{source.limit:,}")
    rows = np.random.default_rng(SEED).choice(len(examples), source.limit, replace=False)
    return [examples[row] for row in sorted(rows)]


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


class TitleMentions:
    """The names of all passages of a world, each collection's for itself; what a passage names is looked up once."""

    def __init__(self, world: TrainingData) -> None:
        self._world = world
        self._bearers: dict[str, dict[str, list[str]]] = {}
        for collection, pids in world.pids.items():
            found: dict[str, list[str]] = defaultdict(list)
            for pid in pids:
                for name in title_names(world.passage(pid).title):
                    found[name].append(pid)
            self._bearers[collection] = found
        self._in_passage = cache(self._look_through)

    def mentioned(self, query: Query, collection: str) -> dict[str, str]:
        """What a query and the passages that carry its facts name, with what names each; see `named_by`."""
        return find_mentioned(query, partial(self._of, collection), partial(self._in_passage, collection))

    def _of(self, collection: str, names: Sequence[str]) -> list[Sequence[str]]:
        found = (self._bearers[collection].get(name, ()) for name in names)
        return [pids if len(pids) <= MAX_SAME_TITLE else () for pids in found]

    def _look_through(self, collection: str, pid: str) -> tuple[str, ...]:
        return tuple(mentioned_in(self._world.passage(pid), partial(self._of, collection)))
