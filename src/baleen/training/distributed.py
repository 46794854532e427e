"""The processes of a run: one, or as many as torchrun started.

torchrun --nproc-per-node 4 ... sets WORLD_SIZE, RANK and LOCAL_RANK; without them there is one process and nothing here
communicates.  Gradients are averaged by one reduction after the last backward pass of a step rather than by torch's
DistributedDataParallel, which hooks a module's `forward`: losses call other methods, several times, and may leave a
head unused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, distributed

from baleen.devices import usable_device


@dataclass(frozen=True)
class World:
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

    def share(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by the first process's."""
        if self.size > 1:
            for tensor in tensors:
                distributed.broadcast(tensor, src=0)

    def wait(self) -> None:
        """Until all processes are here."""
        if self.size > 1:
            distributed.barrier()


def local_device(name: str | torch.device | None = None) -> torch.device:
    """The device of this process: the one named, or the best there is, and of several GPUs the process's own."""
    device = usable_device(name)
    if device == torch.device("cuda") and "LOCAL_RANK" in os.environ:
        return torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    return device


@contextmanager
def world(device: torch.device) -> Iterator[World]:
    """The processes for as long as the block runs; a group that exists already is used and left standing."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 and not distributed.is_initialized():
        yield World()
        return
    ours = not distributed.is_initialized()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if ours:
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield World(distributed.get_rank(), distributed.get_world_size())
    finally:
        if ours:
            distributed.destroy_process_group()
