"""Training of cross-encoder heads: one alone, or several that share a backbone and take turns.

    task = SentenceTask(cross_encoder, records, corpus.__getitem__)
    train_heads(cross_encoder, task, TrainConfig(steps=10_000), "runs/condenser")
    cross_encoder.save("checkpoints/condenser")

    shared = SharedTask([task, FactTask(cross_encoder, others)], weights=[2, 1])
    train_heads(cross_encoder, shared, TrainConfig(...), "runs/shared")

A batch has sequences, places in them where the head is applied, and targets for those places.
"""

from __future__ import annotations

import dataclasses
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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
from baleen.training.loop.config import TrainConfig
from baleen.training.loop.logs import Load
from baleen.training.loop.sampling import WHOLE_BATCH, Order, Part, QuestionRecord, Weights, record_weights
from baleen.training.loop.trainer import Outcome, Trainer
from baleen.training.packing import CrossEncoderGroups, CrossEncoderPack, can_pack_cross_encoder, resolve_packing


@dataclass(frozen=True)
class HeadTraining:
    """Settings of head training; the defaults are the paper's.

    negatives       passages drawn for each positive one, by stage 1 of the condenser and by the reranker
    fact_weight     weight of the binary half of stage 2's loss
    packing         put many sequences into one row (None: on a GPU, if the backbone supports it)
    most_padding    largest share of padding without packing
    remembered      texts whose tokens are cached
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
class HeadBatch:
    """Examples of one head: sequences with P places in all, and the head's `targets` for them."""

    head: str
    texts: CrossEncoderGroups | CrossEncoderPack
    targets: Mapping[str, Tensor]
    load: Load

    def to(self, device: torch.device) -> Self:
        targets = {name: to_device(target, device) for name, target in self.targets.items()}
        return dataclasses.replace(self, texts=self.texts.to(device), targets=targets)

    def scores(self, model: CrossModel) -> Tensor:
        """The head's outputs at all places, in order: (P, outputs)."""
        return self.texts.scores(model, self.head)


def batch_load(examples: int, rows: Sequence[CrossInput], texts: CrossEncoderGroups | CrossEncoderPack) -> Load:
    """The load of `rows` collated as `texts`."""
    lengths = [len(row) for row in rows]
    return Load(examples, sum(lengths), texts.slots, sum(length**2 for length in lengths))


def pad_rows(rows: Iterable[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Rows padded with 0 to one length (B, n) int64, and a mask (B, n) bool that is False for padding."""
    rows = list(rows)
    numbers = np.zeros((len(rows), max([1, *map(len, rows)])), np.int64)
    real = np.zeros(numbers.shape, bool)
    for place, row in enumerate(rows):
        numbers[place, : len(row)], real[place, : len(row)] = row, True
    return torch.from_numpy(numbers), torch.from_numpy(real)


Sample = TypeVar("Sample", bound=QuestionRecord)
Label = TypeVar("Label")  # target of one record
Metrics = Callable[[], float | Mapping[str, float]]


class Batches(Protocol):
    """Batches of a task, as a function of step and part alone."""

    def batch(self, step: int, part: Part = WHOLE_BATCH) -> HeadBatch: ...


class Task(Protocol):
    """A loss over batches for the heads of a cross-encoder."""

    cross_encoder: CrossEncoder

    @property
    def about(self) -> Mapping[str, Any]:
        """Settings and records that a resumed run must share with the run that it continues."""

    def batches(self, batch_size: int, seed: int) -> Batches: ...

    def loss(self, batch: HeadBatch) -> Mapping[str, Tensor]: ...


def train_heads(
    cross_encoder: CrossEncoder,
    task: Task,
    config: TrainConfig,
    folder: str | Path,
    *,
    evaluate: Metrics | None = None,
    resume: bool = True,
) -> Outcome:
    """Train a cross-encoder, loaded with `trainable=True`, on its device by `task`; see `Trainer` for the rest."""
    if task.cross_encoder is not cross_encoder:
        raise TrainingError("the task is for another cross-encoder: make the task with the one to be trained")
    config = override(config, device=str(cross_encoder.device))
    batches = task.batches(config.batch_size, config.seed)
    about = {**task.about, "cross_encoder": to_mapping(cross_encoder.config)}
    trainer = Trainer(cross_encoder.model, batches.batch, task.loss, config, folder, evaluate=evaluate, about=about)
    return trainer.run(resume=resume)


class CrossEncoderTask(ABC, Generic[Sample, Label]):
    """One head and its training records; subclasses define the sequences, targets and loss.

    `weights` by qid set how often the records of a question are drawn (default 1).
    """

    head: ClassVar[str]

    def __init__(
        self, cross_encoder: CrossEncoder, records: Sequence[Sample], config: HeadTraining | None = None
    ) -> None:
        cross_encoder.outputs(self.head)  # raises if there is no such head
        self.cross_encoder, self.records, self.config = cross_encoder, records, config or HeadTraining()
        self.weights: Weights = {}
        self.inputs = cross_encoder.inputs.with_cache_size(self.config.remembered)
        can_pack = partial(can_pack_cross_encoder, cross_encoder.model, cross_encoder.inputs)
        self._packing = resolve_packing(self.config.packing, cross_encoder.device, can_pack)
        for record in records:
            self.check(record)

    def check(self, record: Sample) -> None:
        """Raise a TrainingError if a record is unusable."""

    @abstractmethod
    def encode(self, record: Sample, rng: np.random.Generator, /) -> tuple[list[CrossInput], Label]:
        """The sequences of a record, with what `rng` draws for it, and its label for `targets`."""

    @abstractmethod
    def targets(self, labels: Sequence[Label], /) -> dict[str, Tensor]:
        """The targets of a batch, from the labels of its records."""

    @abstractmethod
    def losses(self, scores: Tensor, targets: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The `loss` of scores (P, outputs), and other values to log."""

    def collate(self, rows: Sequence[CrossInput]) -> CrossEncoderGroups | CrossEncoderPack:
        """Sequences packed or grouped for the model."""
        if self._packing:
            return CrossEncoderPack.of(rows)
        return CrossEncoderGroups.lay_out(self.inputs, rows, self.config.most_padding)

    @property
    def about(self) -> dict[str, Any]:
        digest = hashlib.sha256(repr(record_weights(self.records, self.weights) or "").encode())
        for record in self.records:
            digest.update(repr(record).encode())
        settings = {name: value for name, value in to_mapping(self.config).items() if name != "remembered"}
        return {f"{self.head} records": digest.hexdigest()[:16], f"{self.head} settings": settings}

    def batches(self, batch_size: int, seed: int) -> HeadBatches:
        return HeadBatches(self, batch_size, seed)

    def loss(self, batch: HeadBatch) -> dict[str, Tensor]:
        return self.losses(batch.scores(self.cross_encoder.model), batch.targets)


class HeadBatches:
    """Batches of one task, drawn by `seed`."""

    def __init__(self, task: CrossEncoderTask[Any, Any], batch_size: int, seed: int) -> None:
        weights = record_weights(task.records, task.weights)
        self._task, self._order = task, Order(len(task.records), batch_size, seed, weights)

    def batch(self, step: int, part: Part = WHOLE_BATCH) -> HeadBatch:
        task, order = self._task, self._order
        places = order.places(step, part)
        encoded = [task.encode(task.records[order.row(place)], order.rng(place)) for place in places]
        rows = [row for rows, _ in encoded for row in rows]
        texts, targets = task.collate(rows), task.targets([label for _, label in encoded])
        return HeadBatch(task.head, texts, targets, batch_load(len(encoded), rows, texts))


class SharedTask:
    """Several heads of one backbone that take turns: of every `sum(weights)` steps, `weights[i]` are of task i.

    Losses are logged over all heads, and for each under its name.
    """

    def __init__(self, tasks: Sequence[CrossEncoderTask[Any, Any]], weights: Sequence[int] | None = None) -> None:
        self.tasks, self.weights = list(tasks), list(weights or [1] * len(tasks))
        heads = [task.head for task in tasks]
        if not tasks or len(set(heads)) < len(heads):
            raise ConfigError(f"the tasks are for the heads {heads}, which should be one or more, each once")
        if len(self.weights) != len(heads) or min(self.weights) < 1:
            raise ConfigError(f"weights = {self.weights}, which should be a positive number for each of {heads}")
        self.cross_encoder = self.tasks[0].cross_encoder
        if any(task.cross_encoder is not self.cross_encoder for task in self.tasks):
            raise ConfigError("the tasks are for several cross-encoders; expected one that they share")
        self._by_head = dict(zip(heads, self.tasks, strict=True))

    @property
    def about(self) -> dict[str, Any]:
        return {"weights": self.weights, **{name: value for task in self.tasks for name, value in task.about.items()}}

    def batches(self, batch_size: int, seed: int) -> SharedBatches:
        return SharedBatches([task.batches(batch_size, seed) for task in self.tasks], turns(self.weights))

    def loss(self, batch: HeadBatch) -> dict[str, Tensor]:
        found = self._by_head[batch.head].loss(batch)
        return {"loss": found["loss"], **{f"{batch.head}_{name}": value for name, value in found.items()}}


class SharedBatches:
    """Batches of several tasks in turns; each task counts its own steps without a gap."""

    def __init__(self, batches: Sequence[Batches], turns: Sequence[int]) -> None:
        self._batches, self._turns = batches, turns

    def batch(self, step: int, part: Part = WHOLE_BATCH) -> HeadBatch:
        cycle, turn = divmod(step, len(self._turns))
        task = self._turns[turn]
        own = cycle * self._turns.count(task) + self._turns[:turn].count(task)
        return self._batches[task].batch(own, part)


def turns(weights: Sequence[int]) -> list[int]:
    """The task of each step of a cycle: task i `weights[i]` times, spread evenly."""
    due = [((turn + 0.5) / weight, task) for task, weight in enumerate(weights) for turn in range(weight)]
    return [task for _, task in sorted(due)]
