"""Prefetch training batches: in a thread on a CPU, in forked processes beside a GPU.

A thread that makes batches holds Python's lock, and so delays the thread that feeds a GPU; processes do not.  The stream
of a thread and the rules of forking are `core.parallel`; this module adds worker processes that pass tensors.
"""

from __future__ import annotations

import gc
import io
import pickle
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from baleen.core.errors import TrainingError
from baleen.core.parallel import background, cores_per_process, forks_are_safe, quiet_forks

Item = TypeVar("Item")

MAX_PROCESSES = 4
_BUFFER = 2  # finished batches per worker


def prefetch(make: Callable[[int], Item], keys: Sequence[int], processes: int = 0) -> Generator[Item]:
    """Yield `make(key)` for each key in order, computed ahead by `processes` forks, or by a thread if 0.

    Forks inherit all that `make` refers to; changes they make to it are lost.
    """
    return _prefetch_in_forks(make, keys, processes) if processes and keys else background(map(make, keys), _BUFFER)


def prefetch_processes(device: torch.device) -> int:
    """The number of processes to make batches with: none on a CPU, which is busy with the training itself."""
    return min(MAX_PROCESSES, cores_per_process() - 1) if device.type == "cuda" and forks_are_safe() else 0


class _PickledItems(Dataset[bytes]):
    """`make(key)` as pickled bytes, or its error, to be raised as it is and not as one of the loader.

    Tensors sent as such would go through shared memory, which a container may lack.
    """

    def __init__(self, make: Callable[[int], Any]) -> None:
        self._make = make

    def __getitem__(self, key: int) -> bytes:
        try:
            return _pickle(self._make(key))
        except Exception as error:
            error.add_note(traceback.format_exc())  # lost in pickling otherwise
            return _pickle_error(error)


class _Pickler(pickle.Pickler):
    """Pickles tensors as arrays, forty times as fast."""

    def reducer_override(self, item: Any) -> Any:
        return (torch.from_numpy, (item.numpy(),)) if isinstance(item, Tensor) else NotImplemented


def _pickle(item: Any) -> bytes:
    file = io.BytesIO()
    _Pickler(file, pickle.HIGHEST_PROTOCOL).dump(item)
    return file.getvalue()


def _pickle_error(error: Exception) -> bytes:
    """Pickle an error, or its message if its type cannot be pickled."""
    try:
        data = pickle.dumps(error)
        pickle.loads(data)
    except Exception:
        return pickle.dumps(TrainingError(f"{type(error).__name__}: {error}"))
    return data


def _prefetch_in_forks(make: Callable[[int], Item], keys: Sequence[int], processes: int) -> Generator[Item]:
    """Start the processes at once, before the consumer starts threads."""
    loader = DataLoader(
        _PickledItems(make),
        batch_size=None,
        sampler=keys,
        num_workers=processes,
        collate_fn=_identity,
        multiprocessing_context="fork",
        prefetch_factor=_BUFFER,
    )
    gc.freeze()  # garbage collection in a fork would copy every inherited page
    try:
        with quiet_forks():
            return _unpickle(iter(loader))
    finally:
        gc.unfreeze()


def _identity(data: Any) -> Any:
    return data


def _unpickle(pickled: Iterator[bytes]) -> Generator[Any]:
    try:
        while (data := next(pickled, None)) is not None:
            item = pickle.loads(data)
            if isinstance(item, Exception):
                raise item
            yield item
    finally:
        del pickled  # ends the processes, even if an error holds this frame
