"""Accuracy of gold sentences inferred from words, on questions whose gold sentences are known.

    python benchmarks/likely_sentences.py wiki/part-*.jsonl.gz --questions hover:dev.json hotpotqa:dev.json

Gold passages of one sentence are left out.  Prints a Markdown table.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from baleen.core.errors import BaleenError
from baleen.core.markdown import markdown_table
from baleen.core.types import Passage
from baleen.data.example import Example
from baleen.training.cross_encoder.likely_sentences import likely_sentences
from baleen.training.data import CollectionPlan, Question, Source, TrainingData, load_training_data
from baleen.training.hop_order.supervision import SentenceChoice, first_sentences


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="+")
    parser.add_argument("--questions", nargs="+", required=True, metavar="DATASET:FILE")
    arguments = parser.parse_args()
    if not all(":" in each for each in arguments.questions):
        parser.error("--questions takes DATASET:FILE, such as hover:hover/train.json")
    sources = tuple(Source(*each.split(":", 1)) for each in arguments.questions)
    plan = CollectionPlan("corpus", tuple(arguments.corpus), sources, sample=1)
    try:
        data = load_training_data([plan], Path(), "drop")
    except BaleenError as error:
        parser.exit(error.exit_code, f"{error}\n")
    print_table(data, [source.dataset for source in sources])


def print_table(data: TrainingData, datasets: Sequence[str]) -> None:
    methods, rows = [likely_sentences(data.passage, most=1), first_sentences(1)], []
    for dataset in datasets:
        found = list(known_passages(data, [each for each in data.train if each.dataset == dataset]))
        shares = [
            f"{100 * sum(is_gold(method, *each) for each in found) / max(1, len(found)):.1f} %" for method in methods
        ]
        rows.append([dataset, f"{len(found):,}", *shares])
    print(markdown_table(["dataset", "gold passages", "likeliest sentence is gold", "first sentence is gold"], rows))


def known_passages(data: TrainingData, questions: Sequence[Question]) -> Iterator[tuple[Example, Passage]]:
    for example in (question.example for question in questions):
        for pid in sorted({pid for pid, _ in example.facts}):
            passage = data.passage(pid)
            if sum(bool(sentence.strip()) for sentence in passage.sentences) > 1:
                yield example, passage


def is_gold(method: SentenceChoice, example: Example, passage: Passage) -> bool:
    return any((passage.pid, sid) in example.facts for sid in method(replace(example, facts=()), passage))


if __name__ == "__main__":
    main()
