"""Inference in several threads: the same results as in one, and nothing of the process or the models is changed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event
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
    """The flags of torch.backends, and the modes of this thread."""
    cuda, flags = torch.backends.cuda, dict[str, object]()
    for name in dir(cuda):
        if name.endswith("_sdp_enabled"):
            flags[name] = getattr(cuda, name)()
    for name in ("allow_tf32", "allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction"):
        flags[f"matmul.{name}"] = getattr(cuda.matmul, name)
    for name in ("enabled", "benchmark", "deterministic", "allow_tf32"):
        flags[f"cudnn.{name}"] = getattr(torch.backends.cudnn, name)
    flags["mkldnn"] = torch.backends.mkldnn.enabled
    flags["precision"] = torch.get_float32_matmul_precision()
    flags["grad"], flags["autocast"] = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")
    return flags


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A saved encoder and a saved cross-encoder."""
    home = tmp_path_factory.mktemp("threads")
    tiny_encoder(home).save(home / "encoder")
    CrossEncoder.from_backbone(bert_folder(home / "bert", seed=1)).save(home / "cross-encoder")
    return home / "encoder", home / "cross-encoder"


def test_flags_are_found() -> None:
    assert {"cudnn_sdp_enabled", "flash_sdp_enabled", "math_sdp_enabled"} <= backend_flags().keys()


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
