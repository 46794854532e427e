"""The card: front matter for model hubs, sections in their order, and which of them had to be left out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from baleen.card.advice import intended, licences, limits, out_of_scope
from baleen.card.describing import components, introduction, use
from baleen.card.making import data, environments, training
from baleen.card.measuring import is_of, results
from baleen.card.provenance import DATASETS
from baleen.card.subject import Subject
from baleen.errors import ConfigError
from baleen.training.run_folder import write_text

SIGNED = "Written by `baleen card` out of `plan.json`"
TAGS = ("multi-hop", "retrieval", "late-interaction")
_TAGS_OF = {"verifier": "fact-checking", "answerer": "question-answering", "reranker": "reranking"}
_PLAIN = re.compile(r"[A-Za-z0-9][\w./-]*")
OTHER_LICENCE = "other"


@dataclass(frozen=True)
class Card:
    """Markdown, and a line for each thing that it could not say, with the reason."""

    text: str
    left_out: tuple[str, ...] = ()


def make_card(subject: Subject, licence: str | None = None) -> Card:
    """The card of a model; its weights are under `licence`, or else under MIT where every backbone is known."""
    licence = licence or ("mit" if all(subject.backbones.values()) else OTHER_LICENCE)
    told = {
        "Use": use(subject),
        "Components": components(subject),
        "Data": data(subject),
        "Training": training(subject),
        "Hardware and versions": environments(subject),
        "Results": results(subject),
        "Intended use": intended(subject),
        "Out of scope": out_of_scope(subject),
        "Limits and biases": limits(subject),
        "Licences": licences(subject, _licence_name(licence)),
    }
    sections = [f"## {title}\n\n{text}" for title, text in told.items() if text is not None]
    head = f"{_front_matter(subject, licence)}\n\n# {subject.name}\n\n{introduction(subject)}"
    return Card("\n\n".join([head, *sections, _signature(subject)]) + "\n", tuple(_left_out(subject)))


def _licence_name(licence: str) -> str:
    return {"mit": "MIT", OTHER_LICENCE: "to be settled by whoever passes them on"}.get(licence, licence)


def _front_matter(subject: Subject, licence: str) -> str:
    """YAML as the Hugging Face hub reads it; keys without a value are left out."""
    tags = [*TAGS, *(tag for component, tag in _TAGS_OF.items() if component in subject.run.components)]
    fields: Mapping[str, str | Sequence[str]] = {
        "license": licence,
        "language": subject.languages,
        "library_name": "baleen",
        "tags": tags,
        "base_model": [found.hub for found in subject.backbones.values() if found],
        "datasets": [hub for name in subject.datasets if (hub := DATASETS[name].hub)],
    }
    lines = [line for key, value in fields.items() if value for line in _yaml(key, value)]
    return "\n".join(["---", *lines, "---"])


def _yaml(key: str, value: str | Sequence[str]) -> list[str]:
    if isinstance(value, str):
        return [f"{key}: {_scalar(value)}"]
    return [f"{key}:", *(f"  - {_scalar(item)}" for item in value)]


def _scalar(value: str) -> str:
    """Quoted, as JSON and YAML both do it, unless it can be taken for nothing but a string."""
    return value if _PLAIN.fullmatch(value) and not value.isdigit() else json.dumps(value)


def _signature(subject: Subject) -> str:
    """What it was written from."""
    noted = ", `environment.json`" if subject.run.environments else ""
    count = len(subject.evaluations)
    also = f", and of {count} document{'s' * (count > 1)} of `baleen eval --json`" if count else ""
    return f"---\n\n{SIGNED}{noted} and `summary.json` of the run{also}; no figure in it was typed in by hand."


def _left_out(subject: Subject) -> list[str]:
    run, lines = subject.run, []
    if not subject.weights:
        lines.append("components: the model's folder is not there; name it with --model")
    if any(not run.counted(each["name"]) for each in run.plan["collections"]):
        lines.append("counts of passages and questions: summary.json has none, as an older Baleen wrote it")
    if not run.environments:
        lines.append("hardware and versions: there is no environment.json, as an older Baleen made the run")
    elif not all(each.get("commit") for each in run.environments):
        lines.append(
            "the commit: environment.json does not know it; BALEEN_COMMIT tells `baleen train` without a repository"
        )
    if not subject.evaluations:
        lines.append("results: none were named; `baleen eval ... --json > FILE` makes one for --results")
    elif subject.digest is not None and not any(is_of(subject, each) for each in subject.evaluations):
        lines.append("results of this very model: those that were named are of others, or of other settings")
    return lines


def write_card(card: Card, file: Path) -> None:
    """Write it by rename; what stands there and is no card is left alone, with a ConfigError."""
    if file.is_dir():
        raise ConfigError(f"{file}: a folder; name the file in it, such as {file / 'README.md'}")
    if not file.parent.is_dir():
        raise ConfigError(f"{file}: there is no folder {file.parent}")
    if file.exists() and SIGNED not in file.read_text("utf-8", errors="replace"):
        raise ConfigError(f"{file}: holds something other than a card of ours; choose another --out, or remove it")
    write_text(file, card.text)
