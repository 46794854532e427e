"""The paper's ablation: train one plan with parts left out, and evaluate the rows side by side.

    python experiments/ablation.py runs/ablation.toml               # or --rows D beside --rows E

    A   Baleen: the condenser reads the passages of each hop
    B   a reranker instead of the condenser; it adds the best passage of each hop
    C   both, merged
    D   A without focused interaction: every query vector counts, in training and in search
    E   A without latent hop ordering: hops are ordered by the overlap of titles and texts
    F   ColBERT-Hop: B without either
    G   A with the model's boost of mentioned passages; no other row has it

A, B, C and G share one training run.  The plan is one for `baleen train` with these optional settings:

    [ablation]
    rows = ["A", "B", "C", "D", "E", "F"]       # default
    evaluate = [{ collection = "wiki", dataset = "hover", file = "dev.json", k = [25, 25] }]    # default: every dev file
    k = [25, 25, 25, 25]                        # passages per hop; default: the retriever's depths
    limit = 100                                 # questions per file; default: all
    readers = "own"                             # default; "first": all rows use the condenser and readers of A
    lender = "baleen-small"                     # with readers = "first": use this model's; no readers are trained
    bits = 2                                    # per dimension of the indexes; default
    cutoffs = [2, 5, 10, 20, 100]               # of the rankings; default

The folder of the ablation contains

    runs/VARIANT/                   training runs of `baleen train`
    rows/ROW/                       a model for --model: it names the folders of its components
    indexes/VARIANT/COLLECTION/     for --index
    results/ROW/QUESTIONS.jsonl     results of `baleen eval --out`
    plots/QUESTIONS/                recall curves, if matplotlib is installed
    ablation.json, ablation.md      the tables
    settings.json                   settings that all rows share, with a digest of each collection

Finished steps are skipped: a killed ablation resumes, and rows of a later call join the tables.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from baleen.core.config import from_mapping
from baleen.core.errors import BaleenError, ConfigError, DatasetError, MissingExtraError, StoredIndexError
from baleen.core.markdown import markdown_table
from baleen.core.types import Passage
from baleen.data import corpus
from baleen.data.example import Example
from baleen.data.formats import read_examples
from baleen.data.gold import Catalogue
from baleen.evaluation.evaluate import read_results, run_evaluation, system_target
from baleen.evaluation.results import Result
from baleen.evaluation.scoring import CUTOFFS, Scorer, match_gold
from baleen.evaluation.statistics import SAMPLES
from baleen.evaluation.tables import RunSummary, columns, hops_table, runs_table, summarize_run
from baleen.hops.config import Pipeline
from baleen.hops.retriever import Retriever
from baleen.index.codec.codec import BITS
from baleen.index.index import Index
from baleen.models.checkpoint import resolve_folder
from baleen.models.encoder import Encoder
from baleen.models.folder import read_model, write_model
from baleen.system import Baleen
from baleen.training.loop.distributed import started_processes
from baleen.training.plan import ABLATION, RunPlan, read_plan, read_settings
from baleen.training.run import MODEL, train
from baleen.training.stages import write_json, write_text
from plot import draw, figures, words_after_hops

log = logging.getLogger("ablation")

JSON, MARKDOWN, SETTINGS = "ablation.json", "ablation.md", "settings.json"


# Rows


@dataclass(frozen=True)
class Variant:
    """A training run: with the plan's focus or without, with latent or heuristic hop order."""

    name: str
    focused: bool = True
    order: Literal["latent", "heuristic"] = "latent"

    def of(self, plan: RunPlan, *, reading: bool = True) -> RunPlan:
        """Return the plan with the changes of this variant; without `reading`, that of its retriever alone."""
        encoder = plan.retriever.encoder
        if not self.focused:
            encoder = replace(encoder, query_focus=None, facts_focus=None)
        retriever = replace(plan.retriever, order=self.order, encoder=encoder)
        return replace(plan, retriever=retriever, reading=plan.reading if reading else None)


WHOLE = Variant("flipr-latent")
WITHOUT_FOCUS = Variant("maxsim-latent", focused=False)
WITHOUT_ORDER = Variant("flipr-heuristic", order="heuristic")
WITHOUT_EITHER = Variant("maxsim-heuristic", focused=False, order="heuristic")


@dataclass(frozen=True)
class Row:
    letter: str
    title: str
    variant: Variant
    pipeline: Pipeline = "condense"
    named: bool = False

    @property
    def name(self) -> str:
        return f"{self.letter} {self.title}"


ROWS: dict[str, Row] = {
    row.letter: row
    for row in (
        Row("A", "condense", WHOLE),
        Row("B", "rerank", WHOLE, "rerank"),
        Row("C", "hybrid", WHOLE, "hybrid"),
        Row("D", "without FLIPR", WITHOUT_FOCUS),
        Row("E", "without latent hop ordering", WITHOUT_ORDER),
        Row("F", "ColBERT-Hop", WITHOUT_EITHER, "rerank"),
        Row("G", "condense, following names", WHOLE, named=True),
    )
}


# Settings


@dataclass(frozen=True)
class Questions:
    """A file of questions over a collection of the plan; `k` overrides that of the ablation."""

    collection: str
    dataset: str
    file: str
    k: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The name of its results: `wiki-hover-dev`."""
        return f"{self.collection}-{self.dataset}-{Path(self.file).name.partition('.')[0]}"


@dataclass(frozen=True)
class AblationSettings:
    """The [ablation] of a plan."""

    rows: tuple[str, ...] = ("A", "B", "C", "D", "E", "F")
    evaluate: tuple[Questions, ...] = ()
    k: tuple[int, ...] = ()
    limit: int | None = None
    readers: Literal["own", "first"] = "own"
    lender: str | None = None
    bits: int = 2
    cutoffs: tuple[int, ...] = CUTOFFS

    def __post_init__(self) -> None:
        unknown = sorted(set(self.rows) - ROWS.keys())
        if unknown or not self.rows:
            found = f"there is no row '{unknown[0]}'" if unknown else "no row is named"
            raise ConfigError(f"{found}; the rows are {', '.join(ROWS)}")
        if self.lender is not None and self.readers == "own":
            raise ConfigError(
                f"lender = {self.lender!r} lends its readers to all rows: set readers = 'first' beside it"
            )
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"limit = {self.limit}; expected at least 1")
        if self.bits not in BITS:
            raise ConfigError(f"bits = {self.bits}; expected one of {', '.join(map(str, BITS))}")
        own = [(f"k of {each.file}", each.k) for each in self.evaluate]
        for name, numbers in (("k", self.k), ("cutoffs", self.cutoffs or (0,)), *own):
            if min(numbers, default=1) < 1:
                raise ConfigError(f"{name} = {list(numbers)}; expected numbers of at least 1")


@dataclass(frozen=True)
class AblationPlan:
    """A training plan and its [ablation]."""

    train: RunPlan
    settings: AblationSettings = AblationSettings()

    def __post_init__(self) -> None:
        encoder = self.train.retriever.encoder
        if self.train.reading is None:
            raise ConfigError("an ablation needs a condenser and a reranker, and the plan has no [reading]")
        if self.train.retriever.ready is not None and any(row.variant != WHOLE for row in self.rows):
            ours = ", ".join(letter for letter, row in ROWS.items() if row.variant == WHOLE)
            raise ConfigError(
                f"the plan's retriever is ready, and rows other than {ours} train another: name only these"
            )
        if encoder.query_focus is None and encoder.facts_focus is None and {"D", "F"} & set(self.settings.rows):
            raise ConfigError("rows D and F remove the focus, and [retriever.encoder] has none: name other rows")
        if not self.questions:
            raise ConfigError("there is nothing to evaluate on: set [ablation] evaluate, or dev in a collection")
        known = [collection.name for collection in self.train.collections]
        absent = [each.collection for each in self.questions if each.collection not in known]
        if absent:
            raise ConfigError(f"evaluate: there is no collection '{absent[0]}'; the plan has {', '.join(known)}")
        names = [each.name for each in self.questions]
        if len(set(names)) < len(names):
            raise ConfigError(f"evaluate: two files have one name among {', '.join(names)}: rename one")

    @property
    def questions(self) -> tuple[Questions, ...]:
        plans = self.train.collections
        return self.settings.evaluate or tuple(
            Questions(plan.name, source.dataset, source.file) for plan in plans for source in plan.dev
        )

    @property
    def rows(self) -> list[Row]:
        return [row for letter, row in ROWS.items() if letter in self.settings.rows]

    def depths(self, questions: Questions) -> tuple[int, ...]:
        """Passages per hop: those given, or the plan's, whose last number is repeated up to its last hop."""
        plan = self.train.retriever.depths
        return questions.k or self.settings.k or (*plan, *plan[-1:] * self.train.hops)[: self.train.hops]

    def passages(self, collection: str) -> Iterator[Passage]:
        (plan,) = (plan for plan in self.train.collections if plan.name == collection)
        return corpus.read_passages([self.train.root / file for file in plan.corpus])


def read_ablation(path: Path, rows: Sequence[str] | None = None, limit: int | None = None) -> AblationPlan:
    """Read a plan; `rows` and `limit` override the file's."""
    settings = from_mapping(AblationSettings, read_settings(path).get(ABLATION, {}), f"{path}: {ABLATION}")
    plan = read_plan(path)
    try:
        return AblationPlan(
            plan, replace(settings, rows=tuple(rows or settings.rows), limit=settings.limit if limit is None else limit)
        )
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


# Steps


@dataclass(frozen=True)
class Report:
    """The tables, as JSON and as Markdown."""

    document: dict[str, Any]
    page: str


def ablate(plan: AblationPlan, folder: Path, *, device: str | None = None) -> Report:
    """Run the missing steps of the plan's rows, and report all complete rows of the folder."""
    if started_processes() > 1:
        raise ConfigError("an ablation takes one process: start it without torchrun")
    return Ablation(plan, folder, device).run()


class Ablation:
    """The steps of an ablation in its folder."""

    def __init__(self, plan: AblationPlan, folder: Path, device: str | None = None) -> None:
        self.plan, self.folder, self.device = plan, folder, device
        self._digests: dict[str, str] = {}  # of each collection
        self._examples: dict[str, list[Example]] = {}
        given = plan.settings.lender
        self._lender = None if given is None else resolve_folder(plan.train.resolve(given))

    def run(self) -> Report:
        self._read()
        self._begin()
        self._train()
        self._evaluate()
        return self._report()

    def _read(self) -> None:
        """Read all questions and match their gold passages: a fault shows before hours of training."""
        plan = self.plan
        read = {each.name: read_examples(each.dataset, plan.train.root / each.file) for each in plan.questions}
        for collection in dict.fromkeys(each.collection for each in plan.questions):
            digest = hashlib.blake2b(digest_size=16)
            passages = Catalogue.of(_noting(plan.passages(collection), digest))
            self._digests[collection] = digest.hexdigest()
            for own in (each for each in plan.questions if each.collection == collection):
                asked = match_gold(read[own.name][: plan.settings.limit], passages, plan.train.missing)
                self._examples[own.name] = list(asked.examples)
                if not asked.examples:
                    raise DatasetError(f"{own.file}: no question has all its gold passages in '{collection}'")

    def _begin(self) -> None:
        """Claim the folder; rows of other readers, bits or passages would not be comparable."""
        settings, file = self.plan.settings, self.folder / SETTINGS
        shared = {"readers": settings.readers, "lender": settings.lender, "bits": settings.bits}
        before: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.exists() else shared
        known: dict[str, str] = before.get("corpora", {})
        for name, value in shared.items():
            if before.get(name) != value:
                raise ConfigError(
                    f"{self.folder}: holds an ablation of {name} = {before.get(name)!r}, and the plan has {value!r}: "
                    "choose another folder"
                )
        for name, value in self._digests.items():
            if known.get(name, value) != value:
                raise ConfigError(
                    f"{self.folder}: holds an ablation over other passages than '{name}' has now: choose another folder"
                )
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(file, {**shared, "corpora": known | self._digests})

    def _train(self) -> None:
        """Train every variant that a row needs, and write the rows' models."""
        shared = self.plan.settings.readers == "first"
        needed = [WHOLE] * (shared and self._lender is None) + [row.variant for row in self.plan.rows]
        for variant in dict.fromkeys(needed):
            log.info("training %s", variant.name)
            reading = not shared or (variant == WHOLE and self._lender is None)
            train(variant.of(self.plan.train, reading=reading), self._home(variant), device=self.device)
        for row in self.plan.rows:
            self._write_model(row, self._lender or self._home(WHOLE if shared else row.variant) / MODEL)

    def _write_model(self, row: Row, readers: Path) -> None:
        """Write a model that refers to the trained components, with the row's pipeline."""
        folder = self.folder / "rows" / row.letter
        folder.mkdir(parents=True, exist_ok=True)
        reading, retriever = read_model(readers), read_model(self._home(row.variant) / MODEL)
        places = {name: reading.folder(name) for name in reading.components}
        places["retriever"] = retriever.folder("retriever")
        run = {**reading.settings.get("run", {}), "pipeline": row.pipeline}
        if not row.named:
            run.pop("mention_boost", None)
        relative = {name: os.path.relpath(place, folder) for name, place in places.items()}
        write_model(folder, relative, {**reading.settings, "run": run})

    def _evaluate(self) -> None:
        """Evaluate every row on every file, one index at a time."""
        for variant in dict.fromkeys(row.variant for row in self.plan.rows):
            for collection in self._digests:
                retriever = self._retriever(variant, collection)
                for row in (row for row in self.plan.rows if row.variant == variant):
                    for questions in (each for each in self.plan.questions if each.collection == collection):
                        self._evaluate_row(row, questions, retriever)

    def _evaluate_row(self, row: Row, questions: Questions, retriever: Retriever) -> None:
        """Evaluate as `baleen eval` does, into the same kind of file."""
        log.info("evaluating %s on %s", row.name, questions.name)
        system, cutoffs = Baleen(read_model(self.folder / "rows" / row.letter), retriever), self.plan.settings.cutoffs
        depths = self.plan.depths(questions)
        target = system_target(system, questions.dataset, cutoffs, {"k": depths, "hops": len(depths)})
        scorer = Scorer(questions.dataset, cutoffs, target.collection.passage)
        out = self._results(row, questions)
        out.parent.mkdir(parents=True, exist_ok=True)
        run_evaluation(target, self._examples[questions.name], scorer, out=out)

    def _retriever(self, variant: Variant, collection: str) -> Retriever:
        """Load a variant's encoder with its index of a collection; build the index unless it exists and fits."""
        encoder = Encoder.load(self._home(variant) / MODEL, device=self.device)
        folder, device = self.folder / "indexes" / variant.name / collection, str(encoder.device)
        digest, bits = self._digests[collection], self.plan.settings.bits
        try:
            index = Index.open(folder, device=device)
            index.check_encoder(encoder.fingerprint)
            if index.manifest.bits == bits and index.manifest.settings.get("corpus") == digest:
                return Retriever(encoder, index)
        except StoredIndexError:
            pass
        log.info("indexing %s for %s", collection, variant.name)
        passages = self.plan.passages(collection)
        Index.build(folder, passages, encoder, bits=bits, overwrite=True, device=device, corpus=digest)
        return Retriever(encoder, Index.open(folder, device=device))

    def _report(self) -> Report:
        """Write the tables and curves of all complete rows, those of earlier calls included."""
        done = {each: self._summaries(each) for each in self.plan.questions}
        documents = [_document(each, summaries, words) for each, (summaries, words) in done.items() if summaries]
        report = Report(
            {"questions": documents}, "\n\n".join(_section(each, *found) for each, found in done.items() if found[0])
        )
        write_text(self.folder / MARKDOWN, report.page + "\n")
        write_json(self.folder / JSON, report.document)
        return report

    def _summaries(self, questions: Questions) -> tuple[dict[Row, RunSummary], dict[Row, list[float]]]:
        """The summaries of all complete rows, and their words of context after each hop; draws the curves."""
        found = {row: results for row in ROWS.values() if (results := self._complete(row, questions))}
        try:
            runs = {row.name: results for row, results in found.items()}
            draw(figures(runs), self.folder / "plots" / questions.name)
        except MissingExtraError as error:
            log.warning("no figures: %s", error)
        summaries = {row: summarize_run(row.name, results, SAMPLES) for row, results in found.items()}
        return summaries, {row: [words for _, words in words_after_hops(results)] for row, results in found.items()}

    def _complete(self, row: Row, questions: Questions) -> list[Result]:
        """A row's results under today's settings and gold; none if one is missing or differs."""
        try:
            run, results = read_results(self._results(row, questions))
        except DatasetError:
            return []
        if (run.get("k"), run.get("at")) != ([*self.plan.depths(questions)], [*self.plan.settings.cutoffs]):
            return []
        found, examples = {result.example.qid: result for result in results}, self._examples[questions.name]
        if any(each.qid not in found or found[each.qid].example != each for each in examples):
            return []
        return [found[each.qid] for each in examples]

    def _home(self, variant: Variant) -> Path:
        return self.folder / "runs" / variant.name

    def _results(self, row: Row, questions: Questions) -> Path:
        return self.folder / "results" / row.letter / f"{questions.name}.jsonl"


def _noting(passages: Iterable[Passage], digest: Any) -> Iterator[Passage]:
    """Pass passages on and update a digest of their ids, titles and sentences: file names do not count."""
    for passage in passages:
        digest.update(json.dumps([passage.pid, passage.title, passage.sentences], ensure_ascii=False).encode())
        yield passage


# Report


def _document(
    questions: Questions, summaries: Mapping[Row, RunSummary], words: Mapping[Row, list[float]]
) -> dict[str, Any]:
    metrics = columns(questions.dataset, list(summaries.values()))
    rows = [
        {
            "row": row.letter, "name": row.name, "pipeline": row.pipeline, "trained": row.variant.name,
            "words": words[row], **found.overall.to_json(),
            "by_hops": {str(number): group.to_json() for number, group in found.hops.items()},
        }
        for row, found in summaries.items()
    ]  # fmt: skip
    return {
        "name": questions.name, "dataset": questions.dataset, "file": questions.file,
        "collection": questions.collection, "metric": metrics[0], "columns": metrics, "rows": rows,
    }  # fmt: skip


def _section(questions: Questions, summaries: Mapping[Row, RunSummary], words: Mapping[Row, list[float]]) -> str:
    own = list(summaries.values())
    metrics = columns(questions.dataset, own)
    hops = range(max(map(len, words.values())))
    context = [[row.name, *(f"{w[hop]:.1f}" if hop < len(w) else "-" for hop in hops)] for row, w in words.items()]
    return "\n\n".join(
        [
            f"## {questions.dataset} ({questions.file})",
            hops_table(own, metrics[0]),
            runs_table(own, metrics),
            "Words of context after each hop:",
            markdown_table(["run", *(f"hop {hop + 1}" for hop in hops)], context),
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path, help="a plan for 'baleen train', TOML")
    parser.add_argument("--out", type=Path, help="folder (default: the plan's name and -ablation)")
    parser.add_argument("--rows", metavar="A,B...", help="rows to run, such as A,B,E (default: the plan's, or A to F)")
    parser.add_argument("--limit", type=int, help="the first N questions of each file (default: all)")
    parser.add_argument("--device", help="cpu or cuda (default: the best available)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    options = parser.parse_args(arguments)
    letters = [letter.strip().upper() for letter in options.rows.split(",")] if options.rows is not None else None
    folder = options.out or options.plan.with_name(f"{options.plan.stem}-ablation")
    try:
        report = ablate(read_ablation(options.plan, letters, options.limit), folder, device=options.device)
    except BaleenError as error:
        parser.exit(error.exit_code, f"error: {error}\n")
    print(json.dumps(report.document, ensure_ascii=False) if options.json else report.page)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main()
