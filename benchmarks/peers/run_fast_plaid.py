"""Worker of fast-plaid, with its defaults."""

from __future__ import annotations

from typing import Any

import torch
from fast_plaid.search import FastPlaid
from worker import Settings, serve, settings


class Peer:
    def __init__(self, given: Settings) -> None:
        torch.set_num_threads(given.threads)
        self.given = given

    def build(self, vectors: Any, lengths: Any) -> None:
        self.index = FastPlaid(index=str(self.given.index), device="cpu")
        documents = list(torch.from_numpy(vectors).split(lengths.tolist()))
        # Otherwise it keeps the vectors of a small corpus beside the index for a rebuild.
        self.index.create(documents_embeddings=documents, nbits=self.given.bits, start_from_scratch=0)

    def search(self, query: Any) -> list[int]:
        asked = torch.from_numpy(query)[None]
        (found,) = self.index.search(queries_embeddings=asked, top_k=self.given.k, show_progress=False)
        return [row for row, _ in found]


if __name__ == "__main__":
    serve(Peer(settings()), settings())
