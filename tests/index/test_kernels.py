"""Every kernel against a plain loop."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from baleen.index.codec.residuals import decode_passage
from baleen.index.cpu.kernels import gather, score, tables
from baleen.index.cpu.kernels.tables import NO_VECTOR, ZERO_BYTE
from baleen.index.cpu.memory import aligned
from baleen.index.cpu.simd import LANES
from baleen.index.cpu.tables import TABLE_MAX
from baleen.index.scoring import focus, maxsim
from baleen.index.writer import invert
from stream_fakes import RandomStream

Array = npt.NDArray[Any]

UNHURRIED = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def chance(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def aligned_copy(array: Array) -> Array:
    out = aligned(array.shape, array.dtype)
    out[...] = array
    return out


def random_scores(blocks: int, cells: int, lanes: list[int], seed: int = 0, spread: int = 300) -> Array:
    """(blocks, cells, 64) int16, small enough to tie often; lanes without a vector are NO_VECTOR."""
    scores = chance(seed).integers(-spread, spread, size=(blocks, cells, LANES)).astype(np.int16)
    for block, count in enumerate(lanes):
        scores[block, :, count:] = NO_VECTOR
    return aligned_copy(scores)


def slow_focus(matches: list[int], keep: int) -> int:
    return sum(sorted(matches, reverse=True)[:keep])


class Passages:
    """Random passages of `cells` and residuals of up to `layers`, some as short as one token."""

    def __init__(self, count: int, cells: int, subspaces: int = 2, layers: int = 3, seed: int = 0) -> None:
        lengths = chance(seed).integers(1, 9, size=count)
        self.offsets = np.concatenate([[0], lengths.cumsum()]).astype(np.int64)
        self.codes = chance(seed + 1).integers(cells, size=self.offsets[-1]).astype(np.uint16)
        self.layers, self.references, self.bytes, streams = [], [], [], []
        for length in lengths.tolist():
            stream = RandomStream(length, subspaces, layers, chance(seed := seed + 10))
            streams.append(stream.packed)
            self.layers += stream.layers
            self.references += stream.references
            self.bytes += stream.bytes
        self.residuals = np.concatenate(streams)
        self.residual_offsets = np.cumsum([0, *map(len, streams)])

    def tokens(self, row: int) -> range:
        return range(int(self.offsets[row]), int(self.offsets[row + 1]))


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.float32])
def test_aligned_arrays_start_at_a_cache_line(kind: type) -> None:
    for shape in [(0,), (1,), (3, 5), (2, 7, 64)]:
        array = aligned(shape, kind)
        assert (array.shape, array.dtype) == (shape, np.dtype(kind))
        assert not array.size or array.ctypes.data % 64 == 0


@UNHURRIED
@given(
    matches=st.lists(st.integers(-19_000, 19_000) | st.integers(-3, 3), min_size=1, max_size=150),
    keep=st.integers(1, 160),
)
def test_focused_sum_adds_the_largest(matches: list[int], keep: int) -> None:
    padded = np.full(-(-len(matches) // LANES) * LANES, NO_VECTOR, np.int16)
    padded[: len(matches)] = matches
    assert score.focused_sum(padded, len(matches), keep) == slow_focus(matches, keep)


@UNHURRIED
@given(values=st.lists(st.integers(-(2**31), 2**31 - 1) | st.integers(0, 4), min_size=1, max_size=60), data=st.data())
def test_select_largest_breaks_ties_by_position(values: list[int], data: st.DataObject) -> None:
    limit = data.draw(st.integers(1, len(values) + 3))
    assert gather.select_largest(np.array(values, np.int32), limit).tolist() == slow_largest(values, limit)


@pytest.mark.parametrize("size", [4095, 4096, 4097, 9000])
@pytest.mark.parametrize("spread", [1, 2, 50, 10**6, 2**31 - 1])
@pytest.mark.parametrize("limit", [1, 100, 4000])
def test_select_largest_of_many_values(size: int, spread: int, limit: int) -> None:
    values = chance(size).integers(-spread, spread, size=size).astype(np.int32)
    assert gather.select_largest(values, limit).tolist() == slow_largest(values.tolist(), limit)


def slow_largest(values: list[int], limit: int) -> list[int]:
    return sorted(sorted(range(len(values)), key=lambda i: (-values[i], i))[:limit])


@pytest.mark.parametrize("cells", [1, 3, 4, 63, 64, 65, 200])
@pytest.mark.parametrize(("dim", "lanes"), [(16, 64), (32, 5)])
def test_cell_scores_are_rounded_products(cells: int, dim: int, lanes: int) -> None:
    centroids = aligned_copy(chance(1).standard_normal((-(-cells // 4) * 4, dim)).astype(np.float32))
    queries = aligned_copy(chance(2).standard_normal((dim, LANES)).astype(np.float32))
    blocks = -(-cells // LANES)
    scores, best = aligned((cells, LANES), np.int16), aligned((blocks, LANES), np.int16)
    score_bytes = aligned((cells, LANES), np.uint8)
    middle = blocks // 2
    for start, stop in [(middle, blocks), (0, middle)]:  # as two threads would share them
        tables.cell_scores(centroids, queries, lanes, (100.0, 10.0), scores, score_bytes, best, start, stop)
    exact = centroids[:cells].astype(np.float64) @ queries
    assert np.abs(scores[:, :lanes] - 100 * exact[:, :lanes]).max() <= 0.5 + 1e-3
    assert (scores[:, lanes:] == NO_VECTOR).all()
    expected = np.clip(10 * exact[:, :lanes] + ZERO_BYTE, 0, 255)
    assert np.abs(score_bytes[:, :lanes] - expected).max() <= 0.5 + 1e-3
    assert (score_bytes[:, lanes:] == 0).all()
    for block in range(blocks):
        part = scores[block * LANES : (block + 1) * LANES, :lanes]
        np.testing.assert_array_equal(best[block, :lanes], part.max(axis=0))


def block_bests(scores: Array) -> Array:
    blocks, cells, _ = scores.shape
    starts = range(0, cells, LANES)
    return np.stack([scores[:, start : start + LANES].max(axis=1) for start in starts], axis=1).reshape(
        blocks, -1, LANES
    )


@pytest.mark.parametrize("cells", [1, 5, 64, 70, 400])
@pytest.mark.parametrize("probes", [1, 2, 5, 400])
@pytest.mark.parametrize("spread", [3, 10_000])
def test_probe_cells_takes_the_best_of_each_lane(cells: int, probes: int, spread: int) -> None:
    probes = min(probes, cells)
    scores = random_scores(2, cells, [64, 7], spread=spread)
    found = np.empty((71, probes), np.int32)
    for start, stop in [(30, 71), (0, 30)]:
        gather.probe_cells(scores, block_bests(scores), found, start, stop)
    for lane in range(71):
        column = scores[lane // LANES, :, lane % LANES].astype(np.int64)
        assert found[lane].tolist() == np.argsort(-column, kind="stable")[:probes].tolist()


def test_probe_cells_with_more_ties_than_its_buffer() -> None:
    scores = random_scores(1, 3000, [1], spread=1)
    scores[:] = 7
    found = np.empty((1, 60), np.int32)
    gather.probe_cells(scores, block_bests(scores), found, 0, 1)
    assert found[0].tolist() == list(range(60))


def test_the_inverted_file_lists_each_passage_once_per_cell() -> None:
    passages = Passages(60, 20, 2)
    cells, offsets, postings = invert(passages.codes, passages.offsets)
    expected: dict[int, list[int]] = {}
    for row in range(60):
        for cell in sorted({int(passages.codes[token]) for token in passages.tokens(row)}):
            expected.setdefault(cell, []).append(row)
    found = {int(cell): postings[offsets[i] : offsets[i + 1]].tolist() for i, cell in enumerate(cells)}
    assert found == expected
    assert cells.tolist() == sorted(expected)


def slow_gather(scores: Array, cells: Array, lists: dict[int, list[int]], allowed: Array) -> dict[int, int]:
    """Evidence by passage: over lanes, the sum of its best probed cell above one less than the lane's worst."""
    evidence: dict[int, int] = {}
    for lane, probed in enumerate(cells.tolist()):
        column = scores[lane // LANES, :, lane % LANES].astype(int)
        gains: dict[int, int] = {}
        for cell in probed:
            for row in lists.get(cell, []):
                if allowed[row]:
                    gains[row] = max(gains.get(row, 0), column[cell] - column[probed[-1]] + 1)
        for row, gain in gains.items():
            evidence[row] = evidence.get(row, 0) + gain
    return evidence


@pytest.mark.parametrize("kind", [np.uint16, np.uint32])
@pytest.mark.parametrize("edges", [[0, 50], [0, 7, 50], [0, 1, 2, 49, 50], [30, 50]])
def test_evidence_sums_the_best_gain_of_each_lane(kind: type, edges: list[int]) -> None:
    passages = Passages(50, 30, 2)
    segment_cells, offsets, postings = invert(passages.codes, passages.offsets)
    lists = {int(cell): postings[offsets[i] : offsets[i + 1]].tolist() for i, cell in enumerate(segment_cells)}
    postings = postings.astype(kind)
    tally = np.full((50, 2), 99, np.int32)  # as the search before may have left it
    for search, (lanes, probes, share) in enumerate(
        [(70, 4, 1.0), (3, 2, 0.5), (1, 30, 0.0), (70, 30, 0.7), (2, 1, 1.0)]
    ):
        scores = random_scores(2, 33, [64, 6], seed=search)  # cells 30 to 32 do not occur in the segment
        cells = np.empty((lanes, probes), np.int32)
        gather.probe_cells(scores, block_bests(scores), cells, 0, lanes)
        allowed = chance(search).random(50) < share
        starts, ends, gains = gather.probed_lists(segment_cells, offsets, scores, cells)
        places, found = gather.seek_rows(postings, starts, ends, edges[0]), {}
        for first, stop in pairwise(edges):
            rows, evidence = np.empty(stop - first, np.int64), np.empty(stop - first, np.int32)
            count = gather.gather_evidence(postings, places, ends, gains, allowed, first, stop, tally, rows, evidence)
            assert len({*rows[:count].tolist()}) == count
            found |= dict(zip(rows[:count].tolist(), evidence[:count].tolist(), strict=True))
        expected = slow_gather(scores, cells, lists, allowed)
        assert found == {row: gain for row, gain in expected.items() if row >= edges[0]}
        np.testing.assert_array_equal(places, ends)


def test_skipping_past_the_end_of_a_list() -> None:
    postings = np.array([2, 5, 9, 0, 3], np.uint16)
    starts, ends = np.array([[0, 3, 0]]), np.array([[3, 5, 0]])  # the last one is empty
    for first, expected in [(0, [0, 3, 0]), (1, [0, 4, 0]), (3, [1, 4, 0]), (9, [2, 5, 0]), (10, [3, 5, 0])]:
        assert gather.seek_rows(postings, starts, ends, first).tolist() == [expected]


LAYOUTS = [((3, 0), (2, 0)), ((64, 5), (32, 8)), ((65, 70), (32, 8)), ((1, 1), (1, 1)), ((100, 0), (100, 0))]


def blocks_of(lanes: tuple[int, int]) -> list[int]:
    """Number of lanes with a vector in each block, the claim's blocks first."""
    return [min(LANES, count - start) for count in lanes for start in range(0, count, LANES)]


def slow_both(best: Array, lanes: tuple[int, int], keep: tuple[int, int]) -> int:
    """(blocks, 64) best matches -> the focused sum; the facts start a new block."""
    flat, split = best.ravel().tolist(), -(-lanes[0] // LANES) * LANES
    return slow_focus(flat[: lanes[0]], keep[0]) + slow_focus(flat[split : split + lanes[1]], keep[1])


@pytest.mark.parametrize("spread", [4, 256])  # ties, and all bytes
@pytest.mark.parametrize(("lanes", "keep"), LAYOUTS)
def test_pruning_scores_by_centroids(lanes: tuple[int, int], keep: tuple[int, int], spread: int) -> None:
    passages, rows, counts = Passages(40, 25, 2), np.array([0, 3, 7, 8, 39]), blocks_of(lanes)
    score_bytes = aligned_copy(chance(3).integers(spread, size=(len(counts), 25, LANES)).astype(np.uint8))
    for block, count in enumerate(counts):
        score_bytes[block, :, count:] = 0
    out = np.empty(len(rows), np.int32)
    for start, stop in [(2, 5), (0, 2)]:
        score.score_by_centroids(score_bytes, passages.codes, passages.offsets, rows, lanes, keep, out, start, stop)
    for row, found in zip(rows.tolist(), out.tolist(), strict=True):
        best = score_bytes[:, passages.codes[passages.tokens(row)]].max(axis=1)  # (blocks, 64)
        assert found == slow_both(best, lanes, keep)


@UNHURRIED
@given(matches=st.lists(st.integers(0, 255) | st.integers(0, 2), min_size=1, max_size=150), keep=st.integers(1, 160))
def test_focused_byte_sum_adds_the_largest(matches: list[int], keep: int) -> None:
    padded = np.zeros(-(-len(matches) // LANES) * LANES, np.uint8)
    padded[: len(matches)] = matches
    assert score.focused_byte_sum(padded, len(matches), keep) == slow_focus(matches, keep)


@pytest.mark.parametrize(("subspaces", "layers"), [(2, 1), (6, 3), (16, 4), (16, 7)])
@pytest.mark.parametrize(("lanes", "keep"), LAYOUTS)
def test_refining_scores_by_centroids_and_residuals(
    lanes: tuple[int, int], keep: tuple[int, int], subspaces: int, layers: int
) -> None:
    blocks = blocks_of(lanes)
    passages, rows = Passages(40, 25, subspaces, layers), np.array([0, 3, 7, 8, 39])
    scores = random_scores(len(blocks), 25, blocks, spread=9000)
    worth = chance(5).integers(TABLE_MAX + 1, size=(len(blocks), layers * subspaces, 256, LANES)).astype(np.uint8)
    lane_offsets = chance(6).integers(-4000, 1, size=(len(blocks), layers + 1, LANES)).astype(np.int16)
    lane_offsets[:, 0] = 0
    for block, count in enumerate(blocks):
        worth[block, :, :, count:] = 0
        lane_offsets[block, :, count:] = 0
    out = np.empty(len(rows), np.int32)
    for start, stop in [(2, 5), (0, 2)]:
        score.score_by_residuals(
            scores, interleaved(worth), lane_offsets, subspaces, passages.codes, passages.offsets, passages.residuals,
            passages.residual_offsets, rows, lanes, keep, out, start, stop,
        )  # fmt: skip
    for row, found in zip(rows.tolist(), out.tolist(), strict=True):
        restored, tokens = [np.zeros((len(blocks), LANES), int)], []
        for token in passages.tokens(row):
            own, first = passages.bytes[token], (layers - passages.layers[token]) * subspaces
            added = sum((worth[:, first + i, byte].astype(int) for i, byte in enumerate(own)), lane_offsets[:, 0] * 0)
            one, other = passages.references[token]
            mean = (restored[one] + restored[other]) >> 1
            restored.append(mean + added + lane_offsets[:, passages.layers[token]])
            tokens.append(scores[:, passages.codes[token]] + restored[-1])
        assert found == slow_both(np.max(tokens, axis=0), lanes, keep)


def interleaved(entries: Array) -> Array:
    """Lanes 0 to 63 in the byte order of the lookup tables: 0, 32, 1, 33, ..."""
    order = np.arange(LANES).reshape(2, -1).T.ravel()
    return aligned_copy(entries[..., order])


@pytest.mark.parametrize(("dim", "axes"), [(24, 32), (32, 32), (1, 4)])
def test_map_lanes_multiplies_by_the_axes(dim: int, axes: int) -> None:
    rows = aligned_copy(chance(1).standard_normal((axes, dim)).astype(np.float32))
    vectors = aligned_copy(chance(2).standard_normal((dim, LANES)).astype(np.float32))
    out = np.full((axes, LANES), np.nan, np.float32)
    tables.map_lanes(rows, vectors, out)
    np.testing.assert_allclose(out, rows.astype(np.float64) @ vectors, atol=1e-4)


@pytest.mark.parametrize("layers", [1, 3])
def test_lookup_tables_hold_quantized_products(layers: int) -> None:
    books = chance(1).standard_normal((layers, 4, 256, 8)).astype(np.float32)
    queries = chance(2).standard_normal((32, LANES)).astype(np.float32)
    exact = np.einsum("kscw,swl->kscl", books.astype(np.float64), queries.reshape(4, 8, LANES))

    table, lowest = np.empty((4 * layers, 256, LANES), np.float32), np.empty((4 * layers, LANES), np.float32)
    tables.lookup_floats(books, queries, table)
    np.testing.assert_allclose(table, exact.reshape(table.shape), atol=1e-4)

    widest = tables.lookup_range(table, lowest)
    np.testing.assert_array_equal(lowest, table.min(axis=1))
    assert widest == pytest.approx((table.max(axis=1) - table.min(axis=1)).max(), rel=1e-6)

    entries, offsets = np.empty(table.shape, np.uint8), np.empty((layers + 1, LANES), np.int16)
    step = widest / TABLE_MAX
    tables.lookup_bytes(table, lowest, 1 / step, entries, offsets)
    assert entries.max() == TABLE_MAX
    steps = (table - lowest[:, None]) / step
    order = np.arange(LANES).reshape(2, -1).T.ravel()
    assert np.abs(entries - steps[..., order]).max() <= 0.5 + 1e-2
    for count in range(layers + 1):
        last = lowest[len(lowest) - 4 * count :]
        np.testing.assert_allclose(offsets[count], last.sum(axis=0) / step, atol=0.51)


def test_decoding_adds_residuals_to_centroids() -> None:
    centroids = chance(1).standard_normal((12, 32)).astype(np.float32)
    books = chance(2).standard_normal((3, 4, 256, 8)).astype(np.float32)
    passages, rows = Passages(10, 12, 4), np.array([2, 3, 9])
    kept = np.concatenate([passages.tokens(row) for row in rows])
    out = np.full((len(kept), 32), np.nan, np.float32)
    score.decode_rows(
        centroids, books, passages.codes, passages.offsets, passages.residuals, passages.residual_offsets, rows, out
    )
    start = 0
    for row in rows.tolist():
        tokens = passages.tokens(row)
        restored = np.empty((len(tokens), 32), np.float32)
        decode_passage(books, passages.residuals[passages.residual_offsets[row] :], restored)
        np.testing.assert_array_equal(out[start : start + len(tokens)], centroids[passages.codes[tokens]] + restored)
        start += len(tokens)


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("dim", [16, 48])
def test_score_vectors_equals_maxsim(blocks: int, dim: int) -> None:
    lengths = np.array([1, 4, 3, 9, 2, 8], np.int64)
    vectors = aligned_copy(chance(1).standard_normal((lengths.sum() + 4, dim)).astype(np.float32))
    vectors[-4:] = 1000.0  # spare rows, which no score may show
    queries = aligned_copy(chance(2).standard_normal((blocks, dim, LANES)).astype(np.float32))
    out = np.empty((len(lengths), blocks, LANES), np.float32)
    score.score_vectors(vectors, lengths, queries, out)
    start = 0
    for i, length in enumerate(lengths.tolist()):
        tokens = torch.from_numpy(vectors[start : start + length].astype(np.float64))
        expected = maxsim(torch.from_numpy(queries.astype(np.float64)).transpose(1, 2), tokens)
        np.testing.assert_allclose(out[i], expected.numpy(), atol=1e-4)
        start += length


def test_scores_do_not_depend_on_the_batch() -> None:
    vectors = aligned_copy(chance(1).standard_normal((24, 16)).astype(np.float32))
    queries = aligned_copy(chance(2).standard_normal((1, 16, LANES)).astype(np.float32))
    together, alone = np.empty((3, 1, LANES), np.float32), np.empty((1, 1, LANES), np.float32)
    score.score_vectors(vectors, np.array([7, 6, 7]), queries, together)
    score.score_vectors(aligned_copy(vectors[7:17]), np.array([6]), queries, alone)
    np.testing.assert_array_equal(together[1], alone[0])


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=20), st.integers(1, 25))
def test_the_oracle_of_these_tests_equals_focus(matches: list[int], keep: int) -> None:
    assert slow_focus(matches, keep) == int(focus(torch.tensor(matches, dtype=torch.float64), keep))
