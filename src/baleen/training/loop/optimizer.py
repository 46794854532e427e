"""AdamW: its learning rate, its state as named tensors, gradient clipping, and a dropout rate for training.

On a CPU, attention with dropout has no fused kernel, and drawing the masks takes as long as multiplying: a step without
dropout takes less than half the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW

_SEPARATOR = "/"
_ATTENTION_RATE = "attention_dropout"  # attribute that holds the rate as a number in some backbones' attention


def learning_rate(step: int, *, peak: float, steps: int, warmup: int) -> float:
    """Rate of the update after `step` updates: linear warmup to `peak`, then linear decay towards 0."""
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * (steps - step) / (steps - warmup)


def adamw(module: nn.Module, lr: float, weight_decay: float) -> AdamW:
    """AdamW over the trainable parameters; norms and biases (vectors) have no weight decay."""
    trainable = [parameter for parameter in module.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in trainable if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in trainable if p.dim() <= 1], "weight_decay": 0.0},
    ]
    fused = all(parameter.device.type == "cuda" for parameter in trainable)
    return AdamW([group for group in groups if group["params"]], lr=lr, fused=fused)


def optimizer_state(optimizer: AdamW, module: nn.Module) -> dict[str, Tensor]:
    """State of each parameter, by names such as `layer.weight/exp_avg`."""
    return {
        f"{name}{_SEPARATOR}{key}": value
        for name, parameter in module.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def load_optimizer_state(optimizer: AdamW, module: nn.Module, saved: Mapping[str, Tensor]) -> None:
    """Restore a state from `optimizer_state`."""
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
    """Clip the gradient norm to `limit`, and return the norm before."""
    parameters = [parameter for parameter in module.parameters() if parameter.grad is not None]
    return nn.utils.clip_grad_norm_(parameters, torch.inf if limit is None else limit)


@contextmanager
def override_dropout(module: nn.Module, rate: float | None) -> Iterator[None]:
    """Set every dropout rate of `module` for the duration of the block; None keeps them."""
    before = [] if rate is None else list(_dropout_rates(module))
    for part, name, _ in before:
        setattr(part, name, rate)
    try:
        yield
    finally:
        for part, name, original in before:
            setattr(part, name, original)


def _dropout_rates(module: nn.Module) -> Iterator[tuple[nn.Module, str, Any]]:
    """Module, attribute and value of every dropout rate."""
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            yield part, "p", part.p
        if isinstance(getattr(part, _ATTENTION_RATE, None), float):
            yield part, _ATTENTION_RATE, getattr(part, _ATTENTION_RATE)
