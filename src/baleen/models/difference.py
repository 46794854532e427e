"""A model stored as its difference to another one, its base: a fraction of the bytes.

    restored(base.tensors, stored)          the model's tensors

A tensor is stored whole, or as two thin factors of its difference to the base's (`NAME.left`, `NAME.right`); what is
not stored is the base's.  `tools/difference.py` writes such checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from baleen.core.errors import CheckpointError

if TYPE_CHECKING:
    from torch import Tensor


LEFT, RIGHT = ".left", ".right"


def restored(base: Mapping[str, Tensor], stored: Mapping[str, Tensor], source: str = "difference") -> dict[str, Tensor]:
    """A model's tensors, in the base's types; raise CheckpointError for a tensor that does not fit the base."""
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
