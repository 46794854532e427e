"""Worker that scores every passage in float32 with torch: the reference for recall and speed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from worker import Settings, serve, settings

from baleen.core.vectors import PassageVectors, QueryVectors
from workload import blocks, score


class Exact:
    def __init__(self, given: Settings) -> None:
        torch.set_num_threads(given.threads)
        self.k = given.k

    def build(self, vectors: Any, lengths: Any) -> None:
        self.blocks = list(blocks([PassageVectors(vectors, lengths)]))

    @torch.inference_mode()
    def search(self, query: Any) -> list[int]:
        asked = QueryVectors.without_facts(query)
        scores = torch.cat([score(asked, block, (None, None)) for block in self.blocks])
        found: list[int] = scores.topk(min(self.k, len(scores))).indices.tolist()
        return found


if __name__ == "__main__":
    serve(Exact(settings()), settings())
