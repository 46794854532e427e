"""What a card is about: a run, the model that it ended in, and how that was evaluated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from baleen.card.evaluations import Evaluation
from baleen.card.provenance import DATASETS, Backbone, known_backbone
from baleen.card.retriever_card import RetrieverCard, read_retriever_card
from baleen.card.run_record import DataFile, RunRecord, read_run
from baleen.card.weights import Weights, read_weights
from baleen.model_folder import read_model
from baleen.results import model_digest
from baleen.training.run import MODEL


@dataclass(frozen=True)
class Subject:
    """Everything that a card is written from.

    `weights`, `digest` and `settings` are of the model's folder; without one there are none.  `holds_index` says that
    an index lies in that folder too, `retriever_card` what a card beside the retriever's weights tells.
    """

    name: str
    run: RunRecord
    weights: tuple[Weights, ...] = ()
    digest: str | None = None
    holds_index: bool = False
    evaluations: tuple[Evaluation, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    retriever_card: RetrieverCard | None = None

    @cached_property
    def files(self) -> list[DataFile]:
        return list(self.run.files())

    @property
    def trained_on(self) -> list[DataFile]:
        return [each for each in self.files if each.part == "train"]

    @property
    def datasets(self) -> list[str]:
        """Of those that are known, which it was trained on, each once."""
        return [name for name in DATASETS if any(each.dataset == name for each in self.trained_on)]

    @property
    def backbones(self) -> dict[str, Backbone | None]:
        """All that the model is made from, by the name that the plan has; None of one that is not known.

        Of a retriever that was ready, what its own card names; without one, itself, of which nothing is known.
        """
        taken = [] if self.run.ready is None else [self.run.ready]
        if taken and self.retriever_card is not None and self.retriever_card.made_from:
            taken = list(self.retriever_card.made_from)
        return {
            name: None if name == self.run.ready else known_backbone(name) for name in [*taken, *self.run.backbones]
        }

    @property
    def languages(self) -> list[str]:
        """Those of the backbones, where all are known."""
        known = self.backbones.values()
        return list(dict.fromkeys(each.language for each in known if each)) if all(known) else []


def read_subject(
    root: Path, evaluations: Iterable[Evaluation] = (), *, model: Path | None = None, name: str | None = None
) -> Subject:
    """The run in `root` with its own model, or `model` in its place; a `model` that is named must be there.

    It is called `name`, or else as the folder that was named is.
    """
    run, folder = read_run(root), model or root / MODEL
    called = name or (model or root).resolve().name
    if model is None and not (folder / "config.json").is_file():
        return Subject(called, run, evaluations=tuple(evaluations))
    found = read_model(folder)
    holds_index = any(folder.glob("*/manifest.json"))
    weights, digest = tuple(read_weights(found)), model_digest(found)
    card = read_retriever_card(folder, found.components.get("retriever"))
    return Subject(called, run, weights, digest, holds_index, tuple(evaluations), found.settings, card)
