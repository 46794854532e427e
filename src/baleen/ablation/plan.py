"""What `baleen ablate CONFIG.toml` reads: the plan of a training run, and beside it what is to be ablated.

    [ablation]                          may be left out, as may every setting of it
    rows = ["A", "B", "E"]              of A to G; without it, the paper's, A to F
    evaluate = [{ collection = "wiki", dataset = "hover", file = "hover_dev.json" }]
    k = [25, 25, 25, 25]                passages of each hop

Paths are relative to the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from baleen.ablation.rows import PAPER, ROWS, WHOLE, Row, rows_of
from baleen.config import from_mapping
from baleen.errors import ConfigError
from baleen.evaluation.judging import CUTOFFS
from baleen.index.codec import BITS
from baleen.training.plan import ABLATION, RunPlan, read_plan, read_settings


@dataclass(frozen=True)
class Questions:
    """A file of questions over a collection of the plan; `k` is the ablation's unless it is given."""

    collection: str
    dataset: str
    file: str
    k: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """What its results are called: `wiki-hover-dev`."""
        return f"{self.collection}-{self.dataset}-{Path(self.file).name.partition('.')[0]}"


@dataclass(frozen=True)
class AblationSettings:
    """What is done with the models of an ablation.

    `evaluate` is what they are evaluated on (none: the dev files of every collection), `limit` questions of each at
    most, `k` passages a hop (none: the depths of the plan's retriever).  `readers` "own" trains a condenser, a reranker
    and readers for each retriever, on what that one finds; "first" lends those of the first model to all, which costs
    much less and leaves the retriever alone to differ.  `model` is that first model where the plan has been trained
    already: it stands for rows A, B, C and G and lends its readers.  `lender` is a model that lends its readers and
    nothing else: every row's retriever is trained, and no readers are.  `fewer_hops` evaluates the first model at fewer
    hops too.  `bits` and `cutoffs` are those of `baleen index` and `baleen eval`.
    """

    rows: tuple[str, ...] = PAPER
    evaluate: tuple[Questions, ...] = ()
    k: tuple[int, ...] = ()
    limit: int | None = None
    readers: Literal["own", "first"] = "own"
    model: str | None = None
    lender: str | None = None
    fewer_hops: bool = True
    bits: int = 2
    cutoffs: tuple[int, ...] = CUTOFFS

    def __post_init__(self) -> None:
        rows_of(self.rows)
        if self.model is not None and self.lender is not None:
            raise ConfigError(
                f"model = {self.model!r} and lender = {self.lender!r} would both lend their readers: name one"
            )
        for name, lends in (("model", self.model), ("lender", self.lender)):
            if lends is not None and self.readers == "own":
                raise ConfigError(f"{name} = {lends!r} lends its readers to all rows: set readers = 'first' beside it")
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"limit = {self.limit}, which should be at least 1")
        if self.bits not in BITS:
            raise ConfigError(f"bits = {self.bits}, which should be one of {', '.join(map(str, BITS))}")
        if not self.cutoffs:
            raise ConfigError("cutoffs = [], which should be numbers of at least 1")
        own = [(f"k of {each.file}", each.k) for each in self.evaluate]
        for name, numbers in (("k", self.k), ("cutoffs", self.cutoffs), *own):
            if min(numbers, default=1) < 1:
                raise ConfigError(f"{name} = {list(numbers)}, which should be numbers of at least 1")


@dataclass(frozen=True)
class AblationPlan:
    """A training plan, and what is ablated of it; what does not fit together is a ConfigError."""

    train: RunPlan
    settings: AblationSettings = field(default_factory=AblationSettings)

    def __post_init__(self) -> None:
        encoder = self.train.retriever.encoder
        if self.train.reading is None:
            raise ConfigError(
                "an ablation compares condensers and rerankers, and the plan has no [reading] to make them"
            )
        if self.train.retriever.ready is not None and any(row.variant != WHOLE for row in self.rows):
            ours = ", ".join(letter for letter, row in ROWS.items() if row.variant == WHOLE)
            raise ConfigError(
                f"the plan's retriever is ready, and rows other than {ours} train one in another way: name these alone"
            )
        if encoder.query_focus is None and encoder.facts_focus is None and {"D", "F"} & set(self.settings.rows):
            raise ConfigError(
                "rows D and F leave the focus out, and the plan's [retriever.encoder] has none: name other rows"
            )
        if not self.questions:
            raise ConfigError(
                "there is nothing to evaluate on: name files in [ablation] evaluate, or dev in a collection"
            )
        known = [collection.name for collection in self.train.collections]
        absent = [each.collection for each in self.questions if each.collection not in known]
        if absent:
            raise ConfigError(f"evaluate: there is no collection '{absent[0]}'; the plan has {', '.join(known)}")
        names = [each.name for each in self.questions]
        if len(set(names)) < len(names):
            raise ConfigError(f"evaluate: two files would both be called one of {', '.join(names)}: rename one")

    @property
    def questions(self) -> tuple[Questions, ...]:
        """The files to evaluate on."""
        plans = self.train.collections
        return self.settings.evaluate or tuple(
            Questions(plan.name, source.dataset, source.file) for plan in plans for source in plan.dev
        )

    @property
    def rows(self) -> list[Row]:
        return rows_of(self.settings.rows)

    def depths(self, questions: Questions) -> tuple[int, ...]:
        """Passages of each hop: those that are given, or the plan's, whose last number goes on to its last hop."""
        plan = self.train.retriever.depths
        return questions.k or self.settings.k or (*plan, *plan[-1:] * self.train.hops)[: self.train.hops]

    def corpus(self, collection: str) -> list[Path]:
        """The files of a collection's passages."""
        (plan,) = (plan for plan in self.train.collections if plan.name == collection)
        return [self.train.root / file for file in plan.corpus]


def read_ablation(path: Path, rows: Sequence[str] | None = None, limit: int | None = None) -> AblationPlan:
    """The ablation in a TOML file, with what was asked for instead of the file's own."""
    settings = from_mapping(AblationSettings, read_settings(path).get(ABLATION, {}), f"{path}: {ABLATION}")
    asked = replace(settings, rows=tuple(rows or settings.rows), limit=limit or settings.limit)
    plan = read_plan(path)
    try:
        return AblationPlan(plan, asked)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
