"""`baleen compare` and `baleen table`: compare results of `baleen eval --out`, in pairs or in one table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baleen.cli.options import JsonOption
from baleen.evaluation.results import format_thresholds

if TYPE_CHECKING:
    from baleen.evaluation.evaluate import StoredResults
    from baleen.evaluation.statistics import Comparison
    from baleen.evaluation.tables import RunSummary


RunsArgument = Annotated[
    list[str],
    typer.Argument(metavar="RUN", help="Results files of 'eval --out': FILE, or NAME=FILE to name the row."),
]


def compare(
    first: Annotated[
        Path, typer.Argument(metavar="RUN_A", dir_okay=False, exists=True, help="Results file of 'eval --out'.")
    ],
    second: Annotated[Path, typer.Argument(metavar="RUN_B", dir_okay=False, exists=True, help="Second results file.")],
    *,
    metric: Annotated[
        str | None, typer.Option("--metric", help="Metric to list differing questions by.", show_default="all@20")
    ] = None,
    show: Annotated[int, typer.Option("--show", min=0, help="Questions to list, best and worst.")] = 10,
    samples: Annotated[
        int, typer.Option("--samples", min=1, help="Permutations of the test, and resamples of the intervals.")
    ] = 10_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Random seed.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Compare RUN_B with RUN_A: differences, significance, and the questions that changed."""
    from baleen.evaluation.evaluate import read_results
    from baleen.evaluation.statistics import compare as compare_results

    ours, theirs = read_results(first), read_results(second)
    comparison = compare_results(ours.results, theirs.results, metric, samples=samples, seed=seed)
    if as_json:
        document = {"first": dict(ours.run), "second": dict(theirs.run), **comparison.to_json()}
        typer.echo(json.dumps(document, ensure_ascii=False))
        return
    typer.echo(f"A: {first} ({_label(ours.run)})\nB: {second} ({_label(theirs.run)})\n")
    typer.echo(_page(comparison, show))


def _label(run: Mapping[str, Any]) -> str:
    """The system of a run, with its order, mention boost and thresholds if they are not the defaults."""
    order = f", ranked by {run['ranked_by']}" if run.get("ranked_by", "hops") != "hops" else ""
    named = f", mention boost {run['mention_boost']:g}" if run.get("mention_boost") else ""
    return f"{run.get('system')}{order}{named}{format_thresholds(run)}"


def _page(comparison: Comparison, show: int) -> str:
    from baleen.evaluation.tables import comparison_table, flips_table

    parts = [comparison_table(comparison)]
    if comparison.only_first or comparison.only_second:
        parts.append(f"not compared: {comparison.only_first} questions of A alone, {comparison.only_second} of B alone")
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
        list[str] | None,
        typer.Option("--metric", help="Metric to show as a column (repeatable).", show_default="those of the dataset"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print runs as a Markdown table: a row per run, a column per metric."""
    from baleen.evaluation.tables import summarize_run

    groups: dict[str, list[RunSummary]] = {}
    for name, stored in read_runs(runs).items():
        groups.setdefault(str(stored.run.get("dataset")), []).append(summarize_run(name, stored.results))
    if as_json:
        document = {dataset: [each.to_json() for each in entries] for dataset, entries in groups.items()}
        typer.echo(json.dumps(document, ensure_ascii=False))
        return
    typer.echo("\n\n".join(_table(dataset, entries, metric) for dataset, entries in groups.items()))


def read_runs(arguments: list[str]) -> dict[str, StoredResults]:
    """Read results by name: the given one, or the file's stem."""
    from baleen.evaluation.evaluate import read_results

    runs: dict[str, StoredResults] = {}
    for argument in arguments:
        given, _, rest = argument.rpartition("=")
        path = Path(argument) if Path(argument).is_file() else Path(rest)
        name = path.stem if path == Path(argument) or not given else given
        if name in runs:
            raise typer.BadParameter(f"two runs are named '{name}'; name them apart, as in NAME={path}")
        runs[name] = read_results(path)
    return runs


def _table(dataset: str, entries: list[RunSummary], metric: list[str] | None) -> str:
    from baleen.evaluation.tables import columns, hop_numbers, hops_table, runs_table

    metrics = metric or columns(dataset, entries)
    unknown = [name for name in metrics if not any(name in each.overall.metrics for each in entries)]
    if unknown:
        known = ", ".join(dict.fromkeys(name for each in entries for name in each.overall.metrics))
        raise typer.BadParameter(f"no run over {dataset} has the metric '{unknown[0]}'; they have {known}")
    parts = [dataset, runs_table(entries, metrics)]
    if len(hop_numbers(entries)) > 1:
        parts.append(hops_table(entries, metrics[0]))
    return "\n\n".join(parts)
