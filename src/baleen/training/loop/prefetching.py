"""Batches made ahead of the steps that take them: by a thread, or beside a GPU by processes.

A thread of Python that lays texts out holds up the one that feeds a GPU; processes do not.
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

MOST_PROCESSES = 4
_AHEAD = 2  # that wait, beside one in the making


def prefetch(make: Callable[[int], Item], keys: Sequence[int], processes: int = 0) -> Generator[Item]:
    """`make(key)` for each key in order, a few ahead of what is taken: by so many processes, or if 0 by a thread.

    Processes are forks, with all that `make` knows as of now; what they learn stays with them.
    """
    return _by_processes(make, keys, processes) if processes and keys else background(map(make, keys), _AHEAD)


def prefetch_processes(device: torch.device) -> int:
    """How many processes should make batches for a device: none where its own work is what takes the processors."""
    return min(MOST_PROCESSES, cores_per_process() - 1) if device.type == "cuda" and forks_are_safe() else 0


class _Made(Dataset[bytes]):
    """What is made of a key, or the error that came of it: so that it is raised as it is, not as a loader's.

    As bytes: tensors would go through shared memory, of which a container may have next to none.
    """

    def __init__(self, make: Callable[[int], Any]) -> None:
        self._make = make

    def __getitem__(self, key: int) -> bytes:
        try:
            return _dumped(self._make(key))
        except Exception as error:
            error.add_note(traceback.format_exc())  # which does not come along otherwise
            return _error(error)


class _Pickler(pickle.Pickler):
    """Tensors go as arrays do, in a fortieth of the time."""

    def reducer_override(self, item: Any) -> Any:
        return (torch.from_numpy, (item.numpy(),)) if isinstance(item, Tensor) else NotImplemented


def _dumped(item: Any) -> bytes:
    file = io.BytesIO()
    _Pickler(file, pickle.HIGHEST_PROTOCOL).dump(item)
    return file.getvalue()


def _error(error: Exception) -> bytes:
    """As it is, or where its kind does not come through, what it says."""
    try:
        data = pickle.dumps(error)
        pickle.loads(data)
    except Exception:
        return pickle.dumps(TrainingError(f"{type(error).__name__}: {error}"))
    return data


def _by_processes(make: Callable[[int], Item], keys: Sequence[int], processes: int) -> Generator[Item]:
    """The processes begin at once, before any thread of whoever takes the items."""
    loader = DataLoader(
        _Made(make),
        batch_size=None,
        sampler=keys,
        num_workers=processes,
        collate_fn=_as_it_is,
        multiprocessing_context="fork",
        prefetch_factor=2,
    )
    gc.freeze()  # forks that search all that is there for garbage would copy it
    try:
        with quiet_forks():
            return _taken(iter(loader))
    finally:
        gc.unfreeze()


def _as_it_is(data: Any) -> Any:
    return data


def _taken(made: Iterator[bytes]) -> Generator[Any]:
    try:
        while (data := next(made, None)) is not None:
            item = pickle.loads(data)
            if isinstance(item, Exception):
                raise item
            yield item
    finally:
        del made  # and the processes with it, even where an error holds this frame
