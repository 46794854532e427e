"""Retrieval by focus: the number of matches that count for the claim (N-hat) and for the facts (L-hat).

    python benchmarks/focus.py wiki/part-*.jsonl.gz --questions hover:hover/dev.json exfever:exfever/dev.json \
        --sample 10000 --near 20 --model baleen-small --focus 32,8 16,8 64,8 32,4 all,all

Prints a Markdown table: the percentage of questions with all gold passages found after each hop, with a perfect
condenser, over one index of a sample of the corpus that has all gold passages.  Random passages are easy to tell from
gold ones, so `--near 20` adds the top 20 of BM25 for each question.  The retriever was trained with a focus of its own;
`experiments/ablation.py` trains retrievers with another.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from baleen.core.errors import BaleenError
from baleen.core.types import Ranking
from baleen.hops.retriever import Retriever
from baleen.index.index import Index
from baleen.models.encoder import Encoder
from baleen.training.cross_encoder.likely_sentences import likely_sentences
from baleen.training.data import TrainingData
from baleen.training.hop_order.fixed import oracle_hops
from baleen.training.hop_order.supervision import State
from near_corpus import sample, with_neighbours

Focus = tuple[int | None, int | None]
FOCUSES = ["32,8", "16,8", "64,8", "32,4", "32,16", "all,all"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="+", help="files of the corpus")
    parser.add_argument("--questions", nargs="+", required=True, metavar="DATASET:FILE")
    parser.add_argument("--model", default="baleen-small", help="folder or name of a model")
    parser.add_argument("--sample", type=int, default=20_000, help="passages to sample (default 20000)")
    parser.add_argument("--near", type=int, default=0, help="BM25 passages per question to add (default 0)")
    parser.add_argument("--depths", default="25,25,25,25", help="passages per hop")
    parser.add_argument("--focus", nargs="+", default=FOCUSES, help="N-hat,L-hat to compare")
    arguments = parser.parse_args()
    try:
        data = sample(arguments.corpus, arguments.questions, arguments.sample)
        with tempfile.TemporaryDirectory() as folder:
            encoder = Encoder.load(arguments.model)
            passages = with_neighbours(data, arguments.corpus, arguments.near)
            print(f"{len(passages):,} passages\n", flush=True)
            index = Index.build(Path(folder) / "index", passages, encoder, total=len(passages))
            depths = [int(depth) for depth in arguments.depths.split(",")]
            print_table(data, Retriever(encoder, index), [read_focus(each) for each in arguments.focus], depths)
    except BaleenError as error:
        parser.exit(error.exit_code, f"{error}\n")


def read_focus(given: str) -> Focus:
    claim, facts = (None if part == "all" else int(part) for part in given.split(","))
    return claim, facts


def print_table(data: TrainingData, retriever: Retriever, focuses: Sequence[Focus], depths: Sequence[int]) -> None:
    datasets = list(dict.fromkeys(question.dataset for question in data.train))
    print(f"| N-hat, L-hat | {' | '.join(datasets)} |\n| --- | {' | '.join('---' for _ in datasets)} |")
    for focus in focuses:
        cells = [reach(data, retriever, dataset, focus, depths) for dataset in datasets]
        print(
            f"| {', '.join('all' if each is None else str(each) for each in focus)} | {' | '.join(cells)} |", flush=True
        )


def reach(data: TrainingData, retriever: Retriever, dataset: str, focus: Focus, depths: Sequence[int]) -> str:
    """Percentages after each hop: `61.0 / 92.8 / 95.8 / 95.8`."""

    def search(states: Sequence[State], depth: int, seen: Sequence[Sequence[str]]) -> list[Ranking]:
        return retriever.search_many([state.query for state in states], depth, exclude=seen, focus=focus)

    examples = [question.example for question in data.train if question.dataset == dataset]
    hops = oracle_hops(examples, search, data.passage, depths, likely_sentences(data.passage))
    return " / ".join(f"{100 * hop.all_found:.1f}" for hop in hops)


if __name__ == "__main__":
    main()
