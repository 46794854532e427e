"""Store a cross-encoder's checkpoint as its difference to a similar one, in about a sixth of the bytes.

    python tools/difference.py CHECKPOINT --base BASE --out OUT [--rank 64] [--overwrite]

Each matrix is stored as the `rank` strongest directions of its difference, in two thin factors; smaller tensors are
stored whole.  Token embeddings are the base's: training hardly changes them, and they are a third of a small model.
Loading needs BASE at the same place relative to OUT.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor
from torch.linalg import svd

from baleen.core.errors import BaleenError, CheckpointError, ConfigError
from baleen.models.checkpoint import (
    BASE,
    Checkpoint,
    check_same_model,
    read_checkpoint,
    read_json,
    resolve_folder,
    write_checkpoint,
)
from baleen.models.cross_encoder import KIND
from baleen.models.difference import LEFT, RIGHT


def factored(base: Mapping[str, Tensor], tensors: Mapping[str, Tensor], rank: int) -> dict[str, Tensor]:
    """Return the tensors that `baleen.models.difference.restore` needs besides `base`, of equal names and shapes."""
    if rank < 1:
        raise ConfigError(f"rank = {rank}, expected at least 1")
    stored: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.equal(base[name]) or ("embeddings" in name and tensor.dim() == 2):
            continue
        if tensor.dim() == 2 and rank * sum(tensor.shape) < tensor.numel():
            left, strengths, right = svd(tensor.float() - base[name].float(), full_matrices=False)
            half = strengths[:rank].sqrt()  # shared between the factors, to stay in the range of float16
            stored[name + LEFT] = (left[:, :rank] * half).to(tensor.dtype)
            stored[name + RIGHT] = (half[:, None] * right[:rank]).to(tensor.dtype)
        else:
            stored[name] = tensor
    return stored


def write_difference(folder: Path, checkpoint: Checkpoint, base: Path, rank: int) -> None:
    """Write `checkpoint` to `folder` as its difference to the one in `base`."""
    if folder.resolve() == base.resolve():
        raise CheckpointError(f"{folder}: is the base itself, which would be overwritten; name another folder")
    if BASE in read_json(base / "config.json"):
        raise CheckpointError(f"{base}: is a difference itself; name the base of that")
    whole = read_checkpoint(base, checkpoint.kind)
    check_same_model(whole, checkpoint, str(folder))
    place = Path(os.path.relpath(base.resolve(), folder.resolve())).as_posix()
    stored = replace(checkpoint, tensors=factored(whole.tensors, checkpoint.tensors, rank))
    write_checkpoint(folder, stored, {"folder": place, "weights_sha256": whole.weights_sha256})


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write a cross-encoder's checkpoint as its difference to another.")
    parser.add_argument("checkpoint", help="folder of a condenser, reranker or reader")
    parser.add_argument("--base", type=Path, required=True, help="folder of the checkpoint to store the difference to")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--rank", type=int, default=64, help="directions of each matrix to store (default: 64)")
    parser.add_argument("--overwrite", action="store_true", help="replace a checkpoint that is in the folder")
    options = parser.parse_args(arguments)
    try:
        source = resolve_folder(options.checkpoint)
        if source.resolve() == options.out.resolve():
            raise CheckpointError(
                f"{source}: is the checkpoint itself, which would be overwritten; name another folder"
            )
        if options.out.exists() and not options.overwrite:
            raise ConfigError(f"{options.out}: exists; replace it with --overwrite")
        write_difference(options.out, read_checkpoint(source, KIND), options.base, options.rank)
    except BaleenError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{options.out}: {sum(file.stat().st_size for file in options.out.iterdir()):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
