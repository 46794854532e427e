"""Which device and which arithmetic the models use unless someone says otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from baleen.errors import ConfigError

Precision = Literal["float32", "bfloat16", "int8"]

# cuDNN's kernels are left out: they plan anew for every shape of a batch, which takes longer than the batch itself.
ATTENTION = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]

_CPU_FLAGS = Path("/proc/cpuinfo")


def best_device() -> torch.device:
    """A CUDA device where there is one, the CPU elsewhere."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def usable_device(name: str | torch.device | None) -> torch.device:
    """The device of this name, or the best there is; one that torch does not know or find is a ConfigError."""
    if name is None:
        return best_device()
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"device '{name}' cannot be used here ({reason}); try cpu") from None
    return device


def best_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 where `device` computes in it natively, float32 elsewhere: emulated, it is slower than float32."""
    if device.type == "cuda":
        native = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        native = device.type == "cpu" and cpu_has_bfloat16()
    return torch.bfloat16 if native else torch.float32


def dtype_of(precision: Precision | None, device: torch.device) -> torch.dtype:
    """What a model computes in at a precision, between the layers where that is int8; None takes the best there is.

    int8 is of linear layers (`quantized.py`) and for the CPU: elsewhere it is a ConfigError, as is any other name.
    """
    if precision is None:
        return best_dtype(device)
    if precision not in get_args(Precision):
        raise ConfigError(f"precision = {precision!r} should be one of {', '.join(get_args(Precision))}")
    if precision == "int8" and device.type != "cpu":
        raise ConfigError(f"precision = 'int8' is for the cpu, not for {device}; take bfloat16 there")
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


@contextmanager
def inference(model: nn.Module, dtype: torch.dtype) -> Iterator[None]:
    """No gradients, no dropout, and `dtype` arithmetic where the model's weights are of another type."""
    training, weights = model.training, next(model.parameters())
    rounding = torch.autocast(weights.device.type, dtype, enabled=weights.dtype != dtype)
    model.eval()
    try:
        with torch.inference_mode(), sdpa_kernel(ATTENTION), rounding:
            yield
    finally:
        model.train(training)


def cpu_has_bfloat16(cpuinfo: Path = _CPU_FLAGS) -> bool:
    """Whether this processor multiplies bfloat16 matrices in hardware; False where the system does not tell."""
    try:
        words = set(cpuinfo.read_text().split())
    except OSError:
        return False
    return not words.isdisjoint({"avx512_bf16", "amx_bf16"})
