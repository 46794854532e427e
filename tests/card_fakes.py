"""A small finished run with its model, results files, and the script that writes a card from them."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from safetensors.torch import save_file

from baleen.evaluation.results import model_digest
from baleen.models.folder import read_model, write_model


def load_script() -> ModuleType:
    """Import tools/card.py, which is in no package."""
    spec = importlib.util.spec_from_file_location("card", Path(__file__).parents[1] / "tools" / "card.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TRAINING = {"steps": 10_000, "batch_size": 64, "lr": 4e-5, "seed": 7}
PLAN: dict[str, Any] = {
    "hops": 2,
    "missing": "drop",
    "collections": [
        {
            "name": "wiki",
            "corpus": ["/home/somebody/kit/wiki/part-0.jsonl.gz", "kit/wiki/part-1.jsonl.gz"],
            "train": [
                {"dataset": "hover", "file": "../kit/hover/train.json", "weight": 1.0, "limit": None, "order": "plan"},
                {"dataset": "exfever", "file": "kit/exfever/train.json", "weight": 0.5, "limit": 1200, "order": "plan"},
            ],
            "dev": [{"dataset": "hover", "file": "kit/hover/dev.json", "weight": 1.0, "limit": None, "order": "plan"}],
            "sample": None,
        },
        {
            "name": "made",
            "corpus": ["kit/wiki/part-0.jsonl.gz"],
            "train": [
                {"dataset": "own", "file": "synthetic.jsonl.gz", "weight": 0.3, "limit": 8000, "order": "given"},
                {"dataset": "own", "file": "synthetic-2.jsonl.gz", "weight": 0.1, "searched": False},
            ],
            "dev": [],
            "sample": 80_000,
        },
    ],
    "retriever": {"backbone": "bge-small-en-v1.5", "order": "latent", "training": TRAINING},
    "reading": {
        "backbone": "/home/somebody/ms-marco-MiniLM-L-12-v2",
        "labels": 2,
        "first": {**TRAINING, "batch_size": 32},
        "training": {**TRAINING, "batch_size": 24, "lr": 5e-5},
        "facts": None,
    },
}
HEADS = ("sentences", "facts", "reranker", "verifier", "answerer")
SPEED = {"steps_per_second": 14.53, "tokens_per_second": 444_000.4, "examples_per_second": 9.0, "padding": 0.01}
SUMMARY: dict[str, Any] = {
    "order": "latent",
    "data": {
        "wiki": {"passages": 354_282, "train": {"hover": 229, "exfever": 1200}, "read": {}, "dev": {"hover": 377}},
        "made": {"passages": 80_000, "train": {"own": 8000}, "read": {"own": 20_000}, "dev": {}},
    },
    "agreement": {},
    "stages": {
        "start": {"backbone": "bge-small-en-v1.5", "seconds": 3.0},
        "retriever": {
            "records": 9000,
            "steps": 3000,
            "loss": 0.12345,
            "training_seconds": 200.0,
            **SPEED,
            "utilisation": None,
            "dev hover": [
                {"hop": 1, "depth": 25, "all_found": 0.605, "mean_found": 0.8},
                {"hop": 2, "depth": 10, "all_found": 0.9, "mean_found": 0.95},
            ],
            "seconds": 300.0,
        },
        "sentences": {
            "records": {"sentences": 5},
            "steps": 8,
            "loss": 2.0,
            "dev": {"sentences_best": 0.5},
            "seconds": 1.0,
        },
        "reading": {
            "trained": list(HEADS),
            "records": {"facts": 1000, "verifier": 34},
            "steps": 4000,
            "loss": 1.0,
            "training_seconds": 61.0,
            "dev": {"metric": 0.333, "sentences_best": 0.625, "verifier_metric": 0.701, "answerer_em": 0.4},
            "seconds": 62.0,
        },
        "model": {"components": {"retriever": "retriever", **dict.fromkeys(HEADS, "reading")}, "seconds": 1.0},
    },
}
ENVIRONMENT: dict[str, Any] = {
    "date": "2026-11-15",
    "cpu": "Some Processor",
    "cores": 16,
    "memory_gb": 128,
    "python": "3.11.9",
    "torch": "2.11.0",
    "device": "NVIDIA H200",
    "processes": 1,
    "cuda": "12.8",
    "commit": "0123456789abcdef",
    "changed": False,
}


def write_run(root: Path, *, plan: Any = PLAN, summary: Any = SUMMARY, environment: Any = ENVIRONMENT) -> Path:
    """Write a run with its model; a file whose value is None is left out."""
    root.mkdir(parents=True, exist_ok=True)
    environments = None if environment is None else {"environments": [environment]}
    for name, value in {"plan": plan, "summary": summary, "environment": environments}.items():
        if value is not None:
            (root / f"{name}.json").write_text(json.dumps(value))
    write_fake_model(root / "model")
    return root


def write_fake_model(folder: Path) -> Path:
    """Write a retriever of 12 parameters and a cross-encoder of 8 + 3 + 4 for the other components."""
    tensors = {
        "retriever": {"backbone.weight": torch.zeros(3, 4)},
        "reading": {
            "backbone.weight": torch.zeros(2, 4),
            "heads.facts.output.weight": torch.zeros(3),
            "heads.verifier.output.weight": torch.zeros(2, 1),
            "heads.verifier.output.bias": torch.zeros(2),
        },
    }
    for name, held in tensors.items():
        (folder / name).mkdir(parents=True)
        save_file({key: value.half() for key, value in held.items()}, folder / name / "model.safetensors")
        (folder / name / "config.json").write_text(json.dumps({"format": "baleen-checkpoint", "of": name}))
        backbone = {"model_type": "bert", "num_hidden_layers": 12, "hidden_size": 384}
        (folder / name / "backbone.json").write_text(json.dumps(backbone))
        (folder / name / "tokenizer.json").write_text("{}")
    write_model(folder, {"retriever": "retriever", **dict.fromkeys(HEADS, "reading")})
    return folder


def digest_of(root: Path) -> str:
    return model_digest(read_model(root / "model"))


def document(model: str | None = "0" * 16, run: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Return results of a two-hop system as `baleen eval --json` prints them, with `changes`."""
    figures = {"retrieval@100": 88.25, "all@20": 61.0}
    counts, intervals = {"retrieval@100": 200, "all@20": 377}, {"retrieval@100": [84.0, 92.5], "all@20": [57.0, 65.0]}
    whole = {"questions": 377, "metrics": figures, "intervals": intervals, "counts": counts}
    settings = {"pipeline": "condense", "k": [25, 10], "stop_early": False, "untrained": False, "model": model}
    return {
        "system": "condense at 25+10",
        "passages": 354_282,
        **whole,
        "by_hops": {"2": whole, "3": {**whole, "metrics": {"retrieval@100": 70.0}, "counts": {"retrieval@100": 90}}},
        "gold": {"examples": 377, "dropped": []},
        "run": run or {"command": "eval", "dataset": "hover", "at": [20, 100], "system": "condense", **settings},
        "dataset": "hover",
        "file": "/home/somebody/kit/hover/dev.json",
        **changes,
    }


def write_document(file: Path, content: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))
    return file
