"""How much work a batch is, and how well a device does it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

# Dense bfloat16 operations a second, as the vendor gives them; the longer name stands before the shorter.
_PEAKS = {
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H100": 989e12,
    "H200": 989e12,
    "A100": 312e12,
}


@dataclass(frozen=True)
class Load:
    """What goes through a model: `examples`, their real `tokens`, the `slots` that they fill with padding counted,
    and `squares`, the sum of the squared lengths of the sequences, which attention grows with.
    """

    examples: int = 0
    tokens: int = 0
    slots: int = 0
    squares: int = 0

    @classmethod
    def of(cls, examples: int, masks: Iterable[Tensor]) -> Self:
        """Of batches whose `masks` (B, T) bool are True at what is no padding."""
        lengths = [(mask.sum(dim=1), mask.numel()) for mask in masks]
        return cls(
            examples=examples,
            tokens=sum(int(length.sum()) for length, _ in lengths),
            slots=sum(slots for _, slots in lengths),
            squares=sum(int((length**2).sum()) for length, _ in lengths),
        )

    def __add__(self, other: Load) -> Load:
        return Load(
            self.examples + other.examples,
            self.tokens + other.tokens,
            self.slots + other.slots,
            self.squares + other.squares,
        )

    @property
    def padding(self) -> float:
        """The share of slots that hold no token."""
        return 1 - self.tokens / self.slots if self.slots else 0.0


@dataclass(frozen=True)
class Work:
    """What a run has done: `steps` of `load`, one process's, in `seconds` of training without saves and evaluations."""

    load: Load = Load()
    steps: int = 0
    seconds: float = 0.0

    @classmethod
    def of(cls, saved: Mapping[str, Any]) -> Self:
        """What `asdict` made of one; nothing is no work."""
        return cls(Load(**saved["load"]), saved["steps"], saved["seconds"]) if saved else cls()

    def more(self, load: Load, steps: int, seconds: float) -> Work:
        return Work(self.load + load, self.steps + steps, self.seconds + seconds)


@dataclass(frozen=True)
class Speed:
    """How fast a training went: steps, and real tokens and examples of all processes, a second.

    `padding` is the share of slots that held no token.  `utilisation` is the share of the operations that the device is
    sold with (model FLOPs utilisation); None where that is not known.
    """

    steps_per_second: float
    tokens_per_second: float
    examples_per_second: float
    padding: float
    utilisation: float | None

    @classmethod
    def of(cls, work: Work, processes: int, cost: Cost, peak: float | None) -> Self:
        seconds = max(work.seconds, 1e-9)
        return cls(
            steps_per_second=work.steps / seconds,
            tokens_per_second=work.load.tokens * processes / seconds,
            examples_per_second=work.load.examples * processes / seconds,
            padding=work.load.padding,
            utilisation=None if peak is None else cost.operations(work.load) / seconds / peak,
        )


@dataclass(frozen=True)
class Cost:
    """What a model spends: `weights` that multiply every token, and the size of its attention, `layers` x `hidden`."""

    weights: int
    layers: int = 0
    hidden: int = 0

    @classmethod
    def of(cls, module: nn.Module) -> Self:
        """Embeddings are looked up, not multiplied; attention is known of the backbones of Hugging Face."""
        looked_up = {id(m.weight) for m in module.modules() if isinstance(m, nn.Embedding)}
        weights = sum(p.numel() for p in module.parameters() if id(p) not in looked_up)
        configs = [getattr(part, "config", None) for part in module.modules()]
        found = next((c for c in configs if hasattr(c, "num_hidden_layers") and hasattr(c, "hidden_size")), None)
        return cls(weights, found.num_hidden_layers, found.hidden_size) if found is not None else cls(weights)

    def operations(self, load: Load) -> int:
        """Of one forward and one backward pass, which costs twice as much, over real tokens."""
        return 6 * self.weights * load.tokens + 12 * self.layers * self.hidden * load.squares


def peak(device: torch.device, dtype: torch.dtype) -> float | None:
    """Operations a second that `device` is sold with, where that is known: for bfloat16 on some GPUs."""
    if device.type != "cuda" or dtype != torch.bfloat16:
        return None
    return peak_of(torch.cuda.get_device_name(device))


def peak_of(name: str) -> float | None:
    return next((operations for known, operations in _PEAKS.items() if known in name), None)
