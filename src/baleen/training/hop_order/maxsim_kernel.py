"""Best matches of query vectors in passages on a GPU, without writing similarities to memory.

    best_matches        make tiles of similarities and reduce them to maxima in registers: (P, L)
    focused_sums        sum the largest matches of each query, by halving in registers: (Q, P)

The similarities of a few thousand queries with a corpus would take terabytes.  Here a program holds a tile of query
vectors and passes over the tokens of several passages.

This module needs Triton, which comes with CUDA builds of torch; `maxsim.py` decides whether to use it.
"""

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

LANES = 128  # query vectors of a program
TOKEN_TILES = (128, 64, 32)
PASSAGES = 16  # passages of a program
CELLS = 2048  # matches of a program of `focused_sums`
HALVINGS = 24
SMALLEST = 16  # smallest dimension of matrix units


def best_matches(lanes: Tensor, passages: Tensor) -> Tensor:
    """The best match of each query vector in each passage: (L, d), (P, M, d) -> (P, L), in the type of `lanes`."""
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
    """Tokens multiplied at once: large tiles are faster, but waste more in the last tile."""
    return min(TOKEN_TILES, key=lambda tile: triton.cdiv(tokens, tile) * (tile + 8))


def _roomy(device: torch.device) -> bool:
    """Whether shared memory has room to prefetch a third tile of tokens."""
    if device.type != "cuda":
        return False
    shared: int = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0)
    return shared >= 160 * 1024


def focused_sums(matches: Tensor, starts: Tensor, counts: Tensor, longest: int, keep: int) -> Tensor:
    """The sum of the `keep` largest matches of each query: (P, L) -> (Q, P) float32.

    Query q has the `counts[q]` columns from `starts[q]` on, `longest` at most; fewer than `keep` are all summed.
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
    """A tile of lanes with some passages; one loop over passages and tiles of tokens lets loads run ahead."""
    rows = tl.program_id(0) * LANES + tl.arange(0, LANES)
    first = tl.program_id(1) * PASSAGES
    inner = tl.arange(0, DEPTH)
    real = inner < dim
    # Rows past the last lane and tokens past the last one repeat the last: this changes no maximum and is not stored.
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
    """One query with some passages; `maxsim.sum_of_largest` explains the halving."""
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
