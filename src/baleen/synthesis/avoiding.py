"""Evaluation questions that synthetic ones must not resemble.

A claim resembles one if it rests on the same passages, or shares half of its four-word runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from baleen.data.example import Example
from baleen.data.gold import title_key
from baleen.synthesis.quality import fingerprint

RUN = 4
SHARED = 0.5


class Avoided:
    """Questions to avoid."""

    def __init__(self, examples: Iterable[Example] = (), numbers: Mapping[str, Sequence[int]] | None = None) -> None:
        """`numbers` maps the `name_key` of an id or title to the numbers of the pages that it may mean, in order."""
        self._same: dict[int, int] = {}
        for own in (numbers or {}).values():
            for number in own:
                self._same[number] = min(own[0], self._same.get(number, number))
        self._gold: set[frozenset[int]] = set()
        self._runs: dict[str, set[int]] = {}
        for index, example in enumerate(examples):
            self._gold |= self._numbered(example.gold, numbers or {})
            for run in _runs(example.text):
                self._runs.setdefault(run, set()).add(index)

    def is_like(self, text: str, gold: Collection[int]) -> bool:
        if self._gold and self._first_of_name(gold) in self._gold:
            return True
        runs = _runs(text)
        shared: dict[int, int] = {}
        for run in runs:
            for index in self._runs.get(run, ()):
                shared[index] = shared.get(index, 0) + 1
        return bool(shared) and max(shared.values()) >= SHARED * len(runs)

    def _numbered(self, gold: Sequence[str], numbers: Mapping[str, Sequence[int]]) -> set[frozenset[int]]:
        """The numbers of the gold pages, if all are known."""
        found = [numbers.get(name_key(name), ()) for name in gold]
        return {self._first_of_name(own[0] for own in found)} if len(found) > 1 and all(found) else set()

    def _first_of_name(self, gold: Iterable[int]) -> frozenset[int]:
        """Replace each page by the first of its name: a dataset may not say which one it means."""
        return frozenset(self._same.get(number, number) for number in gold)


def name_key(name: str) -> str:
    """Normalise a name: entities unescaped, Unicode NFC, single spaces, lower case."""
    return title_key(name).casefold()


def _runs(text: str) -> set[str]:
    words = fingerprint(text).split()
    return {" ".join(words[begin : begin + RUN]) for begin in range(max(len(words) - RUN + 1, 1))}
