"""The residual code: what the cells leave of a passage's vectors, told by references and in layers.

Vectors of one passage resemble each other far more than those of a cell do.  So what is left of a vector is first
*predicted*, as the mean of what was restored of two earlier vectors of its passage, and only what the prediction misses
is written down.  Either reference may be to nothing, which counts as zero, and both may be to the same vector.

What is missed is written in *layers*, coarse to fine: in each, every eight dimensions are named by a byte, one of 256
codewords of that layer and subspace, and all layers add up.  A vector that misses much uses all of them, one that misses
less begins further down, and one that misses next to nothing has none.  Codewords of all layers are chosen together, by
keeping the best few beginnings (`BEAM`) from layer to layer.

Each passage has a stream of bytes.  For n vectors and S subspaces:

    ceil(n / 2) bytes           how many layers each vector has, two to a byte, the earlier one in the low half
    2 n bytes                   two references each: 0 is nothing, i the i-th vector of the passage, counted from 1
    S bytes for every layer     vector after vector; of a vector the coarsest layer that it has comes first

No vector is more than `DEEPEST` references away from one that has none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from baleen.index.cpu.simd import first_nearest_codewords, nearest_codewords

Array = npt.NDArray[Any]

WIDTH = 8  # dimensions that a byte stands for: 1 bit each
CODEWORDS = 256
DEEPEST = 15  # references from a vector to one without any
REACH = 255  # vectors of a passage that can be referred to: a reference is a byte
BEAM = 4  # beginnings that are kept from layer to layer: as many as `nearest_codewords` takes and gives
ALONG = np.float32(8)  # how much more an error counts along the vector itself, where what it is compared with lies

# What lets sums be vectorised; the order is then the compiler's, and the same for every caller.
_SUMS = {"reassoc", "contract", "nsz"}


def longest_stream(vectors: int, subspaces: int, layers: int) -> int:
    """Bytes of a passage's stream if every vector had all layers."""
    return -(-vectors // 2) + vectors * (2 + layers * subspaces)


@njit(nogil=True, cache=True)
def layers_of(stream: Array, vector: int) -> int:
    """How many layers a vector of the passage has."""
    return int((stream[vector >> 1] >> (4 * (vector & 1))) & 15)


@njit(nogil=True, cache=True)
def encode_passages(
    left: Array, along: Array, offsets: Array, words: Array, columns: Array, norms: Array, thresholds: Array,
    streams: Array, starts: Array, restored: Array, sizes: Array,
) -> None:  # fmt: skip
    """Write the stream of each passage p at streams[starts[p]], its bytes to sizes[p], and what it restores.

    `left` (t, D) is what the cells leave, `words` (layers, subspaces, 256, WIDTH) are the codewords, `columns`
    (layers, subspaces, WIDTH, 256) the same side by side, `norms` (layers, subspaces, 256) their squares;
    thresholds[i] is the squared norm of what is missed from which on more than i layers are used;
    `along` (t, D) are the directions of queries that are like the vectors.
    """
    for passage in range(len(offsets) - 1):
        span = slice(offsets[passage], offsets[passage + 1])
        stream = streams[starts[passage] :]
        sizes[passage] = _encode(left[span], along[span], words, columns, norms, thresholds, restored[span], stream)


@njit(nogil=True, cache=True)
def _encode(
    left: Array, along: Array, words: Array, columns: Array, norms: Array, thresholds: Array, restored: Array,
    stream: Array,
) -> int:  # fmt: skip
    n, dim = left.shape
    layers, subspaces = columns.shape[:2]
    known = min(n, REACH)
    products = np.zeros((known + 1, known + 1), np.float32)  # of what was restored, with nothing as number 0
    values = np.zeros(known + 1, np.float32)
    depths = np.zeros(n + 1, np.int64)
    missed = np.empty(dim, np.float32)
    beams = np.zeros((2, BEAM, WIDTH), np.float32)
    paths = np.empty((2, BEAM, layers), np.uint8)
    places = np.empty(BEAM, np.int32)
    stream[: (n + 1) // 2] = 0
    references, place = (n + 1) // 2, (n + 1) // 2 + 2 * n
    for t in range(n):
        first, second = _choose_references(left[t], restored, min(t, REACH), products, values, depths)
        stream[references + 2 * t], stream[references + 2 * t + 1] = first, second
        depths[t + 1] = max(depths[first] + (first > 0), depths[second] + (second > 0))
        _predict(left[t], restored, first, second, missed)
        energy = _dot(missed, missed)
        count = 0
        while count < layers and energy >= thresholds[count]:
            count += 1
        stream[t >> 1] |= np.uint8(count << (4 * (t & 1)))
        _encode_layers(missed, along[t], words, columns, norms, layers - count, beams, paths, places, stream, place)
        restored[t] = left[t] - missed
        place += count * subspaces
        if t < known:
            _multiply(restored[: t + 1], products)
    return int(place)


@njit(nogil=True, cache=True)
def _multiply(restored: Array, products: Array) -> None:
    """Fill in the products of the last of these vectors with all of them."""
    last = len(restored)
    for other in range(last):
        products[last, other + 1] = _dot(restored[last - 1], restored[other])
        products[other + 1, last] = products[last, other + 1]


@njit(nogil=True, cache=True, fastmath=_SUMS)
def _dot(left: Array, right: Array) -> Any:
    total = np.float32(0)
    for j in range(len(left)):
        total += left[j] * right[j]
    return total


@njit(nogil=True, cache=True)
def _choose_references(
    vector: Array, restored: Array, known: int, products: Array, values: Array, depths: Array
) -> tuple[int, int]:
    """The two earlier vectors whose mean is nearest to this one; nothing, number 0, is one of them.

    What a mean explains is what each of the two is worth by itself, less half their product.
    """
    values[0] = 0
    for other in range(1, known + 1):
        worth = _dot(vector, restored[other - 1]) - np.float32(0.25) * products[other, other]
        values[other] = worth if depths[other] < DEEPEST else -np.inf
    best, first, second = np.float32(0), 0, 0
    for one in range(known + 1):
        gain = values[one] + _largest_rest(values, products[one], one + 1)
        if gain > best:
            best, first = gain, one
    largest = np.float32(-np.inf)
    for other in range(first + 1):
        rest = values[other] - np.float32(0.5) * products[first, other]
        if rest > largest:
            largest, second = rest, other
    return first, second


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz"})
def _largest_rest(values: Array, products: Array, count: int) -> Any:
    """The largest of the first values less half their products; the flags let it be found in vectors."""
    largest = np.float32(-np.inf)
    for other in range(count):
        rest = values[other] - np.float32(0.5) * products[other]
        largest = max(largest, rest)
    return largest


@njit(nogil=True, cache=True)
def _predict(vector: Array, restored: Array, first: int, second: int, missed: Array) -> None:
    """What the mean of two references misses of a vector."""
    for j in range(len(vector)):
        mean = np.float32(0)
        if first > 0:
            mean += restored[first - 1, j] * np.float32(0.5)
        if second > 0:
            mean += restored[second - 1, j] * np.float32(0.5)
        missed[j] = vector[j] - mean


@njit(nogil=True, cache=True)
def _encode_layers(
    missed: Array, along: Array, words: Array, columns: Array, norms: Array, first: int, beams: Array, paths: Array,
    places: Array, stream: Array, start: int,
) -> None:  # fmt: skip
    """Write the codewords of the layers from `first` on to stream[start:], and leave in `missed` what they still miss.

    No part of an array is taken in here: each would be counted by who refers to it, which costs as much as its use.
    """
    layers, subspaces = words.shape[:2]
    error = np.float32(0)  # along the vector, of the subspaces so far
    for s in range(subspaces if layers > first else 0):
        for j in range(WIDTH):
            beams[0, 0, j] = missed[s * WIDTH + j]
        now = 0
        for layer in range(first, layers):
            place = layer * subspaces + s
            rows, square = beams.ctypes.data + now * BEAM * WIDTH * 4, norms.ctypes.data + place * CODEWORDS * 4
            column = columns.ctypes.data + place * WIDTH * CODEWORDS * 4
            if layer == first:
                first_nearest_codewords(rows, column, square, WIDTH, places.ctypes.data)
            else:
                nearest_codewords(rows, column, square, WIDTH, places.ctypes.data)
            for chosen in range(BEAM):
                beam, code = places[chosen] >> 8, places[chosen] & 255
                for j in range(WIDTH):
                    beams[1 - now, chosen, j] = beams[now, beam, j] - words[layer, s, code, j]
                for earlier in range(layer - first):
                    paths[1 - now, chosen, earlier] = paths[now, beam, earlier]
                paths[1 - now, chosen, layer - first] = code
            now = 1 - now
        best, least, after = 0, np.float32(np.inf), error
        for beam in range(BEAM):  # the least by its squared norm and the squared error along the vector so far
            norm, total = np.float32(0), error
            for j in range(WIDTH):
                norm += beams[now, beam, j] * beams[now, beam, j]
                total += along[s * WIDTH + j] * beams[now, beam, j]
            if norm + ALONG * total * total < least:
                best, least, after = beam, norm + ALONG * total * total, total
        error = after
        for j in range(WIDTH):
            missed[s * WIDTH + j] = beams[now, best, j]
        for layer in range(layers - first):
            stream[start + layer * subspaces + s] = paths[now, best, layer]


@njit(nogil=True, cache=True)
def decode_passage(codebooks: Array, stream: Array, out: Array) -> None:
    """out[t] = what the stream restores of each vector (n, D); codebooks are (layers, subspaces, 256, WIDTH)."""
    n, dim = out.shape
    layers, subspaces = codebooks.shape[:2]
    references, place = (n + 1) // 2, (n + 1) // 2 + 2 * n
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
        for layer in range(layers - layers_of(stream, t), layers):
            for s in range(subspaces):
                word = codebooks[layer, s, stream[place + s]]
                for w in range(WIDTH):
                    vector[s * WIDTH + w] += word[w]
            place += subspaces


@njit(nogil=True, cache=True)
def unpack(
    offsets: Array, residuals: Array, residual_offsets: Array, subspaces: int, layers: Array, references: Array,
    places: Array,
) -> int:  # fmt: skip
    """Of every vector: its layers (t,), references (t, 2) and where its bytes start (t,); returns the deepest reference."""
    deepest = 0
    depths = np.zeros(REACH + 1, np.int64)
    for passage in range(len(offsets) - 1):
        stream, first = residuals[residual_offsets[passage] :], offsets[passage]
        n = offsets[passage + 1] - first
        place = (n + 1) // 2 + 2 * n
        for t in range(n):
            layers[first + t] = layers_of(stream, t)
            depth = 0
            for r in range(2):
                reference = stream[(n + 1) // 2 + 2 * t + r]
                references[first + t, r] = reference
                depth = max(depth, depths[reference] + (reference > 0))
            if t < REACH:
                depths[t + 1] = depth
            deepest = max(deepest, depth)
            places[first + t] = residual_offsets[passage] + place
            place += layers[first + t] * subspaces
    return deepest


@njit(nogil=True, cache=True)
def predictions(references: Array, offsets: Array, restored: Array, out: Array) -> None:
    """out[t] = the mean of a vector's references, from what was restored of them."""
    half = np.float32(0.5)
    for passage in range(len(offsets) - 1):
        first = offsets[passage]
        for t in range(first, offsets[passage + 1]):
            out[t] = 0
            for reference in references[t]:
                if reference > 0:
                    out[t] += restored[first + reference - 1] * half


@njit(nogil=True, cache=True)
def refit_layer(
    missed: Array,
    layers: Array,
    residuals: Array,
    places: Array,
    codebooks: Array,
    layer: int,
    sums: Array,
    counts: Array,
) -> None:
    """Add up, for each codeword of a layer (subspaces, 256), what other layers leave to it, and its uses."""
    total, subspaces = codebooks.shape[:2]
    left = np.empty(WIDTH, np.float32)
    for t in range(len(missed)):
        own = layer - (total - layers[t])
        for s in range(subspaces if own >= 0 else 0):
            left[:] = missed[t, s * WIDTH : (s + 1) * WIDTH]
            for other in range(layers[t]):
                if other != own:
                    word = codebooks[total - layers[t] + other, s, residuals[places[t] + other * subspaces + s]]
                    for w in range(WIDTH):
                        left[w] -= word[w]
            code = residuals[places[t] + own * subspaces + s]
            counts[s, code] += 1
            for w in range(WIDTH):
                sums[s, code, w] += left[w]
