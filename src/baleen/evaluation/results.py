"""Predictions and their scores, and results files that a killed run resumes.

A results file has one JSON object a line:

    {"run": {...}, "id": "7", "query": "...", "verdict": {...}, ...}

`run` holds everything that the result depends on: the command, the resolved settings, and digests of the model and of
the index.  A file is resumed only if every line starts with the bytes of this run's lines, and has the text that its id
has now; otherwise it is refused.  A last line that was cut short is removed.  Each batch is on disk before the next one
starts.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from baleen.core import files
from baleen.core.errors import ConfigError, DatasetError
from baleen.core.records import Record
from baleen.core.types import WHOLE_PASSAGE, Answer, Fact, Ranking, Trace, Verdict
from baleen.data.example import Example

if TYPE_CHECKING:
    from baleen.hops.config import RunConfig
    from baleen.models.folder import ModelFolder
    from baleen.system import Baleen


@dataclass(frozen=True, slots=True)
class HopSummary(Record):
    """One hop: the pids that it retrieved, best first, and the number of words of context after it."""

    pids: tuple[str, ...]
    words: int = 0


@dataclass(frozen=True, slots=True)
class Prediction(Record):
    """A ranking of passages, and the facts, outcome and hops of a system that has them.

    `condensed` is False for a system that only ranks; `facts` are empty there.
    """

    ranking: Ranking = field(default_factory=Ranking)
    facts: tuple[Fact, ...] = ()
    condensed: bool = False
    label: str | None = None
    answer: str | None = None
    hops: tuple[HopSummary, ...] = ()

    @classmethod
    def of_trace(cls, trace: Trace) -> Prediction:
        outcome = trace.outcome
        return cls(
            trace.ranking(),
            trace.facts,
            condensed=True,
            label=outcome.label if isinstance(outcome, Verdict) else None,
            answer=outcome.text if isinstance(outcome, Answer) else None,
            hops=tuple(HopSummary(hop.ranking.pids, hop.words) for hop in trace.hops),
        )

    @property
    def passages(self) -> frozenset[str]:
        """Pids of the facts."""
        return frozenset(fact.pid for fact in self.facts)

    @property
    def has_sentences(self) -> bool:
        """Whether all facts are sentences; a reranker's are whole passages."""
        return self.condensed and all(fact.sid != WHOLE_PASSAGE for fact in self.facts)

    @property
    def sentences(self) -> tuple[Fact, ...]:
        """The facts that are sentences, in submission order: by rank of the passage, then by score."""
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
    """A question, its prediction, and the metrics that apply to it, from 0 to 1."""

    example: Example
    prediction: Prediction
    metrics: Mapping[str, float] = field(default_factory=dict)


Run = Mapping[str, Any]


def describe_run(command: str, system: Baleen, config: RunConfig, *, explained: bool) -> Run:
    """Everything that the results depend on except the claims."""
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
    """Digest of a model's weights, tokenizers and settings."""
    return _digest(_contents(model))


def _contents(model: ModelFolder) -> dict[str, Any]:
    """Settings and component configs; a config.json contains the hashes of its weights and tokenizer."""
    configs = {name: (model.folder(name) / "config.json").read_text("utf-8") for name in model.components}
    return {"components": configs, "settings": dict(model.settings)}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def numbered_lines(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield each line with its place, `path:number`; an unreadable file is a DatasetError."""
    try:
        for number, line in enumerate(files.read_lines(path), start=1):
            yield f"{path}:{number}", line
    except files.READ_ERRORS as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise DatasetError(f"{path}: cannot be read: {reason}") from None


def refuse_compressed(path: Path) -> None:
    """Refuse a name that ends in .gz or the like: the file would not be compressed."""
    if path.suffix.lower() in files.COMPRESSED:
        raise ConfigError(f"{path}: would not be compressed; choose a name without '{path.suffix}'")


def result_line(run: Run, claim_id: str, document: Mapping[str, Any]) -> bytes:
    return json.dumps({"run": run, "id": claim_id, **document}, ensure_ascii=False).encode() + b"\n"


class ResultsFile:
    """An open results file; `done` maps the ids of its results to their texts."""

    def __init__(self, path: Path, file: IO[bytes], run: Run) -> None:
        self.path, self.run, self._file = path, run, file
        self.done: dict[str, str] = {}
        self._prefix = json.dumps({"run": run}, ensure_ascii=False)[:-1].encode() + b", "
        self._resume()

    @classmethod
    @contextmanager
    def open(cls, path: Path, run: Run) -> Iterator[Self]:
        """Open or create a file for appending, locked against other processes."""
        refuse_compressed(path)
        with path.open("a+b") as file:
            files.lock(file, ConfigError(f"{path}: another process is writing to it; wait, or choose another --out"))
            yield cls(path, file, run)

    def holds(self, claim_id: str, text: str) -> bool:
        """Whether a claim has a result; a result of another text under its id is a ConfigError."""
        if claim_id not in self.done:
            return False
        if self.done[claim_id] != text:
            raise ConfigError(
                f"{self.path}: its result '{claim_id}' is of another text than the one with this id now; "
                "choose another --out, or remove this one"
            )
        return True

    def append(self, results: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Write (id, document) pairs to disk."""
        self._file.write(b"".join(result_line(self.run, claim_id, document) for claim_id, document in results))
        self._file.flush()
        os.fsync(self._file.fileno())

    def _resume(self) -> None:
        """Read the results, refuse a file of another run, and then remove a line that was cut short."""
        self._file.seek(0)
        complete = 0
        for number, content in enumerate(self._file, start=1):
            if content.endswith(b"\n"):
                self._read_line(content, number)
                complete += len(content)
            elif not content.startswith(self._prefix[: len(content)]):
                raise self._refusal(number, "not a result of this run")
        self._file.truncate(complete)

    def _read_line(self, content: bytes, number: int) -> None:
        try:
            record = json.loads(content)
            claim_id, text, made_by = record["id"], record["query"], record["run"]
        except (ValueError, RecursionError, KeyError, TypeError):
            raise self._refusal(number, "not a result of baleen") from None
        if not content.startswith(self._prefix):
            raise self._refusal(number, f"made by another run ({_differences(made_by, self.run)})")
        self.done[claim_id] = text

    def _refusal(self, number: int, fault: str) -> ConfigError:
        return ConfigError(f"{self.path}:{number}: {fault}; choose another --out, or remove this one")


def _differences(made_by: Any, run: Run) -> str:
    if not isinstance(made_by, dict):
        return "without a description"
    keys = [key for key in {**run, **made_by} if made_by.get(key) != run.get(key)]
    return ", ".join(f"{key} was {made_by.get(key)}, and is {run.get(key)}" for key in keys) or "of another version"
