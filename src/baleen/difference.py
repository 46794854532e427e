"""A model as what it differs by from another: the second of two that are much alike takes a fraction of the bytes.

    stored = factored(base.tensors, model.tensors, rank=64)         what is written
    restored(base.tensors, stored)                                  the model, but for what so few numbers cannot say

Of every matrix the `rank` strongest directions of its difference are kept, as two thin factors; what has no more numbers
than these, and every bias, is kept whole.  Embeddings of tokens are taken from the base: a training hardly moves them, and
they are a third of a small model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from baleen.errors import CheckpointError, ConfigError
from baleen.progress import track

if TYPE_CHECKING:
    from torch import Tensor

LEFT, RIGHT = ".left", ".right"
_OF_THE_BASE = "embeddings"


def factored(base: Mapping[str, Tensor], tensors: Mapping[str, Tensor], rank: int) -> dict[str, Tensor]:
    """What `restored` makes `tensors` of, beside `base`, which has the same names and shapes."""
    if rank < 1:
        raise ConfigError(f"rank = {rank}, which should be at least 1")
    stored: dict[str, Tensor] = {}
    for name, tensor in track(list(tensors.items()), "finding differences", unit="tensors"):
        if tensor.equal(base[name]) or (_OF_THE_BASE in name and tensor.dim() == 2):
            continue
        if tensor.dim() == 2 and rank * sum(tensor.shape) < tensor.numel():
            left, right = _factors(tensor.float() - base[name].float(), rank)
            stored |= {name + LEFT: left.to(tensor.dtype), name + RIGHT: right.to(tensor.dtype)}
        else:
            stored[name] = tensor
    return stored


def _factors(difference: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """(n, rank) and (rank, m), whose product is as near as so few numbers come; both are as large, for float16's sake."""
    from torch.linalg import svd

    left, strengths, right = svd(difference, full_matrices=False)
    half = strengths[:rank].sqrt()
    return left[:, :rank] * half, half[:, None] * right[:rank]


def restored(base: Mapping[str, Tensor], stored: Mapping[str, Tensor], source: str = "difference") -> dict[str, Tensor]:
    """The tensors of a model, in the types that the base has; factors that do not fit are a CheckpointError."""
    tensors = dict(base)
    for name, tensor in stored.items():
        whole = name.removesuffix(LEFT).removesuffix(RIGHT)
        if whole == name and name in base and tensor.shape == base[name].shape:
            tensors[name] = tensor
        elif whole == name or whole not in base or not _fit(stored, whole, base[whole]):
            raise CheckpointError(f"{source}: tensor {name} fits nothing of the model that this one differs from")
        elif name.endswith(LEFT):
            product = tensor.float() @ stored[whole + RIGHT].float()
            tensors[whole] = (base[whole].float() + product).to(base[whole].dtype)
    return tensors


def _fit(stored: Mapping[str, Tensor], name: str, whole: Tensor) -> bool:
    left, right = stored.get(name + LEFT), stored.get(name + RIGHT)
    if left is None or right is None or left.dim() != 2 or right.dim() != 2:
        return False
    return left.shape[1] == right.shape[0] and (left.shape[0], right.shape[1]) == tuple(whole.shape)
