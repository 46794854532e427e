"""A whole run: every stage of a plan, in order, into one folder, and a model at its end.

    train(read_plan(Path("runs/small.toml")), Path("runs/small"))

    runs/small/plan.json            the settings, resolved
    runs/small/environment.json     on which machine, with which versions and of which commit; see environment.py
    runs/small/STAGE/               what each stage made; see rounds.py and reading_run.py
    runs/small/model/               the model, for `Baleen.load` and --model
    runs/small/summary.json         what every stage came to, and how orders and sentences that were inferred compare

What is done is skipped, so a run that was killed goes on where it stood, and one of several stages can be done again.
Started by torchrun, trainings share their batches between the processes, mining the corpus, and scoring the questions.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from baleen.core.errors import TrainingError
from baleen.core.files import read_records
from baleen.models.checkpoint import read_json, replace_folder
from baleen.models.cross_encoder import HEADS, CrossEncoder
from baleen.models.device import resolve_device
from baleen.models.encoder import Encoder
from baleen.models.folder import write_model
from baleen.training.cross_encoder.stages import CrossEncoderTraining
from baleen.training.data import TrainingData, load_training_data
from baleen.training.environment import environment, note_environment
from baleen.training.hop_order.algorithm import FINAL, HopOrderTraining
from baleen.training.hop_order.fixed import HopOrder, heuristic_order, oracle_order
from baleen.training.hop_order.report import Inspected, agreement, orders
from baleen.training.loop.distributed import local_device, process_group, started_processes
from baleen.training.plan import RunPlan, data_of
from baleen.training.stages import CHECKPOINT, PLAN, RunFolder, write_json

log = logging.getLogger(__name__)

MODEL, SUMMARY = "model", "summary.json"


def stages(plan: RunPlan) -> list[str]:
    """In the order in which they are done."""
    reading = plan.reading.stages if plan.reading else []
    return [*HopOrderTraining.stages(plan.retriever, plan.hops), *reading, MODEL]


def train(plan: RunPlan, folder: Path, *, stage: str | None = None, device: str | None = None) -> dict[str, Any]:
    """Do what is not done, from `stage` on if it is named; the summary, which stands in summary.json too.

    `stage` may also be the name of a component, for the stage that makes it.  Started by torchrun, every process calls
    this and gets the summary; each has its own GPU, and all see one folder.
    """
    plan.check_processes(started_processes())
    own = local_device(device) if started_processes() > 1 else resolve_device(device)
    with process_group(own) as processes:
        run = RunFolder(folder, stages(plan), processes)
        with run.sole():
            run.begin(plan.told(), _stage_of(plan, stage), data_of)
            done = (folder / SUMMARY).exists() and all(run.report(name) is not None for name in run.stages)
            if processes.agreed(done):
                log.info("%s: every stage is done", folder)
            else:
                _do(plan, run, str(own))
        return read_json(folder / SUMMARY)


def _do(plan: RunPlan, run: RunFolder, device: str) -> None:
    """Every stage that is not done, and the summary."""
    file = run.root / SUMMARY
    if run.processes.first:
        file.unlink(missing_ok=True)
        note_environment(run.root, environment(torch.device(device), run.processes.size))
    data = load_training_data(plan.collections, plan.root, plan.missing)
    rounds = HopOrderTraining(plan.placed_retriever, plan.hops, data, run, device)
    rounds.train()
    if plan.reading is not None:
        reading = replace(plan.reading, backbone=plan.backbone(plan.reading.backbone))
        CrossEncoderTraining(reading, rounds).train()
    run.do(MODEL, _assemble, plan, run, alone=True)
    if run.processes.first:
        write_json(file, _summary(plan, run, data))
    run.processes.wait()


def _stage_of(plan: RunPlan, name: str | None) -> str | None:
    if name is not None and name in HEADS and name not in stages(plan) and plan.reading is not None:
        return plan.reading.stage(name)
    return name


def _assemble(folder: Path, plan: RunPlan, run: RunFolder) -> Mapping[str, Any]:
    """The trained components as one model, in float16; a retriever that was ready stays as it is, for its indexes."""
    components = {"retriever": FINAL, **_readers(plan, run)}
    with replace_folder(folder) as aside:
        for name in dict.fromkeys(components.values()):
            source = run.folder(name) / CHECKPOINT
            if name == FINAL:
                dtype = torch.float16 if plan.retriever.ready is None else None
                Encoder.load(source, device="cpu", trainable=True).save(aside / name, dtype)
            else:
                CrossEncoder.load(source, device="cpu", trainable=True).save(aside / name, torch.float16)
        bonus = plan.reading.mention_boost if plan.reading is not None else 0.0
        named = {"mention_boost": bonus} if bonus else {}
        write_model(aside, components, {"run": {"hops": plan.hops, "k": list(plan.retriever.depths), **named}})
    return {"components": components}


def _readers(plan: RunPlan, run: RunFolder) -> dict[str, str]:
    """The heads that there was something to train on, with the stage of each."""
    if plan.reading is None:
        return {}
    found = {head: plan.reading.stage(head) for head in HEADS}
    return {head: stage for head, stage in found.items() if head in (run.report(stage) or {})["trained"]}


def _summary(plan: RunPlan, run: RunFolder, world: TrainingData) -> dict[str, Any]:
    reports = {name: run.report(name) for name in run.stages}
    order = None if plan.retriever.ready is not None else plan.retriever.order
    found = orders(line for file in _inspected(run.root) for line in read_records(file, Inspected))
    compared = {} if order != "latent" else _compared(found, world)
    inferred = (reports.get("scores") or {}).get("agreement", {})
    return {
        "order": order,
        "data": _counted(world),
        "agreement": compared,
        "sentence_agreement": inferred,
        "stages": reports,
    }


def _counted(world: TrainingData) -> dict[str, Any]:
    """How many passages of each collection are searched, and how many usable questions of each dataset it has.

    `train` are those that are searched for, `read` those that the readers alone learn from.
    """
    counts: dict[str, Any] = {name: {"passages": len(pids)} for name, pids in world.pids.items()}
    for part in ("train", "read", "dev"):
        found = Counter((question.collection, question.dataset) for question in getattr(world, part))
        for name, told in counts.items():
            told[part] = {dataset: count for (collection, dataset), count in found.items() if collection == name}
    return counts


def _compared(found: Mapping[str, HopOrder], world: TrainingData) -> dict[str, Any]:
    """The latent order beside the heuristic one, and beside the one that a dataset gives and nobody followed."""
    latent = [each for each in world.train if each.example.gold and not each.ordered]
    examples = [each.example for each in latent if each.example.qid in found]
    others = {
        "heuristic": {example.qid: heuristic_order(example, world.passage) for example in examples},
        "given": {example.qid: oracle_order(example) for example in examples if example.order},
    }
    return {name: agreement(found, other).to_json() for name, other in others.items() if other}


def explain(folder: Path, qid: str) -> list[Inspected]:
    """What a run inferred of one question, hop by hop; of its id the last part will do, if no other ends so."""
    files = _inspected(folder)
    if not files and _is_ready(folder):
        raise TrainingError(f"{folder}: the run took a retriever that was ready, and inferred no order of hops for it")
    if not files:
        raise TrainingError(f"{folder}: no hop of this run is done yet, or it is not the folder of a run")
    found = [line for file in files for line in _lines(file, qid)]
    qids = list(dict.fromkeys(line.qid for line in found))
    exact = [line for line in found if line.qid == qid]
    if not found:
        raise TrainingError(f"{folder}: no question that was trained on has the id '{qid}'")
    if len(qids) > 1 and not exact:
        raise TrainingError(f"{folder}: '{qid}' may be any of {', '.join(qids[:5])}: give more of the id")
    return sorted(exact or found, key=lambda line: line.hop)


def _lines(file: Path, qid: str) -> Iterator[Inspected]:
    return (line for line in read_records(file, Inspected) if f"/{line.qid}".endswith(f"/{qid}"))


def _inspected(folder: Path) -> list[Path]:
    """Of the hops that the run's plan has, and none that it had before."""
    known = (folder / PLAN).exists() and not _is_ready(folder)
    hops = read_json(folder / PLAN).get("hops", 0) if known else 0
    files = (folder / f"hop-{turn}" / "inspected.jsonl" for turn in range(1, hops + 1))
    return [file for file in files if file.exists()]


def _is_ready(folder: Path) -> bool:
    """Whether the run's plan has a retriever that is taken as it is."""
    file = folder / PLAN
    return file.exists() and read_json(file).get("retriever", {}).get("ready") is not None
