"""How fast mining scores every query against every passage, and by how much each way of doing it gains.

    written out     all similarities of a block are written, then read again for the maxima and for their sums
    in pieces       the same, in pieces that stay in the cache
    fused           similarities are reduced where they are made; on a GPU with Triton

All ways run over the same vectors in one go, so that their ratios hold whatever else the machine does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from baleen.bench.report import Columns, number, table
from baleen.bench.synthetic import FOCUS, SyntheticCorpus
from baleen.devices import usable_device
from baleen.training.maxsim import Lanes, can_fuse, focused_scores, sum_of_largest
from baleen.types import Record

TOKENS = {"cpu": 2048, "cuda": 65_536}  # of a block of passages, as mining has them
ROUNDS = 3

Way = Callable[[Lanes, Tensor, int | None], Tensor]
Parts = Sequence[tuple[Lanes, int]]


@dataclass(frozen=True, slots=True)
class MiningRow(Record):
    """One way to score: the best of some rounds.  `gain` is against the first way, `difference` the largest to it.

    `teraflops` counts the products of vectors alone.
    """

    way: str
    queries: int
    lanes: int
    passages: int
    seconds: float
    teraflops: float
    gain: float
    difference: float


def mining_rows(size: int, queries: int, facts: int, device: str | None = None) -> list[MiningRow]:
    """Every way that this machine has, over `size` synthetic passages and queries of 64 vectors and `facts` more."""
    place = usable_device(device)
    corpus = SyntheticCorpus(size)
    parts = _parts(corpus, queries, facts, place)
    blocks = _blocks(corpus, place)
    rows: list[MiningRow] = []
    expected: Tensor | None = None
    for name, way in _ways(place, corpus.dim).items():
        found, seconds = _timed(way, parts, blocks)
        expected = found if expected is None else expected
        lanes = sum(len(own.vectors) for own, _ in parts)
        work = 2 * lanes * sum(block.numel() for block in blocks)
        rows.append(
            MiningRow(
                way=name,
                queries=queries,
                lanes=lanes,
                passages=size,
                seconds=seconds,
                teraflops=work / seconds / 1e12,
                gain=(rows[0].seconds if rows else seconds) / seconds,
                difference=float((found - expected).abs().max()),
            )
        )
    return rows


def _ways(device: torch.device, dim: int) -> dict[str, Way]:
    ways: dict[str, Way] = {"written out": written_out, "in pieces": _in_pieces}
    return {**ways, "fused": _fused} if can_fuse(device, dim) else ways


def written_out(lanes: Lanes, passages: Tensor, keep: int | None) -> Tensor:
    """One term of the score, (Q, P), by way of all similarities at once."""
    size, tokens, dim = passages.shape
    if not lanes.longest:
        return torch.zeros(len(lanes), size, device=passages.device)
    similarity = lanes.vectors @ passages.reshape(-1, dim).T  # (L, P * M)
    matches, mask = lanes.padded(similarity.view(-1, size, tokens).amax(dim=2))
    return sum_of_largest(matches.float(), mask, keep)


def _in_pieces(lanes: Lanes, passages: Tensor, keep: int | None) -> Tensor:
    return focused_scores(lanes, passages, keep, fused=False)


def _fused(lanes: Lanes, passages: Tensor, keep: int | None) -> Tensor:
    return focused_scores(lanes, passages, keep, fused=True)


def _parts(corpus: SyntheticCorpus, queries: int, facts: int, device: torch.device) -> Parts:
    made = corpus.queries(queries, facts=facts)
    dtype = _dtype(device)
    claims, extra = ([getattr(query, part) for query in made] for part in ("query", "facts"))
    return [(Lanes.of(claims, device, dtype), FOCUS[0]), (Lanes.of(extra, device, dtype), FOCUS[1])]


def _blocks(corpus: SyntheticCorpus, device: torch.device) -> list[Tensor]:
    size = max(1, TOKENS[device.type] // corpus.length)
    vectors = [part.vectors.reshape(-1, corpus.length, corpus.dim) for part in corpus.stream()]
    joined = torch.cat([torch.from_numpy(part) for part in vectors]).to(device, _dtype(device))
    return list(torch.split(joined, size))


def _dtype(device: torch.device) -> torch.dtype:
    return torch.float16 if device.type == "cuda" else torch.float32


@torch.inference_mode()
def _timed(way: Way, parts: Parts, blocks: Sequence[Tensor]) -> tuple[Tensor, float]:
    """The scores (Q, passages), and the seconds of the best round, after one over a block that warms up."""
    _scores(way, parts, blocks[:1])
    spent, found = [], torch.empty(0)
    for _ in range(ROUNDS):
        start = time.perf_counter()
        found = _scores(way, parts, blocks)
        spent.append(time.perf_counter() - start)
    return found, min(spent)


def _scores(way: Way, parts: Parts, blocks: Sequence[Tensor]) -> Tensor:
    found = []
    for block in blocks:
        claim, facts = (way(lanes, block, keep) for lanes, keep in parts)
        found.append(claim + facts)
    return torch.cat(found, dim=1).cpu()


COLUMNS: Columns = {
    "way": lambda row: str(row["way"]),
    "queries": number("queries", ",d"),
    "query vectors": number("lanes", ",d"),
    "passages": number("passages", ",d"),
    "seconds": number("seconds", ".2f"),
    "TFLOP/s": number("teraflops", ",.2f"),
    "times as fast": number("gain", ".1f"),
    "largest difference": number("difference", ".4f"),
}


def mining_table(rows: Sequence[MiningRow]) -> str:
    """The rows as Markdown."""
    shown: list[dict[str, Any]] = [row.to_json() for row in rows]
    return table(COLUMNS, shown)
