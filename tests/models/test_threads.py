"""Inference in several threads: the same results as in one, and nothing of the process or the models is changed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from baleen.core.types import Passage, Query
from baleen.models.cross_encoder import CrossEncoder
from baleen.models.device import Precision, inference
from baleen.models.encoder import Encoder
from fakes import CORPUS, QUERIES, bert_folder, tiny_encoder

pytestmark = pytest.mark.usefixtures("one_thread")

Arrays = list[np.ndarray[Any, Any]]


def backend_flags() -> dict[str, object]:
    """Every readable flag of torch.backends, and the modes of this thread."""
    flags: dict[str, object] = {
        "precision": torch.get_float32_matmul_precision(),
        "grad": torch.is_grad_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
    }
    for backend in ("cuda", "cuda.matmul", "cudnn", "mkldnn", "mps", "openmp"):
        part: Any = torch.backends
        for name in backend.split("."):
            part = getattr(part, name)
        for name in dir(part):
            value = None if name.startswith("_") else getattr(part, name, None)
            if name.endswith(("_enabled", "is_available")) and callable(value):
                flags[f"{backend}.{name}"] = value()
            elif isinstance(value, bool | str | int) and not isinstance(part, ModuleType):
                flags[f"{backend}.{name}"] = value
    for name in ("enabled", "benchmark", "deterministic", "allow_tf32"):
        flags[f"cudnn.{name}"] = getattr(torch.backends.cudnn, name)
    return flags


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A saved encoder and a saved cross-encoder."""
    home = tmp_path_factory.mktemp("threads")
    tiny_encoder(home).save(home / "encoder")
    CrossEncoder.from_backbone(bert_folder(home / "bert", seed=1)).save(home / "cross-encoder")
    return home / "encoder", home / "cross-encoder"


def test_flags_are_found() -> None:
    assert {"cuda.cudnn_sdp_enabled", "cuda.flash_sdp_enabled", "cudnn.enabled"} <= backend_flags().keys()


def test_overlapping_inference_leaves_every_flag(folders: tuple[Path, Path]) -> None:
    encoder, before = Encoder.load(folders[0], device="cpu", trainable=True), backend_flags()
    inside, left = Event(), Event()

    def first() -> None:
        with inference(encoder.model, torch.bfloat16):
            inside.set()
            assert left.wait(10)

    def second() -> None:
        assert inside.wait(10)
        with inference(encoder.model, torch.bfloat16):
            assert torch.is_inference_mode_enabled()
            left.set()
            running[0].result(10)

    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(first)]
        pool.submit(second).result(10)
    assert backend_flags() == before
    assert not encoder.model.training


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_two_threads_give_the_results_of_one(
    folders: tuple[Path, Path], precision: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = Encoder.load(folders[0], device="cpu", precision=precision)
    cross_encoder = CrossEncoder.load(folders[1], device="cpu", precision=precision)
    for model in (encoder.model, cross_encoder.model):
        monkeypatch.setattr(model, "train", lambda *_: pytest.fail("inference switches a shared model"))
    halves = [(QUERIES[:2], CORPUS[:5]), (QUERIES[1:], CORPUS[3:])]

    def compute(queries: list[Query], passages: list[Passage]) -> Arrays:
        found: Arrays = []
        for query, vectors in zip(queries, encoder.encode_queries(queries), strict=True):
            rows = [row for own in cross_encoder.inputs.sentences_of(query, passages) for row in own]
            found += [vectors.query, vectors.facts, *cross_encoder.score("sentences", rows)]
        return found + [each for _, chunk in encoder.encode_passages(passages) for each in chunk]

    expected, before = [compute(*half) for half in halves], backend_flags()
    start = Barrier(2)

    def repeat(number: int) -> list[Arrays]:
        start.wait(10)
        return [compute(*halves[number]) for _ in range(5)]

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(repeat, range(2)))
    for number, repeated in enumerate(results):
        for found in repeated:
            for one, other in zip(found, expected[number], strict=True):
                np.testing.assert_array_equal(one, other)
    assert backend_flags() == before
