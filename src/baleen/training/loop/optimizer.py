"""AdamW, its learning rate at each step, and its state as named tensors.

How often a model's activations are left out while it learns.

    with override_dropout(model, 0.0):
        ...                                 every dropout of the model has this rate; after it, its own again

On a CPU, attention with dropout has no fused kernel, and drawing what is dropped takes as long as multiplying: without it
a step takes less than half the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW

_SEPARATOR = "/"


def learning_rate(step: int, *, peak: float, steps: int, warmup: int) -> float:
    """At the update after `step` others: up to `peak` in equal strides over `warmup` updates, then down towards 0."""
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * (steps - step) / (steps - warmup)


def adamw(module: nn.Module, lr: float, weight_decay: float) -> AdamW:
    """AdamW over what is trainable in `module`; norms and biases, which are vectors, do not decay."""
    trainable = [parameter for parameter in module.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in trainable if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in trainable if p.dim() <= 1], "weight_decay": 0.0},
    ]
    fused = all(parameter.device.type == "cuda" for parameter in trainable)
    return AdamW([group for group in groups if group["params"]], lr=lr, fused=fused)


def optimizer_state(optimizer: AdamW, module: nn.Module) -> dict[str, Tensor]:
    """What the optimizer remembers of each parameter, by names such as `layer.weight/exp_avg`."""
    return {
        f"{name}{_SEPARATOR}{key}": value
        for name, parameter in module.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def load_optimizer_state(optimizer: AdamW, module: nn.Module, saved: Mapping[str, Tensor]) -> None:
    """Give the optimizer the moments that `optimizer_state` named."""
    numbers = {id(parameter): number for number, parameter in enumerate(_parameters(optimizer))}
    names = {name: numbers[id(p)] for name, p in module.named_parameters() if id(p) in numbers}
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in saved.items():
        name, _, field = key.rpartition(_SEPARATOR)
        state.setdefault(names[name], {})[field] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _parameters(optimizer: AdamW) -> Iterator[nn.Parameter]:
    for group in optimizer.param_groups:
        yield from group["params"]


def clip(module: nn.Module, limit: float | None) -> Tensor:
    """The norm of all gradients, which are scaled down to `limit` where it is over that."""
    parameters = [parameter for parameter in module.parameters() if parameter.grad is not None]
    return nn.utils.clip_grad_norm_(parameters, torch.inf if limit is None else limit)


_ATTENTION = "attention_dropout"  # the rate as a plain number, of backbones that give it to their attention so


@contextmanager
def override_dropout(module: nn.Module, rate: float | None) -> Iterator[None]:
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
