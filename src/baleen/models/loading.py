"""Load a checkpoint as a module, for inference or for training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import nn

from baleen.core.config import from_mapping
from baleen.models.backbone import build_backbone
from baleen.models.checkpoint import Checkpoint, check_names, read_checkpoint
from baleen.models.cpu_attention import use_matrix_products
from baleen.models.device import Precision, disable_cudnn_attention, dtype_of, quantize_linears, resolve_device
from baleen.models.tokens import SpecialTokens

AnyModule = TypeVar("AnyModule", bound=nn.Module)
AnyConfig = TypeVar("AnyConfig")


@dataclass(frozen=True, eq=False)
class LoadedModule(Generic[AnyModule, AnyConfig]):
    """A module with its weights, the checkpoint that it comes from, and where and in which type it is to compute."""

    module: AnyModule
    config: AnyConfig
    tokens: SpecialTokens
    checkpoint: Checkpoint
    device: torch.device
    dtype: torch.dtype


def load_module(
    folder: Path,
    kind: str,
    config_type: type[AnyConfig],
    build: Callable[[Any, AnyConfig], AnyModule],
    *,
    device: str | torch.device | None = None,
    dtype: torch.dtype | None = None,
    precision: Precision | None = None,
    trainable: bool = False,
) -> LoadedModule[AnyModule, AnyConfig]:
    """Load the checkpoint in `folder`; `build` makes the module from an empty backbone and the settings.

    `dtype` overrides the type of `precision`.  Unless `trainable`, the backbone's weights are rounded to that type.
    """
    device = resolve_device(device)
    dtype = dtype or dtype_of(precision, device)
    checkpoint, source = read_checkpoint(folder, kind), str(folder / "config.json")
    config = from_mapping(config_type, checkpoint.settings, source)
    module = build(build_backbone(checkpoint.backbone), config)
    check_names(checkpoint.tensors, module.state_dict(), str(folder))
    module.load_state_dict({name: tensor.float() for name, tensor in checkpoint.tensors.items()}, assign=True)
    if not trainable:
        backbone: Any = module.backbone
        backbone.to(device, dtype)
        if precision == "int8":
            quantize_linears(backbone)
    tokens = from_mapping(SpecialTokens, checkpoint.tokens, source)
    return LoadedModule(module, config, tokens, checkpoint, device, dtype)


def place_module(module: AnyModule, device: torch.device) -> AnyModule:
    """Move `module` to `device` in eval mode, with the attention kernels that are fastest there."""
    module.to(device).eval()
    disable_cudnn_attention(device)
    if device.type == "cpu":
        use_matrix_products(module.backbone)
    return module
