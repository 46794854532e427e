"""Fit a codec to a sample of vectors, and encode passages with it.

Cells are found on a CPU or a GPU; residuals, whose vectors depend on each other, by kernels on the CPU's cores.
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
from baleen.index.codec.codec import Codec, Encoded, padded, unpacked
from baleen.index.codec.kmeans import Nearest, in_threads, kmeans, nearest
from baleen.index.codec.residuals import CODEWORDS, WIDTH

Array = npt.NDArray[Any]

CODEBOOK_SAMPLE = 131_072  # vectors, in whole passages
ROUGH_ROUNDS, CODEBOOK_ROUNDS = 12, 10
LAYERS = {1: 3, 2: 4, 4: 7}  # of bits a dimension: those on average, and as many more as the odd vector can use
FINER = 0.36  # what a layer of one bit a dimension leaves of a normal distribution's energy
STEP = 0.4  # between the energies from which on one layer more is used
PASSAGES_AT_ONCE = 16
STRETCH = 0.5  # 0 leaves vectors as they are, 1 corrects for their second moment in full
PRIOR_WEIGHT = 256  # how many vectors' worth of prior holds the codec open when the sample is small
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
        return _plain_codec(kmeans(points, cells, generator))
    stretch, shrink = _stretch(points)
    with one_thread():
        stretched = points @ stretch
    centroids = kmeans(stretched, cells, generator)
    some = stretched[:CODEBOOK_SAMPLE]
    turn = _balanced_rotation(some - centroids[nearest(some, centroids)], WIDTH)
    with one_thread():
        turned, forward, backward = ((part @ turn).cpu().numpy() for part in (centroids, stretch, shrink))
    stored, scales = _to_int8(turned)
    unfinished = Codec(bits, forward, backward, stored, scales, *_no_layers())
    _, left, along = Quantizer(unfinished, device=device).split(sample.passages.vectors)
    codebooks, thresholds = _fit_codebooks(left, along, sample.passages.offsets, bits)
    return dataclasses.replace(unfinished, codebooks=codebooks, thresholds=thresholds)


def _no_layers() -> tuple[Array, Array]:
    return np.zeros((0, 0, CODEWORDS, WIDTH), np.float16), np.zeros(0, np.float32)


def _plain_codec(centroids: Tensor) -> Codec:
    """For vectors that are kept as they are: cells alone, in the vectors' own space."""
    stored, scales = _to_int8(_pad(centroids).cpu().numpy())
    identity = _pad(torch.eye(centroids.shape[1])).numpy()
    return Codec(16, identity, identity, stored, scales, *_no_layers())


class Quantizer:
    """Encoder of vectors with one codec, on one device.

    `nearest` replaces the usual assignment of mapped vectors to cells, to compare the two.
    """

    def __init__(self, codec: Codec, *, device: str = "cpu", nearest: Callable[[Tensor], Tensor] | None = None) -> None:
        self.codec = codec
        self.forward = torch.from_numpy(np.array(codec.forward)).to(device)
        self.backward = torch.from_numpy(np.array(codec.backward)).to(device)
        self.centroids = torch.from_numpy(np.array(codec.float_centroids[: codec.cells])).to(device)
        self.nearest = nearest or Nearest.of(self.centroids)

    def encode(self, passages: PassageVectors) -> Encoded:
        """Encode some passages."""
        (encoded,) = self.encode_all([passages])
        return encoded

    def encode_all(self, parts: Iterable[PassageVectors]) -> Iterator[Encoded]:
        """Encode each part; the cells of the next part are found while residuals are written."""
        if not self.codec.layers:
            for part in parts:
                codes = self._place(part.vectors)[2].cpu().numpy().astype(np.uint16)
                yield Encoded(codes, part.offsets, np.empty(0, np.uint8), np.zeros(len(part) + 1, np.int64))
            return
        with closing(background((part, self.split(part.vectors)) for part in parts)) as splits:
            for passages, (codes, left, along) in splits:
                streams, starts, _ = encode_residuals(
                    left, along, passages.offsets, self.codec.float_codebooks, self.codec.thresholds
                )
                del left, along  # or they would be held while the next ones are waited for
                yield Encoded(codes, passages.offsets, streams, starts)

    @torch.inference_mode()
    def split(self, vectors: Array) -> tuple[Array, Array, Array]:
        """Split vectors (n, dim) into cells (n,) uint16, residuals in the mapped space, and the directions of queries
        that are like the vectors there: (n, padded) each.
        """
        given, points, cells = self._place(vectors)
        with one_thread():
            along = given @ self.backward
        left = points - self.centroids[cells]
        return cells.cpu().numpy().astype(np.uint16), left.cpu().numpy(), along.cpu().numpy()

    @torch.inference_mode()
    def _place(self, vectors: Array) -> tuple[Tensor, Tensor, Tensor]:
        """Vectors (n, dim) as they are, mapped (n, padded), and their cells (n,), on the device."""
        given = torch.from_numpy(np.array(vectors)).to(self.forward.device).float()
        with one_thread():
            points = given @ self.forward
        return given, points, self.nearest(points)


def encode_residuals(
    left: Array, along: Array, offsets: Array, codebooks: Array, thresholds: Array
) -> tuple[Array, Array, Array]:
    """The streams of passages end to end, where each starts, and what they restore: on all cores."""
    layers, subspaces = codebooks.shape[:2]
    words = np.ascontiguousarray(codebooks)
    columns = np.ascontiguousarray(codebooks.transpose(0, 1, 3, 2))
    norms = np.ascontiguousarray((words**2).sum(axis=3))
    room = [residuals.longest_stream(int(length), subspaces, layers) for length in np.diff(offsets)]
    starts = np.concatenate([[0], np.cumsum(room, dtype=np.int64)])
    streams, sizes = np.empty(starts[-1], np.uint8), np.empty(len(room), np.int64)
    restored = np.empty_like(left)

    def run(first: int) -> None:
        part = slice(first, first + PASSAGES_AT_ONCE)
        edges = offsets[first : first + PASSAGES_AT_ONCE + 1]
        residuals.encode_passages(
            left, along, edges, words, columns, norms, thresholds, streams, starts[part], restored, sizes[part]
        )  # fmt: skip

    in_threads(run, range(0, len(room), PASSAGES_AT_ONCE))
    parts = [streams[start : start + size] for start, size in zip(starts[:-1].tolist(), sizes.tolist(), strict=True)]
    return np.concatenate(parts), np.concatenate([[0], sizes.cumsum()]), restored


def _stretch(points: Tensor) -> tuple[Tensor, Tensor]:
    """A symmetric map (dim, dim) and its inverse: the vectors' own second moment to the power of a quarter.

    Token vectors of an encoder crowd around a common direction, and so do those of its queries; an error along it moves
    every match of a query alike and does not average out.  Half of the full correction (a power of one half) measured
    best.  Directions that hardly occur are kept from vanishing, for vectors yet to come.
    """
    with one_thread():
        moment = (points.T @ points).double().cpu()
        # A few vectors tell little of those to come: they are taken for as many more that point everywhere alike.
        moment += PRIOR_WEIGHT * moment.trace() / len(points) * torch.eye(len(moment)) / len(moment)
        moments, axes = torch.linalg.eigh(moment)
        powers = (moments / moments.mean()).clamp(min=0.02) ** (STRETCH / 2)
        maps = [(axes * power) @ axes.T for power in (powers, 1 / powers)]
    first, second = (each.float().to(points.device) for each in maps)
    return first, second


@contextmanager
def one_thread() -> Iterator[None]:
    """Have torch compute with one thread: how it splits a product or an eigenproblem over several moves the last bits.

    A codec is then the same on any number of cores.  The number is one for all threads of a process, so only one of them
    sets it at a time.
    """
    with _threads_lock:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


def _balanced_rotation(left: Tensor, width: int) -> Tensor:
    """(dim, padded): the residuals' principal axes, dealt out so that every subspace gets its share of the variance.

    Each axis, strongest first, goes to the open subspace whose variances multiply to the least so far: with one byte to
    every subspace that is what keeps the total error small.
    """
    dim = left.shape[1]
    with one_thread():
        variances, axes = torch.linalg.eigh((left.T @ left / len(left)).double().cpu())
    order = variances.argsort(descending=True).tolist()
    logs = [math.log(max(float(variances[axis]), 1e-12)) for axis in order] + [math.log(1e-12)] * (padded(dim) - dim)
    subspaces: list[list[int]] = [[] for _ in range(padded(dim) // width)]
    products = [0.0] * len(subspaces)
    for rank, log in enumerate(logs):
        to = min((s for s in range(len(subspaces)) if len(subspaces[s]) < width), key=lambda s: (products[s], s))
        subspaces[to].append(rank)
        products[to] += log - logs[-1] + 1.0
    layout = list(itertools.chain.from_iterable(subspaces))
    rotation = torch.zeros(dim, padded(dim), device=left.device)
    for column, rank in enumerate(layout):
        if rank < dim:
            rotation[:, column] = axes[:, order[rank]].float().to(left.device)
    return rotation


def _pad(rows: Tensor) -> Tensor:
    return torch.nn.functional.pad(rows, (0, padded(rows.shape[1]) - rows.shape[1]))


def _to_int8(centroids: Array) -> tuple[Array, Array]:
    scales = np.maximum(np.abs(centroids).max(axis=1), 1e-12).astype(np.float32) / np.float32(127)
    return np.rint(centroids / scales[:, None]).astype(np.int8), scales


def _fit_codebooks(left: Array, along: Array, offsets: Array, bits: int) -> tuple[Array, Array]:
    """Codebooks (layers, subspaces, 256, 8) float16 and thresholds (layers,) for what cells leave (t, padded) of passages.

    Lloyd's algorithm on all layers together, from normal ones that are finer from layer to layer, each round on what the
    predictions of the last one missed.  The first rounds see a quarter of the passages; what one layer gains another may
    lose, so of the others the best is taken.  A codeword that nothing in the sample is near keeps its place, so that a
    codec made from a handful of vectors still serves those that are added later.
    """
    books = _first_codebooks(left, LAYERS[bits])
    thresholds = _thresholds((left**2).sum(axis=1), bits, len(books))
    best, least = (books.astype(np.float16), thresholds), math.inf
    few = offsets[: max(2, len(offsets) // 4)]
    rounds = ROUGH_ROUNDS + CODEBOOK_ROUNDS
    with progress("fitting codewords", total=rounds, unit="rounds") as bar:
        for number in range(rounds):
            edges = few if number < ROUGH_ROUNDS else offsets
            targets, stored = left[: edges[-1]], books.astype(np.float16)
            streams, starts, restored = encode_residuals(
                targets, along[: edges[-1]], edges, stored.astype(np.float32), thresholds
            )
            used, references, places, _ = unpacked(edges, streams, starts, books.shape[1])
            # A bit a dimension more would leave a quarter of the error.
            error = float(((targets - restored) ** 2).sum(axis=1).mean()) * 4.0 ** (float(used.mean()) - bits)
            if number >= ROUGH_ROUNDS and error < least:
                best, least = (stored, thresholds), error
            missed = np.empty_like(targets)
            residuals.predictions(references, edges, restored, missed)
            np.subtract(targets, missed, out=missed)
            thresholds = _thresholds((missed**2).sum(axis=1), bits, len(books))
            _refit(books, missed, used, streams, places)
            bar.advance(1)
    return best


def _first_codebooks(left: Array, layers: int) -> Array:
    """Normal codewords (layers, subspaces, 256, 8) with the spread of what cells leave, and less from layer to layer."""
    dim = left.shape[1]
    prior = max(float((left**2).mean()), 0.1 / dim)
    spread = np.sqrt(((left**2).sum(axis=0) + PRIOR_WEIGHT * prior) / (len(left) + PRIOR_WEIGHT))
    normal = np.random.default_rng(0).standard_normal((CODEWORDS, WIDTH))
    coarsest = 0.8 * normal[None] * spread.reshape(-1, 1, WIDTH)  # (subspaces, 256, 8)
    return np.stack([coarsest * FINER ** (layer / 2) for layer in range(layers)]).astype(np.float32)


def _thresholds(energies: Array, bits: int, layers: int) -> Array:
    """The energies from which on a vector has one layer more, STEP apart, so that the mean is `bits`, or all but."""
    ladder = np.float64(STEP) ** np.arange(layers)[::-1]
    low, high = -30.0, 10.0  # of the logarithm of the last
    for _ in range(50):
        middle = (low + high) / 2
        many = np.searchsorted(ladder * math.exp(middle), energies, side="right").mean() > bits
        low, high = (middle, high) if many else (low, middle)
    return (ladder * math.exp(high)).astype(np.float32)


def _refit(books: Array, missed: Array, used: Array, streams: Array, places: Array) -> None:
    """Move every codeword to the mean of what the other layers leave to it, one layer after another, finest first."""
    for layer in reversed(range(len(books))):
        sums, counts = np.zeros(books.shape[1:], np.float64), np.zeros(books.shape[1:3], np.int64)
        residuals.refit_layer(missed, used, streams, places, books, layer, sums, counts)
        means = (sums / np.maximum(counts, 1)[..., None]).astype(np.float32)
        books[layer] = np.where(counts[..., None] > 0, means, books[layer])
