"""Sample synthesised claims with their gold sentences for human judges, or summarise judgements.

    python benchmarks/synthesis_sample.py claims.jsonl.gz wiki/*.jsonl.gz --out sample.jsonl [--count 200] [--seed 7]
    python benchmarks/synthesis_sample.py --judged experiments/synthesis-sample.jsonl

Judges add `readable`, `necessary`, `sufficient` and `right` to each line, true or false, and may add a `remark`;
experiments/synthesis.md defines them.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

from baleen.core import files
from baleen.core.markdown import markdown_table
from baleen.data.corpus import read_passages

MARKS = ("readable", "necessary", "sufficient", "right")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="claims, then the files of their corpus")
    parser.add_argument("--out", type=Path, help="file to write")
    parser.add_argument("--count", type=int, default=200, help="claims to sample (default 200)")
    parser.add_argument("--seed", type=int, default=7, help="sampling seed")
    parser.add_argument("--judged", type=Path, help="judged claims to summarise instead")
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
    """For each claim: its text, its label or answer, and its gold sentences with titles."""
    wanted = {pid for claim in claims for pid in claim["gold"]}
    passages = {passage.pid: passage for passage in read_passages(corpus) if passage.pid in wanted}
    kept = ("id", "text", "hops", "kind", "label", "answer", "made")
    return [
        {key: claim[key] for key in kept if claim[key] is not None}
        | {"facts": [f"{passages[pid].title} | {passages[pid].sentences[sid]}" for pid, sid in claim["facts"]]}
        for claim in claims
    ]


def shares(judged: list[dict[str, Any]]) -> str:
    """A Markdown table of the percentages judged true, by hops and over all."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for claim in judged:
        groups[str(claim["hops"])].append(claim)
    rows = [(name, groups[name]) for name in sorted(groups)] + [("all", judged)]
    return markdown_table(
        ["hops", "claims", *MARKS],
        (
            [
                name,
                str(len(claims)),
                *(f"{100 * sum(each[mark] for each in claims) / len(claims):.1f}" for mark in MARKS),
            ]
            for name, claims in rows
        ),
    )


if __name__ == "__main__":
    main()
