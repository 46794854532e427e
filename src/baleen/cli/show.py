"""A run as a person reads it: the claim, the chain hop by hop as it grows, and what it led to.

What several commands print and write: a report of figures, a ranking of passages, lines of which there have to be some.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from baleen.core.types import Answer, Verdict

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from baleen.core.types import Fact, Hop, Query, Ranking, Trace
    from baleen.hops.config import Task
    from baleen.hops.explain import Explanation
    from baleen.hops.retriever import Retriever


TITLES = 5
MATCHES = 10
LONGEST = 240  # characters of a fact that is a whole passage
STANDING_IN = {"condenser": "condenser (reranker scores are used instead)"}


class Chain:
    """Prints a run to standard output; where that is no terminal, in plain lines that are never wrapped."""

    def __init__(self, task: Task) -> None:
        self.task, self._titles = task, dict[str, str]()
        self._console = _console()

    def start(self, text: str) -> None:
        self._print(0, (f"{self.task.noun.capitalize()}: ", "bold"), text)

    def hop(self, number: int, hop: Hop) -> None:
        """What one hop found, kept and dropped again."""
        self._titles |= {fact.pid: fact.title for fact in hop.facts} | dict(hop.titles)
        titles = [self._title(pid) for pid in hop.ranking.pids[:TITLES]]
        more = " …" if len(hop.ranking) > TITLES else ""
        named = f", {len(hop.mentioned)} of them named," if hop.mentioned else ""
        found = f"{len(hop.ranking)} passages{named} in {_milliseconds(hop.seconds.values())}"
        self._print(0)
        self._print(0, (f"Hop {number}  ", "bold"), (found, "dim"), ": " if titles else "", ", ".join(titles) + more)
        joined = [fact for fact in hop.facts if fact.hop != number and _joins(fact, hop)]
        self._kept([fact for fact in hop.facts if fact.hop == number], len(joined), hop)
        self._told("taken up after all", "green", joined)
        self._told("borderline: read, not reported", "yellow", hop.condensed.borderline)
        self._dropped(hop)

    def _kept(self, new: list[Fact], joined: int, hop: Hop) -> None:
        stand = len(hop.facts) - len(new) - joined
        read = _milliseconds(hop.condensed.seconds.values())
        earlier = f", beside {stand} from before" if stand else ""
        self._print(2, (f"{_count(len(new), 'fact')} kept in {read}{earlier}", "dim"))
        for pid in dict.fromkeys(fact.pid for fact in new):
            self._print(2, (self._title(pid), "bold green"))
            for fact in new:
                if fact.pid == pid:
                    self._print(4, (f"{fact.score:6.2f}  ", "dim"), _short(fact.text))

    def _told(self, what: str, colour: str, facts: Sequence[Fact]) -> None:
        """Sentences of this hop and earlier ones, under a heading."""
        if facts:
            self._print(2, (what, colour))
        for fact in facts:
            self._print(4, (f"{fact.score:6.2f}  ", "dim"), f"{fact.title}: {_short(fact.text)}")

    def _dropped(self, hop: Hop) -> None:
        rejected = {(each.pid, each.sid): each for each in hop.condensed.judgements if not each.kept}
        weighed = {(fact.pid, fact.sid) for fact in hop.condensed.borderline}
        gone = [fact for fact in hop.query.facts if (fact.pid, fact.sid) in rejected.keys() - weighed]
        if gone:
            self._print(2, ("dropped again", "red"))
        for fact in gone:
            judgement = rejected[fact.pid, fact.sid]
            score = f"{fact.score if judgement.fact_score is None else judgement.fact_score:6.2f}  "
            self._print(4, (score, "dim"), f"{fact.title}: {_short(fact.text)}", (f" ({judgement.reason})", "dim"))

    def end(self, trace: Trace, seconds: float) -> None:
        """Verdict or answer, what it rests on, what it took, and what was not trained."""
        self._print(0)
        self._outcome(trace)
        words = trace.hops[-1].words if trace.hops else 0
        weighed = f", {_count(len(trace.borderline), 'borderline fact')} read beside" if trace.borderline else ""
        stopped = f", stopped early: {trace.stopped}" if trace.stopped else ""
        rests = f"{_count(len(trace.facts), 'fact')}{weighed}, {words} words of context, {seconds:.2f} s{stopped}"
        self._print(0, (rests, "italic"))
        for notice in notices(self.task, trace):
            self._print(0, (notice, "yellow"))

    def _outcome(self, trace: Trace) -> None:
        outcome = trace.outcome
        if isinstance(outcome, Verdict):
            others = [f"{label} {p:.3f}" for label, p in outcome.probabilities.items() if label != outcome.label]
            said = f", probability {outcome.probability:.3f}" + (f" ({', '.join(others)})" if others else "")
            self._print(0, ("Verdict: ", "bold"), (outcome.label, "bold cyan"), said)
        elif isinstance(outcome, Answer):
            self._print(
                0, ("Answer: ", "bold"), (outcome.text or "(none)", "bold cyan"), f", score {outcome.score:.3f}"
            )
            for fact in trace.facts:
                if (fact.pid, fact.sid) == (outcome.pid, outcome.sid):
                    self._print(4, ("in ", "dim"), f"{fact.title}: {_short(fact.text)}")

    def explanations(self, found: Iterable[tuple[int, Explanation]]) -> None:
        """Of each passage that carries a fact, the strongest of the matches that its score is the sum of."""
        for hop, explanation in found:
            counted = explanation.counted
            self._print(0)
            head = f"  {explanation.score:.3f} at hop {hop}, from {_count(len(counted), 'match', 'matches')}"
            self._print(0, (self._title(explanation.pid), "bold"), (head, "dim"))
            for match in counted[:MATCHES]:
                self._print(4, (f"{match.score:6.3f}  ", "dim"), f"{match.part}: {match.token} ~ {match.matched}")

    def _title(self, pid: str) -> str:
        return self._titles.get(pid) or pid

    def _print(self, indent: int, *pieces: str | tuple[str, str]) -> None:
        from rich.padding import Padding
        from rich.text import Text

        text: Text = Text.assemble(*pieces)
        self._console.print(Padding(text, (0, 0, 0, indent), expand=False) if indent else text)


def _joins(fact: Fact, hop: Hop) -> bool:
    """Whether this hop took it up, and no earlier one kept it until then."""
    judged = any((each.pid, each.sid) == (fact.pid, fact.sid) and each.kept for each in hop.condensed.judgements)
    return judged and all((known.pid, known.sid) != (fact.pid, fact.sid) for known in hop.query.facts)


def notices(task: Task, trace: Trace) -> Iterator[str]:
    """What a reader of a run should know of the model behind it."""
    if trace.untrained:
        yield "untrained: " + ", ".join(STANDING_IN.get(name, name) for name in trace.untrained)
    if trace.outcome is None:
        yield (
            f"no {task.outcome}: the model has no {task.component}; "
            f"`baleen train CONFIG.toml --stage {task.component}` makes one"
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
    """On one line, and no longer than a long sentence."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[:LONGEST].rstrip() + " …"


Item = TypeVar("Item")


def print_report(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(report))
        return
    for key, value in report.items():
        shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
        typer.echo(f"{key.replace('_', ' '):>18}  {shown}")


def print_ranking(query: Query, ranking: Ranking, retriever: Retriever, seconds: float, as_json: bool) -> None:
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
        console.print(
            Text(passage.text if len(passage.text) <= 240 else passage.text[:240].rstrip() + " …"), style="dim"
        )
    console.print(
        Text(f"{len(ranking)} of {len(retriever.index):,} passages in {1000 * seconds:.1f} ms", style="italic")
    )


def some(items: Iterator[Item], error: Callable[[], Exception]) -> Iterator[Item]:
    """The items; an error where there is none, so that no empty file is left for a training run to stumble over."""
    first = next(items, None)
    if first is None:
        raise error()
    yield first
    yield from items
