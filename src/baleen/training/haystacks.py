"""The corpora of a world, tokenised once and encoded by one retriever after another."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from baleen.encoder import Encoder
from baleen.stopwatch import Stopwatch
from baleen.tokenization import InputMaker
from baleen.training.distributed import Processes
from baleen.training.mining import Haystack, TokenisedCorpus
from baleen.training.world import World
from baleen.types import Query, Ranking


class Haystacks:
    """One haystack for each collection, encoded when it is first asked; a query is ranked in that of its own."""

    def __init__(
        self,
        encoder: Encoder,
        corpora: Mapping[str, TokenisedCorpus],
        processes: Processes | None = None,
        clock: Stopwatch | None = None,
    ) -> None:
        self._encoder, self._corpora, self._processes, self._clock = encoder, corpora, processes, clock
        self._stacks: dict[str, Haystack] = {}

    def rank(
        self,
        queries: Sequence[Query],
        collections: Sequence[str],
        k: int,
        exclude: Sequence[Collection[str]] = (),
        *,
        favoured: Sequence[Collection[str]] = (),
        bonus: float = 0.0,
    ) -> list[Ranking]:
        """The k best passages of each query in its collection; see `Haystack.rank`."""
        found: dict[int, Ranking] = {}
        for name in dict.fromkeys(collections):
            places = [place for place, own in enumerate(collections) if own == name]
            without, raised = ([pids[place] for place in places] if pids else () for pids in (exclude, favoured))
            asked = [queries[place] for place in places]
            rankings = self._stack(name).rank(asked, k, without, favoured=raised, bonus=bonus)
            found.update(zip(places, rankings, strict=True))
        return [found[place] for place in range(len(queries))]

    def _stack(self, name: str) -> Haystack:
        if name not in self._stacks:
            self._stacks[name] = Haystack(self._encoder, self._corpora[name], self._processes, self._clock)
        return self._stacks[name]


class Corpora(dict[str, TokenisedCorpus]):
    """The tokens of every collection of a world."""

    @cached_property
    def by_pid(self) -> dict[str, npt.NDArray[np.int32]]:
        """Of every passage."""
        return {pid: ids for corpus in self.values() for pid, ids in zip(corpus.pids, corpus.ids, strict=True)}

    @classmethod
    def of(cls, inputs: InputMaker, world: World) -> Self:
        return cls(
            {
                name: TokenisedCorpus.of(inputs, (world.passages[pid] for pid in pids))
                for name, pids in world.pids.items()
            }
        )
