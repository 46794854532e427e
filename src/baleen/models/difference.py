"""Restore a model that is stored as its difference to a base model, in a fraction of the bytes.

A tensor is stored whole, or as two low-rank factors of its difference (`NAME.left`, `NAME.right`).  A tensor that is not
stored equals that of the base.  `tools/difference.py` writes such checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from baleen.core.errors import CheckpointError

if TYPE_CHECKING:
    from torch import Tensor


LEFT, RIGHT = ".left", ".right"


def restore(base: Mapping[str, Tensor], stored: Mapping[str, Tensor], source: str = "difference") -> dict[str, Tensor]:
    """Return the model's tensors, in the types of the base; CheckpointError if a stored tensor does not fit."""
    tensors = dict(base)
    for name, tensor in stored.items():
        whole = name.removesuffix(LEFT).removesuffix(RIGHT)
        if whole == name and name in base and tensor.shape == base[name].shape:
            tensors[name] = tensor
        elif whole == name or whole not in base or not _factors_fit(stored, whole, base[whole]):
            raise CheckpointError(f"{source}: tensor {name} fits no tensor of the base model")
        elif name.endswith(LEFT):
            product = tensor.float() @ stored[whole + RIGHT].float()
            tensors[whole] = (base[whole].float() + product).to(base[whole].dtype)
    return tensors


def _factors_fit(stored: Mapping[str, Tensor], name: str, whole: Tensor) -> bool:
    left, right = stored.get(name + LEFT), stored.get(name + RIGHT)
    if left is None or right is None or left.dim() != 2 or right.dim() != 2:
        return False
    return left.shape[1] == right.shape[0] and (left.shape[0], right.shape[1]) == tuple(whole.shape)
