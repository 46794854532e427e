"""Figures as Markdown tables.

Several runs over one dataset side by side: which metrics stand in their table, and which one counts most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from baleen.core.records import Record
from baleen.evaluation.results import Result
from baleen.evaluation.statistics import Comparison, Flip, Summary, by_hops, summarize

_EVIDENCE = ("passage_em", "passage_f1", "sentence_em", "sentence_f1")
_CLAIMS = (*_EVIDENCE, "label_accuracy")
_QUESTIONS = (*_EVIDENCE, "answer_em", "answer_f1")
# The columns of each dataset's table, as papers have them; the first is the one that counts.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "hover": ("retrieval@100", "all@100", "all@20", *_CLAIMS, "hover_score"),
    "hotpotqa": ("passage_recall@20", "answer_recall@20", *_QUESTIONS, "joint_em", "joint_f1"),
    "exfever": ("all@100", "all@20", *_CLAIMS),
    "2wiki": ("mean@5", "mean@2", "all@20", *_QUESTIONS),
    "musique": ("mean@5", "mean@2", "all@20", *_QUESTIONS),
}
OTHERS = ("all@20", "all@100", "mean@5", *_CLAIMS, "answer_em", "answer_f1")


@dataclass(frozen=True, slots=True)
class RunSummary(Record):
    """A run of the table: all its questions, and those of each number of hops."""

    name: str
    whole: Summary
    hops: Mapping[int, Summary] = field(default_factory=dict)


def summarize_run(name: str, results: Sequence[Result], samples: int = 0) -> RunSummary:
    """With intervals of `samples` resamplings, or without any."""
    return RunSummary(name, summarize(results, samples), by_hops(results, samples))


def columns(dataset: str, entries: Sequence[RunSummary]) -> list[str]:
    """The metrics of a dataset's table that some run has; of rankings with other cutoffs, recall at the deepest."""
    known = list(dict.fromkeys(name for each in entries for name in each.whole.metrics))
    found = [name for name in COLUMNS.get(dataset, OTHERS) if name in known]
    if not any("@" in name for name in found):
        found = [name for name in known if name.startswith("all@")][-1:] + found
    return found or known


def hop_numbers(entries: Sequence[RunSummary]) -> list[int]:
    return sorted({number for each in entries for number in each.hops})


EMPTY = Summary(0)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def summary_table(whole: Summary, hops: Mapping[int, Summary]) -> str:
    """A row for each metric: all questions with the interval, then those of each number of hops."""
    groups = list(hops.items()) if len(hops) > 1 else []
    head = ["metric", f"all ({whole.questions:,})", "95%"]
    head += [f"{number} hops ({group.questions:,})" for number, group in groups]
    rows = [
        [name, _value(whole, name), _interval(whole.intervals.get(name)), *(_value(group, name) for _, group in groups)]
        for name in whole.metrics
    ]
    return table(head, rows)


def _value(summary: Summary, name: str) -> str:
    """A figure, and over how many questions where those are not all."""
    if name not in summary.metrics:
        return "-"
    count = summary.counts[name]
    return f"{summary.metrics[name]:.1f}" + (f" (of {count:,})" if count < summary.questions else "")


def _interval(bounds: tuple[float, float] | None) -> str:
    return "-" if bounds is None else f"{bounds[0]:.1f} to {bounds[1]:.1f}"


def runs_table(entries: Sequence[RunSummary], metrics: Sequence[str]) -> str:
    """A row for each run, a column for each metric."""
    rows = [
        [each.name, f"{each.whole.questions:,}", *(_value(each.whole, name) for name in metrics)] for each in entries
    ]
    return table(["run", "questions", *metrics], rows)


def hops_table(entries: Sequence[RunSummary], metric: str) -> str:
    """A row for each run, and one metric over all questions and over those of each number of hops."""
    numbers = hop_numbers(entries)
    rows = [
        [each.name, *(_value(group, metric) for group in (each.whole, *(each.hops.get(n, EMPTY) for n in numbers)))]
        for each in entries
    ]
    return table([f"run, {metric}", "all", *(f"{number} hops" for number in numbers)], rows)


def comparison_table(comparison: Comparison) -> str:
    """A row for each metric that both runs have."""
    head = ["metric", "A", "B", "B - A", "95%", "p", "questions"]
    rows = [
        [
            name, f"{each.first:.1f}", f"{each.second:.1f}", f"{each.difference:+.1f}", _interval(each.interval),
            f"{each.p:.4f}", f"{each.questions:,}",
        ]
        for name, each in comparison.differences.items()
    ]  # fmt: skip
    return table(head, rows)


def flips_table(flips: Sequence[Flip]) -> str:
    """Questions side by side: the ranks of their gold passages, and what either run said."""
    head = ["question", "gold", "A", "B", "text"]
    rows = [[flip.qid, flip.gold, flip.first, flip.second, _shortened(flip.text)] for flip in flips]
    return table(head, rows)


def _shortened(text: str, length: int = 100) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= length else flat[:length].rstrip() + " …"
