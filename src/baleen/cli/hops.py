"""`baleen verify` and `baleen ask`: run a claim or question, or a file of them.  `baleen search`: one hop."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baleen.cli.options import FILES, DeviceOption, HopOptions, JsonOption, SystemOptions, check_parent, grouped
from baleen.cli.show import Chain, notices, print_ranking
from baleen.core.config import override
from baleen.core.errors import ConfigError
from baleen.core.types import Fact, Query
from baleen.data.claims import Claim, read_claims
from baleen.evaluation.results import ResultsFile, describe_run, refuse_compressed, result_line
from baleen.hops.config import ASK, VERIFY, RunOptions, Task

if TYPE_CHECKING:
    from baleen.core.types import Trace
    from baleen.system import Baleen

log = logging.getLogger(__name__)

DEMO_CLAIM = "hammer"
DEMO_SETTINGS: RunOptions = {"hops": 3, "k": 5}


@dataclass(frozen=True)
class RunOutput:
    """Where claims come from and results go."""

    file: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            exists=True,
            help="Claims or questions: JSONL or a JSON list with 'claim', 'question' or 'text', and 'id'.",
            rich_help_panel=FILES,
        ),
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="Results of --file, JSONL; a second run adds the missing ones.",
            show_default="standard output",
            rich_help_panel=FILES,
        ),
    ] = None
    batch_size: Annotated[int, typer.Option(min=1, help="Texts of --file per batch.", rich_help_panel=FILES)] = 32
    explain: Annotated[
        bool, typer.Option("--explain", help="Show which tokens matched in the passages that supplied facts.")
    ] = False
    judgements: Annotated[
        bool, typer.Option("--judgements", help="Add the scores of every sentence that was read to the JSON.")
    ] = False
    as_json: JsonOption = False

    def __post_init__(self) -> None:
        if self.judgements and self.file is None and not self.as_json:
            raise typer.BadParameter("--judgements is for JSON: add --json, or give texts with --file")
        if self.file is None and self.out is not None:
            raise typer.BadParameter("--out takes the results of --file")
        if self.file is not None and self.as_json:
            raise typer.BadParameter("--json is for one text; the results of --file are JSON lines already")
        check_parent(self.out, "--out")
        if self.out is not None:
            refuse_compressed(self.out)


@grouped
def verify(
    claim: Annotated[str | None, typer.Argument(metavar="CLAIM", help="A claim.", show_default="an example")] = None,
    *,
    system: SystemOptions,
    hops: HopOptions,
    output: RunOutput,
) -> None:
    """Verify CLAIM: print a verdict and the sentences that it rests on.

    Without CLAIM and --file, verify an example over the demonstration corpus.
    """
    settings = hops.settings
    if claim is None and output.file is None and system.index is None and system.model is None:
        claim, settings = _demonstration(), {**DEMO_SETTINGS, **settings}
    _run(VERIFY, claim, system, settings, output)


@grouped
def ask(
    question: Annotated[str | None, typer.Argument(metavar="QUESTION", help="A question.")] = None,
    *,
    system: SystemOptions,
    hops: HopOptions,
    output: RunOutput,
) -> None:
    """Answer QUESTION: print an answer and the sentences that it rests on."""
    _run(ASK, question, system, hops.settings, output)


def demo(device: DeviceOption = None) -> None:
    """Verify an example over the demonstration corpus."""
    verify(device=device)


def _demonstration() -> str:
    from baleen.hops.demo import demo_claims

    return next(str(claim["text"]) for claim in demo_claims() if claim["id"] == DEMO_CLAIM)


def _run(task: Task, text: str | None, options: SystemOptions, settings: RunOptions, output: RunOutput) -> None:
    """Run one text or a file; refuse what can be refused before a model is loaded."""
    if (text is None) == (output.file is None):
        raise typer.BadParameter(f"expected one {task.noun}, or a file of them with --file")
    if output.file is not None:
        claims = read_claims(output.file)
        _run_file(task, claims, options.load(), settings, output)
    elif text is not None:
        query = Query(text).checked()
        _run_one(task, query.text, options.load(), settings, output)


def _run_one(task: Task, text: str, system: Baleen, settings: RunOptions, output: RunOutput) -> None:
    chain = None if output.as_json else Chain(task)
    trace, seconds = _follow(task, text, settings, system, chain)
    if chain is None:
        document = _document(trace, system, seconds, output) | {"options": settings}
        typer.echo(json.dumps(document, ensure_ascii=False))
        return
    chain.end(trace, seconds)
    if output.explain:
        from baleen.hops.explain import explain_trace

        chain.explanations(explain_trace(system.retriever, trace))


def _follow(task: Task, text: str, settings: RunOptions, system: Baleen, chain: Chain | None) -> tuple[Trace, float]:
    """Run one text and show each hop as it completes; return the trace and its seconds, without loading."""
    steps = system.stream(text, task.name, **settings)
    if chain is not None:
        chain.start(text)
    start = time.perf_counter()
    for trace in steps:
        if chain is not None and trace.outcome is None:
            chain.hop(len(trace.hops), trace.hops[-1])
    return trace, time.perf_counter() - start


def _document(trace: Trace, system: Baleen, seconds: float, output: RunOutput) -> dict[str, Any]:
    """The JSON of a finished run, with the matches of the passages that supplied facts if `explain` is set."""
    document = trace.to_json(judgements=output.judgements) | {"seconds": round(seconds, 6)}
    if output.explain:
        from baleen.hops.explain import explain_trace

        found = explain_trace(system.retriever, trace)
        document["explanations"] = [{"hop": hop, **explanation.to_json()} for hop, explanation in found]
    return document


def _run_file(task: Task, claims: Sequence[Claim], system: Baleen, settings: RunOptions, output: RunOutput) -> None:
    run = describe_run(task.name, system, override(system.config, **settings), explained=output.explain)
    if output.judgements:
        run = {**run, "judgements": True}
    if output.out is None:
        for results in _batches(task, claims, system, settings, output):
            sys.stdout.buffer.write(b"".join(result_line(run, claim_id, result) for claim_id, result in results))
            sys.stdout.buffer.flush()
        return
    with ResultsFile.open(output.out, run) as kept:
        left = [claim for claim in claims if not kept.holds(claim.id, claim.text)]
        if len(left) < len(claims):
            log.info("%s of %s are in %s already", f"{len(claims) - len(left):,}", f"{len(claims):,}", output.out)
        for results in _batches(task, left, system, settings, output):
            kept.append(results)


def _batches(
    task: Task, claims: Sequence[Claim], system: Baleen, settings: RunOptions, output: RunOutput
) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """(id, document) of each claim, batch by batch; a claim's seconds are its share of the batch's."""
    from baleen.core.progress import progress

    run_many = system.verify_many if task is VERIFY else system.ask_many
    with progress(task.name, total=len(claims), unit=f"{task.noun}s") as bar:
        for first in range(0, len(claims), output.batch_size):
            batch = claims[first : first + output.batch_size]
            start = time.perf_counter()
            traces = run_many([claim.text for claim in batch], **settings)
            seconds = (time.perf_counter() - start) / len(batch)
            for notice in notices(task, traces[0]) if first == 0 else ():
                log.warning(notice)
            results = [_document(trace, system, seconds, output) for trace in traces]
            yield [(claim.id, result) for claim, result in zip(batch, results, strict=True)]
            bar.advance(len(batch))


@dataclass(frozen=True)
class SearchArguments:
    """Which passages are ranked, and how thoroughly."""

    k: Annotated[int, typer.Option("-k", help="Passages to retrieve.")] = 10
    fact: Annotated[
        list[str] | None,
        typer.Option(metavar="TITLE | SENTENCE", help="Fact of an earlier hop to search with (repeatable)."),
    ] = None
    exclude: Annotated[list[str] | None, typer.Option(metavar="ID", help="Passage to leave out (repeatable).")] = None
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Metadata that a passage must have (repeatable)."),
    ] = None
    probes: Annotated[
        int | None, typer.Option(help="Cells to look into per query vector.", show_default="by the query's length")
    ] = None
    candidates: Annotated[
        int | None, typer.Option(help="Passages to score by their centroids.", show_default="by -k")
    ] = None
    exact: Annotated[bool, typer.Option("--exact", help="Score every passage.")] = False

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The given facts, without ids."""
        parts = (text.partition(" | ") if " | " in text else ("", "", text) for text in self.fact or [])
        return tuple(Fact("", 0, title, sentence) for title, _, sentence in parts)


@grouped
def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A question or a claim.")],
    *,
    system: SystemOptions,
    arguments: SearchArguments,
    as_json: JsonOption = False,
) -> None:
    """Rank passages for QUERY in a single hop."""
    from baleen.hops.retriever import Retriever

    asked = Query(query, arguments.facts).checked()
    where = _conditions(arguments.where or [])
    retriever = Retriever.load(
        system.model, system.index, device=system.device, threads=system.threads, precision=system.precision
    )
    start = time.perf_counter()
    ranking = retriever.search(
        asked,
        arguments.k,
        exclude=arguments.exclude or [],
        where=where,
        probes=arguments.probes,
        candidates=arguments.candidates,
        exact=arguments.exact,
    )
    print_ranking(asked, ranking, retriever, time.perf_counter() - start, as_json)


def _conditions(conditions: Sequence[str]) -> dict[str, Any]:
    """Parse KEY=VALUE options; a value that is valid JSON (2017, true) is read as JSON, any other as text."""
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
