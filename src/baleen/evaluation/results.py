"""What a system made of one question, and how that was judged.

The results of a file of claims as JSON lines, which a run that was killed takes up where it ended.

    {"run": {...}, "id": "7", "query": "...", "verdict": {...}, ...}

Every line says how it was made: `run` holds the command, the resolved settings, and digests of the model and of the
index.  So there is no second file that could be lost or go stale, and results of two kinds never end up in one file: a
file is taken up only if each of its lines begins with the very bytes that this run's lines begin with, and is of the
claim that now has its id.  What a kill left of a last line is cut off, if it begins so too.  Batches are on disk before
the next one starts.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from baleen.core import files
from baleen.core.errors import ConfigError
from baleen.core.records import Record
from baleen.core.types import WHOLE_PASSAGE, Answer, Fact, Ranking, Trace, Verdict
from baleen.data.example import Example

if TYPE_CHECKING:
    from baleen.hops.config import RunConfig
    from baleen.models.folder import ModelFolder
    from baleen.system import Baleen


@dataclass(frozen=True, slots=True)
class Taken(Record):
    """One hop: the passages that it retrieved, best first, and the words of context that were read after it."""

    pids: tuple[str, ...]
    words: int = 0


@dataclass(frozen=True, slots=True)
class Prediction(Record):
    """A ranking of passages, and whatever else a system has to say.

    `condensed` tells a system that chose `facts`, be they none, from one that only ranks.  `label` is a verdict's.
    `hops` are those of a system that takes some.
    """

    ranking: Ranking = field(default_factory=Ranking)
    facts: tuple[Fact, ...] = ()
    condensed: bool = False
    label: str | None = None
    answer: str | None = None
    hops: tuple[Taken, ...] = ()

    @classmethod
    def of_trace(cls, trace: Trace) -> Prediction:
        outcome = trace.outcome
        return cls(
            trace.ranking(),
            trace.facts,
            condensed=True,
            label=outcome.label if isinstance(outcome, Verdict) else None,
            answer=outcome.text if isinstance(outcome, Answer) else None,
            hops=tuple(Taken(hop.ranking.pids, hop.words) for hop in trace.hops),
        )

    @property
    def passages(self) -> frozenset[str]:
        """The pids of the passages that carry a fact."""
        return frozenset(fact.pid for fact in self.facts)

    @property
    def has_sentences(self) -> bool:
        """Whether facts are sentences: a reranker adds whole passages."""
        return self.condensed and all(fact.sid != WHOLE_PASSAGE for fact in self.facts)

    @property
    def sentences(self) -> tuple[Fact, ...]:
        """The facts that are sentences, in the order they would be submitted in: best passage first, then best sentence."""
        ranks = {pid: rank for rank, pid in enumerate(self.ranking.pids)}
        chosen = [fact for fact in self.facts if fact.sid != WHOLE_PASSAGE]
        return tuple(
            sorted(chosen, key=lambda fact: (ranks.get(fact.pid, len(ranks)), fact.pid, -fact.score, fact.sid))
        )

    @property
    def evidence(self) -> tuple[tuple[str, int], ...]:
        """(pid, sid) of `sentences`."""
        return tuple((fact.pid, fact.sid) for fact in self.sentences)


@dataclass(frozen=True, slots=True)
class Result(Record):
    """A question, what came of it, and each metric that applies to it, from 0 to 1."""

    example: Example
    prediction: Prediction
    metrics: Mapping[str, float] = field(default_factory=dict)


Run = Mapping[str, Any]


def describe_run(command: str, system: Baleen, config: RunConfig, *, explained: bool) -> Run:
    """All that the results depend on, but for the claims."""
    precision = system.retriever.encoder.precision
    return {
        "command": command,
        "pipeline": config.pipeline,
        "k": list(config.depths),
        "stop_early": config.stop_early,
        "untrained": config.untrained,
        "explain": explained,
        "model": model_digest(system.model),
        "index": system.retriever.index.digest,
        **({} if precision is None else {"precision": precision}),
        "ranked_by": config.ranked_by,
        **(
            {"mention_boost": float(config.mention_boost)}
            if config.mention_boost or system.config.mention_boost
            else {}
        ),
        **{name: float(value) for name, value in config.thresholds.items()},
    }


def format_thresholds(settings: Mapping[str, Any]) -> str:
    """The thresholds among a run's settings: `, keep -2, final 1`."""
    given = ((name, settings.get(name)) for name in ("keep", "read", "final"))
    return "".join(f", {name} {value:.15g}" for name, value in given if value is not None)


def model_digest(model: ModelFolder) -> str:
    """Of all that makes a model: its weights, its tokenizers, its settings."""
    return _digest(_contents(model))


def _contents(model: ModelFolder) -> dict[str, Any]:
    """A component's config.json holds the hashes of its weights and of its tokenizer."""
    configs = {name: (model.folder(name) / "config.json").read_text("utf-8") for name in model.components}
    return {"components": configs, "settings": dict(model.settings)}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def refuse_packed(path: Path) -> None:
    """What is written as it comes would be plain under any name."""
    if path.suffix.lower() in files.PACKED:
        raise ConfigError(f"{path}: would not be compressed; choose a name without '{path.suffix}'")


def line(run: Run, claim_id: str, told: Mapping[str, Any]) -> bytes:
    return json.dumps({"run": run, "id": claim_id, **told}, ensure_ascii=False).encode() + b"\n"


class Results:
    """An open results file; `done` has the text of each claim by the id that a result is there for."""

    def __init__(self, path: Path, file: IO[bytes], run: Run) -> None:
        self.path, self.run, self._file = path, run, file
        self.done: dict[str, str] = {}
        self._begins = json.dumps({"run": run}, ensure_ascii=False)[:-1].encode() + b", "
        self._take_up()

    @classmethod
    @contextmanager
    def open(cls, path: Path, run: Run) -> Iterator[Self]:
        """Open for appending, and make where it is missing; one process at a time."""
        refuse_packed(path)
        with path.open("a+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(f"{path}: another process is writing to it; wait, or choose another --out") from None
            yield cls(path, file, run)

    def holds(self, claim_id: str, text: str) -> bool:
        """Whether there is a result for a claim; one of another text under the same id is a ConfigError."""
        if claim_id not in self.done:
            return False
        if self.done[claim_id] != text:
            raise ConfigError(
                f"{self.path}: its result '{claim_id}' is of another text than the one that has this id now; "
                "choose another --out, or remove this one"
            )
        return True

    def append(self, results: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """(id, document) pairs, on disk when this returns."""
        self._file.write(b"".join(line(self.run, claim_id, told) for claim_id, told in results))
        self._file.flush()
        os.fsync(self._file.fileno())

    def _take_up(self) -> None:
        """Read what is there, refuse what is not of this run, and only then cut off half a line."""
        self._file.seek(0)
        whole = 0
        for number, content in enumerate(self._file, start=1):
            if content.endswith(b"\n"):
                self._note(content, number)
                whole += len(content)
            elif not content.startswith(self._begins[: len(content)]):
                raise self._refusal(number, "no result of this run")
        self._file.truncate(whole)

    def _note(self, content: bytes, number: int) -> None:
        try:
            told = json.loads(content)
            claim_id, text, made_by = told["id"], told["query"], told["run"]
        except (ValueError, RecursionError, KeyError, TypeError):
            raise self._refusal(number, "not a result of a command of ours") from None
        if not content.startswith(self._begins):
            raise self._refusal(number, f"made by another run ({_differences(made_by, self.run)})")
        self.done[claim_id] = text

    def _refusal(self, number: int, fault: str) -> ConfigError:
        return ConfigError(f"{self.path}:{number}: {fault}; choose another --out, or remove this one")


def _differences(made_by: Any, run: Run) -> str:
    if not isinstance(made_by, dict):
        return "which it does not describe"
    keys = [key for key in {**run, **made_by} if made_by.get(key) != run.get(key)]
    return ", ".join(f"{key} was {made_by.get(key)}, and is {run.get(key)}" for key in keys) or "of another version"
