"""`baleen eval`: evaluate a system, a baseline, or the rankings of a TREC run on the questions of a dataset."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from baleen.cli.options import HopOptions, JsonOption, SystemOptions, check_parent, grouped
from baleen.evaluation.datasets import DATASETS, LEADERBOARDS
from baleen.evaluation.results import refuse_compressed

if TYPE_CHECKING:
    from baleen.data.example import Example
    from baleen.data.gold import GoldReport
    from baleen.evaluation.collection import Collection
    from baleen.evaluation.evaluate import EvaluationTarget
    from baleen.evaluation.results import Result

log = logging.getLogger(__name__)

COLBERT_HOP = "colbert-hop"
DEFAULT_FIRST = "bm25"
# Hop options without effect on a baseline that reranks.
CONDENSER_OPTIONS = ("pipeline", "untrained", "keep", "read", "final", "ranked_by", "mention_boost")
BASELINES, SCORES, RESULTS = "Baselines and runs", "Scores", "Results"  # panels of --help

BaselineName = Literal["bm25", "dense", "colbert", "rerank", "colbert-hop"]


@dataclass(frozen=True)
class TargetOptions:
    """What is evaluated in place of a system."""

    baseline: Annotated[
        BaselineName | None,
        typer.Option(
            help="Evaluate a baseline: a single search, or colbert-hop, which takes hops.", rich_help_panel=BASELINES
        ),
    ] = None
    corpus: Annotated[
        list[Path] | None,
        typer.Option(help="Collections for a baseline or a run (repeatable).", rich_help_panel=BASELINES),
    ] = None
    first: Annotated[
        BaselineName | None,
        typer.Option(help="Retriever of the baseline rerank.", show_default=DEFAULT_FIRST, rich_help_panel=BASELINES),
    ] = None
    first_model: Annotated[str | None, typer.Option(help="Model of --first.", rich_help_panel=BASELINES)] = None
    instruction: Annotated[
        str, typer.Option(help="Text before each question, for the baseline dense.", rich_help_panel=BASELINES)
    ] = ""
    exact: Annotated[
        bool,
        typer.Option(
            "--exact", help="Score every passage of the index, for the baseline colbert.", rich_help_panel=BASELINES
        ),
    ] = False
    run: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False, exists=True, help="Evaluate the rankings of a TREC run.", rich_help_panel=BASELINES
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.baseline is not None and self.run is not None:
            raise typer.BadParameter("--baseline and --run are two things to evaluate: name one")


@dataclass(frozen=True)
class ScoreOptions:
    """Which questions are evaluated, and how they are scored."""

    at: Annotated[
        str, typer.Option(metavar="N,N...", help="Cutoffs of rankings, in passages.", rich_help_panel=SCORES)
    ] = "2,5,10,20,100"
    missing: Annotated[
        Literal["fail", "drop"],
        typer.Option(
            help="What to do with questions whose gold passages are missing from the corpus.", rich_help_panel=SCORES
        ),
    ] = "fail"
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Evaluate the first N questions.", show_default="all", rich_help_panel=SCORES),
    ] = None
    batch_size: Annotated[
        int | None,
        typer.Option(min=1, help="Questions per batch.", show_default="by the device", rich_help_panel=SCORES),
    ] = None
    samples: Annotated[
        int,
        typer.Option(min=0, help="Resamples for the confidence intervals (0 = no intervals).", rich_help_panel=SCORES),
    ] = 1000
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the resampling.", rich_help_panel=SCORES)] = 0

    def __post_init__(self) -> None:
        if self.cutoffs[0] < 1:
            raise typer.BadParameter(f"--at {self.at}: should be at least 1")

    @property
    def cutoffs(self) -> tuple[int, ...]:
        """The cutoffs in ascending order."""
        try:
            return tuple(sorted({int(number) for number in self.at.split(",")}))
        except ValueError:
            raise typer.BadParameter(f"--at {self.at}: should be numbers separated by commas") from None


@dataclass(frozen=True)
class Outputs:
    """Files of results, beside standard output."""

    out: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="Results per question, JSONL; a second run adds the missing ones.",
            rich_help_panel=RESULTS,
        ),
    ] = None
    submission: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False, help=f"Submission to the leaderboard ({', '.join(LEADERBOARDS)}).", rich_help_panel=RESULTS
        ),
    ] = None
    write_run: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Rankings as a TREC run.", rich_help_panel=RESULTS)
    ] = None
    write_qrels: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Gold passages as TREC qrels.", rich_help_panel=RESULTS)
    ] = None

    def __post_init__(self) -> None:
        for path in (self.out, self.submission, self.write_run, self.write_qrels):
            check_parent(path)
        for path in (self.out, self.submission):
            if path is not None:
                refuse_compressed(path)


@dataclass(frozen=True)
class Evaluation:
    """A checked request: what is evaluated on which dataset."""

    dataset: str
    system: SystemOptions
    hops: HopOptions
    target: TargetOptions
    cutoffs: tuple[int, ...]

    def __post_init__(self) -> None:
        target, settings = self.target, self.hops.settings
        if target.corpus and self.system.index is not None:
            raise typer.BadParameter("--corpus and --index both say which passages are searched: name one")
        if self.system.precision is not None and not self.takes_hops:
            raise typer.BadParameter("--precision is for a system that takes hops")
        if target.corpus and self.takes_hops:
            raise typer.BadParameter("--corpus goes with --baseline or --run; what takes hops searches an --index")
        if target.baseline == COLBERT_HOP and not settings.keys().isdisjoint(CONDENSER_OPTIONS):
            options = [f"--{name.replace('_', '-')}" for name in CONDENSER_OPTIONS]
            raise typer.BadParameter(
                f"--baseline {COLBERT_HOP} reranks: leave {', '.join(options[:-1])} and {options[-1]} out"
            )
        if settings and not self.takes_hops:
            raise typer.BadParameter("--hops, -k, --pipeline, --keep and the like are for a system that takes hops")
        self._refuse_ignored()

    def _refuse_ignored(self) -> None:
        """Refuse options that would have no effect."""
        target = self.target
        reranks = target.baseline == "rerank"
        dense = "dense" in (target.baseline, target.first if reranks else "")
        ignored = {
            "--first": target.first is not None and not reranks,
            "--first-model": target.first_model is not None
            and not (reranks and target.first not in (None, DEFAULT_FIRST)),
            "--instruction": bool(target.instruction) and not dense,
            "--exact": target.exact and (not self.searches or bool(target.corpus)),
            "--model": self.system.model is not None and (target.baseline == "bm25" or target.run is not None),
        }
        given = [name for name, is_ignored in ignored.items() if is_ignored]
        if given:
            raise typer.BadParameter(f"leave out {', '.join(given)}: what is evaluated here does not take it")

    @property
    def takes_hops(self) -> bool:
        """Whether a system is evaluated, or the baseline that is one."""
        return self.target.baseline in (None, COLBERT_HOP) and self.target.run is None

    @property
    def searches(self) -> bool:
        """Whether a baseline searches an index: colbert, alone or under rerank."""
        return "colbert" in (self.target.baseline, self.target.first if self.target.baseline == "rerank" else None)

    @property
    def searching_model(self) -> str | None:
        """The model given for colbert."""
        return self.system.model if self.target.baseline == "colbert" else self.target.first_model


@grouped
def evaluate(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help=f"One of {', '.join(DATASETS)}.")],
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Questions or claims of the dataset; for own also a BEIR folder.")
    ],
    *,
    system: SystemOptions,
    hops: HopOptions,
    target: TargetOptions,
    scores: ScoreOptions,
    outputs: Outputs,
    as_json: JsonOption = False,
) -> None:
    """Evaluate a system on the questions of FILE, by the metrics of DATASET."""
    if outputs.submission is not None and dataset not in LEADERBOARDS:
        raise typer.BadParameter(f"--submission: there is a format for {' and '.join(LEADERBOARDS)}, not for {dataset}")
    evaluation = Evaluation(dataset, system, hops, target, scores.cutoffs)
    start = time.perf_counter()
    questions = _questions(dataset, file)[: scores.limit]
    opened = open_target(evaluation)
    results, report = _results(opened, evaluation, questions, scores, outputs.out)
    document = _document(opened, results, report, scores)
    document |= {"dataset": dataset, "file": str(file), "seconds": round(time.perf_counter() - start, 2)}
    typer.echo(json.dumps(document, ensure_ascii=False) if as_json else _page(document))
    _write(outputs, dataset, results)  # last: ids that a format cannot hold must not cost the figures


def open_target(evaluation: Evaluation) -> EvaluationTarget:
    """Load the system, the baseline or the run."""
    if evaluation.takes_hops:
        return _system(evaluation)
    return _run(evaluation) if evaluation.target.baseline is None else _baseline(evaluation)


def _system(evaluation: Evaluation) -> EvaluationTarget:
    from baleen.evaluation.evaluate import system_target

    system, settings = evaluation.system.load(), evaluation.hops.settings
    if evaluation.target.baseline is None:
        return system_target(system, evaluation.dataset, evaluation.cutoffs, settings)
    from baleen.evaluation.baselines.colbert import NAME, OPTIONS, colbert_hop

    return system_target(colbert_hop(system), evaluation.dataset, evaluation.cutoffs, {**settings, **OPTIONS}, NAME)


def _baseline(evaluation: Evaluation) -> EvaluationTarget:
    from baleen.core.config import from_mapping
    from baleen.evaluation.baselines.baseline import BaselineConfig, open_baseline
    from baleen.evaluation.evaluate import BaselinePredictor, EvaluationTarget, run_settings

    target = evaluation.target
    first = target.first or DEFAULT_FIRST
    settings = {
        "name": target.baseline,
        "model": evaluation.system.model,
        "first": first,
        "first_model": target.first_model,
        "instruction": target.instruction,
        "exact": target.exact,
        "device": evaluation.system.device,
    }
    config = from_mapping(BaselineConfig, settings, "--baseline")
    collection = _collection(evaluation)
    baseline = open_baseline(config, collection)
    name = f"{first} + rerank" if target.baseline == "rerank" else str(target.baseline)
    described = {"settings": dict(baseline.settings), "passages": collection.fingerprint}
    run = run_settings(evaluation.dataset, evaluation.cutoffs, name, described)
    return EvaluationTarget(name, BaselinePredictor(baseline, max(evaluation.cutoffs)), collection, run)


def _run(evaluation: Evaluation) -> EvaluationTarget:
    from baleen.evaluation.evaluate import EvaluationTarget, RunPredictor, run_settings
    from baleen.evaluation.trec import read_run

    path = evaluation.target.run
    assert path is not None
    rankings, collection = read_run(path), _collection(evaluation)
    digest = hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()
    described = {"rankings": digest, "passages": collection.fingerprint}
    run = run_settings(evaluation.dataset, evaluation.cutoffs, "run", described)
    return EvaluationTarget(path.name, RunPredictor(rankings), collection, run)


def _collection(evaluation: Evaluation) -> Collection:
    """The files of --corpus, or else the index: the given one, or the demonstration's."""
    from baleen.evaluation.collection import Corpus, IndexedCorpus

    if evaluation.target.corpus:
        return Corpus.read(tuple(evaluation.target.corpus))
    from baleen.index.index import Index

    system = evaluation.system
    index = system.index or _default_index(evaluation)
    if not evaluation.searches:
        return IndexedCorpus(Index.open(index))
    from baleen.models.device import resolve_device

    return IndexedCorpus(Index.open(index, device=str(resolve_device(system.device)), threads=system.threads))


def _default_index(evaluation: Evaluation) -> Path:
    from baleen.hops.demo import default_index, default_model
    from baleen.models.encoder import Encoder

    model = evaluation.searching_model if evaluation.searches else None
    return default_index(Encoder.load(model or default_model(), device=evaluation.system.device))


def _questions(dataset: str, file: Path) -> list[Example]:
    from baleen.data.beir import is_beir, read_beir
    from baleen.data.formats import read_examples

    return read_beir(file) if dataset == "own" and is_beir(file) else read_examples(dataset, file)


def _results(
    target: EvaluationTarget,
    evaluation: Evaluation,
    questions: Sequence[Example],
    scores: ScoreOptions,
    out: Path | None,
) -> tuple[list[Result], GoldReport]:
    from baleen.evaluation.collection import catalogue
    from baleen.evaluation.evaluate import run_evaluation
    from baleen.evaluation.scoring import Scorer, match_gold

    examples, report = match_gold(questions, catalogue(target.collection), scores.missing)
    if report.dropped:
        first = (*report.first_missing, *report.first_ambiguous)[0]
        log.warning(
            "%d of %d questions dropped: a gold passage is missing or ambiguous, such as %s",
            len(report.dropped),
            report.examples,
            first,
        )
    scorer = Scorer(evaluation.dataset, evaluation.cutoffs, target.collection.passage)
    return run_evaluation(target, examples, scorer, out=out, batch_size=scores.batch_size), report


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
    target: EvaluationTarget, results: Sequence[Result], report: GoldReport, scores: ScoreOptions
) -> dict[str, Any]:
    from baleen.evaluation.statistics import by_hops, summarize

    return {
        "system": target.name,
        "passages": len(target.collection),
        **summarize(results, scores.samples, scores.seed).to_json(),
        "by_hops": {
            str(hops): group.to_json() for hops, group in by_hops(results, scores.samples, scores.seed).items()
        },
        "gold": report.to_json(),
        "run": dict(target.run),
    }


def _page(document: dict[str, Any]) -> str:
    from baleen.evaluation.statistics import Summary
    from baleen.evaluation.tables import summary_table

    keys = ("questions", "metrics", "intervals", "counts")
    whole = Summary.from_json({key: document[key] for key in keys})
    hops = {int(number): Summary.from_json(group) for number, group in document["by_hops"].items()}
    head = f"{document['dataset']} ({Path(document['file']).name}): {document['system']} over {document['passages']:,} passages"
    return f"{head}\n\n{summary_table(whole, hops)}"
