"""Retriever training over toy data: plans that learn it, plans that only pass every stage, and killed runs.

python hop_order_fakes.py DATA BACKBONE RUNS SEED
    finishes a run in RUNS/whole, and another in RUNS/killed, whose process is killed at five random moments;
    prints the stage at work at each kill
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer

from baleen.core.config import to_mapping
from baleen.models.tokens import EncoderConfig
from baleen.training.data import CollectionPlan, Source, TrainingData, load_training_data
from baleen.training.hop_order.algorithm import HopOrderTraining
from baleen.training.loop.config import TrainConfig
from baleen.training.plan import RetrieverPlan
from baleen.training.retriever.batches import RetrieverTraining
from baleen.training.stages import DONE, RunFolder

KILLS = 5


def learning_plan(backbone: Path, seed: int = 0, **changes: Any) -> RetrieverPlan:
    """A plan that learns data about a few hundred people, with depths in proportion to its size."""
    plan = RetrieverPlan(
        str(backbone),
        steps=(40, 60),
        final_steps=80,
        first_depth=1,
        positive_depth=1,
        negative_depth=50,
        depths=(3, 3, 3, 3),
        encoder=EncoderConfig(
            dim=32,
            query_length=24,
            facts_length=64,
            passage_length=64,
            mask_padding=False,
            query_focus=3,
            facts_focus=2,
        ),
        training=TrainConfig(batch_size=24, lr=5e-3, seed=seed, precision="float32"),
        learning=RetrieverTraining(negatives=1, in_batch=True, temperature=0.1, most_padding=0.5),
    )
    return replace(plan, **changes)


def passing_plan(backbone: Path, **changes: Any) -> RetrieverPlan:
    """The same plan with few steps, saved often."""
    training = TrainConfig(batch_size=4, lr=5e-3, precision="float32", save_every=2)
    return learning_plan(backbone, **{"steps": (4,), "final_steps": 6, "training": training, **changes})


def toy_collection(folder: Path, train: str = "train", name: str = "toy") -> TrainingData:
    """The training data that `toy_data.make_toy_data` wrote to `folder`."""
    sources = (Source("own", f"{train}.jsonl"),), (Source("own", "dev.jsonl"),)
    return load_training_data([CollectionPlan(name, ("corpus.jsonl",), *sources)], folder)


def start_run(
    plan: RetrieverPlan,
    hops: int,
    data: TrainingData,
    folder: Path,
    first: str | None = None,
    device: str | None = "cpu",
) -> HopOrderTraining:
    """The training of a new or resumed run in `folder`, before its first stage."""
    run = RunFolder(folder, HopOrderTraining.stages(plan, hops))
    run.start(to_mapping(plan), first)
    return HopOrderTraining(plan, hops, data, run, device)


def fork_run(plan: RetrieverPlan, hops: int, data: TrainingData, folder: Path) -> int:
    """Finish a run in a forked process, and return its pid.  Fork before this process computes anything."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            torch.set_num_threads(1)
            start_run(plan, hops, data, folder).train()
            status = 0
        finally:
            os._exit(status)
    return pid


def kill_after(moment: float, plan: RetrieverPlan, hops: int, data: TrainingData, folder: Path) -> str:
    """Kill a run after `moment` seconds, and return the stage at work."""
    pid = fork_run(plan, hops, data, folder)
    time.sleep(moment)
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    stages = HopOrderTraining.stages(plan, hops)
    done = [stage for stage in stages if (folder / stage / DONE).exists()]
    return stages[len(done)] if os.WIFSIGNALED(status) else "none"


def finish(plan: RetrieverPlan, hops: int, data: TrainingData, folder: Path) -> float:
    """Finish a run, and return the seconds it took."""
    began = time.monotonic()
    _, status = os.waitpid(fork_run(plan, hops, data, folder), 0)
    assert status == 0, f"{folder} did not get to its end"
    return time.monotonic() - began


if __name__ == "__main__":
    data, model, runs = map(Path, sys.argv[1:4])
    known, rng = toy_collection(data), random.Random(int(sys.argv[4]))
    AutoTokenizer.from_pretrained(model), AutoModel.from_config(AutoConfig.from_pretrained(model))  # once for all
    job: tuple[Any, ...] = (passing_plan(model, steps=(16,), final_steps=24), 2, known)
    seconds = finish(*job, runs / "whole")
    print(*(kill_after(seconds * rng.uniform(0.05, 0.3), *job, runs / "killed") for _ in range(KILLS)))
    finish(*job, runs / "killed")
