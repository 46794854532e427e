"""`baleen eval`: a system, a baseline or somebody's run over the questions of a dataset."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baleen.cli.contenders import Asked, open_contender
from baleen.cli.hops import (
    DepthsOption,
    HopsOption,
    NamedBonusOption,
    PipelineOption,
    RankedByOption,
    StandInOption,
    StopEarlyOption,
    ThresholdOption,
    run_options,
)
from baleen.cli.options import DeviceOption, IndexOption, JsonOption, ModelOption, PrecisionOption, ThreadsOption
from baleen.results import refuse_packed

if TYPE_CHECKING:
    from baleen.datasets import Example, GoldReport
    from baleen.evaluation.contender import Contender
    from baleen.evaluation.prediction import Result

log = logging.getLogger(__name__)

SUBMITTED = ("hover", "hotpotqa")


class Missing(StrEnum):
    fail, drop = "fail", "drop"


class BaselineName(StrEnum):
    bm25, dense, colbert, rerank, colbert_hop = "bm25", "dense", "colbert", "rerank", "colbert-hop"


@dataclass(frozen=True)
class Outputs:
    """Where results go, beside standard output."""

    out: Path | None
    submission: Path | None
    write_run: Path | None
    write_qrels: Path | None

    def __post_init__(self) -> None:
        for path in (self.out, self.submission, self.write_run, self.write_qrels):
            if path is not None and not path.parent.is_dir():
                raise typer.BadParameter(f"{path}: there is no folder {path.parent}")
        for path in (self.out, self.submission):
            if path is not None:
                refuse_packed(path)


def evaluate(
    dataset: Annotated[str, typer.Argument(help="hover, hotpotqa, 2wiki, musique, exfever or own")],
    file: Annotated[Path, typer.Argument(help="Its questions or claims; with 'own' also a BEIR folder")],
    index: IndexOption = None,
    model: ModelOption = None,
    hops: HopsOption = None,
    k: DepthsOption = None,
    pipeline: PipelineOption = None,
    stop_early: StopEarlyOption = None,
    stand_in: StandInOption = None,
    threshold: ThresholdOption = None,
    ranked_by: RankedByOption = None,
    named_bonus: NamedBonusOption = None,
    corpus: Annotated[
        list[Path] | None, typer.Option("--corpus", help="Collections for a baseline or a run (repeatable)")
    ] = None,
    baseline: Annotated[
        BaselineName | None, typer.Option("--baseline", help="Rank in a single hop instead; colbert-hop: in hops")
    ] = None,
    first: Annotated[
        BaselineName | None, typer.Option("--first", help="What the baseline rerank ranks anew", show_default="bm25")
    ] = None,
    first_model: Annotated[str | None, typer.Option("--first-model", help="The model of --first")] = None,
    instruction: Annotated[
        str, typer.Option("--instruction", help="Stands before each question of the baseline dense")
    ] = "",
    exact: Annotated[bool, typer.Option("--exact", help="The baseline colbert scores all of an index")] = False,
    run: Annotated[
        Path | None, typer.Option("--run", dir_okay=False, exists=True, help="Judge the rankings in a TREC run")
    ] = None,
    at: Annotated[str, typer.Option("--at", metavar="N,N...", help="Cutoffs of rankings")] = "2,5,10,20,100",
    missing: Annotated[
        Missing, typer.Option("--missing", help="Questions with a gold passage that the corpus lacks")
    ] = Missing.fail,
    out: Annotated[
        Path | None, typer.Option("--out", dir_okay=False, help="Results by question, JSONL; a killed run is taken up")
    ] = None,
    submission: Annotated[
        Path | None, typer.Option("--submission", dir_okay=False, help="What HoVer's or HotPotQA's leaderboard takes")
    ] = None,
    write_run: Annotated[
        Path | None, typer.Option("--write-run", dir_okay=False, help="Rankings as a TREC run")
    ] = None,
    write_qrels: Annotated[
        Path | None, typer.Option("--write-qrels", dir_okay=False, help="Gold passages as TREC qrels")
    ] = None,
    samples: Annotated[int, typer.Option("--samples", min=0, help="Resamplings for the intervals; 0: none")] = 1000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the resampling")] = 0,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="The first N questions alone", show_default="all")
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option("--batch-size", min=1, help="How many questions go through at once", show_default="by the device"),
    ] = None,
    device: DeviceOption = None,
    threads: ThreadsOption = None,
    precision: PrecisionOption = None,
    as_json: JsonOption = False,
) -> None:
    """Evaluate over the questions of FILE, by the measures of DATASET."""
    cutoffs, outputs = _cutoffs(at), Outputs(out, submission, write_run, write_qrels)
    if submission is not None and dataset not in SUBMITTED:
        raise typer.BadParameter(f"--submission: there is a format for {' and '.join(SUBMITTED)}, not for {dataset}")
    asked = Asked(
        dataset=dataset, cutoffs=cutoffs, index=index, model=model, corpus=tuple(corpus or ()), run=run,
        options=run_options(
            hops, k, pipeline, stop_early, stand_in, ranked_by=ranked_by, threshold=threshold, named_bonus=named_bonus
        ),
        device=device, threads=threads,
        baseline=None if baseline is None else baseline.value, first=first and first.value, first_model=first_model,
        instruction=instruction, exact=exact, precision=precision,
    )  # fmt: skip
    start = time.perf_counter()
    questions = _questions(dataset, file)[:limit]
    contender = open_contender(asked)
    results, report = _results(contender, asked, questions, missing, outputs, batch_size)
    told = _document(contender, results, report, samples, seed)
    told |= {"dataset": dataset, "file": str(file), "seconds": round(time.perf_counter() - start, 2)}
    typer.echo(json.dumps(told, ensure_ascii=False) if as_json else _page(told))
    _write(outputs, dataset, results)  # last: ids that a format has no room for cost no figures


def _cutoffs(at: str) -> tuple[int, ...]:
    try:
        cutoffs = tuple(sorted({int(number) for number in at.split(",")}))
    except ValueError:
        raise typer.BadParameter(f"--at {at}: should be numbers with commas between them") from None
    if cutoffs[0] < 1:
        raise typer.BadParameter(f"--at {at}: should be at least 1")
    return cutoffs


def _questions(dataset: str, file: Path) -> list[Example]:
    from baleen.datasets import read_examples
    from baleen.evaluation.beir import is_beir, read_beir

    return read_beir(file) if dataset == "own" and is_beir(file) else read_examples(dataset, file)


def _results(
    contender: Contender,
    asked: Asked,
    questions: Sequence[Example],
    missing: Missing,
    outputs: Outputs,
    batch_size: int | None,
) -> tuple[list[Result], GoldReport]:
    from baleen.evaluation.collection import catalogue
    from baleen.evaluation.evaluating import results_of
    from baleen.evaluation.judging import Judge, match_gold

    examples, report = match_gold(questions, catalogue(contender.collection), missing.value)
    if report.dropped:
        log.warning(
            "%d of %d questions left out: a gold passage is missing or ambiguous, such as %s",
            len(report.dropped), report.examples, (*report.first_missing, *report.first_ambiguous)[0],
        )  # fmt: skip
    judge = Judge(asked.dataset, asked.cutoffs, contender.collection.passage)
    return results_of(contender, examples, judge, out=outputs.out, batch_size=batch_size), report


def _write(outputs: Outputs, dataset: str, results: Sequence[Result]) -> None:
    from baleen.evaluation.submission import write_submission
    from baleen.evaluation.trec import write_qrels, write_run

    if outputs.submission is not None:
        write_submission(dataset, results, outputs.submission)
    if outputs.write_run is not None:
        write_run(results, outputs.write_run)
    if outputs.write_qrels is not None:
        write_qrels((result.example for result in results), outputs.write_qrels)


def _document(
    contender: Contender, results: Sequence[Result], report: GoldReport, samples: int, seed: int
) -> dict[str, Any]:
    from baleen.evaluation.summary import by_hops, summarize

    return {
        "system": contender.name,
        "passages": len(contender.collection),
        **summarize(results, samples, seed).to_json(),
        "by_hops": {str(hops): group.to_json() for hops, group in by_hops(results, samples, seed).items()},
        "gold": report.to_json(),
        "run": dict(contender.run),
    }


def _page(told: dict[str, Any]) -> str:
    from baleen.evaluation.summary import Summary
    from baleen.evaluation.tables import summary_table

    keys = ("questions", "metrics", "intervals", "counts")
    whole = Summary.from_json({key: told[key] for key in keys})
    hops = {int(number): Summary.from_json(group) for number, group in told["by_hops"].items()}
    head = f"{told['dataset']} ({Path(told['file']).name}): {told['system']} over {told['passages']:,} passages"
    return f"{head}\n\n{summary_table(whole, hops)}"
