"""Exact scores of many queries at once match the reference, with and without the fused kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from baleen.index.scoring import focus, focus_over_passages
from baleen.training.hop_order import maxsim
from baleen.training.hop_order.maxsim import Lanes, best_matches, can_fuse, focused_scores, has_triton, sum_of_largest

CPU = torch.device("cpu")

# Vectors of each query, passages, tokens, dimensions, how many matches count.
SIZES = [
    ([64, 64, 3], 19, 33, 128, 32),
    ([5, 0, 130, 17], 3, 1, 16, 8),
    ([1], 1, 7, 24, 8),
    ([40, 2], 17, 129, 20, None),
    ([9, 9], 18, 300, 128, 1),
]


def unit(rng: np.random.Generator, *shape: int) -> npt.NDArray[np.float32]:
    drawn = rng.standard_normal(shape).astype(np.float32)
    vectors: npt.NDArray[np.float32] = drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)
    return vectors


def made(counts: list[int], passages: int, tokens: int, dim: int) -> tuple[list[npt.NDArray[np.float32]], Tensor]:
    rng = np.random.default_rng(0)
    return [unit(rng, count, dim) for count in counts], torch.from_numpy(unit(rng, passages, tokens, dim))


def expected(queries: list[npt.NDArray[np.float32]], passages: Tensor, keep: int | None) -> Tensor:
    rows = [focus_over_passages(torch.from_numpy(own)[None], None, passages, None, keep) for own in queries]
    return torch.cat(rows)


@pytest.mark.parametrize(("counts", "passages", "tokens", "dim", "keep"), SIZES)
def test_scores_match_the_reference(counts: list[int], passages: int, tokens: int, dim: int, keep: int | None) -> None:
    queries, block = made(counts, passages, tokens, dim)
    found = focused_scores(Lanes.of(queries, CPU, torch.float32), block, keep)
    torch.testing.assert_close(found, expected(queries, block, keep), atol=1e-3, rtol=0)


def test_piece_size_does_not_change_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, block = made([7, 2, 12], 5, 9, 16)
    lanes = Lanes.of(queries, CPU, torch.float32)
    whole = focused_scores(lanes, block, 4)
    for size in (1, 50, 200):
        monkeypatch.setattr(maxsim, "PIECES", {"cpu": size})
        monkeypatch.setattr(maxsim, "CACHED", {"cpu": size})
        torch.testing.assert_close(focused_scores(lanes, block, 4), whole)


def test_queries_without_vectors_score_zero() -> None:
    queries, block = made([0, 0], 4, 3, 8)
    assert focused_scores(Lanes.of(queries, CPU, torch.float32), block, 8).tolist() == [[0.0] * 4] * 2


def test_the_best_match_is_a_maximum_over_tokens() -> None:
    _, block = made([1], 6, 5, 8)
    found = best_matches(block[:, 2], block)
    torch.testing.assert_close(found.diagonal(), torch.ones(6))
    torch.testing.assert_close(found, torch.einsum("ld,pmd->lpm", block[:, 2], block).amax(dim=2))


@pytest.mark.parametrize("keep", [1, 3, 7, 8, 20, None])
def test_sum_of_largest_matches_the_reference(keep: int | None) -> None:
    generator = torch.Generator().manual_seed(0)
    matches = torch.rand(5, 8, 40, generator=generator) * 2 - 1
    matches[0, :4] = 0.25  # ties
    mask = torch.rand(5, 8, generator=generator) < 0.8
    mask[1], mask[2] = False, True
    found = sum_of_largest(matches, mask, keep)
    torch.testing.assert_close(found, focus(matches.transpose(1, 2), keep, mask.unsqueeze(1)), atol=1e-3, rtol=0)


@pytest.mark.parametrize(("count", "keep"), [(64, 32), (448, 8)])
def test_equal_matches_sum_within_a_thousandth(count: int, keep: int) -> None:
    """Matches of padding may be equal; halving leaves an error for each."""
    values = torch.linspace(-0.99, 0.99, 397)
    matches, mask = values.expand(1, count, -1), torch.ones(1, count, dtype=torch.bool)
    torch.testing.assert_close(sum_of_largest(matches, mask, keep)[0], keep * values, atol=1e-3, rtol=0)


# The fused kernels


@pytest.mark.skipif(not has_triton(), reason="Triton is not installed")
def test_fused_kernels_match_under_the_interpreter() -> None:
    """In a separate process: Triton decides on import whether kernels are interpreted."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
    ran = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=False, env=environment)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["same"] * len(SIZES)


def test_fused_kernels_are_not_tried_without_a_gpu() -> None:
    assert not can_fuse(CPU, 128)


@pytest.mark.gpu
def test_fused_kernels_run_on_a_gpu() -> None:
    assert can_fuse(torch.device("cuda"), 128)


@pytest.mark.gpu
@pytest.mark.parametrize("dim", [768, 4096])
def test_vectors_too_large_for_the_kernels_are_scored(dim: int) -> None:
    queries, block = made([8, 3], 4, 128, dim)
    found = focused_scores(Lanes.of(queries, torch.device("cuda"), torch.float16), block.cuda().half(), 4)
    torch.testing.assert_close(found.cpu(), expected(queries, block, 4), atol=2e-2, rtol=1e-3)


@pytest.mark.gpu
@pytest.mark.parametrize(("counts", "passages", "tokens", "dim", "keep"), SIZES)
def test_fused_kernels_match_on_a_gpu(
    counts: list[int], passages: int, tokens: int, dim: int, keep: int | None
) -> None:
    queries, block = made(counts, passages, tokens, dim)
    lanes = Lanes.of(queries, torch.device("cuda"), torch.float16)
    both = [focused_scores(lanes, block.cuda().half(), keep, fused=fused) for fused in (True, False)]
    torch.testing.assert_close(both[0], both[1], atol=2e-2, rtol=1e-3)


def compare() -> None:
    """Both ways on a CPU, in float32 and in float16."""
    for counts, passages, tokens, dim, keep in SIZES:
        queries, block = made(counts, passages, tokens, dim)
        for dtype, tolerance in ((torch.float32, 1e-3), (torch.float16, 2e-2)):
            found = focused_scores(Lanes.of(queries, CPU, dtype), block.to(dtype), keep, fused=True)
            torch.testing.assert_close(found, expected(queries, block, keep), atol=tolerance, rtol=1e-3)
        print("same")


if __name__ == "__main__":
    compare()
