"""What commands print: a run for a person, hop by hop, or as JSON; a report of figures; a ranking of passages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer

from baleen.core.types import Answer, Verdict

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from baleen.core.types import Fact, Hop, Query, Ranking, Trace
    from baleen.hops.config import Task
    from baleen.hops.explain import Explanation
    from baleen.hops.retriever import Retriever


MAX_TITLES = 5
MAX_MATCHES = 10
MAX_TEXT = 240  # characters of a text that are shown
UNTRAINED = {"condenser": "condenser (reranker scores are used instead)"}


class Chain:
    """Print a run to standard output, hop by hop; without a terminal in plain lines that are never wrapped."""

    def __init__(self, task: Task) -> None:
        self.task, self._titles = task, dict[str, str]()
        self._console = _console()

    def start(self, text: str) -> None:
        """Print the claim or question."""
        self._print(0, (f"{self.task.noun.capitalize()}: ", "bold"), text)

    def hop(self, number: int, hop: Hop) -> None:
        """Print the passages that a hop found, and the facts that it kept, added and dropped."""
        self._titles |= {fact.pid: fact.title for fact in hop.facts} | dict(hop.titles)
        titles = [self._title(pid) for pid in hop.ranking.pids[:MAX_TITLES]]
        more = " …" if len(hop.ranking) > MAX_TITLES else ""
        mentioned = f" ({len(hop.mentioned)} mentioned by title)" if hop.mentioned else ""
        found = f"{_count(len(hop.ranking), 'passage')}{mentioned} in {_milliseconds(hop.seconds.values())}"
        self._print(0)
        self._print(0, (f"Hop {number}  ", "bold"), (found, "dim"), ": " if titles else "", ", ".join(titles) + more)
        new = [fact for fact in hop.facts if fact.hop == number]
        added = [fact for fact in hop.facts if fact.hop != number and _is_added(fact, hop)]
        earlier = len(hop.facts) - len(new) - len(added)
        beside = f", beside {earlier} of earlier hops" if earlier else ""
        took = _milliseconds(hop.condensed.seconds.values())
        self._print(2, (f"{_count(len(new), 'new fact')} kept in {took}{beside}", "dim"))
        for pid in dict.fromkeys(fact.pid for fact in new):
            self._print(2, (self._title(pid), "bold green"))
            for fact in new:
                if fact.pid == pid:
                    self._scored(fact.score, _short(fact.text))
        self._facts(2, "Added from passages of earlier hops", "green", added)
        self._dropped(hop)

    def _dropped(self, hop: Hop) -> None:
        rejected = {(each.pid, each.sid): each for each in hop.condensed.judgements if not each.kept}
        borderline = {(fact.pid, fact.sid) for fact in hop.condensed.borderline}
        dropped = [fact for fact in hop.query.facts if (fact.pid, fact.sid) in rejected.keys() - borderline]
        if dropped:
            self._print(2, ("Dropped", "red"))
        for fact in dropped:
            judgement = rejected[fact.pid, fact.sid]
            score = fact.score if judgement.fact_score is None else judgement.fact_score
            self._scored(score, f"{fact.title}: {_short(fact.text)}", (f" ({judgement.reason})", "dim"))

    def end(self, trace: Trace, seconds: float) -> None:
        """Print the verdict or answer, its facts, what the run took, and what was not trained."""
        self._print(0)
        self._outcome(trace)
        self._facts(0, f"Facts reported with the {self.task.outcome}", "green", trace.facts, trace.fillers)
        self._facts(0, "Borderline facts: seen by the reader, not reported", "yellow", trace.borderline)
        words = trace.hops[-1].words if trace.hops else 0
        borderline = f", {len(trace.borderline)} borderline" if trace.borderline else ""
        stopped = f", stopped early: {trace.stopped}" if trace.stopped else ""
        total = f"{_count(len(trace.facts), 'fact')}{borderline}, {words} words of context, {seconds:.2f} s{stopped}"
        self._print(0, (total, "italic"))
        for notice in notices(self.task, trace):
            self._print(0, (notice, "yellow"))

    def _outcome(self, trace: Trace) -> None:
        outcome = trace.outcome
        if isinstance(outcome, Verdict):
            others = [f"{label} {p:.3f}" for label, p in outcome.probabilities.items() if label != outcome.label]
            probability = f", probability {outcome.probability:.3f}" + (f" ({', '.join(others)})" if others else "")
            self._print(0, ("Verdict: ", "bold"), (outcome.label, "bold cyan"), probability)
        elif isinstance(outcome, Answer):
            answer = outcome.text or "(none)"
            self._print(0, ("Answer: ", "bold"), (answer, "bold cyan"), f", score {outcome.score:.3f}")
            for fact in trace.facts:
                if (fact.pid, fact.sid) == (outcome.pid, outcome.sid):
                    self._print(4, ("from ", "dim"), f"{fact.title}: {_short(fact.text)}")

    def _facts(
        self, indent: int, heading: str, colour: str, facts: Sequence[Fact], fillers: Sequence[Fact] = ()
    ) -> None:
        if facts:
            self._print(indent, (heading, colour))
        for fact in facts:
            note = " (added below the thresholds: too few passages supplied facts)" if fact in fillers else ""
            self._scored(fact.score, f"{fact.title}: {_short(fact.text)}", (note, "dim"))

    def _scored(self, score: float, *pieces: str | tuple[str, str]) -> None:
        self._print(4, (f"{score:6.2f}  ", "dim"), *pieces)

    def explanations(self, found: Iterable[tuple[int, Explanation]]) -> None:
        """Print the strongest token matches of each passage that supplied a fact."""
        for hop, explanation in found:
            counted = explanation.counted
            self._print(0)
            head = f"  {explanation.score:.3f} at hop {hop}, from {_count(len(counted), 'match', 'matches')}"
            self._print(0, (self._title(explanation.pid), "bold"), (head, "dim"))
            for match in counted[:MAX_MATCHES]:
                self._print(4, (f"{match.score:6.3f}  ", "dim"), f"{match.part}: {match.token} ~ {match.matched}")

    def _title(self, pid: str) -> str:
        return self._titles.get(pid) or pid

    def _print(self, indent: int, *pieces: str | tuple[str, str]) -> None:
        from rich.padding import Padding
        from rich.text import Text

        text: Text = Text.assemble(*pieces)
        self._console.print(Padding(text, (0, 0, 0, indent), expand=False) if indent else text)


def _is_added(fact: Fact, hop: Hop) -> bool:
    """Whether this hop kept a fact that was not in its query."""
    judged = any((each.pid, each.sid) == (fact.pid, fact.sid) and each.kept for each in hop.condensed.judgements)
    return judged and all((known.pid, known.sid) != (fact.pid, fact.sid) for known in hop.query.facts)


def notices(task: Task, trace: Trace) -> Iterator[str]:
    """Warnings about untrained and missing parts of the model."""
    if trace.untrained:
        yield "untrained: " + ", ".join(UNTRAINED.get(name, name) for name in trace.untrained)
    if trace.outcome is None:
        yield (
            f"no {task.outcome}: the model has no {task.component}; "
            f"train one with `baleen train CONFIG.toml --stage {task.component}`"
        )


def _console() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=1_000_000)


def _milliseconds(seconds: Iterable[float]) -> str:
    return f"{1000 * sum(seconds):.1f} ms"


def _count(count: int, noun: str, plural: str = "") -> str:
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def _short(text: str) -> str:
    """The text on one line, of at most MAX_TEXT characters."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_TEXT else line[:MAX_TEXT].rstrip() + " …"


def print_report(report: dict[str, Any], as_json: bool) -> None:
    """Print figures by name."""
    if as_json:
        typer.echo(json.dumps(report))
        return
    for key, value in report.items():
        shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
        typer.echo(f"{key.replace('_', ' '):>18}  {shown}")


def print_ranking(query: Query, ranking: Ranking, retriever: Retriever, seconds: float, as_json: bool) -> None:
    """Print the passages of a ranking."""
    passages = retriever.passages(ranking.pids)
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
        console.print(Text(_short(passage.text)), style="dim")
    console.print(
        Text(f"{len(ranking)} of {len(retriever.index):,} passages in {1000 * seconds:.1f} ms", style="italic")
    )
