"""Devices, precision and inference: where models compute, and in which arithmetic.

`Int8Linear` replaces a linear layer for inference on a CPU.  Weights are quantized to int8 once, with a scale for each
output; inputs are quantized on the fly, with a scale for each row, so that one large token does not cost its neighbours
precision.  The integer product is several times as fast as a float one on processors with VNNI instructions.  Biases
and everything between the layers stay in float32.  torch would quantize and rescale in nine passes over memory, which
would cost all that the product gains; the two kernels here take one pass each.
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

from baleen.core.errors import ConfigError
from baleen.core.parallel import available_cores

Precision = Literal["float32", "bfloat16", "int8"]

_CPU_FLAGS = Path("/proc/cpuinfo")


def best_device() -> torch.device:
    """A CUDA device if there is one, otherwise the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def resolve_device(name: str | torch.device | None) -> torch.device:
    """The device called `name` (None: the best one); ConfigError if torch cannot use it."""
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
    """bfloat16 if `device` supports it natively, otherwise float32, which is faster than emulated bfloat16."""
    if device.type == "cuda":
        native = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        native = device.type == "cpu" and cpu_has_bfloat16()
    return torch.bfloat16 if native else torch.float32


def dtype_of(precision: Precision | None, device: torch.device) -> torch.dtype:
    """The type in which a model computes at `precision` (None: the best for `device`).

    int8 applies to linear layers on a CPU, with float32 between them; ConfigError on other devices.
    """
    if precision is None:
        return best_dtype(device)
    if precision not in get_args(Precision):
        raise ConfigError(f"precision = {precision!r} should be one of {', '.join(get_args(Precision))}")
    if precision == "int8" and device.type != "cpu":
        raise ConfigError(f"precision = 'int8' is for the cpu, not for {device}; use bfloat16 there")
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


def disable_cudnn_attention(device: torch.device) -> None:
    """Disable cuDNN's attention kernels in this process if `device` is a GPU.

    cuDNN plans again for every batch shape, which takes longer than the batch itself.
    """
    if device.type == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)


@contextmanager
def inference(model: nn.Module, dtype: torch.dtype) -> Iterator[None]:
    """Compute without gradients and dropout, and in `dtype` if the weights have another type.

    A model in eval mode is not changed, so threads may share it.  A model in train mode is in eval mode meanwhile.
    """
    weights, training = next(model.parameters()), model.training
    if training:
        model.eval()
    try:
        with torch.inference_mode(), torch.autocast(weights.device.type, dtype, enabled=weights.dtype != dtype):
            yield
    finally:
        if training:
            model.train()


def cpu_has_bfloat16(cpuinfo: Path = _CPU_FLAGS) -> bool:
    """Whether this processor multiplies bfloat16 matrices in hardware; False if `cpuinfo` cannot be read."""
    try:
        words = set(cpuinfo.read_text().split())
    except OSError:
        return False
    return not words.isdisjoint({"avx512_bf16", "amx_bf16"})


LEVELS = np.float32(127)  # of either sign
_TINY = np.float32(1e-30)
_HALF, _ZERO = np.float32(0.5), np.float32(0)
_MIN_VALUES = 1 << 16  # fewer are not worth a second thread

Floats = npt.NDArray[np.float32]


class Int8Linear(nn.Module):
    """An `nn.Linear` with int8 weights, for inference: (..., n_in) float32 -> (..., n_out) float32."""

    weight: Tensor  # (n_in, n_out) int8: a transposed view of the (n_out, n_in) layout of nn.Linear
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
        quantized = torch.empty(rows.shape, dtype=torch.int8)
        row_scales = np.empty(len(rows), dtype=np.float32)
        _in_threads(_quantize_rows, rows.numel(), rows.numpy(), quantized.numpy(), row_scales)
        products = torch._int_mm(quantized, self.weight)  # (rows, n_out) int32
        outputs = products.view(torch.float32)  # in place: allocating as much again would cost as much as the kernel
        columns = self.scale.numpy(), self.bias.numpy()
        _in_threads(_rescale, products.numel(), products.numpy(), row_scales, *columns, outputs.numpy())
        return outputs.view(*inputs.shape[:-1], len(self.scale))


def quantize_linears(module: nn.Module) -> nn.Module:
    """Replace every linear layer inside `module` with an `Int8Linear`, in place; return `module`."""
    for name, child in module.named_children():
        if type(child) is nn.Linear:
            setattr(module, name, Int8Linear(child))
        else:
            quantize_linears(child)
    return module


def _in_threads(kernel: Callable[..., None], values: int, *arrays: npt.NDArray[Any]) -> None:
    """Run `kernel` over the rows of its first array, in as many threads as torch uses."""
    count = len(arrays[0])
    threads = 1 if values < _MIN_VALUES else max(1, min(torch.get_num_threads(), count))
    edges = [count * part // threads for part in range(threads + 1)]
    running = [_pool().submit(kernel, *arrays, *edges[part : part + 2]) for part in range(1, threads)]
    kernel(*arrays, *edges[:2])
    for future in running:
        future.result()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=available_cores(), thread_name_prefix="int8")


@njit(nogil=True, cache=True, fastmath=True)  # type: ignore[untyped-decorator]
def _quantize_rows(rows: Floats, quantized: npt.NDArray[np.int8], scales: Floats, first: int, last: int) -> None:
    """Quantize rows `first` to `last` to integers from -127 to 127, and note the scale of each row."""
    for row in range(first, last):
        largest = _TINY
        for column in range(rows.shape[1]):
            largest = max(largest, abs(rows[row, column]))
        times = LEVELS / largest
        scales[row] = largest / LEVELS
        for column in range(rows.shape[1]):
            value = rows[row, column] * times
            quantized[row, column] = np.int8(np.int32(value + (_HALF if value >= _ZERO else -_HALF)))


@njit(nogil=True, cache=True, fastmath=True)  # type: ignore[untyped-decorator]
def _rescale(
    products: npt.NDArray[np.int32],
    row_scales: Floats,
    column_scales: Floats,
    bias: Floats,
    outputs: Floats,
    first: int,
    last: int,
) -> None:
    """Scale integer products back to floats and add the bias; `outputs` may share the memory of `products`."""
    for row in range(first, last):
        for column in range(products.shape[1]):
            value = np.float32(products[row, column]) * row_scales[row] * column_scales[column]
            outputs[row, column] = value + bias[column]
