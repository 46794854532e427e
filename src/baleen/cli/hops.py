"""`baleen verify` and `baleen ask`: a claim or question through its hops, or a whole file of them.

`baleen search`: one hop.

`baleen demo`: the shortest way to see something.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baleen.cli.options import (
    DeviceOption,
    IndexOption,
    JsonOption,
    ModelOption,
    PrecisionName,
    PrecisionOption,
    ThreadsOption,
)
from baleen.cli.show import Chain, notices, print_ranking
from baleen.core.errors import ConfigError
from baleen.data.claims import Claim, check_text, read_claims
from baleen.evaluation.results import Results, describe_run, line, refuse_packed
from baleen.hops.config import ASK, VERIFY, Task

if TYPE_CHECKING:
    from baleen.core.types import Trace
    from baleen.system import Baleen


log = logging.getLogger(__name__)


class Pipeline(StrEnum):
    condense, rerank, hybrid = "condense", "rerank", "hybrid"


class RankedBy(StrEnum):
    hops, evidence = "hops", "evidence"


HopsOption = Annotated[
    int | None, typer.Option("--hops", min=1, help="How many hops", show_default="the model's, or 4")
]
DepthsOption = Annotated[
    str | None,
    typer.Option(
        "-k",
        metavar="N[,N...]",
        help="Passages of every hop, or of each in turn",
        show_default="the model's, or 25; of the demonstration corpus at most 10",
    ),
]
PipelineOption = Annotated[
    Pipeline | None,
    typer.Option("--pipeline", help="How a hop's passages are read", show_default="the model's, or condense"),
]
StopEarlyOption = Annotated[
    bool | None, typer.Option("--stop-early/--no-stop-early", help="End at the first hop that adds no fact")
]
UntrainedOption = Annotated[
    bool | None,
    typer.Option(
        "--untrained/--no-untrained", help="Use reranker scores instead of a trained condenser; skip a missing reader"
    ),
]
KeepOption = Annotated[
    float | None,
    typer.Option("--keep", help="Minimum fact score to stay in the query", show_default="the model's, or 0"),
]
ReadOption = Annotated[
    float | None,
    typer.Option("--read", help="Minimum fact score to reach the reader", show_default="the model's, or --final"),
]
FinalOption = Annotated[
    float | None,
    typer.Option("--final", help="Minimum fact score to be reported", show_default="the model's, or --keep"),
]
RankedByOption = Annotated[
    RankedBy | None,
    typer.Option(
        "--ranked-by",
        help="Order of all hops' passages: facts first, then by hop and rank; or by what was read in them",
        show_default="the model's, or hops",
    ),
]
MentionBoostOption = Annotated[
    float | None,
    typer.Option(
        "--mention-boost",
        min=0,
        help="Score added to passages mentioned by title in the claim or its evidence; 0: off",
        show_default="the model's, or 0",
    ),
]
ExplainOption = Annotated[
    bool, typer.Option("--explain", help="Say which tokens matched in the passages that carry facts")
]
FileOption = Annotated[
    Path | None,
    typer.Option("--file", dir_okay=False, exists=True, help="JSONL with 'claim', 'question' or 'text', and 'id'"),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out", dir_okay=False, help="Results of --file; ids that are there are skipped", show_default="printed"
    ),
]
BatchSizeOption = Annotated[int, typer.Option("--batch-size", min=1, help="How many of --file go through at once")]


@dataclass(frozen=True)
class Asked:
    """What a command line asks for, beside the model, the index and the settings of the hops."""

    text: str | None
    file: Path | None
    out: Path | None
    batch_size: int
    explain: bool
    as_json: bool

    def __post_init__(self) -> None:
        if (self.text is None) == (self.file is None):
            raise typer.BadParameter("give one text, or a file of them with --file")
        if self.file is None and self.out is not None:
            raise typer.BadParameter("--out takes the results of --file")
        if self.file is not None and self.as_json:
            raise typer.BadParameter("--json prints one document; the results of --file are JSON lines as they are")
        if self.out is not None and not self.out.parent.is_dir():
            raise typer.BadParameter(f"--out {self.out}: there is no folder {self.out.parent}")
        if self.out is not None:
            refuse_packed(self.out)


def verify(
    claim: Annotated[str | None, typer.Argument(metavar="CLAIM", help="A claim")] = None,
    index: IndexOption = None,
    model: ModelOption = None,
    hops: HopsOption = None,
    k: DepthsOption = None,
    pipeline: PipelineOption = None,
    stop_early: StopEarlyOption = None,
    untrained: UntrainedOption = None,
    keep: KeepOption = None,
    read: ReadOption = None,
    final: FinalOption = None,
    ranked_by: RankedByOption = None,
    mention_boost: MentionBoostOption = None,
    explain: ExplainOption = False,
    file: FileOption = None,
    out: OutOption = None,
    batch_size: BatchSizeOption = 32,
    device: DeviceOption = None,
    threads: ThreadsOption = None,
    precision: PrecisionOption = None,
    as_json: JsonOption = False,
) -> None:
    """Verify CLAIM: a verdict, and the sentences that it rests on."""
    settings = run_options(
        hops,
        k,
        pipeline,
        stop_early,
        untrained,
        ranked_by=ranked_by,
        mention_boost=mention_boost,
        keep=keep,
        read=read,
        final=final,
    )
    asked = Asked(claim, file, out, batch_size, explain, as_json)
    _run(VERIFY, asked, settings, lambda: _load(index, model, device, threads, precision))


def ask(
    question: Annotated[str | None, typer.Argument(metavar="QUESTION", help="A question")] = None,
    index: IndexOption = None,
    model: ModelOption = None,
    hops: HopsOption = None,
    k: DepthsOption = None,
    pipeline: PipelineOption = None,
    stop_early: StopEarlyOption = None,
    untrained: UntrainedOption = None,
    keep: KeepOption = None,
    read: ReadOption = None,
    final: FinalOption = None,
    ranked_by: RankedByOption = None,
    mention_boost: MentionBoostOption = None,
    explain: ExplainOption = False,
    file: FileOption = None,
    out: OutOption = None,
    batch_size: BatchSizeOption = 32,
    device: DeviceOption = None,
    threads: ThreadsOption = None,
    precision: PrecisionOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer QUESTION, and show the sentences that the answer stands in."""
    settings = run_options(
        hops,
        k,
        pipeline,
        stop_early,
        untrained,
        ranked_by=ranked_by,
        mention_boost=mention_boost,
        keep=keep,
        read=read,
        final=final,
    )
    asked = Asked(question, file, out, batch_size, explain, as_json)
    _run(ASK, asked, settings, lambda: _load(index, model, device, threads, precision))


def run_options(
    hops: int | None,
    k: str | None,
    pipeline: Pipeline | None,
    stop_early: bool | None,
    untrained: bool | None,
    *,
    ranked_by: RankedBy | None = None,
    mention_boost: float | None = None,
    keep: float | None = None,
    read: float | None = None,
    final: float | None = None,
) -> dict[str, Any]:
    """Options of RunConfig, checked; None leaves an option to the model."""
    from baleen.core.config import override
    from baleen.hops.config import RunConfig

    options = {
        "hops": hops,
        "k": None if k is None else _depths(k),
        "pipeline": None if pipeline is None else pipeline.value,
        "stop_early": stop_early,
        "untrained": untrained,
        "ranked_by": None if ranked_by is None else ranked_by.value,
        "mention_boost": mention_boost,
        "keep": keep,
        "read": read,
        "final": final,
    }
    override(RunConfig(), **options)
    return options


def _depths(k: str) -> int | tuple[int, ...]:
    """`10` is the depth of every hop, `10,40` those of two."""
    try:
        depths = tuple(int(number) for number in k.split(","))
    except ValueError:
        raise typer.BadParameter(f"-k {k}: should be a number, or several with commas between them") from None
    if min(depths) < 1:
        raise typer.BadParameter(f"-k {k}: should be at least 1")
    return depths if "," in k else depths[0]


def _load(
    index: Path | None, model: str | None, device: str | None, threads: int | None, precision: PrecisionName | None
) -> Baleen:
    from baleen.system import Baleen

    return Baleen.load(model, index, device=device, threads=threads, precision=precision)


def _run(task: Task, asked: Asked, settings: Mapping[str, Any], load: Callable[[], Baleen]) -> None:
    """Whatever can be refused is refused before a model is loaded."""
    if asked.file is not None:
        claims = read_claims(asked.file)
        _run_file(task, asked, claims, settings, load())
    elif asked.text is not None:
        text = check_text(asked.text)
        _run_one(task, asked, text, settings, load())


def _run_one(task: Task, asked: Asked, text: str, settings: Mapping[str, Any], system: Baleen) -> None:
    chain = None if asked.as_json else Chain(task)
    trace, seconds = _follow(task, text, settings, system, chain)
    if chain is None:
        options = {key: value for key, value in settings.items() if value is not None}
        told = _document(trace, system, seconds, asked.explain) | {"options": options}
        typer.echo(json.dumps(told, ensure_ascii=False))
        return
    chain.end(trace, seconds)
    if asked.explain:
        from baleen.hops.explain import explain_trace

        chain.explanations(explain_trace(system.retriever, trace))


def _follow(
    task: Task, text: str, settings: Mapping[str, Any], system: Baleen, chain: Chain | None
) -> tuple[Trace, float]:
    """The run of one text, shown as it goes, and its seconds without those of loading."""
    steps = system.stream(text, task.name, **settings)
    if chain is not None:
        chain.start(text)
    start = time.perf_counter()
    for trace in steps:
        if chain is not None and trace.outcome is None:
            chain.hop(len(trace.hops), trace.hops[-1])
    return trace, time.perf_counter() - start


def _document(trace: Trace, system: Baleen, seconds: float, explain: bool) -> dict[str, Any]:
    """The JSON of a finished run; `explain` adds judgements, and why passages with final facts were found."""
    document = trace.to_json(judgements=explain) | {"seconds": round(seconds, 6)}
    if explain:
        from baleen.hops.explain import explain_trace

        found = explain_trace(system.retriever, trace)
        document["explanations"] = [{"hop": hop, **explanation.to_json()} for hop, explanation in found]
    return document


def _run_file(task: Task, asked: Asked, claims: Sequence[Claim], settings: Mapping[str, Any], system: Baleen) -> None:
    from baleen.core.config import override

    config = override(system.config, **settings)
    run = describe_run(task.name, system, config, explained=asked.explain)
    if asked.out is None:
        for results in _batches(task, asked, claims, settings, system):
            sys.stdout.buffer.write(b"".join(line(run, claim_id, told) for claim_id, told in results))
            sys.stdout.buffer.flush()
        return
    with Results.open(asked.out, run) as kept:
        left = [claim for claim in claims if not kept.holds(claim.id, claim.text)]
        if len(left) < len(claims):
            log.info("%s of %s are in %s already", f"{len(claims) - len(left):,}", f"{len(claims):,}", asked.out)
        for results in _batches(task, asked, left, settings, system):
            kept.append(results)


def _batches(
    task: Task, asked: Asked, claims: Sequence[Claim], settings: Mapping[str, Any], system: Baleen
) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """(id, document) of each claim, batch by batch; a claim's seconds are its share of the batch's."""
    from baleen.core.progress import progress

    run_many = system.verify_many if task is VERIFY else system.ask_many
    with progress(task.name, total=len(claims), unit=f"{task.noun}s") as bar:
        for first in range(0, len(claims), asked.batch_size):
            batch = claims[first : first + asked.batch_size]
            start = time.perf_counter()
            traces = run_many([claim.text for claim in batch], **settings)
            seconds = (time.perf_counter() - start) / len(batch)
            for notice in notices(task, traces[0]) if first == 0 else ():
                log.warning(notice)
            told = [_document(trace, system, seconds, asked.explain) for trace in traces]
            yield [(claim.id, each) for claim, each in zip(batch, told, strict=True)]
            bar.advance(len(batch))


def search(
    query: Annotated[str, typer.Argument(help="A question or a claim")],
    index: IndexOption = None,
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
    precision: PrecisionOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rank passages for QUERY: one hop."""
    from baleen.core.types import Fact, Query
    from baleen.hops.retriever import Retriever

    titled = [text.partition(" | ") if " | " in text else ("", "", text) for text in fact or []]
    asked = Query(query, tuple(Fact("", 0, title, text) for title, _, text in titled)).checked()
    retriever = Retriever.load(model, index, device=device, threads=threads, precision=precision)
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
    print_ranking(asked, ranking, retriever, time.perf_counter() - start, as_json)


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


CLAIM, HOPS, DEPTH = "hammer", 3, "5"


def demo(device: DeviceOption = None) -> None:
    """Verify one claim in three hops, over the demonstration corpus."""
    from baleen.hops.demo import demo_claims

    texts = {claim["id"]: claim["text"] for claim in demo_claims()}
    verify(texts[CLAIM], hops=HOPS, k=DEPTH, device=device)
