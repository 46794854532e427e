"""The cross-encoder: a backbone that reads two texts side by side, and heads that score places in them.

reading = CrossEncoder.load("folder of a component")
rows = reading.inputs.sentences(Query("..."), passage)
reading.score("sentences", rows)                            for each row, an array (its places, the head's outputs)
reading.model, reading.inputs                               what training works on

Condenser, reranker and readers are heads: of one backbone that they share, or of one each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from baleen.core.config import from_mapping, to_mapping
from baleen.core.errors import CheckpointError, ConfigError
from baleen.models.backbone import build_backbone, load_backbone, max_positions
from baleen.models.checkpoint import (
    Checkpoint,
    check_names,
    read_checkpoint,
    resolve_folder,
    rounded_to,
    write_checkpoint,
)
from baleen.models.cpu_attention import use_products
from baleen.models.device import Precision, best_dtype, dtype_of, inference, quantize_linears, resolve_device
from baleen.models.pairs import CrossBatch, CrossConfig, CrossInput, CrossInputs
from baleen.models.tokens import SpecialTokens, token_batches

KIND = "cross-encoder"
TWO_LABELS = ("supported", "not supported")
THREE_LABELS = ("supported", "refuted", "not enough information")
ANSWER_OUTPUTS = ("start", "end", "span", "yes", "no")
_SPARE_MARKER = "[unused2]"


@dataclass(frozen=True)
class HeadConfig:
    """A head's shape: its outputs by name, and whether a layer of its own stands before them (`pooled`)."""

    outputs: tuple[str, ...] = ("score",)
    pooled: bool = False


# The head that each component reads with.  Those that read at [CLS] have a layer of their own, as BERT's pooler is one.
HEADS: Mapping[str, HeadConfig] = {
    "sentences": HeadConfig(),
    "facts": HeadConfig(),
    "reranker": HeadConfig(pooled=True),
    "verifier": HeadConfig(TWO_LABELS, pooled=True),
    "answerer": HeadConfig(ANSWER_OUTPUTS),
}


class Head(nn.Module):
    """(places, hidden) -> (places, outputs)."""

    def __init__(self, hidden: int, config: HeadConfig) -> None:
        super().__init__()
        self.pooler = nn.Linear(hidden, hidden) if config.pooled else None
        self.output = nn.Linear(hidden, len(config.outputs))

    def forward(self, vectors: Tensor) -> Tensor:
        if self.pooler is not None:
            vectors = torch.tanh(self.pooler(vectors))
        scores: Tensor = self.output(vectors)
        return scores


class CrossModel(nn.Module):
    """A backbone of Hugging Face (any encoder with `last_hidden_state`) and its heads by name."""

    def __init__(self, backbone: Any, heads: Mapping[str, HeadConfig]) -> None:
        super().__init__()
        self.backbone = backbone
        self.heads = nn.ModuleDict({name: Head(backbone.config.hidden_size, head) for name, head in heads.items()})

    def forward(self, head: str, batch: CrossBatch) -> Tensor:
        """The head's outputs at every place of the batch, row after row: (P, outputs), in float32."""
        return self.apply_head(head, self.hidden(batch)[batch.rows, batch.places])

    def apply_head(self, head: str, vectors: Tensor) -> Tensor:
        """(P, hidden) -> (P, outputs), in float32"""
        with torch.autocast(vectors.device.type, enabled=False):
            scores: Tensor = self.heads[head](vectors.float())
        return scores

    def hidden(self, batch: CrossBatch) -> Tensor:
        """(B, T, hidden)"""
        return self.encode(batch.ids, batch.types, attention_mask=batch.attention.long())

    def encode(self, ids: Tensor, types: Tensor, **arguments: Tensor) -> Tensor:
        """(B, T) both -> (B, T, hidden); `arguments` are the backbone's own."""
        # Models without a second type of token either lack the argument or the embedding.
        if getattr(self.backbone.config, "type_vocab_size", 0) > 1:
            arguments["token_type_ids"] = types
        hidden: Tensor = self.backbone(input_ids=ids, **arguments).last_hidden_state
        return hidden


class CrossEncoder:
    """A `CrossModel` with its tokenizer and configuration, on one device; `dtype` is what the backbone computes in."""

    def __init__(
        self,
        model: CrossModel,
        inputs: CrossInputs,
        backbone_config: Mapping[str, Any],
        *,
        device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
        notes: Mapping[str, Any] | None = None,
    ) -> None:
        self.device = resolve_device(device)
        self.dtype = dtype or best_dtype(self.device)
        self.model, self.inputs, self.notes = model.to(self.device).eval(), inputs, dict(notes or {})
        if self.device.type == "cpu":
            use_products(model.backbone)
        self._backbone_config = dict(backbone_config)

    @classmethod
    def load(
        cls,
        name: str | Path,
        device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
        *,
        precision: Precision | None = None,
        trainable: bool = False,
    ) -> Self:
        """The cross-encoder in a checkpoint folder; `dtype`, `precision` and `trainable` are those of `Encoder.load`."""
        device = resolve_device(device)
        dtype = dtype or dtype_of(precision, device)
        folder = resolve_folder(name)
        checkpoint, source = read_checkpoint(folder, KIND), str(folder / "config.json")
        config = from_mapping(CrossConfig, checkpoint.settings, source)
        model = CrossModel(build_backbone(checkpoint.backbone), head_configs(config, source))
        _check_length(config, model.backbone)
        check_names(checkpoint.tensors, model.state_dict(), str(folder))
        model.load_state_dict({name: tensor.float() for name, tensor in checkpoint.tensors.items()}, assign=True)
        inputs = CrossInputs(checkpoint.tokenizer, from_mapping(SpecialTokens, checkpoint.tokens, source), config)
        loaded = cls(model, inputs, checkpoint.backbone, device=device, dtype=dtype, notes=checkpoint.notes)
        if not trainable:
            model.backbone.to(loaded.dtype)
        if not trainable and precision == "int8":
            quantize_linears(model.backbone)
        return loaded

    @classmethod
    def from_backbone(
        cls,
        name: str | Path,
        heads: Mapping[str, HeadConfig] = HEADS,
        config: CrossConfig | None = None,
        *,
        seed: int = 0,
        device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> Self:
        """Heads on top of any Hugging Face encoder, to be trained.

        Where the backbone is a cross-encoder itself, a pooler and a classifier of one logit, the reranker starts as
        that one; every other head starts at random.
        """
        folder, config = resolve_folder(name), config or CrossConfig()
        backbone = load_backbone(folder)
        marker = backbone.tokens.mask or _SPARE_MARKER
        backbone.add_tokens(marker)
        _check_length(config, backbone.model)
        stored = {name: to_mapping(head) for name, head in heads.items()}
        config = replace(config, marker=marker, heads=stored)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = CrossModel(backbone.model, heads)
        if "reranker" in heads:
            _inherit(model.heads["reranker"], folder)
        inputs = CrossInputs(backbone.tokenizer.to_str(), backbone.tokens, config)
        return cls(model, inputs, backbone.config, device=device, dtype=dtype)

    @property
    def config(self) -> CrossConfig:
        return self.inputs.config

    @property
    def batch_tokens(self) -> int:
        """How many tokens, padding included, go through the backbone at once."""
        return 4096 if self.device.type == "cpu" else 65536

    def outputs(self, head: str) -> tuple[str, ...]:
        """What the columns of a head's scores are."""
        if head not in self.model.heads:
            raise CheckpointError(f"this cross-encoder has no head '{head}', only {', '.join(self.model.heads)}")
        return head_configs(self.config)[head].outputs

    def score(self, head: str, rows: Sequence[CrossInput]) -> list[npt.NDArray[np.float32]]:
        """What a head says at the places of each row, in the order of `rows`: (places, outputs) each."""
        return self.submit(head, rows)()

    def submit(self, head: str, rows: Sequence[CrossInput]) -> Callable[[], list[npt.NDArray[np.float32]]]:
        """`score` in two parts: a GPU reads on while its caller does something else, and is waited for in the second."""
        self.outputs(head)
        asked: list[tuple[Sequence[int], Tensor]] = []
        with inference(self.model, self.dtype):
            for picked in token_batches(rows, self.batch_tokens):
                batch = self.inputs.batch([rows[i] for i in picked]).to(self.device)
                asked.append((picked, self.model(head, batch)))
        return partial(_answers, rows, asked)

    def save(self, folder: str | Path, dtype: torch.dtype = torch.float32) -> None:
        """Write a checkpoint folder."""
        checkpoint = Checkpoint(
            kind=KIND,
            settings=to_mapping(self.config),
            backbone=self._backbone_config,
            tokens=asdict(self.inputs.tokens),
            tokenizer=self.inputs.tokenizer_json,
            tensors=rounded_to(self.model.state_dict(), dtype),
            notes=self.notes,
        )
        write_checkpoint(folder, checkpoint)


def _answers(
    rows: Sequence[CrossInput], asked: Iterable[tuple[Sequence[int], Tensor]]
) -> list[npt.NDArray[np.float32]]:
    """Of each row what was said of it, in order."""
    found: dict[int, npt.NDArray[np.float32]] = {}
    for picked, scores in asked:
        edges = np.cumsum([len(rows[i].places) for i in picked])[:-1]
        found.update(zip(picked, np.split(scores.cpu().numpy(), edges), strict=True))
    return [found[i] for i in range(len(rows))]


def head_configs(config: CrossConfig, source: str = "heads") -> dict[str, HeadConfig]:
    return {name: from_mapping(HeadConfig, head, f"{source}: {name}") for name, head in config.heads.items()}


def _check_length(config: CrossConfig, backbone: Any) -> None:
    limit = max_positions(backbone)
    if limit is not None and config.length > limit:
        raise ConfigError(f"length = {config.length}, but the backbone holds {limit}: set it lower")


def _inherit(head: nn.Module, folder: Path) -> None:
    """Give `head` the pooler and the classifier of a cross-encoder in `folder`, where it is one with a single logit."""
    from safetensors import safe_open

    file = folder / "model.safetensors"
    if not file.is_file():
        return
    with safe_open(file, framework="pt") as tensors:
        places = {name.rpartition("bert.")[2]: name for name in tensors.keys()}  # noqa: SIM118 (no mapping)
        wanted = {
            "pooler.weight": "pooler.dense.weight",
            "pooler.bias": "pooler.dense.bias",
            "output.weight": "classifier.weight",
            "output.bias": "classifier.bias",
        }
        if not set(wanted.values()) <= places.keys():
            return
        state = {ours: tensors.get_tensor(places[theirs]).float() for ours, theirs in wanted.items()}
    ours, theirs = ({name: t.shape for name, t in each.items()} for each in (head.state_dict(), state))
    if ours == theirs:
        head.load_state_dict(state)
