"""Match gold passages, named by title or id in a dataset, to the passages of a corpus."""

from __future__ import annotations

import dataclasses
import html
import unicodedata
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple, Self, TypeVar

from baleen.core.errors import DatasetError
from baleen.core.records import Record
from baleen.core.types import Passage
from baleen.data.example import BY_ID, BY_TITLE, Example

FIRST_NAMES = 5

Item = TypeVar("Item", bound=Hashable)


class Catalogue:
    """The ids, titles and sentence counts of a corpus, without its texts."""

    def __init__(self) -> None:
        self._sentences: dict[str, int] = {}
        self._titles: dict[str, list[str]] = {}

    @classmethod
    def of(cls, passages: Iterable[Passage]) -> Self:
        """Build a catalogue in one pass."""
        catalogue = cls()
        for passage in passages:
            catalogue._sentences[passage.pid] = len(passage.spans)
            catalogue._titles.setdefault(title_key(passage.title), []).append(passage.pid)
        return catalogue

    def __len__(self) -> int:
        return len(self._sentences)

    def sentences(self, pid: str) -> int:
        """The number of sentences of a passage."""
        return self._sentences[pid]

    def find(self, name: str, named_by: str = BY_TITLE) -> tuple[str, ...]:
        """The pids that `name` may mean: none if it is missing, several if it is ambiguous.

        Ids are tried first, then titles, then titles in another case; `named_by` limits these to ids or titles.
        """
        if named_by != BY_TITLE and name in self._sentences:
            return (name,)
        if named_by == BY_ID:
            return ()
        key = title_key(name)
        return tuple(self._titles.get(key) or self._folded.get(_fold(key), []))

    @cached_property
    def _folded(self) -> dict[str, list[str]]:
        folded: dict[str, list[str]] = {}
        for key, pids in self._titles.items():
            folded.setdefault(_fold(key), []).extend(pids)
        return folded


def title_key(title: str) -> str:
    """Normalize a title: entities unescaped, Unicode NFC, single spaces."""
    return " ".join(unicodedata.normalize("NFC", html.unescape(title)).split())


def _fold(key: str) -> str:
    return unicodedata.normalize("NFC", key.casefold())


@dataclass(frozen=True, slots=True)
class GoldReport(Record):
    """How well a dataset's gold passages fit a corpus.

    missing, ambiguous      gold names with no passage, or with several; their examples are `dropped`
    facts_dropped           facts beyond the last sentence of their passage, or of a passage that is not gold
    orders_dropped          orders that do not name exactly the gold passages
    without_gold            kept examples without gold, as in test files
    first_missing, first_ambiguous      the first few names
    """

    examples: int = 0
    kept: int = 0
    golds: int = 0
    missing: int = 0
    ambiguous: int = 0
    facts: int = 0
    facts_dropped: int = 0
    orders_dropped: int = 0
    without_gold: int = 0
    dropped: tuple[str, ...] = ()
    first_missing: tuple[str, ...] = ()
    first_ambiguous: tuple[str, ...] = ()


class Resolved(NamedTuple):
    examples: list[Example]
    report: GoldReport


def resolve_gold(
    examples: Iterable[Example], catalogue: Catalogue, missing: Literal["fail", "drop"] = "fail"
) -> Resolved:
    """Name `gold`, `facts` and `order` of examples by pid, and report how well they fit.

    An example with a missing or ambiguous gold passage is dropped, or is a DatasetError with "fail".  Resolving twice
    changes nothing.
    """
    ledger = _Ledger()
    resolved = [found for example in examples if (found := _resolve(example, catalogue, ledger))]
    if missing == "fail" and ledger.dropped:
        raise DatasetError(_complaint(ledger, len(catalogue)))
    return Resolved(resolved, ledger.report(resolved))


@dataclass
class _Ledger:
    """Counts for a GoldReport."""

    examples: int = 0
    golds: int = 0
    facts_dropped: int = 0
    orders_dropped: int = 0
    missing: list[str] = field(default_factory=list)
    ambiguous: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)

    def admit(self, example: Example, found: dict[str, tuple[str, ...]]) -> bool:
        """Count an example; return whether each of its gold names was found exactly once."""
        missing = [f"{name!r} (of {example.qid})" for name in example.gold if not found[name]]
        ambiguous = [
            f"{name!r} ({len(found[name])} passages, of {example.qid})" for name in example.gold if len(found[name]) > 1
        ]
        self.examples += 1
        self.golds += len(example.gold)
        self.missing += missing
        self.ambiguous += ambiguous
        if missing or ambiguous:
            self.dropped.append(example.qid)
        return not missing and not ambiguous

    def report(self, kept: list[Example]) -> GoldReport:
        return GoldReport(
            examples=self.examples,
            kept=len(kept),
            golds=self.golds,
            missing=len(self.missing),
            ambiguous=len(self.ambiguous),
            facts=sum(len(example.facts) for example in kept),
            facts_dropped=self.facts_dropped,
            orders_dropped=self.orders_dropped,
            without_gold=sum(not example.gold for example in kept),
            dropped=tuple(self.dropped),
            first_missing=tuple(self.missing[:FIRST_NAMES]),
            first_ambiguous=tuple(self.ambiguous[:FIRST_NAMES]),
        )


def _resolve(example: Example, catalogue: Catalogue, ledger: _Ledger) -> Example | None:
    names = [*example.gold, *(name for name, _ in example.facts), *example.order]
    found = {name: catalogue.find(name, example.named_by) for name in names}
    if not ledger.admit(example, found):
        return None
    places = {name: pids[0] for name, pids in found.items() if len(pids) == 1}
    gold = _unique(places[name] for name in example.gold)
    facts = [(places.get(name, ""), sid) for name, sid in example.facts]
    holding = [(pid, sid) for pid, sid in facts if pid in gold and 0 <= sid < catalogue.sentences(pid)]
    order = _unique(places.get(name, "") for name in example.order)
    complete = set(order) == set(gold)
    ledger.facts_dropped += len(facts) - len(holding)
    ledger.orders_dropped += bool(order) and not complete
    return dataclasses.replace(
        example, gold=gold, facts=_unique(holding), order=order if complete else (), named_by=BY_ID
    )


def _unique(items: Iterable[Item]) -> tuple[Item, ...]:
    return tuple(dict.fromkeys(items))


def _complaint(ledger: _Ledger, passages: int) -> str:
    first = ", ".join((ledger.missing + ledger.ambiguous)[:FIRST_NAMES])
    return (
        f"{len(ledger.missing)} of {ledger.golds} gold passages are not among the {passages} of the corpus and "
        f"{len(ledger.ambiguous)} have a title that several share, in {len(ledger.dropped)} of {ledger.examples} "
        f"examples: {first}; expected each gold passage once: use the corpus that the dataset was made for, or drop "
        "such examples (missing='drop')"
    )
