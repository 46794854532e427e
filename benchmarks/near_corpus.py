"""Make a small corpus that stays hard: passages near the questions of a large one.

    python benchmarks/near_corpus.py wiki/part-*.jsonl.gz --questions hover:hover/dev.json exfever:exfever/dev.json \
        --sample 6000 --near 20 --out near.jsonl.gz

It has every gold passage of the questions, random passages up to --sample, and the top --near of BM25 in the whole
corpus for each question.  `--beside FILE` adds the passages of another such corpus.  Figures over it compare only with
each other, not with those over the large corpus.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from baleen.core.errors import BaleenError, ConfigError
from baleen.core.types import Passage
from baleen.data import corpus
from baleen.evaluation.baselines.bm25 import BM25
from baleen.training.data import CollectionPlan, Source, TrainingData, load_training_data

NAME = "corpus"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="+", help="files of the large corpus")
    parser.add_argument("--questions", nargs="+", required=True, metavar="DATASET:FILE")
    parser.add_argument("--sample", type=int, default=6_000, help="passages to sample (default 6000)")
    parser.add_argument("--near", type=int, default=20, help="BM25 passages per question (default 20)")
    parser.add_argument("--beside", type=Path, help="corpus to add")
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    arguments = parser.parse_args()
    try:
        corpus.check_writable(arguments.out)
        data = sample(arguments.corpus, arguments.questions, arguments.sample)
        found = (replace(each, pid=bare(each.pid)) for each in with_neighbours(data, arguments.corpus, arguments.near))
        before = corpus.read_passages([arguments.beside]) if arguments.beside else ()
        written = corpus.write_passages({passage.pid: passage for passage in (*before, *found)}.values(), arguments.out)
        print(f"{arguments.out}: {written:,} passages")
    except BaleenError as error:
        parser.exit(error.exit_code, f"{error}\n")


def sample(files: Sequence[str], questions: Sequence[str], size: int) -> TrainingData:
    """Load the questions over `size` passages, all gold ones included; ids get the prefix `corpus/`."""
    for each in questions:
        if ":" not in each:
            raise ConfigError(f"'{each}': expected DATASET:FILE, as in hover:dev.json")
    sources = tuple(Source(*each.split(":", 1)) for each in questions)
    return load_training_data([CollectionPlan(NAME, tuple(files), sources, sample=size)], Path(), "drop")


def with_neighbours(data: TrainingData, files: Sequence[str], near: int) -> list[Passage]:
    """The sample, and the top `near` passages of the whole corpus for each question."""
    chosen = {pid: data.passages[pid] for pid in data.pids[NAME]}
    if near:
        everything = {f"{NAME}/{passage.pid}": passage for passage in corpus.read_passages(files)}
        rankings = BM25(everything.values()).rank([question.example.text for question in data.train], near)
        for pid in (f"{NAME}/{pid}" for ranking in rankings for pid in ranking.pids):
            chosen[pid] = replace(everything[pid], pid=pid)
    return list(chosen.values())


def bare(pid: str) -> str:
    return pid.removeprefix(f"{NAME}/")


if __name__ == "__main__":
    main()
