"""Making a codec from a sample of vectors, and encoding vectors with it.  Runs on a CPU or a GPU."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numba import njit
from torch import Tensor

from baleen.index.clustering import Nearest, in_threads, kmeans, nearest
from baleen.index.codec import CODEWORDS, Codec, padded
from baleen.index.vector_ir import nearest_codes

Array = npt.NDArray[Any]

CODEBOOK_SAMPLE = 65_536
CODEBOOK_ROUNDS = 8
RESIDUALS_AT_ONCE = 8192
STRETCH = 0.5  # 0 leaves vectors as they are, 1 corrects for their second moment in full
PRIOR_WEIGHT = 256  # how many vectors' worth of prior holds the codec open when the sample is small


def fit(sample: Array, cells: int, bits: int, *, seed: int = 0, device: str = "cpu") -> Codec:
    """A codec of `cells` centroids from a sample (n, dim) of the vectors to be stored, n >= cells."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.from_numpy(np.array(sample, np.float32)).to(device)
    points = points[torch.randperm(len(points), generator=generator).to(device)]
    if bits == 16:
        return _plain_codec(kmeans(points, cells, generator))
    stretch, shrink = _stretch(points)
    with one_thread():
        stretched = points @ stretch
    centroids = kmeans(stretched, cells, generator)
    some = stretched[:CODEBOOK_SAMPLE]
    turn = _balanced_rotation(some - centroids[nearest(some, centroids)], 8 // bits)
    with one_thread():
        turned, forward, backward = ((part @ turn).cpu().numpy() for part in (centroids, stretch, shrink))
    stored, scales = _to_int8(turned)
    unfinished = Codec(bits, forward, backward, stored, scales, np.zeros((0, CODEWORDS, 8 // bits), np.float32))
    quantizer = Quantizer(unfinished, device=device)
    with one_thread():
        left = some @ turn
    left -= quantizer.centroids[quantizer.nearest(left)]
    return dataclasses.replace(unfinished, codebooks=_fit_codebooks(left.cpu().numpy(), 8 // bits))


def _plain_codec(centroids: Tensor) -> Codec:
    """For vectors that are kept as they are: cells alone, in the vectors' own space."""
    stored, scales = _to_int8(_pad(centroids).cpu().numpy())
    identity = _pad(torch.eye(centroids.shape[1])).numpy()
    return Codec(16, identity, identity, stored, scales, np.zeros((0, CODEWORDS, 1), np.float32))


class Quantizer:
    """A codec made ready to encode: centroids grouped for assignment, everything on one device.

    `nearest` finds the cells of mapped vectors in another way than the usual one, to compare them.
    """

    def __init__(self, codec: Codec, *, device: str = "cpu", nearest: Callable[[Tensor], Tensor] | None = None) -> None:
        self.codec = codec
        self.device = device
        self.forward = torch.from_numpy(np.array(codec.forward)).to(device)
        self.centroids = torch.from_numpy(np.array(codec.float_centroids[: codec.cells])).to(device)
        self.codebooks = torch.from_numpy(np.array(codec.codebooks)).to(device)
        self.nearest = nearest or Nearest.of(self.centroids)

    @torch.inference_mode()
    def encode(self, vectors: Array) -> tuple[Array, Array]:
        """(n, dim) -> cells (n,) uint16 and residual bytes (n, subspaces) uint8."""
        points = torch.from_numpy(np.array(vectors)).to(self.device).float() @ self.forward
        cells = self.nearest(points)
        left = points - self.centroids[cells]
        return cells.cpu().numpy().astype(np.uint16), self._residual_bytes(left)

    def _residual_bytes(self, left: Tensor) -> Array:
        subspaces, _, width = self.codebooks.shape
        if not subspaces:
            return np.empty((len(left), 0), np.uint8)
        if left.device.type == "cpu":
            out = np.empty((len(left), subspaces), np.uint8)
            encode_residuals(left.numpy(), self.codec.codebooks, out)
            return out
        half = (self.codebooks**2).sum(dim=2)[:, None] / 2  # (subspaces, 1, 256)
        parts = []
        for part in torch.split(left, 16_384):
            pieces = part.view(len(part), subspaces, width).transpose(0, 1)  # (subspaces, n, width)
            parts.append(torch.baddbmm(-half, pieces, self.codebooks.transpose(1, 2)).argmax(dim=2).T)
        return torch.cat(parts).to(torch.uint8).cpu().numpy()


def encode_residuals(left: Array, codebooks: Array, out: Array) -> None:
    """`nearest_codewords` on all cores."""

    def run(start: int) -> None:
        part = slice(start, start + RESIDUALS_AT_ONCE)
        nearest_codewords(left[part], codebooks, out[part])

    in_threads(run, range(0, len(left), RESIDUALS_AT_ONCE))


@njit(nogil=True, cache=True)
def nearest_codewords(left: Array, codebooks: Array, out: Array) -> None:
    """out[i, s] = the codeword of subspace s nearest to its part of left[i]; of those that all but tie, the first."""
    n, (subspaces, codewords, width) = len(left), codebooks.shape
    columns = np.ascontiguousarray(codebooks.transpose(0, 2, 1))  # (subspaces, width, 256): codewords side by side
    rows, codes = np.empty(4, np.int64), np.empty(4, np.int64)
    for i in range(0, n, 4):
        height = min(4, n - i)
        for r in range(4):
            rows[r] = left.ctypes.data + (i + min(r, height - 1)) * left.strides[0]
        for s in range(subspaces):
            column = columns.ctypes.data + s * width * codewords * 4
            nearest_codes(rows.ctypes.data, s * width, column, width, codes.ctypes.data)
            for r in range(height):
                out[i + r, s] = codes[r]


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

    A codec is then the same on any number of cores.
    """
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


def _fit_codebooks(left: Array, width: int) -> Array:
    """(n, padded) residuals -> (subspaces, 256, width): Lloyd's algorithm from the grid of an optimal scalar quantiser.

    A codeword that no residual of the sample is near keeps its place in the grid, so a codec made from a handful of
    vectors still serves those that are added later.
    """
    n, dim = left.shape
    prior = max(float((left**2).mean()), 0.1 / dim)
    spread = np.sqrt(((left**2).sum(axis=0) + PRIOR_WEIGHT * prior) / (n + PRIOR_WEIGHT))
    grid = np.array(list(itertools.product(gaussian_levels(2 ** (8 // width)), repeat=width)), np.float32)
    books: Array = (grid[None] * spread.reshape(-1, 1, width)).astype(np.float32)  # (subspaces, 256, width)
    codes = np.empty((n, dim // width), np.uint8)
    for _ in range(CODEBOOK_ROUNDS):
        encode_residuals(left, books, codes)
        for s in range(len(books)):
            counts = np.bincount(codes[:, s], minlength=CODEWORDS)
            for w in range(width):
                sums = np.bincount(codes[:, s], weights=left[:, s * width + w], minlength=CODEWORDS)
                books[s, :, w] = np.where(counts > 0, sums / np.maximum(counts, 1), books[s, :, w])
    return books


def gaussian_levels(count: int) -> Array:
    """The `count` levels that quantise a standard normal with the least squared error."""
    points = torch.special.ndtri((torch.arange(65_536, dtype=torch.float64) + 0.5) / 65_536).numpy()
    levels: Array = np.quantile(points, (np.arange(count) + 0.5) / count)
    for _ in range(60):
        owner = np.searchsorted((levels[1:] + levels[:-1]) / 2, points)
        levels = np.bincount(owner, weights=points, minlength=count) / np.bincount(owner, minlength=count)
    return levels
