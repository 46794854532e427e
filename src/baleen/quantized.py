"""Linear layers in int8, for inference on a CPU.

The weights of a layer are rounded to int8 once, with a scale for each output; what comes in is rounded on the fly, with a
scale for each row, so that a loud token takes nothing from its neighbours.  The product is of integers, which processors
with VNNI instructions do several times as fast as one of floats; bias and everything between layers stay in float32.

Torch would round and scale back in nine passes over memory, which cost all that the product gains; the two kernels here
take one each.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numba import njit
from torch import Tensor, nn

from baleen.cores import cores

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
    return ThreadPoolExecutor(max_workers=cores(), thread_name_prefix="int8")


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
