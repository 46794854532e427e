"""The residual code: the residuals of a passage's vectors, predicted from each other and quantized in layers.

Vectors of one passage resemble each other far more than the vectors of one cell.  So a residual is first *predicted*
as the mean of the restored residuals of two earlier vectors of its passage, its *references*, and only the remainder
is written.  A reference may be 0, "none", which counts as a zero vector; both may name the same vector.

The remainder is quantized in *layers*, coarse to fine.  In each layer one byte per subspace of eight dimensions names
one of 256 codewords, and the codewords of all layers add up.  A vector with a large remainder has all layers, one with
a smaller remainder only the finer ones, and one with hardly any has none.  A beam search over the layers chooses the
codewords together.

Each passage has a stream of bytes.  For n vectors and S subspaces:

    ceil(n / 2) bytes           number of layers of each vector, two to a byte, the earlier one in the low half
    2 n bytes                   two references each: 0 is none, i the i-th vector of the passage, counted from 1
    S bytes for every layer     vector after vector, and within a vector the coarsest of its layers first

A chain of references has at most `MAX_DEPTH` steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from baleen.index.cpu.simd import first_nearest_codewords, nearest_codewords

Array = npt.NDArray[Any]

WIDTH = 8  # dimensions per byte: 1 bit each
CODEWORDS = 256
MAX_DEPTH = 15  # longest chain of references
MAX_REFERENCE = 255  # last vector of a passage that can be a reference: one byte
BEAM_WIDTH = 4  # prefixes kept from layer to layer: fixed by `nearest_codewords`
DIRECTION_WEIGHT = np.float32(8)  # extra weight of an error along the vector itself, where its queries lie

# Allow sums to be vectorized; the compiler fixes their order, the same for every caller.
_SUMS = {"reassoc", "contract", "nsz"}


def max_stream_size(vectors: int, subspaces: int, layers: int) -> int:
    """Bytes of a passage's stream if every vector had all layers."""
    return -(-vectors // 2) + vectors * (2 + layers * subspaces)


@njit(nogil=True, cache=True)
def layer_count(stream: Array, vector: int) -> int:
    """Number of layers of a vector of the passage."""
    return int((stream[vector >> 1] >> (4 * (vector & 1))) & 15)


@njit(nogil=True, cache=True)
def encode_passages(
    residuals: Array, directions: Array, offsets: Array, codewords: Array, transposed: Array, norms: Array,
    thresholds: Array, streams: Array, starts: Array, restored: Array, sizes: Array,
) -> None:  # fmt: skip
    """Encode each passage p: its stream to streams[starts[p]:] and the stream's size to sizes[p].

    residuals, directions   (t, width): vectors less their centroids; directions of the queries similar to each vector
    codewords, transposed   (layers, subspaces, 256, WIDTH) and (layers, subspaces, WIDTH, 256)
    norms                   (layers, subspaces, 256): squared norms of the codewords
    thresholds              thresholds[i]: squared norm of the remainder from which on a vector has more than i layers
    restored                (t, width): receives the residuals as they will be decoded
    """
    for passage in range(len(offsets) - 1):
        span = slice(offsets[passage], offsets[passage + 1])
        stream = streams[starts[passage] :]
        sizes[passage] = _encode(
            residuals[span], directions[span], codewords, transposed, norms, thresholds, restored[span], stream
        )


@njit(nogil=True, cache=True)
def _encode(
    residuals: Array, directions: Array, codewords: Array, transposed: Array, norms: Array, thresholds: Array,
    restored: Array, stream: Array,
) -> int:  # fmt: skip
    """Encode one passage; return the size of its stream."""
    n, dim = residuals.shape
    layers, subspaces = transposed.shape[:2]
    referable = min(n, MAX_REFERENCE)
    products = np.zeros((referable + 1, referable + 1), np.float32)  # inner products of restored residuals; 0 is none
    gains = np.zeros(referable + 1, np.float32)
    depths = np.zeros(n + 1, np.int64)
    remainder = np.empty(dim, np.float32)
    beams = np.zeros((2, BEAM_WIDTH, WIDTH), np.float32)
    paths = np.empty((2, BEAM_WIDTH, layers), np.uint8)
    chosen = np.empty(BEAM_WIDTH, np.int32)
    stream[: (n + 1) // 2] = 0
    references, position = (n + 1) // 2, (n + 1) // 2 + 2 * n
    for t in range(n):
        first, second = _choose_references(residuals[t], restored, min(t, MAX_REFERENCE), products, gains, depths)
        stream[references + 2 * t], stream[references + 2 * t + 1] = first, second
        depths[t + 1] = max(depths[first] + (first > 0), depths[second] + (second > 0))
        _subtract_prediction(residuals[t], restored, first, second, remainder)
        energy = _dot(remainder, remainder)
        count = 0
        while count < layers and energy >= thresholds[count]:
            count += 1
        stream[t >> 1] |= np.uint8(count << (4 * (t & 1)))
        _encode_layers(
            remainder, directions[t], codewords, transposed, norms, layers - count, beams, paths, chosen, stream,
            position,
        )  # fmt: skip
        restored[t] = residuals[t] - remainder
        position += count * subspaces
        if t < referable:
            _update_products(restored[: t + 1], products)
    return int(position)


@njit(nogil=True, cache=True)
def _update_products(restored: Array, products: Array) -> None:
    """Fill in the inner products of the last vector with all vectors."""
    last = len(restored)
    for other in range(last):
        products[last, other + 1] = _dot(restored[last - 1], restored[other])
        products[other + 1, last] = products[last, other + 1]


@njit(nogil=True, cache=True, fastmath=_SUMS)
def _dot(left: Array, right: Array) -> Any:
    """Inner product; the compiler may reorder the sum."""
    total = np.float32(0)
    for j in range(len(left)):
        total += left[j] * right[j]
    return total


@njit(nogil=True, cache=True)
def _choose_references(
    vector: Array, restored: Array, count: int, products: Array, gains: Array, depths: Array
) -> tuple[int, int]:
    """The two earlier vectors whose mean is nearest to this one; 0 is none.

    The gain of a pair is the sum of the gains of both alone, less half their inner product.
    """
    gains[0] = 0
    for other in range(1, count + 1):
        single = _dot(vector, restored[other - 1]) - np.float32(0.25) * products[other, other]
        gains[other] = single if depths[other] < MAX_DEPTH else -np.inf
    best, first, second = np.float32(0), 0, 0
    for one in range(count + 1):
        gain = gains[one] + _best_second_gain(gains, products[one], one + 1)
        if gain > best:
            best, first = gain, one
    largest = np.float32(-np.inf)
    for other in range(first + 1):
        pair = gains[other] - np.float32(0.5) * products[first, other]
        if pair > largest:
            largest, second = pair, other
    return first, second


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz"})
def _best_second_gain(gains: Array, products: Array, count: int) -> Any:
    """Largest of the first `count` gains less half the products; the flags allow SIMD."""
    largest = np.float32(-np.inf)
    for other in range(count):
        pair = gains[other] - np.float32(0.5) * products[other]
        largest = max(largest, pair)
    return largest


@njit(nogil=True, cache=True)
def _subtract_prediction(vector: Array, restored: Array, first: int, second: int, remainder: Array) -> None:
    """remainder = vector - the mean of its two references."""
    for j in range(len(vector)):
        mean = np.float32(0)
        if first > 0:
            mean += restored[first - 1, j] * np.float32(0.5)
        if second > 0:
            mean += restored[second - 1, j] * np.float32(0.5)
        remainder[j] = vector[j] - mean


@njit(nogil=True, cache=True)
def _encode_layers(
    remainder: Array, directions: Array, codewords: Array, transposed: Array, norms: Array, coarsest: int,
    beams: Array, paths: Array, chosen: Array, stream: Array, position: int,
) -> None:  # fmt: skip
    """Write the codewords of the layers from `coarsest` on to stream[position:]; leave the final error in `remainder`.

    Takes no views of arrays: numba would count references to each, which costs as much as the work itself.
    """
    layers, subspaces = codewords.shape[:2]
    error = np.float32(0)  # along the vector, summed over the subspaces so far
    for s in range(subspaces if layers > coarsest else 0):
        for j in range(WIDTH):
            beams[0, 0, j] = remainder[s * WIDTH + j]
        current = 0
        for layer in range(coarsest, layers):
            table = layer * subspaces + s
            rows = beams.ctypes.data + current * BEAM_WIDTH * WIDTH * 4
            square = norms.ctypes.data + table * CODEWORDS * 4
            column = transposed.ctypes.data + table * WIDTH * CODEWORDS * 4
            if layer == coarsest:
                first_nearest_codewords(rows, column, square, WIDTH, chosen.ctypes.data)
            else:
                nearest_codewords(rows, column, square, WIDTH, chosen.ctypes.data)
            for rank in range(BEAM_WIDTH):
                beam, code = chosen[rank] >> 8, chosen[rank] & 255
                for j in range(WIDTH):
                    beams[1 - current, rank, j] = beams[current, beam, j] - codewords[layer, s, code, j]
                for earlier in range(layer - coarsest):
                    paths[1 - current, rank, earlier] = paths[current, beam, earlier]
                paths[1 - current, rank, layer - coarsest] = code
            current = 1 - current
        best, least, best_error = 0, np.float32(np.inf), error
        for beam in range(BEAM_WIDTH):  # least squared norm plus weighted squared error along the vector
            norm, total = np.float32(0), error
            for j in range(WIDTH):
                norm += beams[current, beam, j] * beams[current, beam, j]
                total += directions[s * WIDTH + j] * beams[current, beam, j]
            if norm + DIRECTION_WEIGHT * total * total < least:
                best, least, best_error = beam, norm + DIRECTION_WEIGHT * total * total, total
        error = best_error
        for j in range(WIDTH):
            remainder[s * WIDTH + j] = beams[current, best, j]
        for layer in range(layers - coarsest):
            stream[position + layer * subspaces + s] = paths[current, best, layer]


@njit(nogil=True, cache=True)
def decode_passage(codebooks: Array, stream: Array, out: Array) -> None:
    """out (n, width) = the restored residuals of a stream; codebooks are (layers, subspaces, 256, WIDTH)."""
    n, dim = out.shape
    layers, subspaces = codebooks.shape[:2]
    references, position = (n + 1) // 2, (n + 1) // 2 + 2 * n
    for t in range(n):
        vector = out[t]
        first, second = stream[references + 2 * t], stream[references + 2 * t + 1]
        for j in range(dim):
            vector[j] = np.float32(0)
        if first > 0:
            for j in range(dim):
                vector[j] += out[first - 1, j] * np.float32(0.5)
        if second > 0:
            for j in range(dim):
                vector[j] += out[second - 1, j] * np.float32(0.5)
        for layer in range(layers - layer_count(stream, t), layers):
            for s in range(subspaces):
                word = codebooks[layer, s, stream[position + s]]
                for w in range(WIDTH):
                    vector[s * WIDTH + w] += word[w]
            position += subspaces


@njit(nogil=True, cache=True)
def unpack(
    offsets: Array, streams: Array, starts: Array, subspaces: int, layers: Array, references: Array,
    positions: Array,
) -> int:  # fmt: skip
    """Fill in layers (t,), references (t, 2) and positions (t,) of every vector: see `codec.UnpackedStreams`.

    Returns the length of the longest chain of references.
    """
    max_depth = 0
    depths = np.zeros(MAX_REFERENCE + 1, np.int64)
    for passage in range(len(offsets) - 1):
        stream, first = streams[starts[passage] :], offsets[passage]
        n = offsets[passage + 1] - first
        position = (n + 1) // 2 + 2 * n
        for t in range(n):
            layers[first + t] = layer_count(stream, t)
            depth = 0
            for r in range(2):
                reference = stream[(n + 1) // 2 + 2 * t + r]
                references[first + t, r] = reference
                depth = max(depth, depths[reference] + (reference > 0))
            if t < MAX_REFERENCE:
                depths[t + 1] = depth
            max_depth = max(max_depth, depth)
            positions[first + t] = starts[passage] + position
            position += layers[first + t] * subspaces
    return max_depth


@njit(nogil=True, cache=True)
def predict(references: Array, offsets: Array, restored: Array, out: Array) -> None:
    """out[t] = the mean of the references of vector t, from the restored residuals."""
    half = np.float32(0.5)
    for passage in range(len(offsets) - 1):
        first = offsets[passage]
        for t in range(first, offsets[passage + 1]):
            out[t] = 0
            for reference in references[t]:
                if reference > 0:
                    out[t] += restored[first + reference - 1] * half


@njit(nogil=True, cache=True)
def sum_layer_targets(
    remainder: Array,
    layers: Array,
    streams: Array,
    positions: Array,
    codebooks: Array,
    layer: int,
    sums: Array,
    counts: Array,
) -> None:
    """Add up, for one layer, the targets of each codeword: sums[s, code], with counts[s, code] uses.

    A target is the remainder of a vector less the codewords of its other layers.
    """
    total, subspaces = codebooks.shape[:2]
    target = np.empty(WIDTH, np.float32)
    for t in range(len(remainder)):
        own = layer - (total - layers[t])
        for s in range(subspaces if own >= 0 else 0):
            target[:] = remainder[t, s * WIDTH : (s + 1) * WIDTH]
            for other in range(layers[t]):
                if other != own:
                    word = codebooks[total - layers[t] + other, s, streams[positions[t] + other * subspaces + s]]
                    for w in range(WIDTH):
                        target[w] -= word[w]
            code = streams[positions[t] + own * subspaces + s]
            counts[s, code] += 1
            for w in range(WIDTH):
                sums[s, code, w] += target[w]
