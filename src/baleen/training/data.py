"""Training data: passages and questions of one or more collections, with ids that are unique across them.

A pid becomes `collection/pid`, a qid `collection/dataset/qid`; `Question` names the collection it is searched in.
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

SEED = 0  # for the questions that a limit keeps, and the sample of a corpus


@dataclass(frozen=True)
class Source:
    """A file of questions in a dataset's format.

    A question of `weight` 0.5 is sampled half as often as one of weight 1.  `limit` keeps a fixed random part of the
    file.  `order` "given" keeps the file's own hop order, where it has one, whatever the plan's order is.  `searched`
    false skips retrieval for the questions, the expensive part: only stage 2 of the condenser and the readers learn
    from them.
    """

    dataset: str
    file: str
    weight: float = 1.0
    limit: int | None = None
    order: Literal["plan", "given"] = "plan"
    searched: bool = True

    def __post_init__(self) -> None:
        if not (0 < self.weight < math.inf):
            raise ConfigError(f"weight = {self.weight}, which should be above 0; to skip the file, leave it out")
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"limit = {self.limit}, which should be at least 1, or left out for the whole file")


@dataclass(frozen=True)
class CollectionPlan:
    """A corpus and its questions; paths are relative to the plan.

    `sample` limits the searched passages of a large corpus: all gold passages of the questions, and a fixed random
    sample of the others.
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
    """An example with its collection, its dataset and the settings of its source."""

    example: Example
    collection: str
    dataset: str
    weight: float = 1.0
    ordered: bool = False
    searched: bool = True


@dataclass(frozen=True, eq=False)
class TrainingData:
    """`passages` of all collections by pid, the searched `pids` by collection, and the questions.

    `unsearched` are training questions that are not searched for.
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
        """Sampling weights by qid, where they are not 1."""
        return {each.example.qid: each.weight for each in (*self.train, *self.unsearched) if each.weight != 1}


def load_training_data(plans: Sequence[CollectionPlan], root: Path, missing: Missing = "fail") -> TrainingData:
    """Read every collection and its questions; `missing` decides about questions whose gold passage the corpus lacks."""
    names = [plan.name for plan in plans]
    if len(set(names)) < len(names):
        raise ConfigError(f"the collections are named {', '.join(names)}; expected a different name for each")
    data = TrainingData({}, {}, [], [])
    for plan in plans:
        passages = list(corpus.read_passages([root / file for file in plan.corpus]))
        log.info("%s: %s passages", plan.name, f"{len(passages):,}")
        catalogue = Catalogue.of(passages)
        train, dev = (_questions(plan, part, root, catalogue, missing) for part in (plan.train, plan.dev))
        searched, unsearched = ([each for each in train if each.searched is whether] for whether in (True, False))
        prefixed = {passage.pid: passage for passage in (_prefix_passage(plan.name, each) for each in passages)}
        sample = _sample(prefixed, [*searched, *dev], plan)
        needed = {*sample, *_gold(unsearched)}
        data.passages.update((pid, passage) for pid, passage in prefixed.items() if pid in needed)
        data.pids[plan.name] = sample
        data.train.extend(searched)
        data.unsearched.extend(unsearched)
        data.dev.extend(dev)
    if not data.train:
        raise DatasetError("there is nothing to train on: no file of training questions has a usable example")
    return data


def _prefix_passage(collection: str, passage: Passage) -> Passage:
    return dataclasses.replace(passage, pid=f"{collection}/{passage.pid}")


def _gold(questions: Iterable[Question]) -> set[str]:
    return {pid for question in questions for pid in question.example.gold}


def _sample(passages: Mapping[str, Passage], questions: Iterable[Question], plan: CollectionPlan) -> list[str]:
    """The searched pids, in corpus order: all gold ones, and a sample of the others up to `plan.sample`."""
    pids = list(passages)
    if plan.sample is None or plan.sample >= len(pids):
        return pids
    gold = _gold(questions)
    room = max(0, plan.sample - len(gold))
    shuffled = np.random.default_rng(SEED).permutation(len(pids)).tolist()  # one order, whichever are gold
    drawn = set(islice((pids[row] for row in shuffled if pids[row] not in gold), room))
    kept = [pid for pid in pids if pid in drawn or pid in gold]
    log.info("%s: searching %s passages, %s of them gold", plan.name, f"{len(kept):,}", f"{len(gold):,}")
    return kept


def _questions(
    plan: CollectionPlan, sources: Iterable[Source], root: Path, catalogue: Catalogue, missing: Missing
) -> list[Question]:
    """Read the questions of `sources`; an id may occur in one file only."""
    questions: dict[str, Question] = {}
    for source in sources:
        examples, report = resolve_gold(read_examples(source.dataset, root / source.file), catalogue, missing)
        _log_counts(source, len(examples), report)
        for each in _limit(examples, source):
            prefixed = _prefix_example(plan.name, source.dataset, each)
            if prefixed.qid in questions:
                raise DatasetError(f"{source.file}: the id {each.qid!r} of {source.dataset} is in another file too")
            ordered = source.order == "given" and bool(prefixed.order)
            questions[prefixed.qid] = Question(
                prefixed, plan.name, source.dataset, source.weight, ordered, source.searched
            )
    return list(questions.values())


def _limit(examples: list[Example], source: Source) -> list[Example]:
    """A fixed random part of the examples, in file order."""
    if source.limit is None or source.limit >= len(examples):
        return examples
    log.info("%s: using %s of them", source.file, f"{source.limit:,}")
    rows = np.random.default_rng(SEED).choice(len(examples), source.limit, replace=False)
    return [examples[row] for row in sorted(rows)]


def _log_counts(source: Source, count: int, report: GoldReport) -> None:
    log.info("%s: %s questions of %s", source.file, f"{count:,}", source.dataset)
    if report.dropped:
        log.warning("%s: dropped %s questions whose gold passages the corpus lacks", source.file, len(report.dropped))


def _prefix_example(collection: str, dataset: str, example: Example) -> Example:
    return dataclasses.replace(
        example,
        qid=f"{collection}/{dataset}/{example.qid}",
        gold=tuple(f"{collection}/{pid}" for pid in example.gold),
        facts=tuple((f"{collection}/{pid}", sid) for pid, sid in example.facts),
        order=tuple(f"{collection}/{pid}" for pid in example.order),
    )


class TitleMentions:
    """Passages that a query mentions by title, over the searched passages of each collection.

    The counterpart of `hops.mentions.MentionBoost`, which looks titles up in an index.

        mentions = TitleMentions(data)
        mentions.mentioned(Query("..."), "wiki")        {mentioned pid: pid of the passage that mentions it}
    """

    def __init__(self, data: TrainingData) -> None:
        self._data = data
        self._by_title: dict[str, dict[str, list[str]]] = {}
        for collection, pids in data.pids.items():
            found: dict[str, list[str]] = defaultdict(list)
            for pid in pids:
                for name in title_names(data.passage(pid).title):
                    found[name].append(pid)
            self._by_title[collection] = found
        self._in_passage = cache(self._mentioned_in)

    def mentioned(self, query: Query, collection: str) -> dict[str, str]:
        """Passages mentioned by the query or by a passage of its facts, with the source of each; see `find_mentioned`."""
        return find_mentioned(query, partial(self._titled, collection), partial(self._in_passage, collection))

    def _titled(self, collection: str, names: Sequence[str]) -> list[Sequence[str]]:
        found = (self._by_title[collection].get(name, ()) for name in names)
        return [pids if len(pids) <= MAX_SAME_TITLE else () for pids in found]

    def _mentioned_in(self, collection: str, pid: str) -> tuple[str, ...]:
        return tuple(mentioned_in(self._data.passage(pid), partial(self._titled, collection)))
