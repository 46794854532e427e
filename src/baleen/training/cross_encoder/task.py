"""What a head of the cross-encoder is trained on, a batch at a time: sequences, and what should be read at their places.

Sequences are laid out so that little of the work is padding (see reading_layouts.py); what the head says at their places
comes back in order.

Training the heads of a cross-encoder, one alone or several that share its backbone.

task = SentenceTask(reading, records, corpus.__getitem__)
train_heads(reading, task, TrainConfig(steps=10_000), "runs/condenser")
train_heads(reading, SharedTask([task, FactTask(reading, others)], weights=[2, 1]), TrainConfig(...), "runs/shared")
reading.save("checkpoints/condenser")
"""

from __future__ import annotations

import dataclasses
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from baleen.core.config import override, to_mapping
from baleen.core.errors import ConfigError, TrainingError
from baleen.models.cross_encoder import CrossEncoder, CrossModel
from baleen.models.pairs import CrossInput
from baleen.models.tokens import to_device
from baleen.training.cross_encoder.packing import Grouped, Packed, can_pack
from baleen.training.loop.config import TrainConfig
from baleen.training.loop.logs import Load
from baleen.training.loop.sampling import WHOLE, Asked, Order, Part, Weights, weights_of
from baleen.training.loop.trainer import Outcome, Trainer


@dataclass(frozen=True)
class ReadingTraining:
    """What heads learn from; the defaults are the paper's.

    `negatives` passages are drawn beside the positive one, for stage 1 of the condenser and for the reranker.  The
    binary half of stage 2's loss weighs `fact_weight`.  `packing` puts many sequences into one row (None: on a GPU,
    where the backbone takes it); without it, `most_padding` is the largest share of padding that goes through the model.
    The tokens of `remembered` texts are kept.
    """

    negatives: int = 1
    fact_weight: float = 1.0
    packing: bool | None = None
    most_padding: float = 0.125
    remembered: int = 1 << 20

    def __post_init__(self) -> None:
        for name in ("negatives", "remembered"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} = {getattr(self, name)}, which should be at least 1")
        if self.fact_weight < 0:
            raise ConfigError(f"fact_weight = {self.fact_weight}, which should not be negative")
        if not 0 <= self.most_padding < 1:
            raise ConfigError(f"most_padding = {self.most_padding}, which should be a share below 1")


@dataclass(frozen=True, eq=False)
class ReadingBatch:
    """Some examples of one head: sequences with P places between them, and what should be read there.

    `targets` are the head's own.
    """

    head: str
    texts: Grouped | Packed
    targets: Mapping[str, Tensor]
    load: Load

    def to(self, device: torch.device) -> Self:
        targets = {name: to_device(target, device) for name, target in self.targets.items()}
        return dataclasses.replace(self, texts=self.texts.to(device), targets=targets)

    def scores(self, model: CrossModel) -> Tensor:
        """What the head says at every place of every sequence, in order: (P, outputs)."""
        return self.texts.scores(model, self.head)


def load_of(examples: int, rows: Sequence[CrossInput], texts: Grouped | Packed) -> Load:
    """Of `rows` that are laid out as `texts`."""
    lengths = [len(row) for row in rows]
    return Load(examples, sum(lengths), texts.slots, sum(length**2 for length in lengths))


def table(rows: Iterable[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Rows of unequal length side by side (B, n) int64, filled up with 0, and where they are real (B, n) bool."""
    rows = list(rows)
    numbers = np.zeros((len(rows), max([1, *map(len, rows)])), np.int64)
    real = np.zeros(numbers.shape, bool)
    for place, row in enumerate(rows):
        numbers[place, : len(row)], real[place, : len(row)] = row, True
    return torch.from_numpy(numbers), torch.from_numpy(real)


Sample = TypeVar("Sample", bound=Asked)
Wanted = TypeVar("Wanted")
Metrics = Callable[[], float | Mapping[str, float]]


class Batches(Protocol):
    """What a task is trained on: a function of step and part alone."""

    def batch(self, step: int, part: Part = WHOLE) -> ReadingBatch: ...


class Task(Protocol):
    """What `train_heads` trains."""

    reading: CrossEncoder

    @property
    def about(self) -> Mapping[str, Any]:
        """What a resumed run must have in common with the one that it takes up."""

    def batches(self, batch_size: int, seed: int) -> Batches: ...

    def loss(self, batch: ReadingBatch) -> Mapping[str, Tensor]: ...


def train_heads(
    reading: CrossEncoder,
    task: Task,
    config: TrainConfig,
    folder: str | Path,
    *,
    evaluate: Metrics | None = None,
    resume: bool = True,
) -> Outcome:
    """Train `reading`, loaded with `trainable=True`, on its device by `task`; see `Trainer` for the rest."""
    if task.reading is not reading:
        raise TrainingError("the task is for another cross-encoder than the one that is to be trained")
    config = override(config, device=str(reading.device))
    batches = task.batches(config.batch_size, config.seed)
    about = {**task.about, "reading": to_mapping(reading.config)}
    trainer = Trainer(reading.model, batches.batch, task.loss, config, folder, evaluate=evaluate, about=about)
    return trainer.run(resume=resume)


class CrossEncoderTask(ABC, Generic[Sample, Wanted]):
    """One head and the records that it learns from; each kind of head says how a record is laid out and judged.

    `weights`, by qid, say how often the records of a question are taken; 1 where nothing is said.
    """

    head: ClassVar[str]

    def __init__(self, reading: CrossEncoder, records: Sequence[Sample], config: ReadingTraining | None = None) -> None:
        reading.outputs(self.head)  # which says so where there is no such head
        self.reading, self.records, self.config = reading, records, config or ReadingTraining()
        self.weights: Weights = {}
        self.inputs = reading.inputs.with_cache_size(self.config.remembered)
        self._packing = _packing(reading, self.config.packing)
        for record in records:
            self.check(record)

    def check(self, record: Sample) -> None:
        """A TrainingError where nothing can be learnt from a record."""

    @abstractmethod
    def lay(self, record: Sample, rng: np.random.Generator, /) -> tuple[list[CrossInput], Wanted]:
        """The sequences of a record, with what `rng` draws for it, and what `targets` needs to know of it."""

    @abstractmethod
    def targets(self, wanted: Sequence[Wanted]) -> dict[str, Tensor]:
        """What should be read at the places of a batch, out of what `lay` said of each record."""

    @abstractmethod
    def judge(self, scores: Tensor, targets: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The `loss` of scores (P, outputs), and whatever else is worth a curve."""

    def lay_out(self, rows: Sequence[CrossInput]) -> Grouped | Packed:
        """Sequences as they go through the model."""
        if self._packing:
            return Packed.of(rows)
        return Grouped.of(self.inputs, rows, self.config.most_padding)

    @property
    def about(self) -> dict[str, Any]:
        digest = hashlib.sha256(repr(weights_of(self.records, self.weights) or "").encode())
        for record in self.records:
            digest.update(repr(record).encode())
        settings = {name: value for name, value in to_mapping(self.config).items() if name != "remembered"}
        return {f"{self.head} records": digest.hexdigest()[:16], f"{self.head} settings": settings}

    def batches(self, batch_size: int, seed: int) -> HeadBatches:
        return HeadBatches(self, batch_size, seed)

    def loss(self, batch: ReadingBatch) -> dict[str, Tensor]:
        return self.judge(batch.scores(self.reading.model), batch.targets)


def _packing(reading: CrossEncoder, wanted: bool | None) -> bool:
    if wanted is None and reading.device.type != "cuda":
        return False
    possible = wanted is not False and can_pack(reading.model, reading.inputs)
    if wanted and not possible:
        raise ConfigError("packing = true, but the backbone does not keep texts in one row apart: set it to false")
    return possible


class HeadBatches:
    """Batches of one task for any step, drawn by `seed`."""

    def __init__(self, task: CrossEncoderTask[Any, Any], batch_size: int, seed: int) -> None:
        weights = weights_of(task.records, task.weights)
        self._task, self._order = task, Order(len(task.records), batch_size, seed, weights)

    def batch(self, step: int, part: Part = WHOLE) -> ReadingBatch:
        task, order = self._task, self._order
        places = order.places(step, part)
        laid = [task.lay(task.records[order.row(place)], order.rng(place)) for place in places]
        rows = [row for rows, _ in laid for row in rows]
        texts, targets = task.lay_out(rows), task.targets([wanted for _, wanted in laid])
        return ReadingBatch(task.head, texts, targets, load_of(len(laid), rows, texts))


class SharedTask:
    """Several heads of one backbone, which take turns: in every `sum(weights)` steps, `weights[i]` are those of task i.

    Losses are logged for all heads together and, under the head's name, for each.
    """

    def __init__(self, tasks: Sequence[CrossEncoderTask[Any, Any]], weights: Sequence[int] | None = None) -> None:
        self.tasks, self.weights = list(tasks), list(weights or [1] * len(tasks))
        heads = [task.head for task in tasks]
        if not tasks or len(set(heads)) < len(heads):
            raise ConfigError(f"the tasks are for the heads {heads}, which should be one or more, each once")
        if len(self.weights) != len(heads) or min(self.weights) < 1:
            raise ConfigError(f"weights = {self.weights}, which should be a positive number for each of {heads}")
        self.reading = self.tasks[0].reading
        if any(task.reading is not self.reading for task in self.tasks):
            raise ConfigError("the tasks are for several cross-encoders, and should share one")
        self._by_head = dict(zip(heads, self.tasks, strict=True))

    @property
    def about(self) -> dict[str, Any]:
        return {"weights": self.weights, **{name: value for task in self.tasks for name, value in task.about.items()}}

    def batches(self, batch_size: int, seed: int) -> SharedBatches:
        return SharedBatches([task.batches(batch_size, seed) for task in self.tasks], turns(self.weights))

    def loss(self, batch: ReadingBatch) -> dict[str, Tensor]:
        found = self._by_head[batch.head].loss(batch)
        return {"loss": found["loss"], **{f"{batch.head}_{name}": value for name, value in found.items()}}


class SharedBatches:
    """Batches of several tasks by turns; each task goes through its own steps without a gap."""

    def __init__(self, batches: Sequence[Batches], turns: Sequence[int]) -> None:
        self._batches, self._turns = batches, turns

    def batch(self, step: int, part: Part = WHOLE) -> ReadingBatch:
        rounds, turn = divmod(step, len(self._turns))
        task = self._turns[turn]
        own = rounds * self._turns.count(task) + self._turns[:turn].count(task)
        return self._batches[task].batch(own, part)


def turns(weights: Sequence[int]) -> list[int]:
    """Which task each step of a round is of: task i `weights[i]` times, spread evenly."""
    due = [((turn + 0.5) / weight, task) for task, weight in enumerate(weights) for turn in range(weight)]
    return [task for _, task in sorted(due)]
