"""`baleen restate`: questions with answers into claims, true ones and false ones."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baleen.cli.options import JsonOption
from baleen.cli.output import some
from baleen.cli.question_files import examples_of, named

if TYPE_CHECKING:
    from baleen.restating.restater import Restater, Source


def restate(
    questions: Annotated[list[str], typer.Argument(metavar="DATASET:FILE...", help="Questions with answers")],
    out: Annotated[Path, typer.Option("--out", help="A .jsonl file, .jsonl.gz or .jsonl.zst")],
    seed: Annotated[int, typer.Option(help="The same seed and questions give the same file")] = 0,
    false: Annotated[int, typer.Option("--false", min=0, help="False claims of a question at most")] = 1,
    avoid: Annotated[
        list[str] | None,
        typer.Option(metavar="DATASET:FILE", help="Questions that nothing like may be produced (repeatable)"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Restate questions as claims: what is asked and answered is true, with another answer it is false."""
    from baleen.corpus import check_writable, write_lines
    from baleen.restating.restater import Restater

    start = time.perf_counter()
    check_writable(out)
    avoided = [example for item in avoid or [] for example in examples_of(item)]
    sources = [_source(item) for item in questions]
    restater = Restater(sources, seed, false, avoided)
    asked = sum(len(source.examples) for source in sources)
    claims = some(restater.claims(), lambda: _nothing(asked))
    written = write_lines((json.dumps(claim.to_json(), ensure_ascii=False).encode() for claim in claims), out)
    report = {
        "questions": asked,
        "written": written,
        "seconds": round(time.perf_counter() - start, 1),
        "counts": _by_rule(restater),
        "left_alone": dict(restater.left),
        "left_out": dict(restater.dropped),
    }
    typer.echo(json.dumps(report) if as_json else _page(report, out))


def _source(item: str) -> Source:
    from baleen.restating.restater import Source
    from baleen.restating.surroundings import read_surroundings

    examples = examples_of(item)
    return Source(examples, read_surroundings(named(item)[1], examples))


def _nothing(asked: int) -> Exception:
    from baleen.errors import DatasetError

    return DatasetError(
        f"none of {asked:,} questions could be restated; expected questions in English with their answers: "
        "see docs/synthesis.md"
    )


def _by_rule(restater: Restater) -> dict[str, dict[str, int]]:
    from baleen.restating.frame import RULES

    labels = sorted({label for _, label in restater.counts}, reverse=True)
    return {rule: {label: restater.counts[rule, label] for label in labels} for rule in RULES}


def _page(report: dict[str, Any], out: Path) -> str:
    counts: dict[str, dict[str, int]] = report["counts"]
    labels = list(next(iter(counts.values())))
    rows = {**counts, "all": {label: sum(count[label] for count in counts.values()) for label in labels}}
    return "\n".join(
        [
            f"| rule | {' | '.join(labels)} | all |",
            f"|---|{'---|' * (len(labels) + 1)}",
            *(
                f"| {rule} | {' | '.join(f'{each:,}' for each in [*count.values(), sum(count.values())])} |"
                for rule, count in rows.items()
            ),
            "",
            *(f"left alone: {count:,} questions ({why})" for why, count in report["left_alone"].items()),
            *(f"left out: {count:,} claims ({why})" for why, count in report["left_out"].items()),
            f"{report['written']:,} claims of {report['questions']:,} questions written to {out} in {report['seconds']} s",
        ]
    )
