"""The best matches of query vectors in passages on a GPU, without writing the similarities down.

    best_matches        tiles of similarities are made and reduced to their maxima where they are made: (P, L)
    focused_sums        the sum of the largest of each query's matches, by halving in registers: (Q, P)

Written out, the similarities of some thousand queries with a corpus are terabytes that are written once and read many
times.  Here a program holds a tile of query vectors and lets the tokens of several passages go by.

This module needs Triton, which comes with CUDA builds of torch; `maxsim.py` decides whether it is used.
"""

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

LANES = 128  # query vectors that a program holds
TOKEN_TILES = (128, 64, 32)
PASSAGES = 16  # that go by one program
CELLS = 2048  # matches that a program of `focused_sums` holds
HALVINGS = 24
SMALLEST = 16  # the least that matrix units multiply


def best_matches(lanes: Tensor, passages: Tensor) -> Tensor:
    """How well each passage matches each query vector: (L, d), (P, M, d) -> (P, L), in the type of `lanes`."""
    (count, dim), (size, tokens, _) = lanes.shape, passages.shape
    lanes, passages = lanes.contiguous(), passages.contiguous()
    found = torch.empty(size, count, dtype=lanes.dtype, device=lanes.device)
    depth = max(SMALLEST, triton.next_power_of_2(dim))
    grid = (triton.cdiv(count, LANES), triton.cdiv(size, PASSAGES))  # passages change last: they stay in the L2 cache
    _best_matches[grid](
        *(lanes, passages, found, count, size, tokens, dim),
        *(LANES, token_tile(tokens), depth, PASSAGES),
        num_warps=8,
        num_stages=3 if _roomy(lanes.device) else 2,
    )
    return found


def token_tile(tokens: int) -> int:
    """How many tokens are multiplied at once: large tiles are faster, and waste more of a last one that is not full."""
    return min(TOKEN_TILES, key=lambda tile: triton.cdiv(tokens, tile) * (tile + 8))


def _roomy(device: torch.device) -> bool:
    """Whether a third tile of tokens can be on its way."""
    if device.type != "cuda":
        return False
    shared: int = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0)
    return shared >= 160 * 1024


def focused_sums(matches: Tensor, starts: Tensor, counts: Tensor, longest: int, keep: int) -> Tensor:
    """The sum of the `keep` largest matches of each query: (P, L) -> (Q, P) float32.

    Query q has the `counts[q]` columns from `starts[q]` on, `longest` at most; where those are fewer, all are summed.
    """
    size, lanes = matches.shape
    sums = torch.empty(len(starts), size, dtype=torch.float32, device=matches.device)
    width = triton.next_power_of_2(longest)
    rows = max(1, CELLS // width)
    grid = (len(starts), triton.cdiv(size, rows))
    _focused_sums[grid](matches, starts, counts, sums, size, lanes, keep, rows, width, HALVINGS)
    return sums


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _best_matches(
    lanes: tl.tensor,
    passages: tl.tensor,
    found: tl.tensor,
    lane_count: tl.tensor,
    size: tl.tensor,
    tokens: tl.tensor,
    dim: tl.tensor,
    LANES: tl.constexpr,  # noqa: N803
    TOKENS: tl.constexpr,  # noqa: N803
    DEPTH: tl.constexpr,  # noqa: N803
    PASSAGES: tl.constexpr,  # noqa: N803
) -> None:
    """A tile of lanes with some passages; passages and tiles of tokens make one loop, so that loads run ahead."""
    rows = tl.program_id(0) * LANES + tl.arange(0, LANES)
    first = tl.program_id(1) * PASSAGES
    inner = tl.arange(0, DEPTH)
    real = inner < dim
    # Rows past the last lane and tokens past the last one repeat it: that changes no maximum, and is not stored.
    held = tl.minimum(rows, lane_count - 1).to(tl.int64)
    held_lanes = tl.load(lanes + held[:, None] * dim + inner[None, :], mask=real[None, :], other=0.0)
    tiles = tl.cdiv(tokens, TOKENS)
    best = tl.full((LANES,), -float("inf"), tl.float32)
    for turn in range(tl.minimum(PASSAGES, size - first) * tiles):
        passage = (first + turn // tiles).to(tl.int64)
        tile = turn % tiles
        token = passage * tokens + tl.minimum(tile * TOKENS + tl.arange(0, TOKENS), tokens - 1)
        columns = tl.load(passages + token[None, :] * dim + inner[:, None], mask=real[:, None], other=0.0)
        similarity = tl.dot(held_lanes, columns)  # (LANES, TOKENS)
        best = tl.maximum(tl.where(tile == 0, -float("inf"), best), tl.max(similarity, axis=1))
        ready = rows < tl.where(tile == tiles - 1, lane_count, 0)
        tl.store(found + passage * lane_count + rows, best.to(found.dtype.element_ty), mask=ready)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _focused_sums(
    matches: tl.tensor,
    starts: tl.tensor,
    counts: tl.tensor,
    sums: tl.tensor,
    size: tl.tensor,
    lane_count: tl.tensor,
    keep: tl.tensor,
    ROWS: tl.constexpr,  # noqa: N803
    WIDTH: tl.constexpr,  # noqa: N803
    HALVINGS: tl.constexpr,  # noqa: N803
) -> None:
    """One query with some passages; see `maxsim.sum_of_largest` for why halving finds the sum."""
    query = tl.program_id(0)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    lanes = tl.arange(0, WIDTH)
    start, count = tl.load(starts + query), tl.load(counts + query)
    places = rows.to(tl.int64)[:, None] * lane_count + start + lanes[None, :]
    real = (rows < size)[:, None] & (lanes < count)[None, :]
    values = tl.load(matches + places, mask=real, other=-2.0).to(tl.float32)
    wanted = tl.minimum(count, keep)
    low = tl.full((ROWS,), -1.01, tl.float32)
    high = tl.full((ROWS,), 1.01, tl.float32)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        enough = tl.sum((values > middle[:, None]).to(tl.int32), axis=1) >= wanted
        low = tl.where(enough, middle, low)
        high = tl.where(enough, high, middle)
    above = tl.sum(tl.maximum(values - low[:, None], 0.0), axis=1)
    tl.store(sums + query.to(tl.int64) * size + rows, wanted * low + above, mask=rows < size)
