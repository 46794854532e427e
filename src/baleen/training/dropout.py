"""How often a model's activations are left out while it learns.

    with dropping(model, 0.0):
        ...                                 every dropout of the model has this rate; after it, its own again

On a CPU, attention with dropout has no fused kernel, and drawing what is dropped takes as long as multiplying: without it
a step takes less than half the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

_ATTENTION = "attention_dropout"  # the rate as a plain number, of backbones that give it to their attention so


@contextmanager
def dropping(module: nn.Module, rate: float | None) -> Iterator[None]:
    """Every dropout of `module` at `rate`; None leaves each as it is."""
    own = [] if rate is None else list(_rates(module))
    for part, name, _ in own:
        setattr(part, name, rate)
    try:
        yield
    finally:
        for part, name, before in own:
            setattr(part, name, before)


def _rates(module: nn.Module) -> Iterator[tuple[nn.Module, str, Any]]:
    """Where a rate stands, and what it is."""
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            yield part, "p", part.p
        if isinstance(getattr(part, _ATTENTION, None), float):
            yield part, _ATTENTION, getattr(part, _ATTENTION)
