"""How far a retriever gets by how many matches count: N-hat of the claim's, L-hat of the facts'.

    python benchmarks/focus.py wiki/part-*.jsonl.gz --questions hover:hover/dev.json exfever:exfever/dev.json \
        --sample 10000 --near 20 --model baleen-small --focus 32,8 16,8 64,8 32,4 all,all

*Reach*: questions with all gold passages found after each hop, with a perfect condenser, over a sample of the corpus that has
every gold passage; all focuses over one index.  Chance passages are easy to tell from gold ones: `--near 20` adds the first 20 of
BM25 for each question, which stand in a large corpus too.  The retriever was trained with a focus of its own: what another would be
worth to one that was trained with it is for `experiments/ablation.py` to say.  Prints a Markdown table.
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
from near_corpus import haystack, sample

Focus = tuple[int | None, int | None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="+")
    parser.add_argument("--questions", nargs="+", required=True, metavar="DATASET:FILE")
    parser.add_argument("--model", default="baleen-small")
    parser.add_argument("--sample", type=int, default=20_000)
    parser.add_argument("--near", type=int, default=0)
    parser.add_argument("--depths", default="25,25,25,25")
    parser.add_argument("--focus", nargs="+", default=["32,8", "16,8", "64,8", "32,4", "32,16", "all,all"])
    arguments = parser.parse_args()
    try:
        world = sample(arguments.corpus, arguments.questions, arguments.sample)
        with tempfile.TemporaryDirectory() as folder:
            encoder = Encoder.load(arguments.model)
            passages = haystack(world, arguments.corpus, arguments.near)
            print(f"{len(passages):,} passages\n", flush=True)
            index = Index.build(Path(folder) / "index", passages, encoder, total=len(passages))
            depths = [int(depth) for depth in arguments.depths.split(",")]
            print_table(world, Retriever(encoder, index), [read_focus(each) for each in arguments.focus], depths)
    except BaleenError as error:
        parser.exit(error.exit_code, f"{error}\n")


def read_focus(given: str) -> Focus:
    claim, facts = (None if part == "all" else int(part) for part in given.split(","))
    return claim, facts


def print_table(world: TrainingData, retriever: Retriever, focuses: Sequence[Focus], depths: Sequence[int]) -> None:
    datasets = list(dict.fromkeys(question.dataset for question in world.train))
    print(f"| N-hat, L-hat | {' | '.join(datasets)} |\n| --- | {' | '.join('---' for _ in datasets)} |")
    for focus in focuses:
        cells = [reach(world, retriever, dataset, focus, depths) for dataset in datasets]
        print(
            f"| {', '.join('all' if each is None else str(each) for each in focus)} | {' | '.join(cells)} |", flush=True
        )


def reach(world: TrainingData, retriever: Retriever, dataset: str, focus: Focus, depths: Sequence[int]) -> str:
    """`61.0 / 92.8 / 95.8 / 95.8`"""

    def search(states: Sequence[State], depth: int, seen: Sequence[Sequence[str]]) -> list[Ranking]:
        return retriever.search_many([state.query for state in states], depth, exclude=seen, focus=focus)

    examples = [question.example for question in world.train if question.dataset == dataset]
    hops = oracle_hops(examples, search, world.passage, depths, likely_sentences(world.passage))
    return " / ".join(f"{100 * hop.all_found:.1f}" for hop in hops)


if __name__ == "__main__":
    main()
