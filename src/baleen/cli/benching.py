"""`baleen bench ...`: speed, memory and recall on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from baleen.cli.options import DeviceOption, IndexOption, JsonOption, ModelOption, ThreadsOption
from baleen.cli.output import print_report

bench = typer.Typer(help="Speed, memory and recall on this machine.", no_args_is_help=True)


def _bench(name: str, about: str) -> None:
    """Add `baleen bench NAME`: the benches of an index take the same options."""

    @bench.command(name, help=about)
    def command(
        size: Annotated[
            list[int] | None, typer.Option("--size", help="Synthetic passages (repeatable; 0: none)")
        ] = None,
        bits: Annotated[
            list[int] | None, typer.Option("--bits", help="Bits a dimension (repeatable)", show_default="2, 4")
        ] = None,
        queries: Annotated[int, typer.Option(help="How many are timed")] = 100,
        corpus: Annotated[str | None, typer.Option(help="A collection, to measure real vectors too")] = None,
        model: Annotated[str | None, typer.Option("--model", help="The checkpoint that encodes the collection")] = None,
        questions: Annotated[
            str | None, typer.Option(help="Questions for the collection", show_default="its sentences")
        ] = None,
        work_dir: Annotated[str | None, typer.Option(help="Keep indexes here, and use those that are there")] = None,
        threads: ThreadsOption = None,
        device: Annotated[str | None, typer.Option(help="Where indexes are built", show_default="cpu")] = None,
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
        result = run_all(override(config, work_dir=work_dir, threads=threads, device=device, **given), [name])
        typer.echo(json.dumps(result) if as_json else markdown(result))


_bench("search", "Build, size, recall and latency of an index, at each width.")
_bench("growth", "Latency and memory of a small index against those of a large one.")
_bench("sweep", "Recall and latency over a grid of search settings.")
_bench("assign", "Ways to find a vector's cell when an index is built: time, error, recall.")


@bench.command("batch")
def bench_batch(
    questions: Annotated[Path, typer.Argument(help="A JSON list or JSONL file with 'question', 'claim' or 'text'")],
    index: IndexOption = None,
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
    from baleen.claims import read_claims
    from baleen.config import override
    from baleen.index import SearchConfig
    from baleen.retriever import Retriever

    texts = [claim.text for claim in read_claims(questions)]
    config = override(SearchConfig(), probes=probes, candidates=candidates, refined=refined)
    retriever = Retriever.load(model, index, device=device, threads=threads)
    print_report(batched(retriever, texts, count=count, k=k, config=config, exact=exact), as_json)


@bench.command("verify")
def bench_verify(
    index: IndexOption = None,
    model: ModelOption = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="JSONL with claims", show_default="the demonstration claims")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="How many of the claims", show_default="all")] = None,
    hops: Annotated[
        list[int] | None, typer.Option("--hops", min=1, help="Numbers of hops (repeatable)", show_default="1, 2, 4")
    ] = None,
    k: Annotated[int | None, typer.Option("-k", min=1, help="Passages of a hop", show_default="the model's")] = None,
    pipeline: Annotated[str, typer.Option(help="condense, rerank or hybrid")] = "condense",
    stand_in: Annotated[bool | None, typer.Option("--stand-in/--no-stand-in")] = None,
    threads: ThreadsOption = None,
    device: DeviceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Seconds of a claim by stage, tokens read, and the share of each stage."""
    from baleen.bench.verify import HOPS, verify_rows, verify_table
    from baleen.claims import read_claims
    from baleen.embedded import demo_claims
    from baleen.machine import machine
    from baleen.system import Baleen

    texts = [claim.text for claim in read_claims(file)] if file else [claim["text"] for claim in demo_claims()]
    system = Baleen.load(model, index, device=device, threads=threads)
    rows = verify_rows(system, texts[:limit], hops or HOPS, k=k, pipeline=pipeline, stand_in=stand_in)
    found = {
        "machine": machine(),
        "device": str(system.retriever.encoder.device),
        "verify": [r.to_json() for r in rows],
    }
    typer.echo(json.dumps(found) if as_json else verify_table(rows))


@bench.command("mining")
def bench_mining(
    size: Annotated[int, typer.Option(min=1, help="Synthetic passages of 80 vectors")] = 2000,
    queries: Annotated[int, typer.Option(min=1, help="How many are scored")] = 256,
    facts: Annotated[int, typer.Option(min=0, help="Fact vectors of each, beside its 64")] = 0,
    device: DeviceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Exact scores of many queries at once, as training mines by: each way of making them beside the first."""
    from baleen.bench.mining import mining_rows, mining_table
    from baleen.machine import machine

    rows = mining_rows(size, queries, facts, device)
    found = {"machine": machine(), "mining": [row.to_json() for row in rows]}
    typer.echo(json.dumps(found) if as_json else mining_table(rows))


@bench.command("precision")
def bench_precision(
    model: ModelOption = None,
    passages: Annotated[int, typer.Option("--passages", min=2, help="How many of the demonstration's")] = 64,
    queries: Annotated[int, typer.Option("--queries", min=1, help="How many of its claims")] = 4,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Of which the fastest counts")] = 3,
    as_json: JsonOption = False,
) -> None:
    """Seconds of the models in float32, bfloat16 and int8 on the CPU, and how far the scores move."""
    from baleen.bench.precision import precision_rows, precision_table, sample
    from baleen.checkpoint import resolve
    from baleen.embedded import default_model
    from baleen.machine import machine

    rows = precision_rows(resolve(model or default_model()), *sample(passages, queries), rounds=rounds)
    found = {"machine": machine(), "precision": [row.to_json() for row in rows]}
    typer.echo(json.dumps(found) if as_json else precision_table(rows))


@bench.command("attention")
def bench_attention(
    length: Annotated[
        list[int] | None,
        typer.Option("--length", min=1, help="Tokens of a text (repeatable)", show_default="32 to 512"),
    ] = None,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Of which the median counts")] = 9,
    as_json: JsonOption = False,
) -> None:
    """How long the models' attention takes on this CPU, beside torch's fused kernel."""
    from baleen.bench.attention import LENGTHS, attention_rows, attention_table
    from baleen.machine import machine

    rows = attention_rows(length or LENGTHS, rounds)
    found = {"machine": machine(), "attention": [row.to_json() for row in rows]}
    typer.echo(json.dumps(found) if as_json else attention_table(rows))
