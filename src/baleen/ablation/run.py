"""An ablation from its plan to its tables: train, index and evaluate every row, and skip what is done.

    ablate(read_ablation(Path("runs/small.toml")), Path("runs/small-ablation"))

    runs/VARIANT/                   a training run each; rows that differ in their pipeline alone share one
    rows/ROW/                       its model, for --model: it names the components where they lie
    indexes/VARIANT/COLLECTION/     for --index
    results/ROW/QUESTIONS.jsonl     what `baleen eval --out` writes
    plots/QUESTIONS/                figures, where matplotlib is installed
    ablation.json, ablation.md      the tables
    settings.json                   what all rows have in common: whose readers, whose model, the bits of the indexes, and
                                    digests of the collections

An ablation that was killed goes on where it stood, and rows that another call is asked for join those that are there.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baleen import corpus
from baleen.ablation.passages import PassageDigest, Passages, digest_of
from baleen.ablation.plan import AblationPlan, Questions
from baleen.ablation.report import Evaluated, document, page
from baleen.ablation.rows import ROWS, WHOLE, Row, Variant
from baleen.checkpoint import resolve
from baleen.datasets import Catalogue, Example, read_examples
from baleen.encoder import Encoder
from baleen.errors import ConfigError, DatasetError, MissingExtraError, StoredIndexError
from baleen.evaluation.contender import system_contender
from baleen.evaluation.curves import figures
from baleen.evaluation.evaluating import read_results, results_of
from baleen.evaluation.judging import Judge, match_gold
from baleen.evaluation.plotting import draw
from baleen.evaluation.prediction import Result
from baleen.index import Index
from baleen.model_folder import read_model, write_model
from baleen.retriever import Retriever
from baleen.system import Baleen
from baleen.training.distributed import started_processes
from baleen.training.run import MODEL, train
from baleen.training.run_folder import write_json, write_text

log = logging.getLogger(__name__)

JSON, MARKDOWN, SETTINGS = "ablation.json", "ablation.md", "settings.json"
CORPORA = "corpora"  # of settings.json: the digest of each collection


@dataclass(frozen=True)
class Report:
    """An ablation's tables, as JSON holds them and as Markdown."""

    told: dict[str, Any]
    page: str


def ablate(plan: AblationPlan, folder: Path, *, device: str | None = None) -> Report:
    """Do what is not done of the plan's rows; the tables of all rows that are done, which stand in `folder` too."""
    if started_processes() > 1:
        raise ConfigError("an ablation takes one process: start it without torchrun")
    ablation = Ablation(plan, folder, device)
    ablation.read()
    ablation.begin()
    ablation.train()
    ablation.evaluate()
    return ablation.report()


class Ablation:
    """The steps of an ablation over its folder."""

    def __init__(self, plan: AblationPlan, folder: Path, device: str | None = None) -> None:
        self.plan, self.folder, self.device = plan, folder, device
        self._passages: dict[str, Passages] = {}  # of each collection
        self._examples: dict[str, list[Example]] = {}

    def read(self) -> None:
        """Every file of questions, its gold matched to passages: what is at fault is told before hours of training."""
        plan = self.plan
        read = {each.name: read_examples(each.dataset, plan.train.root / each.file) for each in plan.questions}
        for collection in dict.fromkeys(each.collection for each in plan.questions):
            digest = PassageDigest()
            passages = Catalogue.of(digest.noting(corpus.read(plan.corpus(collection))))
            self._passages[collection] = Passages(len(passages), digest.told)
            for own in (each for each in plan.questions if each.collection == collection):
                asked = match_gold(read[own.name][: plan.settings.limit], passages, plan.train.missing)
                self._examples[own.name] = list(asked.examples)
                if not asked.examples:
                    raise DatasetError(f"{own.file}: no question has all its gold passages in '{collection}'")

    def begin(self) -> None:
        """Take the folder; one whose rows have other readers, or indexes of other bits, would mix the two in a table."""
        settings, file = self.plan.settings, self.folder / SETTINGS
        told = {name: getattr(settings, name) for name in ("readers", "model", "lender", "bits")}
        before: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.exists() else told
        for name, value in told.items():
            if before.get(name) != value:
                raise ConfigError(
                    f"{self.folder}: holds an ablation of {name} = {before.get(name)!r}, and the plan has {value!r}: "
                    "choose another folder"
                )
        known: dict[str, str] = before.get(CORPORA, {})
        self._refuse_results_of_others(known)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(file, {**told, CORPORA: known | {name: own.digest for name, own in self._passages.items()}})

    def _refuse_results_of_others(self, known: Mapping[str, str]) -> None:
        """Indexes of passages that have changed since are built anew; results would stand beside new ones in a table."""
        for collection, passages in self._passages.items():
            files = [file for file in self.folder.glob("results/*/*.jsonl") if file.name.startswith(f"{collection}-")]
            if files and known.get(collection, passages.digest) != passages.digest:
                raise ConfigError(
                    f"{self.folder}: holds results over other passages than '{collection}' has now, such as "
                    f"{min(files)}: remove the {len(files)} of that collection, or choose another folder"
                )

    # Training

    def train(self) -> None:
        """Every training run that a row needs, and the rows' models."""
        settings = self.plan.settings
        shared, lent = settings.readers == "first", settings.lender is not None
        needed = [WHOLE] * (shared and not lent) + [row.variant for row in self.plan.rows]
        for variant in dict.fromkeys(needed):
            if variant == WHOLE and settings.model is not None:
                continue
            own = not shared or (variant == WHOLE and not lent)
            log.info("training %s", variant.name)
            train(variant.of(self.plan.train, reading=own), self._run(variant), device=self.device)
        for row in self.plan.rows:
            self._write_model(row, self._lender or self._trained(WHOLE if shared else row.variant))

    def _write_model(self, row: Row, readers: Path) -> None:
        """A model of components that lie where they were trained, with the row's pipeline, and following names or not."""
        folder = self._model(row)
        folder.mkdir(parents=True, exist_ok=True)
        reading, retriever = read_model(readers), read_model(self._trained(row.variant))
        places = {name: reading.folder(name) for name in reading.components} | {
            "retriever": retriever.folder("retriever")
        }
        run = {**reading.settings.get("run", {}), "pipeline": row.pipeline}
        if not row.named:
            run.pop("named_bonus", None)
        relative = {name: os.path.relpath(place, folder) for name, place in places.items()}
        write_model(folder, relative, {**reading.settings, "run": run})

    # Evaluation

    def evaluate(self) -> None:
        """Every row over every file of questions, one index at a time."""
        collections = dict.fromkeys(each.collection for each in self.plan.questions)
        rows = self._with_fewer_hops(self.plan.rows)
        for variant in dict.fromkeys(row.variant for row in rows):
            for collection in collections:
                retriever = self._retriever(variant, collection)
                for row in rows:
                    if row.variant == variant:
                        self._evaluate(row, collection, retriever)

    def _evaluate(self, row: Row, collection: str, retriever: Retriever) -> None:
        """As `baleen eval` does, into the same kind of file."""
        system, cutoffs = Baleen(read_model(self._model(row)), retriever), self.plan.settings.cutoffs
        for questions in self.plan.questions:
            if questions.collection == collection and self._takes(row, questions):
                log.info("evaluating %s on %s", row.name, questions.name)
                contender = system_contender(system, questions.dataset, cutoffs, self._options(row, questions))
                judge = Judge(questions.dataset, cutoffs, contender.collection.passage)
                out = self._results(row, questions)
                out.parent.mkdir(parents=True, exist_ok=True)
                results_of(contender, self._examples[questions.name], judge, out=out)

    def _options(self, row: Row, questions: Questions) -> dict[str, Any]:
        depths = self.plan.depths(questions)[: row.hops]
        return {"k": depths, "hops": len(depths)}

    def _takes(self, row: Row, questions: Questions) -> bool:
        """Whether a row is asked: one with fewer hops has to have fewer than the others take."""
        return row.hops is None or row.hops < len(self.plan.depths(questions))

    def _with_fewer_hops(self, rows: list[Row]) -> list[Row]:
        most = max(len(self.plan.depths(questions)) for questions in self.plan.questions)
        first = [row for row in rows if row.letter == "A" and self.plan.settings.fewer_hops]
        return [*rows, *(fewer for row in first for fewer in row.fewer(most))]

    def _retriever(self, variant: Variant, collection: str) -> Retriever:
        """A variant's encoder over its index of a collection, which is built unless it is there: of both, and no other."""
        encoder = Encoder.load(self._trained(variant), device=self.device)
        folder = self.folder / "indexes" / variant.name / collection
        bits, known = self.plan.settings.bits, self._passages[collection]
        if not _is_index_of(encoder, known, folder, bits):
            log.info("indexing %s for %s", collection, variant.name)
            passages, device = corpus.read(self.plan.corpus(collection)), str(encoder.device)
            Index.build(folder, passages, encoder, bits=bits, overwrite=True, device=device, corpus=known.digest)
        return Retriever(encoder, Index.open(folder, device=str(encoder.device)))

    # What came of it

    def report(self) -> Report:
        """Of every row that is done, be it from an earlier call; written to the folder, with figures."""
        done = [self._done(questions) for questions in self.plan.questions]
        report = Report(document(done), page(done))
        write_text(self.folder / MARKDOWN, report.page + "\n")
        write_json(self.folder / JSON, report.told)
        self._draw(done)
        return report

    def _done(self, questions: Questions) -> Evaluated:
        rows = [row for row in self._with_fewer_hops(list(ROWS.values())) if self._takes(row, questions)]
        found = {row: self._kept(row, questions) for row in rows}
        passages = self._passages[questions.collection].count
        return Evaluated(questions, passages, {row: results for row, results in found.items() if results})

    def _kept(self, row: Row, questions: Questions) -> list[Result]:
        """A row's results under the settings of today; none where a question has none, or one by another gold."""
        try:
            run, results = read_results(self._results(row, questions))
        except DatasetError:
            return []
        asked = {"k": list(self._options(row, questions)["k"]), "at": list(self.plan.settings.cutoffs)}
        found = {result.example.qid: result for result in results}
        examples = self._examples[questions.name]
        whole = all(each.qid in found and found[each.qid].example == each for each in examples)
        of_today = all(run.get(key) == value for key, value in asked.items())
        return [found[each.qid] for each in examples] if whole and of_today else []

    def _draw(self, done: list[Evaluated]) -> None:
        for each in done:
            runs = {row.name: each.results[row] for row in each.whole}
            try:
                draw(figures(runs), self.folder / "plots" / each.questions.name)
            except MissingExtraError as error:
                log.warning("no figures: %s", error)
                return

    # Where things lie

    def _run(self, variant: Variant) -> Path:
        return self.folder / "runs" / variant.name

    @property
    def _lender(self) -> Path | None:
        given = self.plan.settings.lender
        return None if given is None else resolve(self.plan.train.backbone(given))

    def _trained(self, variant: Variant) -> Path:
        """The model of a variant."""
        given = self.plan.settings.model
        if variant == WHOLE and given is not None:
            return resolve(self.plan.train.backbone(given))
        return self._run(variant) / MODEL

    def _model(self, row: Row) -> Path:
        return self.folder / "rows" / row.letter

    def _results(self, row: Row, questions: Questions) -> Path:
        return self.folder / "results" / row.key / f"{questions.name}.jsonl"


def _is_index_of(encoder: Encoder, passages: Passages, folder: Path, bits: int) -> bool:
    try:
        index = Index.open(folder)
        index.check_encoder(encoder.fingerprint)
    except StoredIndexError:
        return False
    # What was added and deleted since leaves the manifest's digest as it is; it shows in the number of passages.
    fits = index.manifest.bits == bits and len(index) == passages.count
    return fits and digest_of(index) == passages.digest
