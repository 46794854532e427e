"""Precision from the command line down to the models."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from baleen.cli.app import main as command_line
from baleen.core.errors import CheckpointError, ConfigError
from baleen.core.types import Query
from baleen.evaluation.results import describe_run
from baleen.hops.demo import write_untrained
from baleen.models.cross_encoder import CrossEncoder
from baleen.models.device import Int8Linear, Precision, best_dtype, dtype_of
from baleen.models.encoder import Encoder
from baleen.system import Baleen
from fakes import CORPUS, bert_folder

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A retriever and a reranker over a two-layer BERT."""
    home = tmp_path_factory.mktemp("precision")
    backbone = bert_folder(home / "backbone", hidden_size=128)
    write_untrained(home / "model", backbone, backbone)
    return home / "model"


def layers(encoder: Encoder | CrossEncoder) -> int:
    return sum(isinstance(module, Int8Linear) for module in encoder.model.modules())


def test_a_precision_is_a_type_to_compute_in() -> None:
    assert dtype_of("float32", CPU) == dtype_of("int8", CPU) == torch.float32
    assert dtype_of("bfloat16", CPU) == torch.bfloat16
    assert dtype_of(None, CPU) == best_dtype(CPU)


def test_int8_elsewhere_and_unknown_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="for the cpu, not for cuda; use bfloat16"):
        dtype_of("int8", torch.device("cuda"))
    with pytest.raises(ConfigError, match="'int4' should be one of float32, bfloat16, int8"):
        dtype_of("int4", CPU)  # type: ignore[arg-type]


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 0.0), ("bfloat16", 0.03), ("int8", 0.03)])
def test_vectors_are_those_of_float32_up_to_rounding(model: Path, precision: Precision, tolerance: float) -> None:
    exact, rounded = (Encoder.load(model, device="cpu", precision=each) for each in ("float32", precision))
    for query in (Query("the grey fjord"), Query("fjord")):
        expected, found = (each.encode_queries([query])[0].query for each in (exact, rounded))
        assert np.abs((expected * found).sum(axis=1) - 1).max() <= tolerance + 1e-6
    assert rounded.precision == precision


def test_only_the_backbone_is_in_int8_and_the_index_still_fits(model: Path) -> None:
    exact, rounded = (Encoder.load(model, device="cpu", precision=each) for each in ("float32", "int8"))
    assert layers(rounded) == sum(isinstance(m, torch.nn.Linear) for m in exact.model.backbone.modules()) > 0
    assert rounded.model.projection.weight.dtype == torch.float32
    assert rounded.fingerprint == exact.fingerprint


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_rounded_weights_are_not_saved(model: Path, precision: Precision, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="rounded for speed"):
        Encoder.load(model, device="cpu", precision=precision).save(tmp_path / "again")


def test_trainable_weights_are_not_rounded(model: Path) -> None:
    assert layers(Encoder.load(model, device="cpu", precision="int8", trainable=True)) == 0


def test_readers_use_the_precision_of_the_retriever(model: Path, tmp_path: Path) -> None:
    from baleen.index.index import Index

    Index.build(tmp_path / "index", CORPUS, Encoder.load(model, device="cpu", precision="float32"))
    exact, rounded = (Baleen.load(model, tmp_path / "index", device="cpu", precision=each) for each in (None, "int8"))
    runs = [describe_run("verify", system, system.config, explained=False) for system in (exact, rounded)]
    assert "precision" not in runs[0]
    assert runs[1] == {**runs[0], "precision": "int8"}
    trace = rounded.verify("the grey fjord")
    assert trace.hops
    assert layers(rounded._component("reranker")) > 0


def test_the_command_line_takes_a_precision(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "corpus.jsonl").write_text("".join(
        json.dumps({"id": p.pid, "title": p.title, "text": p.text}) + "\n" for p in CORPUS
    ))  # fmt: skip
    where = ["--model", str(model), "--device", "cpu", "--precision", "int8", "--json"]
    index = str(tmp_path / "made.index")
    for arguments in (
        ["index", str(tmp_path / "corpus.jsonl"), "--out", index, *where],
        ["search", "the grey fjord", "--index", index, *where],
        ["verify", "the grey fjord", "--index", index, *where],
    ):
        monkeypatch.setattr("sys.argv", ["baleen", *arguments])
        with pytest.raises(SystemExit) as ended:
            command_line()
        assert ended.value.code == 0, arguments
        assert json.loads(capsys.readouterr().out)
