"""Documents that `baleen eval --json` printed, and the command that makes each again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baleen.card.provenance import short_path
from baleen.errors import DatasetError
from baleen.evaluation.lineup import Entry
from baleen.evaluation.summary import Summary
from baleen.results import told_threshold

_SUMMARY = ("questions", "metrics", "intervals", "counts")
_NEEDED = {"system": str, "dataset": str, "file": str, "passages": int, "questions": int, "metrics": dict, "run": dict}


@dataclass(frozen=True)
class Evaluation:
    """One document: of which questions over how many passages, what came out, and by what `run`.

    `dropped` questions were left out, as the passages lack a gold one of theirs.
    """

    name: str
    dataset: str
    file: str
    passages: int
    entry: Entry
    run: Mapping[str, Any]
    dropped: int = 0

    @property
    def model(self) -> str | None:
        """The digest of the model that took hops; None of a baseline, or of somebody's rankings."""
        return self.run.get("model")

    def command(self, model: str) -> str:
        """What makes it again, with `model` for the model; where the passages lie is for the reader to say."""
        parts = ["baleen", "eval", self.dataset, short_path(self.file), *_who(self.run, model)]
        parts += ["--at", ",".join(map(str, self.run["at"]))] if self.run.get("at") else []
        parts += ["--missing", "drop"] if self.dropped else []
        return shlex.join([*parts, "--json"])


def _who(run: Mapping[str, Any], model: str) -> list[str]:
    """The options that say who is evaluated: a system, a baseline, or rankings."""
    if "pipeline" in run:
        return [*_baseline(run), "--index", "INDEX", "--model", model, *_hops(run)]
    if "rankings" in run:
        return ["--corpus", "CORPUS", "--run", "RUN"]
    first, _, rerank = str(run.get("system")).partition(" + ")
    named = ["--baseline", rerank, "--first", first] if rerank else ["--baseline", first]
    settings = run.get("settings", {})
    where = ["--index", "INDEX"] if settings.get("exact") is False else ["--corpus", "CORPUS"]
    return [*named, *where, *(["--model", "MODEL"] if "model" in settings else [])]


def _baseline(run: Mapping[str, Any]) -> list[str]:
    """Of a system that is one: it is not called by its pipeline."""
    return [] if run.get("system") in (None, run["pipeline"]) else ["--baseline", str(run["system"])]


def _hops(run: Mapping[str, Any]) -> list[str]:
    depths, baseline = run.get("k", []), bool(_baseline(run))
    options = [] if baseline else ["--pipeline", str(run["pipeline"])]
    options += ["--hops", str(len(depths)), "-k", ",".join(map(str, depths))] if depths else []
    options += ["--stop-early"] if run.get("stop_early") else []
    options += ["--stand-in"] if run.get("stand_in") and not baseline else []
    options += ["--ranked-by", str(run["ranked_by"])] if run.get("ranked_by") and not baseline else []
    bonus = None if baseline else run.get("named_bonus")  # 0 is told of a model whose own is another
    options += ["--named-bonus", f"{bonus:.15g}"] if bonus is not None else []
    options += ["--threshold", told_threshold(run["threshold"])] if run.get("threshold") is not None else []
    return [*options, *(["--precision", str(run["precision"])] if run.get("precision") else [])]


@dataclass(frozen=True)
class Found:
    """The evaluations in some files and folders, and the files of those folders that are none."""

    evaluations: tuple[Evaluation, ...] = ()
    passed_over: tuple[Path, ...] = ()


def read_evaluations(places: Iterable[Path]) -> Found:
    """Those in files, and in every .json of folders.

    A file that is named and is none is a DatasetError; one that lies in a folder is passed over, unless all of them are.
    """
    found: dict[Path, Evaluation] = {}
    others: list[Path] = []
    for place in places:
        if place.is_dir():
            others += _read_folder(place, found)
        else:
            found[place] = read_evaluation(place)
    return Found(tuple(found.values()), tuple(others))


def _read_folder(folder: Path, found: dict[Path, Evaluation]) -> list[Path]:
    """Adds the evaluations of a folder to those `found`; the files that are none."""
    others, before = [], len(found)
    for file in sorted(folder.glob("*.json")):
        try:
            found[file] = read_evaluation(file)
        except DatasetError:
            others.append(file)
    if len(found) == before:
        raise DatasetError(f"{folder}: no .json there is what `baleen eval ... --json` prints; expected at least one")
    return others


def read_evaluation(file: Path) -> Evaluation:
    """The document in a file, called by the file's name without its ending."""
    try:
        told = json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise DatasetError(f"{file}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    except ValueError:
        raise DatasetError(f"{file}: not valid JSON; expected what `baleen eval ... --json` prints") from None
    lacking = _lacking(told)
    if lacking is not None:
        raise DatasetError(f"{file}: has no '{lacking}'; expected what `baleen eval ... --json` prints")
    try:
        return _evaluation(file.stem, told)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise DatasetError(f"{file}: its figures are not as `baleen eval ... --json` prints them") from None


def _evaluation(name: str, told: Mapping[str, Any]) -> Evaluation:
    hops = {int(number): _summary(group) for number, group in told.get("by_hops", {}).items()}
    dropped = len(told.get("gold", {}).get("dropped", ()))
    entry = Entry(name, _summary(told), hops)
    return Evaluation(name, told["dataset"], told["file"], told["passages"], entry, told["run"], dropped)


def _lacking(told: Any) -> str | None:
    """The first key that a document should have and this one has not, or not so."""
    if not isinstance(told, dict):
        return next(iter(_NEEDED))
    return next((key for key, kind in _NEEDED.items() if not isinstance(told.get(key), kind)), None)


def _summary(told: Mapping[str, Any]) -> Summary:
    return Summary.from_json({key: told[key] for key in _SUMMARY})
