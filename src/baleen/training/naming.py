"""Names in a world: what `follower.py` is over an index, over the passages of a collection that are mined.

names = Names(world)
names.named(Query("..."), "wiki")               {pid of a passage that is named: pid of the passage that names it}
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache, partial

from baleen.follower import named_by, named_in
from baleen.names import MOST_BEARERS, names_of
from baleen.training.world import World
from baleen.types import Query


class Names:
    """The names of all passages of a world, each collection's for itself; what a passage names is looked up once."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._bearers: dict[str, dict[str, list[str]]] = {}
        for collection, pids in world.pids.items():
            found: dict[str, list[str]] = defaultdict(list)
            for pid in pids:
                for name in names_of(world.passage(pid).title):
                    found[name].append(pid)
            self._bearers[collection] = found
        self._in_passage = cache(self._look_through)

    def named(self, query: Query, collection: str) -> dict[str, str]:
        """What a query and the passages that carry its facts name, with what names each; see `named_by`."""
        return named_by(query, partial(self._of, collection), partial(self._in_passage, collection))

    def _of(self, collection: str, names: Sequence[str]) -> list[Sequence[str]]:
        found = (self._bearers[collection].get(name, ()) for name in names)
        return [pids if len(pids) <= MOST_BEARERS else () for pids in found]

    def _look_through(self, collection: str, pid: str) -> tuple[str, ...]:
        return tuple(named_in(self._world.passage(pid), partial(self._of, collection)))
