"""A whole run: every stage of a plan, in order, into one folder, and a model at its end.

    train(read_plan(Path("runs/small.toml")), Path("runs/small"))

What is done is skipped, so a run that was killed goes on where it stood, and one of several stages can be done again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from baleen.checkpoint import replacing
from baleen.crossencoder import CrossEncoder
from baleen.encoder import Encoder
from baleen.errors import TrainingError
from baleen.model_folder import write_model
from baleen.training.inspection import Inspected
from baleen.training.plan import RunPlan
from baleen.training.reading_run import ReadingRun
from baleen.training.rounds import Rounds
from baleen.training.run_folder import RunFolder, read_records
from baleen.training.world import load_world

log = logging.getLogger(__name__)

MODEL = "model"


def stages(plan: RunPlan) -> list[str]:
    reading = ReadingRun.stages(plan.reading) if plan.reading else []
    return [*Rounds.stages(plan.retriever, plan.hops), *reading, MODEL]


def train(
    plan: RunPlan, folder: Path, *, stage: str | None = None, device: str | None = None
) -> dict[str, dict[str, Any]]:
    """Do what is not done, from `stage` on if it is named; the report of each stage."""
    run = RunFolder(folder, stages(plan))
    run.begin(plan.told(), stage)
    world = load_world(plan.collections, plan.root, plan.missing)
    rounds = Rounds(plan.retriever, plan.hops, world, run, device)
    rounds.train()
    if plan.reading is not None:
        ReadingRun(plan.reading, rounds).train()
    run.do(MODEL, _assemble, plan, run)
    return {name: report for name in run.stages if (report := run.report(name)) is not None}


def _assemble(folder: Path, plan: RunPlan, run: RunFolder) -> Mapping[str, Any]:
    """The trained components as one model, in float16."""
    components = {"retriever": "retriever"}
    if plan.reading is not None:
        components |= ReadingRun.components(plan.reading)
    with replacing(folder / "checkpoint") as aside:
        for name in dict.fromkeys(components.values()):
            source = run.folder(name) / "checkpoint"
            kind = Encoder if name == "retriever" else CrossEncoder
            kind.load(source, device="cpu", trainable=True).save(aside / name, torch.float16)
        write_model(aside, components, {"run": {"hops": plan.hops, "k": list(plan.retriever.depths)}})
    return {"components": components}


def explain(folder: Path, qid: str) -> list[Inspected]:
    """What the run inferred of one question, hop by hop."""
    files = sorted(folder.glob("hop-*/inspected.jsonl"))
    if not files:
        raise TrainingError(f"{folder}: no hop of this run is done yet")
    lines = [line for file in files for line in read_records(file, Inspected)]
    found = [line for line in lines if f"/{line.qid}".endswith(f"/{qid}")]
    if not found:
        raise TrainingError(f"{folder}: no question has the id '{qid}'")
    return found
