"""The processes of a run: one, or as many as torchrun started.

torchrun --nproc-per-node 4 ... sets WORLD_SIZE, RANK and LOCAL_RANK; without them there is one process and nothing here
communicates.  Gradients are averaged by one reduction after the last backward pass of a step rather than by torch's
DistributedDataParallel, which hooks a module's `forward`: losses call other methods, several times, and may leave a
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

# How long one process waits for the others: the first one may have hours of work that it alone can do.
PATIENCE = timedelta(days=1)


@dataclass(frozen=True)
class Processes:
    """This process is number `rank` of `size`; every method is called by all of them alike."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the one process that writes."""
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
        """Replace each tensor by the first process's."""
        if self.size > 1:
            for tensor in tensors:
                distributed.broadcast(tensor, src=0)

    def wait(self) -> None:
        """Until all processes are here."""
        if self.size > 1:
            distributed.barrier()

    def broadcast(self, value: Item) -> Item:
        """The first process's value: what it saw of the disk, say, before it changed it."""
        held = [value]
        if self.size > 1:
            distributed.broadcast_object_list(held, src=0)
        return held[0]

    def shard(self, items: Sequence[Item]) -> Sequence[Item]:
        """This process's share: stretches of like length, in the order of the processes."""
        return items[len(items) * self.rank // self.size : len(items) * (self.rank + 1) // self.size]

    def gather(self, items: Sequence[Item]) -> list[Item]:
        """What every process brought, in the order of the processes."""
        if self.size == 1:
            return list(items)
        found: list[list[Item]] = [[] for _ in range(self.size)]
        distributed.all_gather_object(found, list(items))
        return [item for part in found for item in part]

    def gather_columns(self, tensor: Tensor) -> Tensor:
        """Every process's (n, k), which are of one shape: (n, size * k)."""
        if self.size == 1:
            return tensor
        found = [torch.empty_like(tensor) for _ in range(self.size)]
        distributed.all_gather(found, tensor.contiguous())
        return torch.cat(found, dim=1)


def average_gradients(module: nn.Module, processes: Processes) -> None:
    """Give every trainable parameter the mean of its gradients, 0 where a process's loss did not reach it.

    What no loss reached at all keeps no gradient: an optimizer passes it by, as it does in one process.
    """
    trainable = [parameter for parameter in module.parameters() if parameter.requires_grad]
    lacking = [place for place, parameter in enumerate(trainable) if parameter.grad is None]
    reached = torch.ones(len(trainable), device=trainable[0].device)
    reached[lacking] = 0
    for place in lacking:
        trainable[place].grad = torch.zeros_like(trainable[place])
    processes.average([reached, *(parameter.grad for parameter in trainable if parameter.grad is not None)])
    shares = reached.tolist() if lacking else []  # which waits for the device, so that only who needs them reads them
    for place in lacking:
        if not shares[place]:
            trainable[place].grad = None


def started_processes() -> int:
    """How many processes torchrun started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    """Whether this is the one process that writes and talks, as torchrun numbers them."""
    return int(os.environ.get("RANK", "0")) == 0


def local_device(name: str | torch.device | None = None) -> torch.device:
    """The device of this process: the one named, or the best there is, and of several GPUs the process's own."""
    device = resolve_device(name)
    if device == torch.device("cuda") and "LOCAL_RANK" in os.environ:
        return torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    return device


@contextmanager
def process_group(device: torch.device) -> Iterator[Processes]:
    """The processes for as long as the block runs; a group that exists already is used and left standing."""
    if started_processes() == 1 and not distributed.is_initialized():
        yield Processes()
        return
    ours = not distributed.is_initialized()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if ours:
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE)
    try:
        yield Processes(distributed.get_rank(), distributed.get_world_size())
    finally:
        if ours:
            distributed.destroy_process_group()
