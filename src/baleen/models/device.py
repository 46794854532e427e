"""Which device and which arithmetic the models use unless someone says otherwise.

Linear layers in int8, for inference on a CPU.

The weights of a layer are rounded to int8 once, with a scale for each output; what comes in is rounded on the fly, with a
scale for each row, so that a loud token takes nothing from its neighbours.  The product is of integers, which processors
with VNNI instructions do several times as fast as one of floats; bias and everything between layers stay in float32.

Torch would round and scale back in nine passes over memory, which cost all that the product gains; the two kernels here
take one each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from numba import njit
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from baleen.core.errors import ConfigError
from baleen.core.parallel import available_cores

Precision = Literal["float32", "bfloat16", "int8"]

# cuDNN's kernels are left out: they plan anew for every shape of a batch, which takes longer than the batch itself.
ATTENTION = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]

_CPU_FLAGS = Path("/proc/cpuinfo")


def best_device() -> torch.device:
    """A CUDA device where there is one, the CPU elsewhere."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def resolve_device(name: str | torch.device | None) -> torch.device:
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


LEVELS = np.float32(127)  # of either sign
_TINY = np.float32(1e-30)
_HALF, _ZERO = np.float32(0.5), np.float32(0)
_FEW = 1 << 16  # values that are not worth a second thread

Floats = npt.NDArray[np.float32]


class Int8Linear(nn.Module):
    """What an `nn.Linear` computes, up to rounding: (..., n_in) float32 -> (..., n_out) float32, without gradients."""

    weight: Tensor  # (n_in, n_out) int8: the transpose of what nn.Linear holds, in the same memory order
    scale: Tensor  # (n_out) float32
    bias: Tensor  # (n_out) float32

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        weight = layer.weight.detach().float()
        scale = weight.abs().amax(dim=1).clamp_min(float(_TINY)) / float(LEVELS)
        bias = torch.zeros_like(scale) if layer.bias is None else layer.bias.detach().float()
        self.register_buffer("weight", (weight / scale.unsqueeze(1)).round().to(torch.int8).t())
        self.register_buffer("scale", scale)
        self.register_buffer("bias", bias)

    def forward(self, inputs: Tensor) -> Tensor:
        rows = inputs.detach().float().reshape(-1, inputs.shape[-1]).contiguous()
        rounded = torch.empty(rows.shape, dtype=torch.int8)
        scales = np.empty(len(rows), dtype=np.float32)
        _shared(_round_rows, rows.numel(), rows.numpy(), rounded.numpy(), scales)
        products = torch._int_mm(rounded, self.weight)  # (rows, n_out) int32
        outputs = products.view(torch.float32)  # in the same memory: a new block of this size costs as much again
        of_columns = self.scale.numpy(), self.bias.numpy()
        _shared(_scale_back, products.numel(), products.numpy(), scales, *of_columns, outputs.numpy())
        return outputs.view(*inputs.shape[:-1], len(self.scale))


def quantize_linears(module: nn.Module) -> nn.Module:
    """Put an `Int8Linear` in the place of every linear layer inside `module`, which is changed and comes back."""
    for name, child in module.named_children():
        if type(child) is nn.Linear:
            setattr(module, name, Int8Linear(child))
        else:
            quantize_linears(child)
    return module


def _shared(kernel: Callable[..., None], values: int, *arrays: npt.NDArray[Any]) -> None:
    """Run a kernel over the rows of its first array, in as many threads as torch has."""
    count = len(arrays[0])
    threads = 1 if values < _FEW else max(1, min(torch.get_num_threads(), count))
    edges = [count * part // threads for part in range(threads + 1)]
    waiting = [_pool().submit(kernel, *arrays, *edges[part : part + 2]) for part in range(1, threads)]
    kernel(*arrays, *edges[:2])
    for done in waiting:
        done.result()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=available_cores(), thread_name_prefix="int8")


@njit(nogil=True, cache=True, fastmath=True)  # type: ignore[untyped-decorator]
def _round_rows(rows: Floats, rounded: npt.NDArray[np.int8], scales: Floats, first: int, last: int) -> None:
    """Rows `first` to `last` as whole numbers from -127 to 127, and what each row was divided by."""
    for row in range(first, last):
        largest = _TINY
        for column in range(rows.shape[1]):
            largest = max(largest, abs(rows[row, column]))
        times = LEVELS / largest
        scales[row] = largest / LEVELS
        for column in range(rows.shape[1]):
            value = rows[row, column] * times
            rounded[row, column] = np.int8(np.int32(value + (_HALF if value >= _ZERO else -_HALF)))


@njit(nogil=True, cache=True, fastmath=True)  # type: ignore[untyped-decorator]
def _scale_back(
    products: npt.NDArray[np.int32],
    of_rows: Floats,
    of_columns: Floats,
    bias: Floats,
    outputs: Floats,
    first: int,
    last: int,
) -> None:
    """`outputs` may be the very memory of `products`: each is read before its place is written."""
    for row in range(first, last):
        for column in range(products.shape[1]):
            outputs[row, column] = np.float32(products[row, column]) * of_rows[row] * of_columns[column] + bias[column]
