"""`baleen eval`: a system, a baseline or somebody's run over the questions of a dataset.

Who is evaluated: a system over an index, a baseline over a collection, or a run that somebody else made.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baleen.cli.hops import (
    DepthsOption,
    FinalOption,
    HopsOption,
    KeepOption,
    MentionBoostOption,
    PipelineOption,
    RankedByOption,
    ReadOption,
    StopEarlyOption,
    UntrainedOption,
    run_options,
)
from baleen.cli.options import DeviceOption, IndexOption, JsonOption, ModelOption, PrecisionOption, ThreadsOption
from baleen.evaluation.results import refuse_packed

if TYPE_CHECKING:
    from baleen.data.example import Example
    from baleen.data.gold import GoldReport
    from baleen.evaluation.collection import Collection
    from baleen.evaluation.evaluate import Contender
    from baleen.evaluation.results import Result
    from baleen.models.device import Precision


COLBERT_HOP = "colbert-hop"
FIRST = "bm25"  # what the baseline rerank ranks anew, if nothing else is said
OF_CONDENSING = (
    "pipeline",
    "untrained",
    "keep",
    "read",
    "final",
    "ranked_by",
    "mention_boost",
)  # options that a baseline which reranks does not take


@dataclass(frozen=True)
class Asked:
    """What a command line says about who is evaluated, and how; `options` are those of the hops."""

    dataset: str
    cutoffs: tuple[int, ...]
    index: Path | None
    model: str | None
    corpus: tuple[Path, ...]
    run: Path | None
    options: Mapping[str, Any]
    device: str | None
    threads: int | None
    baseline: str | None
    first: str | None
    first_model: str | None
    instruction: str
    exact: bool
    precision: Precision | None = None

    def __post_init__(self) -> None:
        if self.baseline is not None and self.run is not None:
            raise typer.BadParameter("--baseline and --run are two things to evaluate: name one")
        if self.corpus and self.index is not None:
            raise typer.BadParameter("--corpus and --index both say which passages are searched: name one")
        if self.precision is not None and not self.takes_hops:
            raise typer.BadParameter("--precision is for a system that takes hops")
        if self.corpus and self.takes_hops:
            raise typer.BadParameter("--corpus goes with --baseline or --run; what takes hops searches an --index")
        if self.baseline == COLBERT_HOP and any(self.options.get(key) is not None for key in OF_CONDENSING):
            raise typer.BadParameter(
                f"--baseline {COLBERT_HOP} reranks: leave --pipeline, --untrained, --keep, --read, --final, --ranked-by and --mention-boost out"
            )
        if not self.takes_hops and any(value is not None for value in self.options.values()):
            raise typer.BadParameter("--hops, -k, --pipeline, --keep and the like are for a system that takes hops")
        self._refuse_idle()

    def _refuse_idle(self) -> None:
        """Options that would do nothing are not what somebody meant."""
        reranks, ranks_by_words = self.baseline == "rerank", self.baseline == "bm25"
        idle = {
            "--first": self.first is not None and not reranks,
            "--first-model": self.first_model is not None and not (reranks and self.first not in (None, FIRST)),
            "--instruction": bool(self.instruction) and "dense" not in (self.baseline, self.first if reranks else ""),
            "--exact": self.exact and (not self.searches or bool(self.corpus)),
            "--model": self.model is not None and (ranks_by_words or self.run is not None),
        }
        given = [name for name, whether in idle.items() if whether]
        if given:
            raise typer.BadParameter(f"leave out {', '.join(given)}: what is evaluated here does not take it")

    @property
    def takes_hops(self) -> bool:
        """Whether it is a system that is evaluated, or the baseline that is one."""
        return self.baseline in (None, COLBERT_HOP) and self.run is None

    @property
    def searches(self) -> bool:
        """Whether a baseline searches an index: colbert, alone or for rerank; others read its passages."""
        return self.baseline == "colbert" or (self.baseline == "rerank" and self.first == "colbert")

    @property
    def searching_model(self) -> str | None:
        """The model that is named for colbert."""
        return self.model if self.baseline == "colbert" else self.first_model


def open_contender(asked: Asked) -> Contender:
    if asked.takes_hops:
        return _system(asked)
    return _baseline(asked) if asked.baseline is not None else _recorded(asked)


def _system(asked: Asked) -> Contender:
    from baleen.evaluation.evaluate import system_contender
    from baleen.system import Baleen

    system = Baleen.load(
        asked.model, asked.index, device=asked.device, threads=asked.threads, precision=asked.precision
    )
    if asked.baseline is None:
        return system_contender(system, asked.dataset, asked.cutoffs, asked.options)
    from baleen.evaluation.baselines.colbert import NAME, OPTIONS, colbert_hop

    return system_contender(colbert_hop(system), asked.dataset, asked.cutoffs, {**asked.options, **OPTIONS}, NAME)


def _baseline(asked: Asked) -> Contender:
    from baleen.core.config import from_mapping
    from baleen.evaluation.baselines.baseline import BaselineConfig, open_baseline
    from baleen.evaluation.evaluate import Contender, Ranked, run_of

    settings = {
        "name": asked.baseline, "model": asked.model, "first": asked.first or FIRST, "first_model": asked.first_model,
        "instruction": asked.instruction, "exact": asked.exact, "device": asked.device,
    }  # fmt: skip
    config = from_mapping(BaselineConfig, settings, "--baseline")
    collection = _collection(asked)
    baseline = open_baseline(config, collection)
    name = f"{asked.first or FIRST} + rerank" if asked.baseline == "rerank" else str(asked.baseline)
    run = run_of(
        asked.dataset, asked.cutoffs, name, {"settings": dict(baseline.settings), "passages": collection.fingerprint}
    )
    return Contender(name, Ranked(baseline, max(asked.cutoffs)), collection, run)


def _recorded(asked: Asked) -> Contender:
    from baleen.evaluation.evaluate import Contender, Recorded, run_of
    from baleen.evaluation.trec import read_run

    assert asked.run is not None
    rankings, collection = read_run(asked.run), _collection(asked)
    digest = hashlib.blake2b(asked.run.read_bytes(), digest_size=8).hexdigest()
    run = run_of(asked.dataset, asked.cutoffs, "run", {"rankings": digest, "passages": collection.fingerprint})
    return Contender(asked.run.name, Recorded(rankings), collection, run)


def _collection(asked: Asked) -> Collection:
    """The files of --corpus, or else the index: the one that is named, or the demonstration's."""
    from baleen.evaluation.collection import Corpus, Indexed

    if asked.corpus:
        return Corpus.read(asked.corpus)
    from baleen.index.index import Index

    index = asked.index or _default_index(asked)
    if not asked.searches:
        return Indexed(Index.open(index))
    from baleen.models.device import resolve_device as usable_device

    return Indexed(Index.open(index, device=str(usable_device(asked.device)), threads=asked.threads))


def _default_index(asked: Asked) -> Path:
    from baleen.hops.demo import default_index, default_model
    from baleen.models.encoder import Encoder

    named = asked.searching_model if asked.searches else None
    return default_index(Encoder.load(named or default_model(), device=asked.device))


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
    untrained: UntrainedOption = None,
    keep: KeepOption = None,
    read: ReadOption = None,
    final: FinalOption = None,
    ranked_by: RankedByOption = None,
    mention_boost: MentionBoostOption = None,
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
            hops, k, pipeline, stop_early, untrained, ranked_by=ranked_by, mention_boost=mention_boost,
            keep=keep, read=read, final=final,
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
    from baleen.data.beir import is_beir, read_beir
    from baleen.data.formats import read_examples

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
    from baleen.evaluation.evaluate import results_of
    from baleen.evaluation.measures import Judge, match_gold

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
    from baleen.evaluation.statistics import by_hops, summarize

    return {
        "system": contender.name,
        "passages": len(contender.collection),
        **summarize(results, samples, seed).to_json(),
        "by_hops": {str(hops): group.to_json() for hops, group in by_hops(results, samples, seed).items()},
        "gold": report.to_json(),
        "run": dict(contender.run),
    }


def _page(told: dict[str, Any]) -> str:
    from baleen.evaluation.statistics import Summary
    from baleen.evaluation.tables import summary_table

    keys = ("questions", "metrics", "intervals", "counts")
    whole = Summary.from_json({key: told[key] for key in keys})
    hops = {int(number): Summary.from_json(group) for number, group in told["by_hops"].items()}
    head = f"{told['dataset']} ({Path(told['file']).name}): {told['system']} over {told['passages']:,} passages"
    return f"{head}\n\n{summary_table(whole, hops)}"
