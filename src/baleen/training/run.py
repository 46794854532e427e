"""A whole run: every stage of a plan, in order, and a model at its end.

    train(read_plan(Path("runs/small.toml")), Path("runs/small"))

    runs/small/plan.json            the resolved settings
    runs/small/environment.json     machine, versions and commit; see environment.py
    runs/small/STAGE/               outputs of each stage; see hop_order/algorithm.py and cross_encoder/stages.py
    runs/small/model/               the model, for `Baleen.load` and --model
    runs/small/summary.json         reports of all stages; agreement of inferred hop orders and sentences with known ones

A run skips stages that are done, so a killed run resumes where it stopped; a stage and those after it can be redone.
Under torchrun the processes share training batches, the corpus during mining, and the questions during scoring.
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
from baleen.training.hop_order.report import HopReport, agreement, orders
from baleen.training.loop.distributed import local_device, process_group, started_processes
from baleen.training.plan import RunPlan, data_settings
from baleen.training.stages import CHECKPOINT, PLAN, RunFolder, write_json

log = logging.getLogger(__name__)

MODEL, SUMMARY = "model", "summary.json"


def stage_names(plan: RunPlan) -> list[str]:
    """Names of the stages, in order."""
    reading = plan.reading.stages if plan.reading else []
    return [*HopOrderTraining.stages(plan.retriever, plan.hops), *reading, MODEL]


def train(plan: RunPlan, folder: Path, *, stage: str | None = None, device: str | None = None) -> dict[str, Any]:
    """Run the stages that are not done, redo those from `stage` on if given, and return the summary.

    `stage` may also name a component, for the stage that trains it.  Under torchrun every process
    calls this and gets the summary; each has its own GPU, and all share one folder.
    """
    plan.check_processes(started_processes())
    own = local_device(device) if started_processes() > 1 else resolve_device(device)
    with process_group(own) as processes:
        run = RunFolder(folder, stage_names(plan), processes)
        with run.exclusive():
            run.start(plan.to_json(), _stage_of(plan, stage), data_settings)
            done = (folder / SUMMARY).exists() and all(run.report(name) is not None for name in run.stages)
            if processes.broadcast(done):
                log.info("%s: every stage is done", folder)
            else:
                _run_stages(plan, run, str(own))
        return read_json(folder / SUMMARY)


def _run_stages(plan: RunPlan, run: RunFolder, device: str) -> None:
    """Run the stages that are not done, and write the summary."""
    file = run.root / SUMMARY
    if run.processes.first:
        file.unlink(missing_ok=True)
        note_environment(run.root, environment(torch.device(device), run.processes.size))
    data = load_training_data(plan.collections, plan.root, plan.missing)
    hop_order = HopOrderTraining(plan.resolved_retriever, plan.hops, data, run, device)
    hop_order.train()
    if plan.reading is not None:
        reading = replace(plan.reading, backbone=plan.resolve(plan.reading.backbone))
        CrossEncoderTraining(reading, hop_order).train()
    run.run_stage(MODEL, _assemble, plan, run, first_process_only=True)
    if run.processes.first:
        write_json(file, _summary(plan, run, data))
    run.processes.wait()


def _stage_of(plan: RunPlan, name: str | None) -> str | None:
    """The stage of this name, or the one that trains the component of this name."""
    if name is not None and name in HEADS and name not in stage_names(plan) and plan.reading is not None:
        return plan.reading.stage(name)
    return name


def _assemble(folder: Path, plan: RunPlan, run: RunFolder) -> Mapping[str, Any]:
    """Save the trained components as one model, in float16; a `ready` retriever is unchanged and keeps its indexes."""
    components = {"retriever": FINAL, **_trained_heads(plan, run)}
    with replace_folder(folder) as aside:
        for name in dict.fromkeys(components.values()):
            source = run.folder(name) / CHECKPOINT
            if name == FINAL:
                dtype = torch.float16 if plan.retriever.ready is None else None
                Encoder.load(source, device="cpu", trainable=True).save(aside / name, dtype)
            else:
                CrossEncoder.load(source, device="cpu", trainable=True).save(aside / name, torch.float16)
        boost = plan.reading.mention_boost if plan.reading is not None else 0.0
        optional = {"mention_boost": boost} if boost else {}
        write_model(aside, components, {"run": {"hops": plan.hops, "k": list(plan.retriever.depths), **optional}})
    return {"components": components}


def _trained_heads(plan: RunPlan, run: RunFolder) -> dict[str, str]:
    """The stage of each head that had training data."""
    if plan.reading is None:
        return {}
    found = {head: plan.reading.stage(head) for head in HEADS}
    return {head: stage for head, stage in found.items() if head in (run.report(stage) or {})["trained"]}


def _summary(plan: RunPlan, run: RunFolder, data: TrainingData) -> dict[str, Any]:
    reports = {name: run.report(name) for name in run.stages}
    order = None if plan.retriever.ready is not None else plan.retriever.order
    found = orders(line for file in _hop_files(run.root) for line in read_records(file, HopReport))
    compared = {} if order != "latent" else _compare_orders(found, data)
    inferred = (reports.get("scores") or {}).get("agreement", {})
    return {
        "order": order,
        "data": _count(data),
        "agreement": compared,
        "sentence_agreement": inferred,
        "stages": reports,
    }


def _count(data: TrainingData) -> dict[str, Any]:
    """Searched passages of each collection, and usable questions of each of its datasets.

    `train` counts questions that are searched for, `read` those that only heads of the cross-encoder learn from.
    """
    counts: dict[str, Any] = {name: {"passages": len(pids)} for name, pids in data.pids.items()}
    for part, questions in (("train", data.train), ("read", data.unsearched), ("dev", data.dev)):
        found = Counter((question.collection, question.dataset) for question in questions)
        for name, count in counts.items():
            count[part] = {dataset: number for (collection, dataset), number in found.items() if collection == name}
    return counts


def _compare_orders(found: Mapping[str, HopOrder], data: TrainingData) -> dict[str, Any]:
    """Agreement of the latent order with the heuristic one, and with a dataset's own order where it was not used."""
    latent = [each for each in data.train if each.example.gold and not each.ordered]
    examples = [each.example for each in latent if each.example.qid in found]
    others = {
        "heuristic": {example.qid: heuristic_order(example, data.passage) for example in examples},
        "given": {example.qid: oracle_order(example) for example in examples if example.order},
    }
    return {name: agreement(found, other).to_json() for name, other in others.items() if other}


def explain(folder: Path, qid: str) -> list[HopReport]:
    """The inferred hops of one question; `qid` may be the end of its id if no other id ends so."""
    files = _hop_files(folder)
    if not files and _has_ready_retriever(folder):
        raise TrainingError(f"{folder}: the run took a ready retriever, so it inferred no order of hops")
    if not files:
        raise TrainingError(f"{folder}: no hop of this run is done yet, or it is not the folder of a run")
    found = [line for file in files for line in _reports(file, qid)]
    qids = list(dict.fromkeys(line.qid for line in found))
    exact = [line for line in found if line.qid == qid]
    if not found:
        raise TrainingError(f"{folder}: no training question has the id '{qid}'")
    if len(qids) > 1 and not exact:
        raise TrainingError(f"{folder}: '{qid}' may be any of {', '.join(qids[:5])}; give more of the id")
    return sorted(exact or found, key=lambda line: line.hop)


def _reports(file: Path, qid: str) -> Iterator[HopReport]:
    return (line for line in read_records(file, HopReport) if f"/{line.qid}".endswith(f"/{qid}"))


def _hop_files(folder: Path) -> list[Path]:
    """Reports of the hops in the run's plan, without those of an earlier plan."""
    known = (folder / PLAN).exists() and not _has_ready_retriever(folder)
    hops = read_json(folder / PLAN).get("hops", 0) if known else 0
    files = (folder / f"hop-{turn}" / "inspected.jsonl" for turn in range(1, hops + 1))
    return [file for file in files if file.exists()]


def _has_ready_retriever(folder: Path) -> bool:
    file = folder / PLAN
    return file.exists() and read_json(file).get("retriever", {}).get("ready") is not None
