"""A random sample of synthesised claims with their gold sentences, to be read and judged one by one; or what judges found.

    python benchmarks/synthesis_sample.py claims.jsonl.gz wiki/*.jsonl.gz --out sample.jsonl [--count 200] [--seed 7]
    python benchmarks/synthesis_sample.py --judged experiments/synthesis-sample.jsonl

A judge adds to each line `readable`, `necessary`, `sufficient` and `right`, each true or false, and may add a `remark`;
experiments/synthesis.md defines the four.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

from baleen.core import files
from baleen.data.corpus import read_passages

MARKS = ("readable", "necessary", "sufficient", "right")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="claims, then the corpus that they were made of")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--judged", type=Path, help="print the shares of what was judged instead")
    given = parser.parse_args()
    if given.judged:
        print(shares([json.loads(line) for line in files.read_lines(given.judged)]))
        return
    if len(given.files) < 2 or given.out is None:
        parser.error("give the claims, the corpus and --out, or --judged")
    claims = [json.loads(line) for line in files.read_lines(given.files[0])]
    drawn = random.Random(given.seed).sample(claims, min(given.count, len(claims)))
    files.write_lines(
        (json.dumps(each, ensure_ascii=False).encode() for each in with_sentences(drawn, given.files[1:])), given.out
    )
    print(f"{len(drawn)} of {len(claims):,} claims, drawn with seed {given.seed}, written to {given.out}")


def with_sentences(claims: list[dict[str, Any]], corpus: list[Path]) -> list[dict[str, Any]]:
    """What a judge needs of each claim: its text, its label or answer, and its gold sentences under their titles."""
    wanted = {pid for claim in claims for pid in claim["gold"]}
    passages = {passage.pid: passage for passage in read_passages(corpus) if passage.pid in wanted}
    kept = ("id", "text", "hops", "kind", "label", "answer", "made")
    return [
        {key: claim[key] for key in kept if claim[key] is not None}
        | {"facts": [f"{passages[pid].title} | {passages[pid].sentences[sid]}" for pid, sid in claim["facts"]]}
        for claim in claims
    ]


def shares(judged: list[dict[str, Any]]) -> str:
    """A Markdown table of the shares that were judged good, by hops and over all."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for claim in judged:
        groups[str(claim["hops"])].append(claim)
    rows = [(name, groups[name]) for name in sorted(groups)] + [("all", judged)]
    lines = [f"| hops | claims | {' | '.join(MARKS)} |", "|---|---|---|---|---|---|"]
    for name, claims in rows:
        marks = " | ".join(f"{100 * sum(claim[mark] for claim in claims) / len(claims):.1f}" for mark in MARKS)
        lines.append(f"| {name} | {len(claims)} | {marks} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
