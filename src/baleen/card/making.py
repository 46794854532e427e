"""The sections about how a model came to be: its data, its trainings, and where they were done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from baleen.card.provenance import dataset_title, short_path
from baleen.card.run_record import DataFile
from baleen.card.subject import Subject
from baleen.evaluation.tables import table
from baleen.machine import ABSENT
from baleen.training.environment import Environment
from baleen.training.run_folder import spell

_ORDERS = {
    "latent": "inferred from what the retriever finds (latent hop ordering)",
    "heuristic": "titles that the question names come first (the paper's heuristic)",
    "oracle": "as the data gives it",
}
# Measures on dev questions, as a stage reports them; the others are called as they are, or stand for one of these.
_STAND_FOR_OTHERS = ("metric", "sentences_metric")
_MEASURES = {
    "sentences_recall": "sentences: recall of gold ones among the best",
    "sentences_best": "sentences: the best one is gold",
    "facts_metric": "facts: F1 of those above 0",
    "facts_exact": "facts: exactly the gold ones are above 0",
    "reranker_metric": "reranker: a gold passage comes first",
    "verifier_metric": "verifier: accuracy",
    "answerer_metric": "answerer: F1",
    "answerer_em": "answerer: exact match",
}


# Data


def data(subject: Subject) -> str:
    """Every corpus and every file of questions, as the plan has them, with the counts of the run."""
    parts = [
        table(["collection", "corpus", "passages searched"], _corpus_rows(subject)),
        table(["questions", "file", "for", "usable", "weight", "limit", "order"], map(_file_row, subject.files)),
        "Weight: how often a question is taken in training, beside those of weight 1. Limit: at most so many questions "
        f"of the file, drawn at random. {_order(subject)}",
    ]
    if any(each.synthetic for each in subject.files):
        names = _names(each for each in subject.files if each.synthetic)
        parts.append(
            f"**Synthetic**: {names}. No person wrote these questions: they were made out of a corpus by a program."
        )
    if any(each.restated for each in subject.files):
        names = _names(each for each in subject.files if each.restated)
        parts.append(
            f"**Restated**: {names}. A program made these claims, true and false ones, of people's questions and answers."
        )
    return "\n\n".join(parts)


def _names(files: Iterable[DataFile]) -> str:
    return ", ".join(dict.fromkeys(f"`{short_path(each.file)}`" for each in files))


def _order(subject: Subject) -> str:
    if subject.run.ready is not None:
        return "Order: of no account here, as it is for training a retriever, and this one's was taken as it is."
    way = _ORDERS.get(subject.run.plan["retriever"].get("order"), "as the plan says")
    return f"Order: `given` questions come with the order of their hops; the others' is {way}."


def _corpus_rows(subject: Subject) -> list[list[str]]:
    rows = []
    for collection in subject.run.plan["collections"]:
        passages = subject.run.counted(collection["name"]).get("passages")
        files = ", ".join(f"`{short_path(file)}`" for file in collection.get("corpus", []))
        sampled = f" (`sample = {collection['sample']}`)" if collection.get("sample") else ""
        rows.append([collection["name"], files, f"{_count(passages)}{sampled}"])
    return rows


def _file_row(each: DataFile) -> list[str]:
    kind = "synthetic" if each.synthetic else "restated" if each.restated else dataset_title(each.dataset)
    usable = _count(each.questions) + (f" of all `{each.dataset}` files here" if each.shared and each.questions else "")
    limit = "-" if each.limit is None else f"{each.limit:,}"
    return [kind, f"`{short_path(each.file)}`", _purpose(each), usable, f"{each.weight:g}", limit, each.order]


def _purpose(each: DataFile) -> str:
    if each.part == "dev":
        return "measuring"
    return "training" if each.searched else "training of facts, verifier and answerer alone"


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


# Trainings


def training(subject: Subject) -> str:
    """The settings of each training with its speed, all stages with their time, and what was measured on the way."""
    stages = subject.run.stages
    trained = {name: report for name, report in stages.items() if "steps" in report}
    total = spell(sum(report.get("seconds", 0) for report in stages.values()))
    head = ["stage", "steps", "batch", "learning rate", "seed", "records", "time", "steps/s", "tokens/s", "last loss"]
    rows = [_training_row(name, report, subject.run.settings_of(name)) for name, report in trained.items()]
    times = ", ".join(f"{name} {spell(report['seconds'])}" for name, report in stages.items() if "seconds" in report)
    parts = [table(head, rows), f"All stages: {times}; {total} in all.", _reach(stages), _measured(stages)]
    return "\n\n".join(part for part in parts if part)


def _training_row(name: str, report: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    records = report.get("records")
    counts = records.values() if isinstance(records, Mapping) else [records or 0]
    return [
        name,
        f"{report['steps']:,}",
        str(settings.get("batch_size", "-")),
        _number(settings.get("lr"), "g"),
        str(settings.get("seed", "-")),
        f"{sum(counts):,}",
        spell(report.get("training_seconds", report.get("seconds", 0))),
        _number(report.get("steps_per_second"), ".1f"),
        _number(report.get("tokens_per_second"), ",.0f"),
        _number(report.get("loss"), ".3g"),
    ]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _reach(stages: Mapping[str, Mapping[str, Any]]) -> str:
    """How far the final retriever gets with a perfect condenser."""
    report = stages.get("retriever", {})
    reached = {key.removeprefix("dev "): hops for key, hops in report.items() if key.startswith("dev ") and hops}
    if not reached:
        return ""
    depths = [hop["depth"] for hop in next(iter(reached.values()))]
    head = ["measuring questions of", *(f"hop {number} ({depth})" for number, depth in enumerate(depths, start=1))]
    rows = [[dataset_title(name), *(f"{100 * hop['all_found']:.1f}" for hop in hops)] for name, hops in reached.items()]
    return (
        "Questions with all gold passages found after each hop (of so many passages), in percent, with a perfect "
        f"condenser, which bounds what the retriever can do with its own:\n\n{table(head, rows)}"
    )


def _measured(stages: Mapping[str, Mapping[str, Any]]) -> str:
    """What the heads came to on the measuring questions, each by the last stage that trained it."""
    found: dict[str, float] = {}
    for report in stages.values():
        dev = report.get("dev")
        found |= dev if isinstance(dev, Mapping) else {}
    found = {name: value for name, value in found.items() if name not in _STAND_FOR_OTHERS}
    if not found:
        return ""
    rows = [[_MEASURES.get(name, name.replace("_", ": ", 1)), f"{100 * value:.1f}"] for name, value in found.items()]
    return (
        "The heads on records made of the measuring questions in the way in which training records are made, in "
        f"percent:\n\n{table(['measure', 'percent'], rows)}"
    )


# Environments


def environments(subject: Subject) -> str | None:
    """Where the run was done; None where it does not say."""
    return "\n\n".join(map(_environment, subject.run.environments)) or None


def _environment(found: Environment) -> str:
    rows = [[title, told] for title, told in _told(found).items() if told]
    return table([f"since {found.get('date', 'a day that is not known')}", ""], rows)


def _told(found: Environment) -> dict[str, str]:
    processes = found.get("processes") or 1
    packages = ("python", "baleen", "torch", "transformers", "numpy", "numba")
    changed = {True: ", with changes that were not committed", False: "", None: ""}[found.get("changed")]
    return {
        "device": str(found.get("device", "")) + (f", {processes} processes" if processes > 1 else ""),
        "processor": f"{found['cpu']}, {found.get('cores')} cores, {found.get('memory_gb')} GB"
        if "cpu" in found
        else "",
        "versions": ", ".join(f"{name} {found[name]}" for name in packages if found.get(name, ABSENT) != ABSENT),
        "CUDA": found.get("cuda") or "",
        "commit": f"`{found['commit']}`{changed}" if found.get("commit") else "not known",
    }
