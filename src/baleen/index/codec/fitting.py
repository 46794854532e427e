"""Fit a codec to a sample of vectors, and encode passages with it.

Cells are fitted and assigned on a CPU or a GPU.  Residuals depend on each other; kernels encode them on the CPU.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from baleen.core.parallel import background
from baleen.core.progress import progress
from baleen.core.vectors import PassageVectors
from baleen.index.codec import residuals
from baleen.index.codec.codec import Codec, Encoded, padded_dim, unpack_streams
from baleen.index.codec.kmeans import Nearest, in_threads, kmeans, nearest
from baleen.index.codec.residuals import CODEWORDS, WIDTH

Array = npt.NDArray[Any]

CODEBOOK_SAMPLE = 131_072  # vectors, in whole passages
ROUGH_ROUNDS, CODEBOOK_ROUNDS = 12, 10
LAYERS = {1: 3, 2: 4, 4: 7}  # most layers by bits a dimension; vectors have as many layers as bits on average
LAYER_ENERGY_RATIO = 0.36  # energy of a normal distribution that a layer of one bit a dimension leaves
THRESHOLD_RATIO = 0.4  # between neighbouring thresholds
PASSAGES_AT_ONCE = 16
STRETCH = 0.5  # 0: none, 1: multiply by the square root of the second moment
PRIOR_WEIGHT = 256  # weight of the isotropic prior, in vectors; matters for small samples
_threads_lock = threading.RLock()


class Sample(NamedTuple):
    """Training sample of a codec: single vectors (n, dim) for the cells, whole passages for the residuals."""

    vectors: Array
    passages: PassageVectors


def fit(sample: Sample, cells: int, bits: int, *, seed: int = 0, device: str = "cpu") -> Codec:
    """Fit a codec of `cells` centroids, at most the number of single vectors in the sample."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.from_numpy(np.array(sample.vectors, np.float32)).to(device)
    points = points[torch.randperm(len(points), generator=generator).to(device)]
    if bits == 16:
        return _uncompressed_codec(kmeans(points, cells, generator))
    stretch, shrink = _stretch(points)
    with single_thread():
        stretched = points @ stretch
    centroids = kmeans(stretched, cells, generator)
    sampled = stretched[:CODEBOOK_SAMPLE]
    rotation = _balanced_rotation(sampled - centroids[nearest(sampled, centroids)], WIDTH)
    with single_thread():
        rotated, forward, backward = ((part @ rotation).cpu().numpy() for part in (centroids, stretch, shrink))
    stored, scales = _to_int8(rotated)
    base = Codec(bits, forward, backward, stored, scales, *_no_layers())
    _, residual, directions = Quantizer(base, device=device).split(sample.passages.vectors)
    codebooks, thresholds = _fit_codebooks(residual, directions, sample.passages.offsets, bits)
    return dataclasses.replace(base, codebooks=codebooks, thresholds=thresholds)


def _no_layers() -> tuple[Array, Array]:
    """Codebooks and thresholds of a codec without residuals."""
    return np.zeros((0, 0, CODEWORDS, WIDTH), np.float16), np.zeros(0, np.float32)


def _uncompressed_codec(centroids: Tensor) -> Codec:
    """A codec for 16 bits: cells alone, in the space of the vectors."""
    stored, scales = _to_int8(_pad(centroids).cpu().numpy())
    identity = _pad(torch.eye(centroids.shape[1])).numpy()
    return Codec(16, identity, identity, stored, scales, *_no_layers())


class Quantizer:
    """Encoder of vectors with one codec, on one device.

    `nearest` replaces the assignment of mapped vectors to cells, for comparisons.
    """

    def __init__(self, codec: Codec, *, device: str = "cpu", nearest: Callable[[Tensor], Tensor] | None = None) -> None:
        self.codec = codec
        self.forward = torch.from_numpy(np.array(codec.forward)).to(device)
        self.backward = torch.from_numpy(np.array(codec.backward)).to(device)
        self.centroids = torch.from_numpy(np.array(codec.float_centroids[: codec.cells])).to(device)
        self.nearest = nearest or Nearest.of(self.centroids)

    def encode(self, passages: PassageVectors) -> Encoded:
        """Encode passages."""
        (encoded,) = self.encode_all([passages])
        return encoded

    def encode_all(self, parts: Iterable[PassageVectors]) -> Iterator[Encoded]:
        """Encode each part; assigns the cells of the next part while residuals are encoded."""
        if not self.codec.layers:
            for part in parts:
                codes = self._assign(part.vectors)[2].cpu().numpy().astype(np.uint16)
                yield Encoded(codes, part.offsets, np.empty(0, np.uint8), np.zeros(len(part) + 1, np.int64))
            return
        with closing(background((part, self.split(part.vectors)) for part in parts)) as splits:
            for passages, (codes, residual, directions) in splits:
                streams, starts, _ = encode_residuals(
                    residual, directions, passages.offsets, self.codec.float_codebooks, self.codec.thresholds
                )
                del residual, directions  # free the memory before waiting for the next part
                yield Encoded(codes, passages.offsets, streams, starts)

    @torch.inference_mode()
    def split(self, vectors: Array) -> tuple[Array, Array, Array]:
        """Split vectors (n, dim) into cells (n,) uint16, residuals (n, width) and directions (n, width), all mapped.

        The direction of a vector is that of the mapped queries similar to it.
        """
        raw, points, cells = self._assign(vectors)
        with single_thread():
            directions = raw @ self.backward
        residual = points - self.centroids[cells]
        return cells.cpu().numpy().astype(np.uint16), residual.cpu().numpy(), directions.cpu().numpy()

    @torch.inference_mode()
    def _assign(self, vectors: Array) -> tuple[Tensor, Tensor, Tensor]:
        """On the device: vectors (n, dim), mapped vectors (n, width) and their cells (n,)."""
        raw = torch.from_numpy(np.array(vectors)).to(self.forward.device).float()
        with single_thread():
            points = raw @ self.forward
        return raw, points, self.nearest(points)


def encode_residuals(
    residual: Array, directions: Array, offsets: Array, codebooks: Array, thresholds: Array
) -> tuple[Array, Array, Array]:
    """Encode passages on all cores: their streams end to end, the start of each, and the restored residuals."""
    layers, subspaces = codebooks.shape[:2]
    codewords = np.ascontiguousarray(codebooks)
    transposed = np.ascontiguousarray(codebooks.transpose(0, 1, 3, 2))
    norms = np.ascontiguousarray((codewords**2).sum(axis=3))
    room = [residuals.max_stream_size(int(length), subspaces, layers) for length in np.diff(offsets)]
    starts = np.concatenate([[0], np.cumsum(room, dtype=np.int64)])
    streams, sizes = np.empty(starts[-1], np.uint8), np.empty(len(room), np.int64)
    restored = np.empty_like(residual)

    def run(first: int) -> None:
        part = slice(first, first + PASSAGES_AT_ONCE)
        edges = offsets[first : first + PASSAGES_AT_ONCE + 1]
        residuals.encode_passages(
            residual, directions, edges, codewords, transposed, norms, thresholds, streams, starts[part], restored,
            sizes[part],
        )  # fmt: skip

    in_threads(run, range(0, len(room), PASSAGES_AT_ONCE))
    parts = [streams[start : start + size] for start, size in zip(starts[:-1].tolist(), sizes.tolist(), strict=True)]
    return np.concatenate(parts), np.concatenate([[0], sizes.cumsum()]), restored


def _stretch(points: Tensor) -> tuple[Tensor, Tensor]:
    """A symmetric map (dim, dim) and its inverse: the second moment of the vectors to the power STRETCH / 2.

    Token vectors and query vectors share a common direction.  An error along it shifts every match of a query alike and
    does not average out, so the map gives that direction more precision.  A STRETCH of 0.5 measured best.  Rare
    directions keep a minimum scale, for vectors that are added later.
    """
    with single_thread():
        moment = (points.T @ points).double().cpu()
        # Few vectors say little about later ones: add an isotropic prior.
        moment += PRIOR_WEIGHT * moment.trace() / len(points) * torch.eye(len(moment)) / len(moment)
        moments, axes = torch.linalg.eigh(moment)
        powers = (moments / moments.mean()).clamp(min=0.02) ** (STRETCH / 2)
        maps = [(axes * power) @ axes.T for power in (powers, 1 / powers)]
    first, second = (each.float().to(points.device) for each in maps)
    return first, second


@contextmanager
def single_thread() -> Iterator[None]:
    """Run torch on one thread: splitting a product or an eigenproblem over several changes the last bits.

    The codec is then the same on any number of cores.  The setting is global, hence the lock.
    """
    with _threads_lock:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


def _balanced_rotation(residual: Tensor, width: int) -> Tensor:
    """Rotation (dim, padded dim) to the principal axes of the residuals, with similar variances in all subspaces.

    Each axis, strongest first, goes to the subspace with the least product of variances that still has room.
    """
    dim = residual.shape[1]
    with single_thread():
        variances, axes = torch.linalg.eigh((residual.T @ residual / len(residual)).double().cpu())
    order = variances.argsort(descending=True).tolist()
    logs = [math.log(max(float(variances[axis]), 1e-12)) for axis in order]
    logs += [math.log(1e-12)] * (padded_dim(dim) - dim)
    subspaces: list[list[int]] = [[] for _ in range(padded_dim(dim) // width)]
    products = [0.0] * len(subspaces)
    for rank, log in enumerate(logs):
        to = min((s for s in range(len(subspaces)) if len(subspaces[s]) < width), key=lambda s: (products[s], s))
        subspaces[to].append(rank)
        products[to] += log - logs[-1] + 1.0
    layout = list(itertools.chain.from_iterable(subspaces))
    rotation = torch.zeros(dim, padded_dim(dim), device=residual.device)
    for column, rank in enumerate(layout):
        if rank < dim:
            rotation[:, column] = axes[:, order[rank]].float().to(residual.device)
    return rotation


def _pad(rows: Tensor) -> Tensor:
    """Pad rows with zeros to the padded dimension."""
    return torch.nn.functional.pad(rows, (0, padded_dim(rows.shape[1]) - rows.shape[1]))


def _to_int8(centroids: Array) -> tuple[Array, Array]:
    """Round centroids to int8 with one scale each."""
    scales = np.maximum(np.abs(centroids).max(axis=1), 1e-12).astype(np.float32) / np.float32(127)
    return np.rint(centroids / scales[:, None]).astype(np.int8), scales


def _fit_codebooks(residual: Array, directions: Array, offsets: Array, bits: int) -> tuple[Array, Array]:
    """Codebooks (layers, subspaces, 256, 8) float16 and thresholds (layers,) for the residuals (t, width) of passages.

    Runs Lloyd's algorithm on all layers together, from random codewords that are finer in each layer.  Each round fits
    the remainders after the predictions of the round before.  The first rounds use a quarter of the passages.  A round
    may increase the error, so the best of the later rounds is kept.  Codewords without samples stay, so a codec fitted
    on a few vectors still serves those added later.
    """
    books = _initial_codebooks(residual, LAYERS[bits])
    thresholds = _fit_thresholds((residual**2).sum(axis=1), bits, len(books))
    best, least = (books.astype(np.float16), thresholds), math.inf
    subset = offsets[: max(2, len(offsets) // 4)]
    rounds = ROUGH_ROUNDS + CODEBOOK_ROUNDS
    with progress("fitting codewords", total=rounds, unit="rounds") as bar:
        for number in range(rounds):
            edges = subset if number < ROUGH_ROUNDS else offsets
            targets, stored = residual[: edges[-1]], books.astype(np.float16)
            streams, starts, restored = encode_residuals(
                targets, directions[: edges[-1]], edges, stored.astype(np.float32), thresholds
            )
            layer_counts, references, positions, _ = unpack_streams(edges, streams, starts, books.shape[1])
            # Correct for the bits used: one more bit a dimension would leave a quarter of the error.
            error = float(((targets - restored) ** 2).sum(axis=1).mean()) * 4.0 ** (float(layer_counts.mean()) - bits)
            if number >= ROUGH_ROUNDS and error < least:
                best, least = (stored, thresholds), error
            remainder = np.empty_like(targets)
            residuals.predict(references, edges, restored, remainder)
            np.subtract(targets, remainder, out=remainder)
            thresholds = _fit_thresholds((remainder**2).sum(axis=1), bits, len(books))
            _refit_codebooks(books, remainder, layer_counts, streams, positions)
            bar.advance(1)
    return best


def _initial_codebooks(residual: Array, layers: int) -> Array:
    """Normal codewords (layers, subspaces, 256, 8) scaled to the residuals, smaller in each layer."""
    dim = residual.shape[1]
    prior = max(float((residual**2).mean()), 0.1 / dim)
    spread = np.sqrt(((residual**2).sum(axis=0) + PRIOR_WEIGHT * prior) / (len(residual) + PRIOR_WEIGHT))
    normal = np.random.default_rng(0).standard_normal((CODEWORDS, WIDTH))
    coarsest = 0.8 * normal[None] * spread.reshape(-1, 1, WIDTH)  # (subspaces, 256, 8)
    return np.stack([coarsest * LAYER_ENERGY_RATIO ** (layer / 2) for layer in range(layers)]).astype(np.float32)


def _fit_thresholds(energies: Array, bits: int, layers: int) -> Array:
    """Fit thresholds, by bisection, so that vectors have `bits` layers on average or slightly fewer.

    Each threshold is THRESHOLD_RATIO times the next.
    """
    ladder = np.float64(THRESHOLD_RATIO) ** np.arange(layers)[::-1]
    low, high = -30.0, 10.0  # bounds of the logarithm of the largest threshold
    for _ in range(50):
        middle = (low + high) / 2
        too_many = np.searchsorted(ladder * math.exp(middle), energies, side="right").mean() > bits
        low, high = (middle, high) if too_many else (low, middle)
    return (ladder * math.exp(high)).astype(np.float32)


def _refit_codebooks(books: Array, remainder: Array, layer_counts: Array, streams: Array, positions: Array) -> None:
    """Move every codeword to the mean of what the other layers leave to it, layer by layer, finest first."""
    for layer in reversed(range(len(books))):
        sums, counts = np.zeros(books.shape[1:], np.float64), np.zeros(books.shape[1:3], np.int64)
        residuals.sum_layer_targets(remainder, layer_counts, streams, positions, books, layer, sums, counts)
        means = (sums / np.maximum(counts, 1)[..., None]).astype(np.float32)
        books[layer] = np.where(counts[..., None] > 0, means, books[layer])
