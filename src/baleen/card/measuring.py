"""The section of results: a table for each set of questions and passages, and the command of every row."""

from __future__ import annotations

from collections.abc import Sequence

from baleen.card.evaluations import Evaluation
from baleen.card.provenance import dataset_title, short_path
from baleen.card.subject import Subject
from baleen.evaluation.lineup import columns, hop_numbers
from baleen.evaluation.tables import hops_table, lineup_table

OTHER, UNKNOWN = "ANOTHER", "MODEL"  # in the place of a model's name
_Group = tuple[str, str, int]


def results(subject: Subject) -> str | None:
    """Every evaluation; None without any."""
    groups: dict[_Group, list[Evaluation]] = {}
    for each in subject.evaluations:
        groups.setdefault((each.dataset, short_path(each.file), each.passages), []).append(each)
    if not groups:
        return None
    legend = "In percent, over the questions of each file and the passages of each heading: figures of another corpus do not compare."
    return "\n\n".join([legend, *(_group(subject, *key, found) for key, found in groups.items())])


def _group(subject: Subject, dataset: str, file: str, passages: int, found: Sequence[Evaluation]) -> str:
    entries = [each.entry for each in found]
    metrics = columns(dataset, entries)
    parts = [f"### {dataset_title(dataset)}: `{file}` over {passages:,} passages", lineup_table(entries, metrics)]
    if len(hop_numbers(entries)) > 1:
        parts.append(hops_table(entries, metrics[0]))
    warnings = (_seen(subject, file), _intervals(found, metrics[0]), _others(subject, found))
    parts += [text for text in warnings if text]
    commands = "\n".join(f"# {each.name}\n{each.command(_model(subject, each))}" for each in found)
    return "\n\n".join([*parts, f"```sh\n{commands}\n```"])


def _seen(subject: Subject, file: str) -> str:
    """What the run had to do with these questions already; files are compared by their names, packed or not."""
    parts = {each.part for each in subject.files if _unpacked(short_path(each.file)) == _unpacked(file)}
    if "train" in parts:
        return "**The model was trained on a file of this name**: if it is the same, these figures say nothing of new questions."
    if "dev" in parts:
        return "The run measured itself on a file of this name: nothing was learnt from it, but settings may have been chosen by it."
    return ""


def _unpacked(file: str) -> str:
    return file.removesuffix(".gz")


def _intervals(found: Sequence[Evaluation], metric: str) -> str:
    """The intervals of the metric that counts most, where there are any."""
    bounds = {each.name: each.entry.whole.intervals.get(metric) for each in found}
    told = [f"{name} {low:.1f} to {high:.1f}" for name, (low, high) in _known(bounds).items()]
    return f"95% intervals of {metric} (bootstrap over questions): {'; '.join(told)}." if told else ""


def _known(bounds: dict[str, tuple[float, float] | None]) -> dict[str, tuple[float, float]]:
    return {name: each for name, each in bounds.items() if each is not None}


def _model(subject: Subject, each: Evaluation) -> str:
    if subject.digest is None:
        return UNKNOWN
    return subject.name if is_of(subject, each) else OTHER


def is_of(subject: Subject, each: Evaluation) -> bool:
    """Whether it was this very model that was evaluated, with the settings that it has now."""
    return subject.digest is not None and each.model == subject.digest


def _others(subject: Subject, found: Sequence[Evaluation]) -> str:
    """A warning about rows of other models; where this one is not known nothing can be said."""
    names = [each.name for each in found if each.model is not None and not is_of(subject, each)]
    if not names:
        return ""
    if subject.digest is None:
        return "Of which model these figures are was not checked, as its folder was not there."
    return f"Of another model than this, or of this one with other settings: {', '.join(names)}."
