"""`baleen synthesize`: multi-hop claims and questions out of a corpus."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baleen.cli.options import JsonOption
from baleen.cli.show import some

if TYPE_CHECKING:
    from baleen.synthesis.avoiding import Avoided
    from baleen.synthesis.graph import Graph
    from baleen.synthesis.settings import SynthesisConfig
    from baleen.synthesis.tallying import Tallied


def synthesize(
    corpus: Annotated[list[Path], typer.Argument(help="Collections, as for 'index'")],
    out: Annotated[Path, typer.Option("--out", help="A .jsonl file, .jsonl.gz or .jsonl.zst")],
    limit: Annotated[int, typer.Option(min=1, help="How many claims and questions")] = 1000,
    seed: Annotated[int, typer.Option(help="The same seed and corpus give the same file")] = 0,
    hops: Annotated[
        str, typer.Option(metavar="N[=SHARE],...", help="How many passages, and how often")
    ] = "2=0.4,3=0.35,4=0.25",
    kinds: Annotated[
        str | None, typer.Option(metavar="KIND[=SHARE],...", help="chain, bridge, tree, intersection, comparison")
    ] = None,
    balanced: Annotated[bool, typer.Option("--balanced", help="Equal shares of hops, kinds and labels")] = False,
    questions: Annotated[float, typer.Option(min=0, max=1, help="Share of questions, the rest claims")] = 0.3,
    gaps: Annotated[
        float, typer.Option(min=0, max=1, help="Of questions, share that leave something out of a statement")
    ] = 0.0,
    unnamed: Annotated[
        float, typer.Option(min=0, max=1, help="Share of chains and trees that name none of their passages")
    ] = 0.3,
    solved: Annotated[
        float, typer.Option(min=0, max=1, help="Share to keep of those that one search over words solves")
    ] = 0.5,
    avoid: Annotated[
        list[str] | None,
        typer.Option(metavar="DATASET:FILE", help="Questions that nothing like may be produced (repeatable)"),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out passages that cannot be read, and count them")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make claims and questions with gold passages, gold sentences and labels out of the passages of CORPUS."""
    from baleen.data.corpus import Tally, check_writable
    from baleen.data.corpus import estimate_count as expected
    from baleen.data.corpus import read_passages as read
    from baleen.data.formats import read_examples
    from baleen.synthesis.graph import read_graph
    from baleen.synthesis.synthesizing import Synthesizer
    from baleen.synthesis.tallying import Tallied

    start = time.perf_counter()
    config = _config(
        hops, kinds, balanced, limit=limit, seed=seed, questions=questions, gaps=gaps, unnamed=unnamed, solved=solved
    )
    check_writable(out)  # before the time that reading a corpus takes
    examples = [example for item in avoid or [] for example in read_examples(*_dataset_file(item))]
    total = expected(corpus) if sys.stderr.isatty() else None
    tally = Tally()
    graph = read_graph(read(corpus, skip_bad=skip_bad, tally=tally, links=True), total)
    synthesizer = Synthesizer(graph, config, _avoided(examples, graph))
    tallied = Tallied()
    _write((claim.to_json() for claim in some(tallied.counting(synthesizer.claims()), lambda: _nothing(graph))), out)
    report = {
        "written": tallied.total,
        "skipped": tally.bad,
        "seconds": round(time.perf_counter() - start, 1),
        "graph": graph.report(),
        "counts": tallied.counts(),
        "left_out": dict(synthesizer.dropped),
    }
    typer.echo(json.dumps(report) if as_json else _page(report, tallied, out))


def _dataset_file(item: str) -> tuple[str, Path]:
    """Split DATASET:FILE."""
    dataset, separator, file = item.partition(":")
    if not separator:
        raise typer.BadParameter(f"'{item}': expected DATASET:FILE, as in hover:dev.json")
    return dataset, Path(file)


def _config(
    hops: str,
    kinds: str | None,
    balanced: bool,
    *,
    limit: int,
    seed: int,
    questions: float,
    gaps: float,
    unnamed: float,
    solved: float,
) -> SynthesisConfig:
    from baleen.synthesis.settings import SynthesisConfig

    given: dict[str, Any] = {"hops": {_number(name): share for name, share in _shares(hops).items()}}
    if kinds is not None:
        given["kinds"] = _shares(kinds)
    config = SynthesisConfig(limit, seed, questions=questions, gaps=gaps, unnamed=unnamed, solved=solved, **given)
    return config.balanced() if balanced else config


def _shares(text: str) -> dict[str, float]:
    """ "2=0.4,3" as shares by name; a name without one has 1."""
    found: dict[str, float] = {}
    for item in text.split(","):
        name, _, share = item.strip().partition("=")
        try:
            found[name] = float(share or 1)
        except ValueError:
            raise typer.BadParameter(f"'{item}': expected NAME or NAME=SHARE") from None
    return found


def _number(name: str) -> int:
    if not name.isdecimal():
        raise typer.BadParameter(f"'{name}' hops: expected a number from 2 on")
    return int(name)


def _avoided(examples: list[Any], graph: Graph) -> Avoided:
    from baleen.synthesis.avoiding import Avoided, name_key

    numbers: dict[str, list[int]] = {}
    for page in graph.pages if examples else ():
        for name in {name_key(page.pid), name_key(page.title)}:
            numbers.setdefault(name, []).append(page.number)
    return Avoided(examples, numbers)


def _nothing(graph: Graph) -> Exception:
    from baleen.core.errors import CorpusError

    found = graph.report()
    return CorpusError(
        f"nothing could be made of {found['passages']:,} passages, {found['defined']:,} of them defined, with "
        f'{found["links"]:,} links; expected passages that say what they are about ("X is a ...") and name each '
        "other's titles: see docs/synthesis.md"
    )


def _write(records: Iterable[dict[str, Any]], out: Path) -> None:
    from baleen.data.corpus import write_lines

    write_lines((json.dumps(record, ensure_ascii=False).encode() for record in records), out)


def _page(report: dict[str, Any], tallied: Tallied, out: Path) -> str:
    graph = report["graph"]
    chains = ", ".join(f"{count:,} of {length}" for length, count in graph["chains"].items())
    return "\n".join(
        [
            f"{graph['passages']:,} passages, {graph['defined']:,} of them defined; {graph['links']:,} links; chains: {chains}",
            "",
            tallied.table(),
            "",
            *(f"left out: {count:,} ({why})" for why, count in report["left_out"].items()),
            *([f"skipped: {report['skipped']:,} passages that cannot be read"] if report["skipped"] else []),
            f"{report['written']:,} written to {out} in {report['seconds']} s",
        ]
    )
