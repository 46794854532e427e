"""A tiny model and task for tests of the training loop.  As a script, train it and print the last loss:

python tests/training_fakes.py FOLDER STEPS [SECONDS]       sleeps SECONDS at each batch
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from baleen.training.loop.config import TrainConfig
from baleen.training.loop.logs import Load
from baleen.training.loop.sampling import Order, Part
from baleen.training.loop.saves import Saves
from baleen.training.loop.trainer import Outcome, Trainer

EXAMPLES = 21


@dataclass(frozen=True, eq=False)
class Sums:
    """Inputs `ids` (B, 4) and their `targets` (B,)."""

    ids: Tensor
    targets: Tensor
    load: Load

    def to(self, device: torch.device) -> Self:
        return replace(self, ids=self.ids.to(device), targets=self.targets.to(device))


class Toy(nn.Module):
    """An embedding, dropout, a norm, a head, and a second head that no loss reaches."""

    def __init__(self, width: int = 8, dropout: float = 0.2, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.embedding = nn.Embedding(10, width)
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, 1)
            self.unused = nn.Linear(width, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids: Tensor) -> Tensor:
        scores: Tensor = self.head(self.norm(self.dropout(self.embedding(ids).sum(dim=1)))).squeeze(1)
        return scores


class Adding:
    """The task of adding digits."""

    def __init__(self, config: TrainConfig, toy: Toy | None = None) -> None:
        self.config, self.toy = config, toy or Toy()
        self.order = Order(EXAMPLES, config.batch_size, config.seed)
        self.made: list[int] = []

    def batch(self, step: int, part: Part) -> Sums:
        self.made.append(step)
        rows = [self.order.row(place) for place in self.order.places(step, part)]
        ids = torch.tensor([[(row * factor) % 10 for factor in (1, 3, 5, 7)] for row in rows])
        mask = torch.ones_like(ids, dtype=torch.bool)
        mask[:, 3] = False
        return Sums(ids, ids.sum(dim=1) / 10, Load.of(len(rows), [mask]))

    def loss(self, batch: Sums) -> dict[str, Tensor]:
        error = self.toy(batch.ids) - batch.targets
        return {"loss": error.square().mean(), "absolute": error.abs().mean()}


def settings(**changes: Any) -> TrainConfig:
    given: dict[str, Any] = {"steps": 12, "batch_size": 4, "lr": 0.05, "warmup": 2, "save_every": 5, "log_every": 2}
    given |= {"device": "cpu", "precision": "float32"}
    return TrainConfig(**{**given, **changes})


def train(
    folder: Path,
    config: TrainConfig | None = None,
    *,
    toy: Toy | None = None,
    stop: Callable[[int], None] = lambda _: None,
    resume: bool = False,
    saves: Saves | None = None,
    **options: Any,
) -> tuple[Outcome, Adding]:
    """Train the toy model; `stop` is called with the number of each loss so far, and may raise."""
    task, taken = Adding(config or settings(), toy), 0

    def loss(batch: Sums) -> dict[str, Tensor]:
        nonlocal taken
        taken += 1
        stop(taken)
        return task.loss(batch)

    trainer = Trainer(task.toy, task.batch, loss, task.config, folder, saves=saves, **options)
    return trainer.run(resume=resume), task


if __name__ == "__main__":
    torch.set_num_threads(1)
    pause = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
    outcome, _ = train(
        Path(sys.argv[1]), settings(steps=int(sys.argv[2])), resume=True, stop=lambda _: time.sleep(pause)
    )
    print(outcome.loss)
