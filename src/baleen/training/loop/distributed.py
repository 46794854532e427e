"""The processes of a run: one, or those that torchrun started.

`torchrun --nproc-per-node 4 ...` sets WORLD_SIZE, RANK and LOCAL_RANK; without them there is one process and no
communication.  Gradients are averaged by one reduction after the last backward pass of a step.  torch's
DistributedDataParallel hooks a module's `forward` instead, but losses call other methods, several times, and may leave a
head unused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
from torch import Tensor, distributed, nn

from baleen.models.device import resolve_device

Item = TypeVar("Item")

# How long processes wait for the first one, which may work alone for hours.
TIMEOUT = timedelta(days=1)


@dataclass(frozen=True)
class Processes:
    """Process number `rank` of `size`; all processes call every method alike."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    def average(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its mean over the processes."""
        held = list(tensors)
        if self.size == 1 or not held:
            return
        flat = torch.cat([tensor.flatten() for tensor in held])
        distributed.all_reduce(flat)
        parts = torch.split(flat / self.size, [tensor.numel() for tensor in held])
        for tensor, part in zip(held, parts, strict=True):
            tensor.copy_(part.view_as(tensor))

    def broadcast_tensors(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by that of the first process."""
        if self.size > 1:
            for tensor in tensors:
                distributed.broadcast(tensor, src=0)

    def wait(self) -> None:
        if self.size > 1:
            distributed.barrier()

    def broadcast(self, value: Item) -> Item:
        """The value of the first process."""
        held = [value]
        if self.size > 1:
            distributed.broadcast_object_list(held, src=0)
        return held[0]

    def shard(self, items: Sequence[Item]) -> Sequence[Item]:
        """This process's share of `items`: a contiguous slice, in the order of the processes."""
        return items[len(items) * self.rank // self.size : len(items) * (self.rank + 1) // self.size]

    def gather(self, items: Sequence[Item]) -> list[Item]:
        """The items of all processes, in the order of the processes."""
        if self.size == 1:
            return list(items)
        found: list[list[Item]] = [[] for _ in range(self.size)]
        distributed.all_gather_object(found, list(items))
        return [item for part in found for item in part]

    def gather_columns(self, tensor: Tensor) -> Tensor:
        """Concatenate the columns of all processes: (n, k) each -> (n, size * k)."""
        if self.size == 1:
            return tensor
        found = [torch.empty_like(tensor) for _ in range(self.size)]
        distributed.all_gather(found, tensor.contiguous())
        return torch.cat(found, dim=1)


def average_gradients(module: nn.Module, processes: Processes) -> None:
    """Average the gradients of all trainable parameters over the processes; a missing gradient counts as 0.

    A parameter without a gradient in any process keeps none, so that the optimizer skips it as it does in one process.
    """
    trainable = [parameter for parameter in module.parameters() if parameter.requires_grad]
    missing = [place for place, parameter in enumerate(trainable) if parameter.grad is None]
    reached = torch.ones(len(trainable), device=trainable[0].device)
    reached[missing] = 0
    for place in missing:
        trainable[place].grad = torch.zeros_like(trainable[place])
    processes.average([reached, *(parameter.grad for parameter in trainable if parameter.grad is not None)])
    shares = reached.tolist() if missing else []  # waits for the device, so only if needed
    for place in missing:
        if not shares[place]:
            trainable[place].grad = None


def started_processes() -> int:
    """The number of processes that torchrun started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    """Whether this process writes and prints: the first of torchrun's, or the only one."""
    return int(os.environ.get("RANK", "0")) == 0


def local_device(name: str | torch.device | None = None) -> torch.device:
    """The named or the best device; of several GPUs, the one of this process."""
    device = resolve_device(name)
    if device == torch.device("cuda") and "LOCAL_RANK" in os.environ:
        return torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    return device


@contextmanager
def process_group(device: torch.device) -> Iterator[Processes]:
    """Join the process group for the duration of the block; a group that exists already is used and kept."""
    if started_processes() == 1 and not distributed.is_initialized():
        yield Processes()
        return
    created = not distributed.is_initialized()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if created:
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=TIMEOUT)
    try:
        yield Processes(distributed.get_rank(), distributed.get_world_size())
    finally:
        if created:
            distributed.destroy_process_group()
