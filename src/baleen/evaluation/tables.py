"""Markdown tables of metrics: one run, several runs side by side, and comparisons of two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from baleen.core.markdown import markdown_table
from baleen.core.records import Record
from baleen.evaluation.datasets import find_dataset
from baleen.evaluation.results import Result
from baleen.evaluation.statistics import Comparison, Flip, Summary, by_hops, summarize


@dataclass(frozen=True, slots=True)
class RunSummary(Record):
    """One run: metrics over all its questions, and over those of each number of hops."""

    name: str
    overall: Summary
    hops: Mapping[int, Summary] = field(default_factory=dict)


def summarize_run(name: str, results: Sequence[Result], samples: int = 0) -> RunSummary:
    """Summarize a run, with intervals from `samples` resamplings (0: none)."""
    return RunSummary(name, summarize(results, samples), by_hops(results, samples))


def columns(dataset: str, runs: Sequence[RunSummary]) -> list[str]:
    """The dataset's table columns that some run has; all@k of the largest k if the runs have other cutoffs."""
    known = list(dict.fromkeys(name for run in runs for name in run.overall.metrics))
    found = [name for name in find_dataset(dataset).columns if name in known]
    if not any("@" in name for name in found):
        found = [name for name in known if name.startswith("all@")][-1:] + found
    return found or known


def hop_numbers(runs: Sequence[RunSummary]) -> list[int]:
    return sorted({number for run in runs for number in run.hops})


def summary_table(overall: Summary, hops: Mapping[int, Summary]) -> str:
    """A row per metric: over all questions, with its interval, and by number of hops."""
    groups = list(hops.items()) if len(hops) > 1 else []
    head = ["metric", f"all ({overall.questions:,})", "95%"]
    head += [f"{number} hops ({group.questions:,})" for number, group in groups]
    rows = [
        [
            name,
            _value(overall, name),
            _interval(overall.intervals.get(name)),
            *(_value(group, name) for _, group in groups),
        ]
        for name in overall.metrics
    ]
    return markdown_table(head, rows)


def _value(summary: Summary, name: str) -> str:
    """A metric, with the number of questions that it applies to unless that is all of them."""
    if name not in summary.metrics:
        return "-"
    count = summary.counts[name]
    return f"{summary.metrics[name]:.1f}" + (f" (of {count:,})" if count < summary.questions else "")


def _interval(bounds: tuple[float, float] | None) -> str:
    return "-" if bounds is None else f"{bounds[0]:.1f} to {bounds[1]:.1f}"


def runs_table(runs: Sequence[RunSummary], metrics: Sequence[str]) -> str:
    """A row per run, a column per metric."""
    rows = [[run.name, f"{run.overall.questions:,}", *(_value(run.overall, name) for name in metrics)] for run in runs]
    return markdown_table(["run", "questions", *metrics], rows)


def hops_table(runs: Sequence[RunSummary], metric: str) -> str:
    """A row per run: one metric over all questions and by number of hops."""
    numbers = hop_numbers(runs)
    groups = {run.name: [run.overall, *(run.hops.get(number, Summary(0)) for number in numbers)] for run in runs}
    rows = [[name, *(_value(group, metric) for group in own)] for name, own in groups.items()]
    return markdown_table([f"run, {metric}", "all", *(f"{number} hops" for number in numbers)], rows)


def comparison_table(comparison: Comparison) -> str:
    """A row per metric that both runs have."""
    head = ["metric", "A", "B", "B - A", "95%", "p", "questions"]
    rows = [
        [
            name, f"{each.first:.1f}", f"{each.second:.1f}", f"{each.difference:+.1f}", _interval(each.interval),
            f"{each.p:.4f}", f"{each.questions:,}",
        ]
        for name, each in comparison.differences.items()
    ]  # fmt: skip
    return markdown_table(head, rows)


def flips_table(flips: Sequence[Flip]) -> str:
    """A row per question: for each run the ranks of the gold passages, and its verdict or answer."""
    head = ["question", "gold", "A", "B", "text"]
    rows = [[flip.qid, flip.gold, flip.first, flip.second, _shortened(flip.text)] for flip in flips]
    return markdown_table(head, rows)


def _shortened(text: str, length: int = 100) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= length else flat[:length].rstrip() + " …"
