"""Who is evaluated: a system over an index, a baseline over a collection, or a run that somebody else made."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from baleen.devices import Precision
    from baleen.evaluation.collection import Collection
    from baleen.evaluation.contender import Contender

COLBERT_HOP = "colbert-hop"
FIRST = "bm25"  # what the baseline rerank ranks anew, if nothing else is said
OF_CONDENSING = (
    "pipeline",
    "stand_in",
    "threshold",
    "ranked_by",
    "named_bonus",
)  # options that a baseline which reranks does not take


@dataclass(frozen=True)
class Asked:
    """What a command line says about who is evaluated, and how; `options` are those of the hops."""

    dataset: str
    cutoffs: tuple[int, ...]
    index: Path | None
    model: str | None
    corpus: tuple[Path, ...]
    run: Path | None
    options: Mapping[str, Any]
    device: str | None
    threads: int | None
    baseline: str | None
    first: str | None
    first_model: str | None
    instruction: str
    exact: bool
    precision: Precision | None = None

    def __post_init__(self) -> None:
        if self.baseline is not None and self.run is not None:
            raise typer.BadParameter("--baseline and --run are two things to evaluate: name one")
        if self.corpus and self.index is not None:
            raise typer.BadParameter("--corpus and --index both say which passages are searched: name one")
        if self.precision is not None and not self.takes_hops:
            raise typer.BadParameter("--precision is for a system that takes hops")
        if self.corpus and self.takes_hops:
            raise typer.BadParameter("--corpus goes with --baseline or --run; what takes hops searches an --index")
        if self.baseline == COLBERT_HOP and any(self.options.get(key) is not None for key in OF_CONDENSING):
            raise typer.BadParameter(
                f"--baseline {COLBERT_HOP} reranks: leave --pipeline, --stand-in, --threshold, --ranked-by and --named-bonus out"
            )
        if not self.takes_hops and any(value is not None for value in self.options.values()):
            raise typer.BadParameter(
                "--hops, -k, --pipeline, --threshold and the like are for a system that takes hops"
            )
        self._refuse_idle()

    def _refuse_idle(self) -> None:
        """Options that would do nothing are not what somebody meant."""
        reranks, ranks_by_words = self.baseline == "rerank", self.baseline == "bm25"
        idle = {
            "--first": self.first is not None and not reranks,
            "--first-model": self.first_model is not None and not (reranks and self.first not in (None, FIRST)),
            "--instruction": bool(self.instruction) and "dense" not in (self.baseline, self.first if reranks else ""),
            "--exact": self.exact and (not self.searches or bool(self.corpus)),
            "--model": self.model is not None and (ranks_by_words or self.run is not None),
        }
        given = [name for name, whether in idle.items() if whether]
        if given:
            raise typer.BadParameter(f"leave out {', '.join(given)}: what is evaluated here does not take it")

    @property
    def takes_hops(self) -> bool:
        """Whether it is a system that is evaluated, or the baseline that is one."""
        return self.baseline in (None, COLBERT_HOP) and self.run is None

    @property
    def searches(self) -> bool:
        """Whether a baseline searches an index: colbert, alone or for rerank; others read its passages."""
        return self.baseline == "colbert" or (self.baseline == "rerank" and self.first == "colbert")

    @property
    def searching_model(self) -> str | None:
        """The model that is named for colbert."""
        return self.model if self.baseline == "colbert" else self.first_model


def open_contender(asked: Asked) -> Contender:
    if asked.takes_hops:
        return _system(asked)
    return _baseline(asked) if asked.baseline is not None else _recorded(asked)


def _system(asked: Asked) -> Contender:
    from baleen.evaluation.contender import system_contender
    from baleen.system import Baleen

    system = Baleen.load(
        asked.model, asked.index, device=asked.device, threads=asked.threads, precision=asked.precision
    )
    if asked.baseline is None:
        return system_contender(system, asked.dataset, asked.cutoffs, asked.options)
    from baleen.evaluation.baselines.colbert_hop import NAME, OPTIONS, colbert_hop

    return system_contender(colbert_hop(system), asked.dataset, asked.cutoffs, {**asked.options, **OPTIONS}, NAME)


def _baseline(asked: Asked) -> Contender:
    from baleen.config import from_mapping
    from baleen.evaluation.baselines import BaselineConfig, open_baseline
    from baleen.evaluation.contender import Contender, run_of
    from baleen.evaluation.predicting import Ranked

    settings = {
        "name": asked.baseline, "model": asked.model, "first": asked.first or FIRST, "first_model": asked.first_model,
        "instruction": asked.instruction, "exact": asked.exact, "device": asked.device,
    }  # fmt: skip
    config = from_mapping(BaselineConfig, settings, "--baseline")
    collection = _collection(asked)
    baseline = open_baseline(config, collection)
    name = f"{asked.first or FIRST} + rerank" if asked.baseline == "rerank" else str(asked.baseline)
    run = run_of(
        asked.dataset, asked.cutoffs, name, {"settings": dict(baseline.settings), "passages": collection.fingerprint}
    )
    return Contender(name, Ranked(baseline, max(asked.cutoffs)), collection, run)


def _recorded(asked: Asked) -> Contender:
    from baleen.evaluation.contender import Contender, run_of
    from baleen.evaluation.predicting import Recorded
    from baleen.evaluation.trec import read_run

    assert asked.run is not None
    rankings, collection = read_run(asked.run), _collection(asked)
    digest = hashlib.blake2b(asked.run.read_bytes(), digest_size=8).hexdigest()
    run = run_of(asked.dataset, asked.cutoffs, "run", {"rankings": digest, "passages": collection.fingerprint})
    return Contender(asked.run.name, Recorded(rankings), collection, run)


def _collection(asked: Asked) -> Collection:
    """The files of --corpus, or else the index: the one that is named, or the demonstration's."""
    from baleen.evaluation.collection import Corpus, Indexed

    if asked.corpus:
        return Corpus.read(asked.corpus)
    from baleen.index import Index

    index = asked.index or _default_index(asked)
    if not asked.searches:
        return Indexed(Index.open(index))
    from baleen.devices import usable_device

    return Indexed(Index.open(index, device=str(usable_device(asked.device)), threads=asked.threads))


def _default_index(asked: Asked) -> Path:
    from baleen.embedded import default_index, default_model
    from baleen.encoder import Encoder

    named = asked.searching_model if asked.searches else None
    return default_index(Encoder.load(named or default_model(), device=asked.device))
