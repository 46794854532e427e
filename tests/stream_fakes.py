"""Random residual streams of passages, built byte by byte as index/codec/residuals.py describes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class RandomStream:
    """The stream of a passage: number of layers, two references and bytes of each vector."""

    def __init__(self, length: int, subspaces: int, layers: int, chance: np.random.Generator) -> None:
        self.layers: list[int] = chance.integers(layers + 1, size=length).tolist()
        self.references = [tuple(chance.integers(vector + 1, size=2).tolist()) for vector in range(length)]
        self.bytes: list[list[int]] = [chance.integers(256, size=count * subspaces).tolist() for count in self.layers]

    @property
    def packed(self) -> Array:
        halves = [*self.layers, *[0] * (len(self.layers) % 2)]
        pairs = [low + 16 * high for low, high in zip(halves[::2], halves[1::2], strict=True)]
        parts = [pairs, *self.references, *self.bytes]
        return np.array([byte for part in parts for byte in part], np.uint8)

    def restored(self, codebooks: Array) -> Array:
        """Decode by the definition, in double precision: codebooks (layers, subspaces, 256, width) -> (length, dim)."""
        layers, subspaces, _, width = codebooks.shape
        rows = [np.zeros(subspaces * width)]
        for count, references, own in zip(self.layers, self.references, self.bytes, strict=True):
            row = sum(rows[reference] for reference in references) / 2
            for i, byte in enumerate(own):
                layer, s = layers - count + i // subspaces, i % subspaces
                row[s * width : (s + 1) * width] += codebooks[layer, s, byte]
            rows.append(row)
        return np.array(rows[1:])
