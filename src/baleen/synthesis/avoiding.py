"""Questions that nothing like may be produced: those that somebody will be measured on.

A claim is like one of them if it rests on the same passages, or if half of its runs of four words stand in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from baleen.datasets.example import Example
from baleen.synthesis.quality import fingerprint

RUN = 4
SHARED = 0.5


class Avoided:
    """What was named to be kept clear of."""

    def __init__(self, examples: Iterable[Example] = (), numbers: Mapping[str, Sequence[int]] | None = None) -> None:
        """`numbers` gives the pages that a name of a gold passage, its id or its title, may stand for."""
        self._gold: set[frozenset[int]] = set()
        self._runs: dict[str, set[int]] = {}
        for index, example in enumerate(examples):
            self._gold |= _numbered(example.gold, numbers or {})
            for run in _runs(example.text):
                self._runs.setdefault(run, set()).add(index)

    def is_like(self, text: str, gold: Collection[int]) -> bool:
        if frozenset(gold) in self._gold:
            return True
        runs = _runs(text)
        shared: dict[int, int] = {}
        for run in runs:
            for index in self._runs.get(run, ()):
                shared[index] = shared.get(index, 0) + 1
        return bool(shared) and max(shared.values()) >= SHARED * len(runs)


def _numbered(gold: Sequence[str], numbers: Mapping[str, Sequence[int]]) -> set[frozenset[int]]:
    """The pages that are gold, if all of them are known and each by one name."""
    found = [numbers.get(name, ()) for name in gold]
    return {frozenset(own[0] for own in found)} if len(found) > 1 and all(found) else set()


def _runs(text: str) -> set[str]:
    words = fingerprint(text).split()
    return {" ".join(words[begin : begin + RUN]) for begin in range(max(len(words) - RUN + 1, 1))}
