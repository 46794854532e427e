"""Worker of PyLate's WARP, with PyLate's defaults."""

from __future__ import annotations

from typing import Any

import torch
from pylate import indexes
from worker import Settings, serve, settings


class Peer:
    def __init__(self, given: Settings) -> None:
        torch.set_num_threads(given.threads)
        self.given = given

    def build(self, vectors: Any, lengths: Any) -> None:
        folder = {"index_folder": str(self.given.index.parent), "index_name": self.given.index.name}
        self.index = indexes.WARP(
            **folder, nbits=self.given.bits, num_threads=self.given.threads, device="cpu", show_progress=False
        )
        documents = list(torch.from_numpy(vectors).float().split(lengths.tolist()))
        self.index.add_documents([str(row) for row in range(len(documents))], documents)

    def search(self, query: Any) -> list[int]:
        # Call the engine directly: PyLate reads its table of ids from disk at every call.
        index = self.index
        (found,) = index.warp.search(
            queries_embeddings=torch.from_numpy(query)[None],
            top_k=self.given.k,
            nprobe=index.n_ivf_probe,
            bound=index.bound,
            t_prime=index.t_prime,
            max_candidates=index.max_candidates,
            centroid_score_threshold=index.centroid_score_threshold,
            batch_size=index.batch_size,
            num_threads=index.num_threads,
            show_progress=False,
        )
        return [int(row) for row, _ in found]


if __name__ == "__main__":
    serve(Peer(settings()), settings())
