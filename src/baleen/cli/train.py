"""`baleen train`: run a training plan, or explain the hops inferred for a question.  `baleen init`: an untrained model."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baleen.cli.options import DeviceOption, JsonOption, OverwriteOption, refuse_existing_model

if TYPE_CHECKING:
    from baleen.training.hop_order.report import HopReport


def train(
    plan: Annotated[
        Path, typer.Argument(metavar="PLAN", help="Training plan, TOML; with --explain the folder of a run.")
    ],
    question: Annotated[str | None, typer.Argument(metavar="QID", help="With --explain, the id of a question.")] = None,
    *,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of the run.", show_default="the plan without .toml")
    ] = None,
    stage: Annotated[str | None, typer.Option("--stage", help="Repeat this stage and those after it.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="Resume an earlier run of the same plan.")
    ] = True,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the order of hops that a run inferred for a question.")
    ] = False,
    device: DeviceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train a whole model as PLAN says, or explain the hops inferred for a question."""
    if explain != (question is not None):
        raise typer.BadParameter(
            "--explain needs the folder of a run and the id of a question: baleen train --explain RUN QID"
        )
    if explain and question is not None:
        _explain(plan, question, as_json)
        return
    folder = out or plan.with_suffix("")
    if folder == plan:
        raise typer.BadParameter(f"{plan} has no suffix to leave out for the folder of its run: use --out")
    first = _silence_others()
    summary = _run(plan, folder, stage, resume or not first, device)
    if not first:
        return
    if as_json:
        typer.echo(json.dumps(summary, ensure_ascii=False))
    else:
        _show(summary, folder)


def _silence_others() -> bool:
    """Silence all but the first of the processes that torchrun started; return whether this is the first."""
    from baleen.training.loop.distributed import is_first

    if not is_first():
        logging.getLogger("baleen").setLevel(logging.ERROR)
        os.environ["BALEEN_QUIET"] = "1"
    return is_first()


def _run(plan: Path, folder: Path, stage: str | None, resume: bool, device: str | None) -> dict[str, Any]:
    from baleen.core.errors import TrainingError
    from baleen.training.plan import read_plan
    from baleen.training.run import train as run

    settings = read_plan(plan)
    if not resume and stage is None and (folder / "plan.json").exists():
        raise TrainingError(f"{folder}: holds a run already; resume it, or choose another folder with --out")
    return run(settings, folder, stage=stage, device=device)


def _show(summary: dict[str, Any], folder: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from baleen.training.stages import format_duration

    table = Table("stage", "time", "records", "result", box=None, header_style="bold", pad_edge=False)
    table.columns[1].justify = table.columns[2].justify = "right"
    for stage, report in summary["stages"].items():
        count = count_records(report)
        table.add_row(
            stage,
            format_duration(report["seconds"]),
            "" if count is None else f"{count:,}",
            "\n".join(format_report(report)),
        )
    console = Console(soft_wrap=False)
    console.print(table)
    for other, found in summary["agreement"].items():
        console.print(f"\n{format_agreement(other, found)}", highlight=False)
    for line in format_sentence_agreement(summary.get("sentence_agreement", {})):
        console.print(f"\n{line}", highlight=False)
    console.print(f"\nThe model is in {folder / 'model'}", highlight=False, soft_wrap=True)


def count_records(report: dict[str, Any]) -> int | None:
    """The number of records that a stage trained on or made."""
    if "hops" in report:
        return int(report["claims"])
    found = next((report[key] for key in ("records", "queries", "sentences") if key in report), None)
    return sum(found.values()) if isinstance(found, dict) else found


def format_report(report: dict[str, Any]) -> list[str]:
    """Format the report of a stage as lines."""
    lines = _results(report)
    if report.get("mining_seconds"):
        parts = {"tokenise": "tokenised", "encode": "encoded", "search": "searched"}
        lines.append(
            ", ".join(f"{parts.get(part, part)} in {each:,.1f} s" for part, each in report["mining_seconds"].items())
        )
    return lines


def _results(report: dict[str, Any]) -> list[str]:
    if "hops" in report:
        return _hop(report)
    if "components" in report:
        return [", ".join(report["components"])]
    if "backbone" in report:
        return [report["backbone"]]
    if report.get("trained") == [] or report.get("records") == 0:
        return ["nothing to train on"]
    lines = _trained(report) if "steps" in report else [f"{report['ready']}, as it is"] if "ready" in report else []
    for dataset, reached in _reached(report).items():
        shares = " ".join(f"{100 * each['all_found']:.1f}" for each in reached)
        lines.append(f"dev {dataset}: all gold passages found of {shares} % after each hop")
    lines += [f"dev {line}" for line in _measured(report.get("dev", {}))]
    return lines or [f"{name} {_short(report[name])}" for name in ("queries", "sentences") if name in report]


def _trained(report: dict[str, Any]) -> list[str]:
    lines = [f"{report['steps']:,} steps, loss {report['loss']:.4g} at the last"]
    if "steps_per_second" in report:
        used = report["utilisation"]
        lines.append(
            f"{report['steps_per_second']:.1f} steps/s, {report['tokens_per_second']:,.0f} tokens/s, "
            f"{100 * report['padding']:.1f} % padding" + ("" if used is None else f", {100 * used:.1f} % utilisation")
        )
    return lines


def _hop(report: dict[str, Any]) -> list[str]:
    if not report["hops"]:
        return ["no question gets here"]
    (hop,) = report["hops"]
    rank = "not ranked" if hop["median_rank"] is None else f"median rank {hop['median_rank']:g}"
    first = f"{hop['golds']:,} of {report['golds']:,} gold passages found, {rank}"
    return [first, f"{hop['facts']:,} facts, {hop['fallbacks']:,} beyond the depth, {hop['without']:,} found none"]


def _reached(report: dict[str, Any]) -> dict[str, Any]:
    return {key.removeprefix("dev "): value for key, value in report.items() if key.startswith("dev ")}


def _measured(dev: dict[str, float]) -> list[str]:
    """The measures of each head in a line; the head's summary metric by its own name."""
    names = {"reranker_metric": "first", "verifier_metric": "accuracy", "answerer_metric": "f1", "facts_metric": "f1"}
    lines: dict[str, list[str]] = {}
    for name, value in dev.items():
        head, _, what = name.partition("_")
        what = names.get(name, what)
        if what not in ("", "metric"):
            lines.setdefault(head, []).append(f"{what} {value:.3f}")
    return [f"{head}: {', '.join(values)}" for head, values in lines.items()]


def format_agreement(other: str, found: dict[str, int]) -> str:
    """Format how the inferred order of hops agrees with another one."""
    share = f"{100 * found['same_pairs'] / max(1, found['pairs']):.1f} %"
    return (
        f"Agreement with the {other} order: {found['identical']:,} of {found['claims']:,} questions have the same hops, "
        f"and {share} of {found['pairs']:,} pairs of gold passages the same order."
    )


def format_sentence_agreement(found: dict[str, dict[str, int]]) -> list[str]:
    """Format how inferred sentences agree with gold ones, a line for each part of the questions."""
    return [
        f"{part}, {each['passages']:,} gold passages with gold sentences: the inferred sentence is gold in "
        f"{_share(each, 'inferred')}, the best by words in {_share(each, 'likely')}, the first in {_share(each, 'first')}."
        for part, each in found.items()
        if each["passages"]
    ]


def _share(found: dict[str, int], part: str) -> str:
    return f"{100 * found[part] / found['passages']:.1f} %"


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return " and ".join(f"{_short(each)} of {key}" for key, each in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)


def _explain(folder: Path, question: str, as_json: bool) -> None:
    from baleen.training.run import explain

    lines = explain(folder, question)
    if as_json:
        typer.echo(json.dumps([line.to_json() for line in lines], ensure_ascii=False))
        return
    typer.echo(f"{lines[0].text}   [{lines[0].qid}]")
    for line in lines:
        _explain_hop(line)


def _explain_hop(line: HopReport) -> None:
    typer.echo(f"\nHop {line.hop}" + ("  (beyond the depth)" if line.fallback else ""))
    for found in line.found:
        typer.echo(f"  {found.title}  [{found.pid}]  {'not ranked' if found.rank is None else f'rank {found.rank}'}")
    for fact in line.facts:
        typer.echo(f"    + {fact.title} | {fact.text}")
    if not line.found:
        typer.echo("  nothing found")
    if line.remaining:
        typer.echo(f"  not found yet: {', '.join(line.remaining)}")


SAMPLE = 2_000


def init(
    backbone: Annotated[
        str | None,
        typer.Argument(
            metavar="BACKBONE", help="Folder or name of a Hugging Face encoder.", show_default="a small one"
        ),
    ] = None,
    *,
    cross_encoder: Annotated[
        str | None,
        typer.Option("--cross-encoder", help="Encoder for condenser and readers; with it a whole model is made."),
    ] = None,
    corpus: Annotated[
        list[Path] | None,
        typer.Option(
            "--corpus",
            help="Collections that the projection is fitted to (repeatable).",
            show_default="the demonstration corpus",
        ),
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Passages of --corpus to sample.", show_default=f"{SAMPLE:,}")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed of the sample.", show_default="0")] = None,
    dim: Annotated[int, typer.Option(min=1, help="Embedding dimension.")] = 128,
    out: Annotated[Path, typer.Option("--out", help="Model folder.")] = Path("checkpoints/flipr-untrained"),
    overwrite: OverwriteOption = False,
) -> None:
    """Make an untrained encoder or model from BACKBONE, as a starting point for training."""
    from baleen.core.progress import track
    from baleen.data.corpus import read_passages, sample_passages
    from baleen.hops.demo import untrained_encoder, write_whole
    from baleen.models.checkpoint import refuse_whole_model

    if not corpus and not (sample is None and seed is None):
        raise typer.BadParameter("--sample and --seed are for passages of --corpus, which is missing")
    if cross_encoder is None:
        refuse_whole_model(out)
    refuse_existing_model(out, overwrite)
    passages = None
    if corpus:
        every = track(read_passages(corpus), "sampling", unit="passages")
        passages = sample_passages(every, sample or SAMPLE, seed or 0)
    encoder = untrained_encoder(backbone, passages, dim)
    if cross_encoder is None:
        encoder.save(out)
    else:
        write_whole(out, encoder, cross_encoder)
    typer.echo(str(out))
