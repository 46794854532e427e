"""Attention on this CPU, by products and by torch's fused kernel, over batches of texts as the models here read them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from baleen.bench.report import Columns, number, table
from baleen.cpu_attention import attend
from baleen.progress import track
from baleen.types import Record

LENGTHS = (32, 64, 128, 256, 512)
TOKENS, HEADS, WIDTH = 4096, 12, 32  # of a batch, and of a 12 x 384 BERT
ROUNDS = 9


@dataclass(frozen=True, slots=True)
class AttentionRow(Record):
    """Milliseconds of one layer's attention over a batch of texts of `length` tokens: the median of some rounds."""

    dtype: str
    length: int
    texts: int
    fused_ms: float
    products_ms: float
    gain: float
    difference: float


def attention_rows(lengths: Sequence[int] = LENGTHS, rounds: int = ROUNDS) -> list[AttentionRow]:
    """In bfloat16 and float32; both ways take turns, so that their ratio holds whatever else the machine does."""
    cases = [(dtype, length) for dtype in (torch.bfloat16, torch.float32) for length in lengths]
    return [_row(*case, rounds) for case in track(cases, "attending", unit="rows")]


@torch.inference_mode()
def _row(dtype: torch.dtype, length: int, rounds: int) -> AttentionRow:
    texts = max(1, TOKENS // length)
    chance = torch.Generator().manual_seed(length)
    query, key, value = (
        torch.randn(texts, length, HEADS, WIDTH, generator=chance).to(dtype).transpose(1, 2) for _ in range(3)
    )
    seen = torch.ones(texts, 1, length, length, dtype=torch.bool)
    seen[0, ..., length - length // 8 :] = False  # a batch of like lengths has little padding
    ways: list[Callable[[], Tensor]] = [
        lambda: scaled_dot_product_attention(query, key, value, attn_mask=seen).transpose(1, 2),
        lambda: attend(query, key, value, seen, WIDTH**-0.5),
    ]
    (fused, expected), (products, found) = _in_turns(ways, rounds)
    difference = float((found.float() - expected.float()).abs().max())
    name = str(dtype).removeprefix("torch.")
    return AttentionRow(name, length, texts, 1000 * fused, 1000 * products, fused / products, difference)


def _in_turns(ways: Sequence[Callable[[], Tensor]], rounds: int) -> list[tuple[float, Tensor]]:
    """The median seconds of each way, and what it makes; the first round warms up."""
    spent: list[list[float]] = [[] for _ in ways]
    made = [way() for way in ways]
    for _ in range(rounds):
        for way, times in zip(ways, spent, strict=True):
            start = time.perf_counter()
            way()
            times.append(time.perf_counter() - start)
    return [(sorted(times)[len(times) // 2], found) for times, found in zip(spent, made, strict=True)]


COLUMNS: Columns = {
    "type": lambda row: str(row["dtype"]),
    "tokens of a text": number("length", "d"),
    "texts": number("texts", "d"),
    "fused ms": number("fused_ms", ".2f"),
    "products ms": number("products_ms", ".2f"),
    "times as fast": number("gain", ".2f"),
    "largest difference": number("difference", ".4f"),
}


def attention_table(rows: Sequence[AttentionRow]) -> str:
    """The rows as Markdown."""
    return table(COLUMNS, [row.to_json() for row in rows])
