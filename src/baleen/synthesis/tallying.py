"""Counts of synthesized claims and questions by hops, kind and form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from baleen.core.markdown import markdown_table
from baleen.data.example import NOT_ENOUGH, REFUTED, SUPPORTED
from baleen.synthesis.synthesizing import Claim

QUESTION, YES_NO = "question", "yes/no question"
_FORMS = (SUPPORTED, REFUTED, NOT_ENOUGH, QUESTION, YES_NO)


@dataclass
class Tallied:
    """Counts by (hops, kind, form); a form is a claim's label or a kind of question."""

    cells: Counter[tuple[int, str, str]] = field(default_factory=Counter)

    def counting(self, claims: Iterable[Claim]) -> Iterator[Claim]:
        """Yield the claims and count them."""
        for claim in claims:
            self.cells[claim.hops, claim.kind, _form(claim)] += 1
            yield claim

    @property
    def total(self) -> int:
        return self.cells.total()

    def counts(self) -> dict[str, dict[str, int]]:
        """Totals by hops, by kind and by form."""
        sums: dict[str, Counter[str]] = {"hops": Counter(), "kind": Counter(), "form": Counter()}
        for (hops, kind, form), count in sorted(self.cells.items()):
            for name, value in (("hops", str(hops)), ("kind", kind), ("form", form)):
                sums[name][value] += count
        return {name: dict(counts) for name, counts in sums.items()}

    def table(self) -> str:
        """Markdown: a row per number of hops and kind, a column per form."""
        rows = sorted({(hops, kind) for hops, kind, _ in self.cells})
        cells = [_row(str(hops), kind, [self.cells[hops, kind, form] for form in _FORMS]) for hops, kind in rows]
        sums = [sum(self.cells[hops, kind, form] for hops, kind in rows) for form in _FORMS]
        return markdown_table(["hops", "kind", *_FORMS, "all"], [*cells, _row("all", "", sums)])


def _row(hops: str, kind: str, counts: list[int]) -> list[str]:
    return [hops, kind, *(f"{count:,}" for count in [*counts, sum(counts)])]


def _form(claim: Claim) -> str:
    if claim.label is not None:
        return claim.label
    return YES_NO if claim.answer in {"yes", "no"} else QUESTION
