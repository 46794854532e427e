"""Worker of Baleen's index, without focus, since the other engines have none."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from worker import Settings, serve, settings

from baleen.core.types import Passage
from baleen.core.vectors import PassageVectors, QueryVectors
from baleen.index.index import Index
from workload import RealVectors, warm_up


class Baleen:
    def __init__(self, given: Settings) -> None:
        self.given = given
        warm_up()

    def build(self, vectors: Any, lengths: Any) -> None:
        passages = [Passage(str(row), "", "") for row in range(len(lengths))]
        stored = PassageVectors(vectors, lengths)
        data = RealVectors("peers", passages, stored, [], fingerprint="peers", focus=(None, None))
        Index.build(self.given.index, data.passages(), data, bits=self.given.bits)
        self.index = Index.open(self.given.index, threads=self.given.threads)

    def search(self, query: Any) -> list[int]:
        (ranking,) = self.index.search([QueryVectors.without_facts(query)], self.given.k)
        return [int(pid) for pid in ranking.pids]


if __name__ == "__main__":
    serve(Baleen(settings()), settings())
