"""`baleen synthesize`: make multi-hop claims and questions from a corpus."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baleen.cli.options import CollectionOutOption, JsonOption, SkipBadOption, grouped

if TYPE_CHECKING:
    from baleen.synthesis.avoiding import Avoided
    from baleen.synthesis.graph import Graph
    from baleen.synthesis.settings import SynthesisConfig
    from baleen.synthesis.synthesizing import Claim
    from baleen.synthesis.tallying import Tallied


@dataclass(frozen=True)
class SynthesisOptions:
    """Which claims and questions are made."""

    limit: Annotated[int, typer.Option(min=1, help="Claims and questions to write.")] = 1000
    seed: Annotated[int, typer.Option(help="Random seed; equal seed and corpus give an equal file.")] = 0
    hops: Annotated[str, typer.Option(metavar="N[=SHARE],...", help="Gold passages per claim, with shares.")] = (
        "2=0.4,3=0.35,4=0.25"
    )
    kinds: Annotated[
        str | None,
        typer.Option(
            metavar="KIND[=SHARE],...",
            help="Kinds with shares: chain, bridge, tree, intersection, comparison.",
            show_default="all; chain, bridge and tree most",
        ),
    ] = None
    balanced: Annotated[bool, typer.Option("--balanced", help="Equal shares of hops, kinds and labels.")] = False
    questions: Annotated[float, typer.Option(min=0, max=1, help="Share of questions; the rest are claims.")] = 0.3
    gaps: Annotated[float, typer.Option(min=0, max=1, help="Share of questions that leave a gap in a statement.")] = 0.0
    unnamed: Annotated[
        float, typer.Option(min=0, max=1, help="Share of chains and trees that name none of their passages.")
    ] = 0.3
    solved: Annotated[
        float, typer.Option(min=0, max=1, help="Share to keep of those that a single word search solves.")
    ] = 0.5

    def config(self) -> SynthesisConfig:
        """The checked settings."""
        from baleen.synthesis.settings import SynthesisConfig

        given: dict[str, Any] = {"hops": {_number(name): share for name, share in _shares(self.hops).items()}}
        if self.kinds is not None:
            given["kinds"] = _shares(self.kinds)
        config = SynthesisConfig(
            self.limit,
            self.seed,
            questions=self.questions,
            gaps=self.gaps,
            unnamed=self.unnamed,
            solved=self.solved,
            **given,
        )
        return config.balanced() if self.balanced else config


@grouped
def synthesize(
    corpus: Annotated[list[Path], typer.Argument(metavar="CORPUS", help="Collections, as for 'index'.")],
    out: CollectionOutOption,
    *,
    options: SynthesisOptions,
    avoid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DATASET:FILE", help="Test set whose questions and passages must not be used (repeatable)."
        ),
    ] = None,
    skip_bad: SkipBadOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make claims and questions with gold passages, sentences and labels from the passages of CORPUS."""
    from baleen.data.corpus import Tally, check_writable, estimate_count, read_passages
    from baleen.data.formats import read_examples
    from baleen.synthesis.graph import read_graph
    from baleen.synthesis.synthesizing import Synthesizer
    from baleen.synthesis.tallying import Tallied

    start = time.perf_counter()
    config = options.config()
    check_writable(out)  # before the corpus is read
    examples = [example for item in avoid or [] for example in read_examples(*_dataset_file(item))]
    total = estimate_count(corpus) if sys.stderr.isatty() else None
    tally = Tally()
    graph = read_graph(read_passages(corpus, skip_bad=skip_bad, tally=tally, links=True), total)
    synthesizer = Synthesizer(graph, config, _avoided(examples, graph))
    tallied = Tallied()
    claims = _refuse_none(tallied.counting(synthesizer.claims()), graph)
    _write((claim.to_json() for claim in claims), out)
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


def _shares(text: str) -> dict[str, float]:
    """Parse "2=0.4,3" as shares by name; the default share is 1."""
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


def _refuse_none(claims: Iterator[Claim], graph: Graph) -> Iterator[Claim]:
    """Yield the claims; refuse a corpus that gives none, so that no empty file is written."""
    from baleen.core.errors import CorpusError

    first = next(claims, None)
    if first is not None:
        yield first
        yield from claims
        return
    found = graph.report()
    raise CorpusError(
        f"nothing could be made from {found['passages']:,} passages, {found['defined']:,} of them defined, with "
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
