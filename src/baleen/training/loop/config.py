"""Settings of the training loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from baleen.core.errors import ConfigError
from baleen.training.loop.optimizer import learning_rate


@dataclass(frozen=True)
class TrainConfig:
    """Settings of one training.

    `batch_size` is that of one update, over all processes and `accumulate` passes.  `warmup` below 1 is a share of the
    steps, else a number of steps.  `clip` limits the gradient norm.  The dev metric is measured every `evaluate_every`
    steps and at the end (None: only at the end); training stops after `patience` measurements without improvement.
    `precision` is that of activations; weights stay float32.  `dropout` overrides the backbone's rates; with 0, a step on
    a CPU takes less than half the time.
    """

    steps: int = 10_000
    batch_size: int = 48
    accumulate: int = 1
    lr: float = 3e-6
    warmup: float = 0.1
    weight_decay: float = 0.01
    clip: float | None = 1.0
    dropout: float | None = None
    seed: int = 0
    precision: Literal["auto", "bfloat16", "float32"] = "auto"
    save_every: int = 1000
    log_every: int = 50
    evaluate_every: int | None = None
    patience: int | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "accumulate", "save_every", "log_every", "evaluate_every", "patience"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} = {value}, which should be at least 1")
        for name in ("lr", "warmup", "weight_decay", "seed"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} = {getattr(self, name)}, which should not be negative")
        if self.clip is not None and self.clip <= 0:
            raise ConfigError(f"clip = {self.clip}, which should be above 0, or left out to not clip")
        if self.dropout is not None and not 0 <= self.dropout < 1:
            raise ConfigError(
                f"dropout = {self.dropout}, which should be 0 or more and below 1, or left out to keep the model's rates"
            )
        if self.warmup_steps > self.steps:
            raise ConfigError(f"warmup = {self.warmup}, which is more than steps = {self.steps}")

    @property
    def warmup_steps(self) -> int:
        return round(self.warmup * self.steps) if self.warmup < 1 else round(self.warmup)

    def rate(self, step: int) -> float:
        """The learning rate of the update after `step` updates."""
        return learning_rate(step, peak=self.lr, steps=self.steps, warmup=self.warmup_steps)
