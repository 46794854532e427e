"""The rows of the ablation table, by their letters in the paper.

A   Baleen: the condenser reads what each hop finds
B   a reranker in its place, which adds the best passage of each hop whole
C   both, side by side
D   A without focused interaction: every query vector counts, in training and in search
E   A without latent hop ordering: hops are ordered by the overlap of titles and texts
F   ColBERT-Hop: B without either
G   A as the model is set: with names followed, which the paper does not do, and no other row does

A, B, C and G are one training run, which makes a condenser and a reranker.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from baleen.errors import ConfigError
from baleen.system import Pipeline
from baleen.training.plan import RunPlan


@dataclass(frozen=True)
class Variant:
    """A training run: with the plan's focus or with none, and how it orders hops."""

    name: str
    focused: bool = True
    order: Literal["latent", "heuristic"] = "latent"

    def of(self, plan: RunPlan, *, reading: bool = True) -> RunPlan:
        """The plan with what this variant changes; without `reading`, of its retriever alone."""
        encoder = plan.retriever.encoder
        if not self.focused:
            encoder = replace(encoder, query_focus=None, facts_focus=None)
        retriever = replace(plan.retriever, order=self.order, encoder=encoder)
        return replace(plan, retriever=retriever, reading=plan.reading if reading else None)


WHOLE = Variant("flipr-latent")
WITHOUT_FOCUS = Variant("maxsim-latent", focused=False)
WITHOUT_ORDER = Variant("flipr-heuristic", order="heuristic")
WITHOUT_EITHER = Variant("maxsim-heuristic", focused=False, order="heuristic")


@dataclass(frozen=True)
class Row:
    """A model of the table; `hops` is set where it takes fewer than the plan has, `named` where it may follow names."""

    letter: str
    title: str
    variant: Variant
    pipeline: Pipeline = "condense"
    hops: int | None = None
    named: bool = False

    @property
    def key(self) -> str:
        """The name of its folder: `A`, or `A-2` for two hops."""
        return self.letter if self.hops is None else f"{self.letter}-{self.hops}"

    @property
    def name(self) -> str:
        return f"{self.letter} {self.title}" if self.hops is None else f"{self.letter} at {self.hops} of its hops"

    def fewer(self, hops: int) -> list[Row]:
        """The same model at every number of hops below this one."""
        return [replace(self, hops=number) for number in range(1, hops)]


ROWS: dict[str, Row] = {
    row.letter: row
    for row in (
        Row("A", "condense", WHOLE),
        Row("B", "rerank", WHOLE, "rerank"),
        Row("C", "hybrid", WHOLE, "hybrid"),
        Row("D", "without FLIPR", WITHOUT_FOCUS),
        Row("E", "without latent hop ordering", WITHOUT_ORDER),
        Row("F", "ColBERT-Hop", WITHOUT_EITHER, "rerank"),
        Row("G", "condense, following names", WHOLE, named=True),
    )
}
PAPER = ("A", "B", "C", "D", "E", "F")


def rows_of(letters: Iterable[str]) -> list[Row]:
    """Rows by their letters, in the order of the table; one that does not exist is a ConfigError."""
    wanted = set(letters)
    unknown = sorted(wanted - ROWS.keys())
    if unknown or not wanted:
        found = f"there is no row '{unknown[0]}'" if unknown else "no row is named"
        raise ConfigError(f"{found}; the rows are {', '.join(ROWS)}")
    return [row for letter, row in ROWS.items() if letter in wanted]
