"""Several runs over one dataset side by side: which metrics stand in their table, and which one counts most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from baleen.evaluation.prediction import Result
from baleen.evaluation.summary import Summary, by_hops, summarize
from baleen.types import Record

_EVIDENCE = ("passage_em", "passage_f1", "sentence_em", "sentence_f1")
_CLAIMS = (*_EVIDENCE, "label_accuracy")
_QUESTIONS = (*_EVIDENCE, "answer_em", "answer_f1")
# The columns of each dataset's table, as papers have them; the first is the one that counts.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "hover": ("retrieval@100", "all@100", "all@20", *_CLAIMS, "hover_score"),
    "hotpotqa": ("passage_recall@20", "answer_recall@20", *_QUESTIONS, "joint_em", "joint_f1"),
    "exfever": ("all@100", "all@20", *_CLAIMS),
    "2wiki": ("mean@5", "mean@2", "all@20", *_QUESTIONS),
    "musique": ("mean@5", "mean@2", "all@20", *_QUESTIONS),
}
OTHERS = ("all@20", "all@100", "mean@5", *_CLAIMS, "answer_em", "answer_f1")


@dataclass(frozen=True, slots=True)
class Entry(Record):
    """A run of the table: all its questions, and those of each number of hops."""

    name: str
    whole: Summary
    hops: Mapping[int, Summary] = field(default_factory=dict)


def entry(name: str, results: Sequence[Result], samples: int = 0) -> Entry:
    """With intervals of `samples` resamplings, or without any."""
    return Entry(name, summarize(results, samples), by_hops(results, samples))


def columns(dataset: str, entries: Sequence[Entry]) -> list[str]:
    """The metrics of a dataset's table that some run has; of rankings with other cutoffs, recall at the deepest."""
    known = list(dict.fromkeys(name for each in entries for name in each.whole.metrics))
    found = [name for name in COLUMNS.get(dataset, OTHERS) if name in known]
    if not any("@" in name for name in found):
        found = [name for name in known if name.startswith("all@")][-1:] + found
    return found or known


def hop_numbers(entries: Sequence[Entry]) -> list[int]:
    return sorted({number for each in entries for number in each.hops})
