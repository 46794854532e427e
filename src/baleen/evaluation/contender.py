"""Who is evaluated, with all that the results depend on; a system over its hops is described here once for all commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from baleen.config import override
from baleen.evaluation.collection import Collection, Indexed
from baleen.evaluation.predicting import Predictor, System
from baleen.results import Run, describe_run, told_threshold

if TYPE_CHECKING:
    from baleen.system import Baleen, RunConfig

COMMAND = "eval"
CPU_BATCH, DEVICE_BATCH = 4, 64


@dataclass(frozen=True)
class Contender:
    """`run` holds all that the results depend on, but for the questions; `batch_size` is how many go through at once.

    On a CPU larger batches gain nothing, and small ones tell sooner how long it will take.
    """

    name: str
    predictor: Predictor
    collection: Collection
    run: Run
    batch_size: int = DEVICE_BATCH


def system_contender(
    system: Baleen, dataset: str, cutoffs: Sequence[int], options: Mapping[str, Any], name: str | None = None
) -> Contender:
    """A model over its index; `options` are RunConfig's, `name` what it is called instead of its pipeline."""
    config = override(system.config, **options)
    described = describe_run(COMMAND, system, config, explained=False)
    settings = {key: value for key, value in described.items() if key not in ("command", "explain")}
    called = name or config.pipeline
    return Contender(
        _name(called, config),
        System(system, dataset, options),
        Indexed(system.retriever.index),
        run_of(dataset, cutoffs, called, settings),
        CPU_BATCH if system.retriever.encoder.device.type == "cpu" else DEVICE_BATCH,
    )


def _name(called: str, config: RunConfig) -> str:
    """`condense with a stand-in at 25+10, ranked by reading, threshold -1`"""
    stand_in = " with a stand-in" if config.stand_in else ""
    ranked_by = "" if config.ranked_by == "hops" else f", ranked by {config.ranked_by}"
    named = f", names raised by {config.named_bonus:g}" if config.named_bonus else ""
    threshold = "" if config.threshold is None else f", threshold {told_threshold(config.threshold)}"
    return f"{called}{stand_in} at {'+'.join(map(str, config.depths))}{ranked_by}{named}{threshold}"


def run_of(dataset: str, cutoffs: Sequence[int], system: str, settings: Mapping[str, Any]) -> Run:
    return {"command": COMMAND, "dataset": dataset, "at": list(cutoffs), "system": system, **settings}
