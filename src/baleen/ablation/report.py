"""What an ablation came to: for each file of questions its rows side by side, fewer hops, and words of context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from baleen.ablation.plan import Questions
from baleen.ablation.rows import Row
from baleen.evaluation.curves import words_after_hops
from baleen.evaluation.lineup import Entry, columns, entry
from baleen.evaluation.prediction import Result
from baleen.evaluation.summary import SAMPLES
from baleen.evaluation.tables import hops_table, lineup_table, table


@dataclass(frozen=True, eq=False)
class Evaluated:
    """A file of questions, and what each row that is done made of it."""

    questions: Questions
    passages: int
    results: Mapping[Row, Sequence[Result]]

    @cached_property
    def entries(self) -> dict[Row, Entry]:
        return {row: entry(row.name, results, SAMPLES) for row, results in self.results.items()}

    @property
    def whole(self) -> dict[Row, Entry]:
        """The rows of the table."""
        return {row: each for row, each in self.entries.items() if row.hops is None}

    @property
    def by_hops_taken(self) -> dict[Row, Entry]:
        """The first model at each number of hops, its own last; none where it was not evaluated at fewer."""
        fewer = {row: each for row, each in self.entries.items() if row.hops is not None}
        letters = {row.letter for row in fewer}
        return fewer | {row: each for row, each in self.whole.items() if row.letter in letters}

    @property
    def metrics(self) -> list[str]:
        """The columns of the table; the first is the one that counts."""
        return columns(self.questions.dataset, list(self.whole.values()))

    def words(self, row: Row) -> list[float]:
        """Mean words of context after each hop."""
        return [words for _, words in words_after_hops(self.results[row])]


def document(evaluated: Sequence[Evaluated]) -> dict[str, Any]:
    """All of it, as JSON holds it."""
    return {"questions": [_told(each) for each in evaluated if each.whole]}


def _told(each: Evaluated) -> dict[str, Any]:
    asked = each.questions
    return {
        "name": asked.name, "dataset": asked.dataset, "file": asked.file, "collection": asked.collection,
        "passages": each.passages, "metric": each.metrics[0], "columns": each.metrics,
        "rows": [_row(each, row) for row in each.whole],
        "hops_taken": [_row(each, row) for row in each.by_hops_taken],
    }  # fmt: skip


def _row(each: Evaluated, row: Row) -> dict[str, Any]:
    found = each.entries[row]
    return {
        "row": row.letter, "name": row.name, "pipeline": row.pipeline, "trained": row.variant.name,
        "words": each.words(row), "hops_taken": len(each.words(row)), **found.whole.to_json(),
        "by_hops": {str(number): group.to_json() for number, group in found.hops.items()},
    }  # fmt: skip


def page(evaluated: Sequence[Evaluated]) -> str:
    """All of it, as Markdown."""
    return "\n\n".join(_section(each) for each in evaluated if each.whole)


def _section(each: Evaluated) -> str:
    asked, metric = each.questions, each.metrics[0]
    parts = [
        f"## {asked.dataset} ({asked.file}), {each.passages:,} passages",
        hops_table(list(each.whole.values()), metric),
        lineup_table(list(each.whole.values()), each.metrics),
    ]
    if each.by_hops_taken:
        parts += ["The first model at fewer hops:", hops_table(list(each.by_hops_taken.values()), metric)]
    return "\n\n".join([*parts, "Words of context after each hop:", _context(each)])


def _context(each: Evaluated) -> str:
    words = {row: each.words(row) for row in each.whole}
    hops = range(max(map(len, words.values())))
    rows = [[row.name, *(f"{own[hop]:.1f}" if hop < len(own) else "-" for hop in hops)] for row, own in words.items()]
    return table(["run", *(f"hop {hop + 1}" for hop in hops)], rows)
