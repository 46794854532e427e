"""`baleen train`: a whole run from a plan, or what a run inferred of one question.

`baleen init`: an untrained model to start from.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baleen.cli.options import DeviceOption, JsonOption, OverwriteOption, refuse_there

if TYPE_CHECKING:
    from baleen.training.hop_order.report import HopReport


def train(
    plan: Annotated[Path, typer.Argument(metavar="CONFIG", help="A plan, TOML; or, with --explain, a run's folder")],
    question: Annotated[str | None, typer.Argument(metavar="QID", help="With --explain, a question's id")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The run's folder", show_default="the plan's name without .toml")
    ] = None,
    stage: Annotated[str | None, typer.Option("--stage", help="Do this stage and those after it anew")] = None,
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
    folder = out or plan.with_suffix("")
    if folder == plan:
        raise typer.BadParameter(f"the run of {plan} needs a folder, as its name has no ending to leave out: use --out")
    first = _alone_or_first()
    summary = _run(plan, folder, stage, resume or not first, device)
    if not first:
        return
    if as_json:
        typer.echo(json.dumps(summary, ensure_ascii=False))
    else:
        _show(summary, folder)


def _alone_or_first() -> bool:
    """Whether this process talks: of several that torchrun started, the first; the others are silent from here on."""
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
        raise TrainingError(f"{folder}: holds a run already: resume it, or choose another folder with --out")
    return run(settings, folder, stage=stage, device=device)


def _show(summary: dict[str, Any], folder: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from baleen.training.stages import format_duration

    table = Table("stage", "time", "records", "what it came to", box=None, header_style="bold", pad_edge=False)
    table.columns[1].justify = table.columns[2].justify = "right"
    for stage, report in summary["stages"].items():
        count = records_of(report)
        table.add_row(
            stage, format_duration(report["seconds"]), "" if count is None else f"{count:,}", "\n".join(told(report))
        )
    console = Console(soft_wrap=False)
    console.print(table)
    for other, found in summary["agreement"].items():
        console.print(f"\n{agreed(other, found)}", highlight=False)
    for line in sentences_agreed(summary.get("sentence_agreement", {})):
        console.print(f"\n{line}", highlight=False)
    console.print(f"\nThe model is in {folder / 'model'}", highlight=False, soft_wrap=True)


def records_of(report: dict[str, Any]) -> int | None:
    """How many records a stage trained on or made: questions of a hop, queries ranked, sentences scored."""
    if "hops" in report:
        return int(report["claims"])
    found = next((report[key] for key in ("records", "queries", "sentences") if key in report), None)
    return sum(found.values()) if isinstance(found, dict) else found


def told(report: dict[str, Any]) -> list[str]:
    """What a stage came to, in lines for a person."""
    lines = _came_to(report)
    if report.get("mining_seconds"):
        parts = {"tokenise": "tokenised", "encode": "encoded", "search": "searched"}
        lines.append(
            ", ".join(f"{parts.get(part, part)} in {each:,.1f} s" for part, each in report["mining_seconds"].items())
        )
    return lines


def _came_to(report: dict[str, Any]) -> list[str]:
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
    """The measures of each head in a line, without the one that stands for them."""
    alone = {"reranker_metric": "first", "verifier_metric": "accuracy", "answerer_metric": "f1", "facts_metric": "f1"}
    lines: dict[str, list[str]] = {}
    for name, value in dev.items():
        head, _, what = name.partition("_")
        what = alone.get(name, what)
        if what not in ("", "metric"):
            lines.setdefault(head, []).append(f"{what} {value:.3f}")
    return [f"{head}: {', '.join(values)}" for head, values in lines.items()]


def agreed(other: str, found: dict[str, int]) -> str:
    """How the latent order compares with another one, in a line."""
    share = f"{100 * found['same_pairs'] / max(1, found['pairs']):.1f} %"
    return (
        f"Beside the {other} order: {found['identical']:,} of {found['claims']:,} questions have the same hops, "
        f"and {share} of {found['pairs']:,} pairs of gold passages stand the same way."
    )


def sentences_agreed(found: dict[str, dict[str, int]]) -> list[str]:
    """How inferred sentences compare with gold ones, a line for each part of the questions that has some."""
    return [
        f"Of {each['passages']:,} gold passages of {part} whose sentences are known, the sentence inferred is gold of "
        f"{_share(each, 'inferred')}, the likeliest by its words of {_share(each, 'likely')}, the first one of "
        f"{_share(each, 'first')}."
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
        typer.echo(f"  still to be found: {', '.join(line.remaining)}")


SAMPLE = 2_000


def init(
    backbone: Annotated[
        str | None, typer.Argument(help="A Hugging Face encoder's folder or name", show_default="a small one")
    ] = None,
    cross_encoder: Annotated[
        str | None,
        typer.Option("--cross-encoder", help="Another, to read passages with: its untrained heads make a whole model"),
    ] = None,
    corpus: Annotated[
        list[Path] | None,
        typer.Option("--corpus", help="Collections that the projection is fitted to (repeatable)", show_default="ours"),
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="So many of their passages", show_default=f"{SAMPLE:,}")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of that sample", show_default="0")] = None,
    dim: Annotated[int, typer.Option(min=1, help="Of the vectors")] = 128,
    out: Annotated[Path, typer.Option("--out", help="The model's folder")] = Path("checkpoints/flipr-untrained"),
    overwrite: OverwriteOption = False,
) -> None:
    """Make an untrained encoder of a BACKBONE: a starting point for training that already retrieves."""
    from baleen.core.progress import track
    from baleen.data.corpus import read_passages as read
    from baleen.data.corpus import sample_passages as sampled
    from baleen.hops.demo import untrained_encoder as untrained
    from baleen.hops.demo import write_whole
    from baleen.models.checkpoint import refuse_whole_model as refuse_model

    if not corpus and not (sample is None and seed is None):
        raise typer.BadParameter("--sample and --seed are of the passages of --corpus, and none is named")
    if cross_encoder is None:
        refuse_model(out)
    refuse_there(out, overwrite)
    passages = (
        sampled(track(read(corpus), "sampling", unit="passages"), sample or SAMPLE, seed or 0) if corpus else None
    )
    encoder = untrained(backbone, passages, dim)
    if cross_encoder is None:
        encoder.save(out)
    else:
        write_whole(out, encoder, cross_encoder)
    typer.echo(str(out))
