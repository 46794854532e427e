"""`baleen compare` and `baleen table`: runs that `baleen eval --out` wrote, question by question or side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baleen.cli.options import JsonOption
from baleen.evaluation.results import format_thresholds

if TYPE_CHECKING:
    from baleen.evaluation.evaluate import Stored
    from baleen.evaluation.statistics import Comparison
    from baleen.evaluation.tables import Entry


RunsArgument = Annotated[
    list[str], typer.Argument(metavar="RUN...", help="What 'eval --out' wrote: FILE, or NAME=FILE to name it")
]


def compare(
    first: Annotated[
        Path, typer.Argument(metavar="RUN_A", dir_okay=False, exists=True, help="What 'eval --out' wrote")
    ],
    second: Annotated[Path, typer.Argument(metavar="RUN_B", dir_okay=False, exists=True, help="Another such file")],
    metric: Annotated[
        str | None, typer.Option("--metric", help="Show the questions that differ in it", show_default="all@20")
    ] = None,
    show: Annotated[int, typer.Option("--show", min=0, help="How many of those, best and worst")] = 10,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Permutations and resamplings")] = 10_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of both")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Compare RUN_B with RUN_A: differences, their significance, and the questions that flipped."""
    from baleen.evaluation.evaluate import read_results
    from baleen.evaluation.statistics import compare as compare_results

    ours, theirs = read_results(first), read_results(second)
    comparison = compare_results(ours.results, theirs.results, metric, samples=samples, seed=seed)
    if as_json:
        told = {"first": dict(ours.run), "second": dict(theirs.run), **comparison.to_json()}
        typer.echo(json.dumps(told, ensure_ascii=False))
        return
    typer.echo(f"A: {first} ({_called(ours.run)})\nB: {second} ({_called(theirs.run)})\n")
    typer.echo(_page(comparison, show))


def _called(run: Mapping[str, Any]) -> str:
    """The system of a run, its order where that is not the usual one, and its thresholds where some were given."""
    order = f", ranked by {run['ranked_by']}" if run.get("ranked_by", "hops") != "hops" else ""
    named = f", names raised by {run['mention_boost']:g}" if run.get("mention_boost") else ""
    return f"{run.get('system')}{order}{named}{format_thresholds(run)}"


def _page(comparison: Comparison, show: int) -> str:
    from baleen.evaluation.tables import comparison_table, flips_table

    parts = [comparison_table(comparison)]
    if comparison.only_first or comparison.only_second:
        parts.append(f"left out: {comparison.only_first} questions of A alone, {comparison.only_second} of B alone")
    better = [flip for flip in comparison.flips if flip.after > flip.before]
    worse = [flip for flip in reversed(comparison.flips) if flip.after < flip.before]
    for title, flips in (("better", better), ("worse", worse)):
        parts.append(f"{comparison.metric}: {len(flips)} questions are {title} in B")
        if flips[:show]:
            parts.append(flips_table(flips[:show]))
    return "\n\n".join(parts)


def table(
    runs: RunsArgument,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", help="A column (repeatable)", show_default="those of the dataset")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print several runs in one Markdown table: a row for each, a column for each metric."""
    from baleen.evaluation.tables import entry

    groups: dict[str, list[Entry]] = {}
    for name, stored in read_runs(runs).items():
        groups.setdefault(str(stored.run.get("dataset")), []).append(entry(name, stored.results))
    if as_json:
        told = {dataset: [each.to_json() for each in entries] for dataset, entries in groups.items()}
        typer.echo(json.dumps(told, ensure_ascii=False))
        return
    typer.echo("\n\n".join(_lineup(dataset, entries, metric) for dataset, entries in groups.items()))


def read_runs(arguments: list[str]) -> dict[str, Stored]:
    """Results by the name of the run: the one that is given, or the file's without its ending."""
    from baleen.evaluation.evaluate import read_results

    runs: dict[str, Stored] = {}
    for argument in arguments:
        given, _, rest = argument.rpartition("=")
        path = Path(argument) if Path(argument).is_file() else Path(rest)
        name = path.stem if path == Path(argument) or not given else given
        if name in runs:
            raise typer.BadParameter(f"two runs are called '{name}': name them apart, as in NAME={path}")
        runs[name] = read_results(path)
    return runs


def _lineup(dataset: str, entries: list[Entry], metric: list[str] | None) -> str:
    from baleen.evaluation.tables import columns, hop_numbers, hops_table, lineup_table

    metrics = metric or columns(dataset, entries)
    unknown = [name for name in metrics if not any(name in each.whole.metrics for each in entries)]
    if unknown:
        known = ", ".join(dict.fromkeys(name for each in entries for name in each.whole.metrics))
        raise typer.BadParameter(f"no run over {dataset} has the metric '{unknown[0]}'; they have {known}")
    parts = [dataset, lineup_table(entries, metrics)]
    if len(hop_numbers(entries)) > 1:
        parts.append(hops_table(entries, metrics[0]))
    return "\n\n".join(parts)
