"""`baleen train`: a whole run from a plan, or what a run inferred of one question."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from baleen.cli.options import DeviceOption, JsonOption


def train(
    plan: Annotated[Path, typer.Argument(metavar="CONFIG", help="A plan, TOML; or, with --explain, a run's folder")],
    question: Annotated[str | None, typer.Argument(metavar="[QID]", help="With --explain, a question's id")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The run's folder", show_default="the plan's name without .toml")
    ] = None,
    stage: Annotated[str | None, typer.Option("--stage", help="Start anew at this stage")] = None,
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="Go on where a run of the same plan stood")
    ] = True,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the order of hops that a run inferred for a question")
    ] = False,
    device: DeviceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train every component as CONFIG says, or explain what a run inferred."""
    if explain != (question is not None):
        raise typer.BadParameter("--explain takes a run's folder and a question's id: baleen train --explain RUN QID")
    if explain and question is not None:
        _explain(plan, question, as_json)
        return
    from baleen.errors import TrainingError
    from baleen.training.plan import read_plan
    from baleen.training.run import train as run

    settings, folder = read_plan(plan), out or plan.with_suffix("")
    if not resume and stage is None and (folder / "plan.json").exists():
        raise TrainingError(f"{folder}: holds a run already: resume it, or choose another folder with --out")
    reports = run(settings, folder, stage=stage, device=device)
    typer.echo(json.dumps(reports) if as_json else _table(reports))


def _table(reports: dict[str, dict[str, Any]]) -> str:
    lines = ["| stage | seconds | what came out |", "| --- | --- | --- |"]
    for stage, report in reports.items():
        told = ", ".join(f"{key} {_short(value)}" for key, value in report.items() if key != "seconds")
        lines.append(f"| {stage} | {report['seconds']:.0f} | {told} |")
    return "\n".join(lines)


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return "; ".join(_short(each) for each in value)
    if isinstance(value, dict):
        return " ".join(f"{key} {_short(each)}" for key, each in value.items())
    return str(value)


def _explain(folder: Path, question: str, as_json: bool) -> None:
    from baleen.training.run import explain

    lines = explain(folder, question)
    if as_json:
        typer.echo(json.dumps([line.to_json() for line in lines], ensure_ascii=False))
        return
    typer.echo(lines[0].text)
    for line in lines:
        typer.echo(f"\nHop {line.hop}" + ("  (beyond the depth)" if line.fallback else ""))
        for found in line.found:
            typer.echo(f"  {found.title}  [{found.pid}]  rank {found.rank if found.rank is not None else '-'}")
        for fact in line.facts:
            typer.echo(f"    + {fact.title} | {fact.text}")
        if line.remaining:
            typer.echo(f"  still to be found: {', '.join(line.remaining)}")
