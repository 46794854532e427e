"""The command line.  Standard output carries results alone; progress and logs go to standard error.

Heavy modules are imported inside the commands, so that `baleen --help` answers at once.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baleen.errors import BaleenError, ConfigError

if TYPE_CHECKING:
    from baleen.retriever import Retriever
    from baleen.types import Query, Ranking

app = typer.Typer(
    help="Multi-hop retrieval and claim verification over any corpus.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
bench = typer.Typer(help="Speed, memory and recall on this machine.", no_args_is_help=True)
app.add_typer(bench, name="bench")


class Bits(StrEnum):
    one, two, four, sixteen = "1", "2", "4", "16"


ModelOption = Annotated[
    str | None, typer.Option("--model", help="A checkpoint's folder or name [default: the embedded one]")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else")]
DeviceOption = Annotated[str | None, typer.Option("--device", help="cpu or cuda [default: the best there is]")]
ThreadsOption = Annotated[
    int | None, typer.Option("--threads", min=1, help="CPU threads of a search [default: all cores]")
]


def main() -> None:
    """Run a command; an error that is somebody's to mend is one line and an exit code of its own."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    for noisy in ("numba", "transformers", "httpx", "huggingface_hub"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    try:
        app()
    except BaleenError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(1)
    except OSError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(BaleenError.exit_code)


@app.command()
def index(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Collections: JSONL (.gz, .zst), BEIR or HotPotQA folders, text")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="The index's folder")] = Path("baleen.index"),
    model: ModelOption = None,
    bits: Annotated[
        Bits, typer.Option(help="Bits a dimension of what centroids leave over; 16: float16 vectors")
    ] = Bits.two,
    add: Annotated[
        bool, typer.Option("--add", help="Add to the index; a passage whose id is there takes its place")
    ] = False,
    delete: Annotated[
        list[str] | None, typer.Option("--delete", metavar="ID", help="Delete a passage (repeatable)")
    ] = None,
    compact: Annotated[bool, typer.Option("--compact", help="Merge segments and free what was deleted")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Check every file against its checksum")] = False,
    info: Annotated[bool, typer.Option("--info", help="Only describe the index")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an index that is there already")] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out passages that cannot be read, and count them")
    ] = False,
    cells: Annotated[
        int | None, typer.Option(min=1, help="Number of centroids [default: by the number of vectors]")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the sample that centroids are fitted on")] = 0,
    device: DeviceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Build an index of FILES, or change, check or describe one."""
    from baleen.index import Index

    changes = bool(delete) + compact + verify + info
    if bool(files) == bool(changes) or changes > 1:
        raise typer.BadParameter("give files to index, or one of --delete, --compact, --verify, --info")
    if add and (overwrite or changes):
        raise typer.BadParameter("--add takes files, and goes with neither --overwrite nor a change of another kind")
    report: dict[str, Any] = {}
    if files:
        report = _index_files(files, out, model, bits, add, overwrite, skip_bad, cells, seed, device)
    else:
        opened = Index.open(out)
        if delete:
            report["removed"] = opened.delete(delete)
        elif compact:
            report["bytes_freed"] = opened.compact()
        elif verify:
            report["files_verified"] = opened.verify()
    _print_report(report | Index.open(out).info(), as_json)


def _index_files(
    files: list[Path],
    out: Path,
    model: str | None,
    bits: Bits,
    add: bool,
    overwrite: bool,
    skip_bad: bool,
    cells: int | None,
    seed: int,
    device: str | None,
) -> dict[str, Any]:
    from baleen.corpus import Tally, expected, read
    from baleen.embedded import default_model
    from baleen.encoder import Encoder
    from baleen.index import Index
    from baleen.index.building import refuse_existing

    if not add:
        refuse_existing(out, overwrite)  # before the time that loading a model takes
    tally = Tally()
    passages = read(files, skip_bad=skip_bad, tally=tally)
    opened = Index.open(out) if add else None
    encoder = Encoder.load(model or default_model(), device=device)
    total = expected(files) if sys.stderr.isatty() else None
    start = time.perf_counter()
    if opened is not None:
        opened.add(passages, encoder, total=total, device=str(encoder.device))
    else:
        Index.build(
            out,
            passages,
            encoder,
            bits=int(bits),
            cells=cells,
            seed=seed,
            overwrite=overwrite,
            total=total,
            device=str(encoder.device),
        )
    seconds = time.perf_counter() - start
    return {
        "indexed": tally.passages,
        "skipped": tally.bad,
        "seconds": round(seconds, 2),
        "passages_per_second": round(tally.passages / seconds, 1),
    }


def _print_report(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(report))
        return
    for key, value in report.items():
        shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
        typer.echo(f"{key.replace('_', ' '):>18}  {shown}")


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="A question or a claim")],
    index: Annotated[
        Path | None, typer.Option("--index", help="An index's folder [default: the demonstration corpus]")
    ] = None,
    model: ModelOption = None,
    k: Annotated[int, typer.Option("-k", help="How many passages")] = 10,
    fact: Annotated[
        list[str] | None, typer.Option("--fact", help="A fact found before, 'title | sentence' (repeatable)")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", metavar="ID", help="Leave a passage out (repeatable)")
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option("--where", metavar="KEY=VALUE", help="Only passages with this metadata")
    ] = None,
    probes: Annotated[int | None, typer.Option(help="Cells that each query vector looks into")] = None,
    candidates: Annotated[int | None, typer.Option(help="Passages that are scored by their centroids")] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Score every passage")] = False,
    device: DeviceOption = None,
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rank passages for QUERY: one hop."""
    from baleen.types import Fact, Query

    retriever = _retriever(index, model, device, threads)
    titled = [text.partition(" | ") if " | " in text else ("", "", text) for text in fact or []]
    asked = Query(query, tuple(Fact("", 0, title, text) for title, _, text in titled))
    start = time.perf_counter()
    ranking = retriever.search(
        asked,
        k,
        exclude=exclude or [],
        where=_conditions(where or []),
        probes=probes,
        candidates=candidates,
        exact=exact,
    )
    _print_ranking(asked, ranking, retriever, time.perf_counter() - start, as_json)


def _retriever(index: Path | None, model: str | None, device: str | None, threads: int | None) -> Retriever:
    from baleen.encoder import Encoder
    from baleen.index import Index

    if index is not None:
        Index.open(index)  # a wrong folder should be told before a model is loaded
    from baleen.embedded import default_index, default_model
    from baleen.retriever import Retriever

    encoder = Encoder.load(model or default_model(), device=device)
    folder = index or default_index(encoder)
    return Retriever(encoder, Index.open(folder, device=str(encoder.device), threads=threads))


def _conditions(conditions: list[str]) -> dict[str, Any]:
    """`key=value` options; a value that reads as JSON is meant as JSON (2017, true), any other as text."""
    where: dict[str, Any] = {}
    for condition in conditions:
        key, sign, value = condition.partition("=")
        if not sign or not key:
            raise ConfigError(f"--where {condition}: should be KEY=VALUE")
        try:
            where[key] = json.loads(value)
        except json.JSONDecodeError:
            where[key] = value
    return where


def _print_ranking(query: Query, ranking: Ranking, retriever: Retriever, seconds: float, as_json: bool) -> None:
    passages = [retriever.passage(hit.pid) for hit in ranking]
    if as_json:
        hits = [
            {"pid": passage.pid, "title": passage.title, "score": hit.score, "text": passage.text}
            for hit, passage in zip(ranking, passages, strict=True)
        ]
        typer.echo(json.dumps({"query": query.text, "hits": hits, "seconds": round(seconds, 6)}, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for rank, (hit, passage) in enumerate(zip(ranking, passages, strict=True), start=1):
        head = Text.assemble(
            f"{rank:>3}. ", (passage.title or passage.pid, "bold"), (f"  {hit.score:.3f}  [{passage.pid}]", "dim")
        )
        console.print(head)
        console.print(
            Text(passage.text if len(passage.text) <= 240 else passage.text[:240].rstrip() + " …"), style="dim"
        )
    console.print(
        Text(f"{len(ranking)} of {len(retriever.index):,} passages in {1000 * seconds:.1f} ms", style="italic")
    )


@app.command()
def demo(device: DeviceOption = None) -> None:
    """Two hops over the demonstration corpus, by hand: search, take a fact, search again with it."""
    from baleen.embedded import QUESTION
    from baleen.types import Fact, Query

    retriever = _retriever(None, None, device, None)
    query = Query(QUESTION)
    typer.echo(f"Question: {query.text}\n\nHop 1")
    first = _timed_search(query, retriever, [])
    best = retriever.passage(first[0].pid)
    fact = Fact(best.pid, 0, best.title, best.sentences[0])
    typer.echo(f"\nFact kept: {fact.title} | {fact.text}\n\nHop 2")
    _timed_search(Query(query.text, (fact,)), retriever, [best.pid])


def _timed_search(query: Query, retriever: Retriever, exclude: list[str]) -> Ranking:
    start = time.perf_counter()
    ranking = retriever.search(query, 3, exclude=exclude)
    _print_ranking(query, ranking, retriever, time.perf_counter() - start, as_json=False)
    return ranking


@app.command()
def init(
    backbone: Annotated[
        str | None, typer.Argument(help="A Hugging Face encoder's folder or name [default: a small one]")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="The checkpoint's folder")] = Path("checkpoints/flipr-untrained"),
) -> None:
    """Make an untrained encoder of a BACKBONE: a starting point for training that already retrieves."""
    from baleen.embedded import untrained

    untrained(backbone).save(out)
    typer.echo(str(out))


def _bench(name: str, about: str) -> None:
    """Add `baleen bench NAME`: the three benches of an index take the same options."""

    @bench.command(name, help=about)
    def command(
        size: Annotated[
            list[int] | None, typer.Option("--size", help="Synthetic passages (repeatable; 0: none)")
        ] = None,
        bits: Annotated[
            list[int] | None, typer.Option("--bits", help="Bits a dimension (repeatable) [default: 2, 4]")
        ] = None,
        queries: Annotated[int, typer.Option(help="How many are timed")] = 100,
        corpus: Annotated[str | None, typer.Option(help="A collection, to measure real vectors too")] = None,
        model: Annotated[str | None, typer.Option("--model", help="The checkpoint that encodes the collection")] = None,
        questions: Annotated[
            str | None, typer.Option(help="Questions for the collection [default: its sentences]")
        ] = None,
        work_dir: Annotated[str | None, typer.Option(help="Keep indexes here, and use those that are there")] = None,
        threads: ThreadsOption = None,
        as_json: JsonOption = False,
    ) -> None:
        from baleen.bench.report import markdown
        from baleen.bench.search import BenchConfig, run_all
        from baleen.config import override

        sizes = tuple(filter(None, size)) if size is not None else None
        given: dict[str, Any] = {
            "growth_sizes" if name == "growth" else "sizes": sizes,
            "bits": tuple(bits or ()) or None,
        }
        config = BenchConfig(queries=queries, corpus=corpus, checkpoint=model, questions=questions)
        result = run_all(override(config, work_dir=work_dir, threads=threads, **given), [name])
        typer.echo(json.dumps(result) if as_json else markdown(result))


_bench("search", "Build, size, recall and latency of an index, at each width.")
_bench("growth", "Latency and memory of a small index against those of a large one.")
_bench("sweep", "Recall and latency over a grid of search settings.")


@bench.command("batch")
def bench_batch(
    questions: Annotated[Path, typer.Argument(help="A JSON list or JSONL file with 'question', 'claim' or 'text'")],
    index: Annotated[
        Path | None, typer.Option("--index", help="An index's folder [default: the demonstration corpus]")
    ] = None,
    model: ModelOption = None,
    count: Annotated[int, typer.Option(min=1, help="How many queries; questions come round again")] = 1000,
    k: Annotated[int, typer.Option("-k", help="How many passages for each")] = 100,
    probes: Annotated[int | None, typer.Option(help="Cells that each query vector looks into")] = None,
    candidates: Annotated[int | None, typer.Option(help="Passages that are scored by their centroids")] = None,
    refined: Annotated[int | None, typer.Option(help="Passages that are scored by their residuals")] = None,
    exact: Annotated[int, typer.Option(help="Queries that are also searched exactly, to tell the recall")] = 0,
    threads: ThreadsOption = None,
    device: DeviceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Milliseconds a query when many are searched at once."""
    from baleen.bench.batch import batched
    from baleen.bench.real import read_questions
    from baleen.config import override
    from baleen.index import SearchConfig

    texts = read_questions(questions)
    config = override(SearchConfig(), probes=probes, candidates=candidates, refined=refined)
    retriever = _retriever(index, model, device, threads)
    _print_report(batched(retriever, texts, count=count, k=k, config=config, exact=exact), as_json)


@app.command()
def split(
    files: Annotated[list[Path], typer.Argument(help="Collections, as for 'index'")],
    out: Annotated[Path, typer.Option("--out", help="A .jsonl file, .jsonl.gz or .jsonl.zst")],
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out passages that cannot be read, and count them")
    ] = False,
) -> None:
    """Split FILES into sentences and write them as one JSONL collection."""
    from baleen.corpus import Tally, read, write
    from baleen.progress import track

    tally = Tally()
    write(track(read(files, skip_bad=skip_bad, tally=tally), "splitting", unit="passages"), out)
    typer.echo(f"{tally.passages:,} passages written to {out}, {tally.bad:,} skipped")
