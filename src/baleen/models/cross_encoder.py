"""The cross-encoder: a backbone that reads two texts in one sequence, and heads that score places in it.

    cross_encoder = CrossEncoder.load("folder of a component")
    rows = cross_encoder.inputs.sentences(Query("..."), passage)
    cross_encoder.score("sentences", rows)                      for each row, an array (places, outputs of the head)

Condenser, reranker and readers are heads, of one shared backbone or of one each.  Training uses `cross_encoder.model`
and `cross_encoder.inputs`.
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
from baleen.models.backbone import load_backbone, max_positions
from baleen.models.checkpoint import Checkpoint, resolve_folder, tensors_to_save, write_checkpoint
from baleen.models.device import Precision, best_dtype, inference, resolve_device
from baleen.models.loading import load_module, place_module
from baleen.models.pairs import CrossBatch, CrossConfig, CrossInput, CrossInputs
from baleen.models.tokens import token_batches

KIND = "cross-encoder"
TWO_LABELS = ("supported", "not supported")
THREE_LABELS = ("supported", "refuted", "not enough information")
ANSWER_OUTPUTS = ("start", "end", "span", "yes", "no")
_SPARE_MARKER = "[unused2]"


@dataclass(frozen=True)
class HeadConfig:
    """A head's outputs by name, and whether it has a hidden layer before them (`pooled`)."""

    outputs: tuple[str, ...] = ("score",)
    pooled: bool = False


# The head of each component.  Heads that read [CLS] have a hidden layer, like BERT's pooler.
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
    """A Hugging Face encoder (any with `last_hidden_state`) and its heads by name."""

    def __init__(self, backbone: Any, heads: Mapping[str, HeadConfig]) -> None:
        super().__init__()
        self.backbone = backbone
        self.heads = nn.ModuleDict({name: Head(backbone.config.hidden_size, head) for name, head in heads.items()})

    def forward(self, head: str, batch: CrossBatch) -> Tensor:
        """Score every place of the batch, row after row: (P, outputs) float32."""
        return self.apply_head(head, self.hidden(batch)[batch.rows, batch.places])

    def apply_head(self, head: str, vectors: Tensor) -> Tensor:
        """(P, hidden) -> (P, outputs), in float32."""
        with torch.autocast(vectors.device.type, enabled=False):
            scores: Tensor = self.heads[head](vectors.float())
        return scores

    def hidden(self, batch: CrossBatch) -> Tensor:
        """(B, T, hidden)"""
        return self.encode(batch.ids, batch.types, attention_mask=batch.attention.long())

    def encode(self, ids: Tensor, types: Tensor, **arguments: Tensor) -> Tensor:
        """(B, T) both -> (B, T, hidden); `arguments` go to the backbone."""
        # Backbones with one token type lack either the argument or the embedding.
        if getattr(self.backbone.config, "type_vocab_size", 0) > 1:
            arguments["token_type_ids"] = types
        hidden: Tensor = self.backbone(input_ids=ids, **arguments).last_hidden_state
        return hidden


class CrossEncoder:
    """A `CrossModel` with its tokenizer and configuration, on one device; the backbone computes in `dtype`.

    A loaded model is in eval mode, and scoring does not change it, so threads may share a cross-encoder.
    """

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
        self.model, self.inputs, self.notes = place_module(model, self.device), inputs, dict(notes or {})
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
        """Load the cross-encoder of a checkpoint; the arguments are those of `Encoder.load`."""
        folder = resolve_folder(name)
        loaded = load_module(
            folder,
            KIND,
            CrossConfig,
            partial(_build, source=str(folder / "config.json")),
            device=device,
            dtype=dtype,
            precision=precision,
            trainable=trainable,
        )
        checkpoint = loaded.checkpoint
        inputs = CrossInputs(checkpoint.tokenizer, loaded.tokens, loaded.config)
        return cls(
            loaded.module,
            inputs,
            checkpoint.backbone,
            device=loaded.device,
            dtype=loaded.dtype,
            notes=checkpoint.notes,
        )

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
        """Make untrained heads over any Hugging Face encoder.

        Heads start at random.  If the backbone has a pooler and a classifier with one logit, as a trained reranker
        does, the reranker starts with these.
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
            _copy_classifier(model.heads["reranker"], folder)
        inputs = CrossInputs(backbone.tokenizer.to_str(), backbone.tokens, config)
        return cls(model, inputs, backbone.config, device=device, dtype=dtype)

    @property
    def config(self) -> CrossConfig:
        return self.inputs.config

    @property
    def batch_tokens(self) -> int:
        """Limit of tokens per batch, padding included."""
        return 4096 if self.device.type == "cpu" else 65536

    def outputs(self, head: str) -> tuple[str, ...]:
        """The names of the columns of a head's scores; CheckpointError if there is no such head."""
        if head not in self.model.heads:
            raise CheckpointError(f"this cross-encoder has no head '{head}', only {', '.join(self.model.heads)}")
        return head_configs(self.config)[head].outputs

    def score(self, head: str, rows: Sequence[CrossInput]) -> list[npt.NDArray[np.float32]]:
        """Score the places of each row with a head, in order: (places, outputs) each."""
        return self.submit(head, rows)()

    def submit(self, head: str, rows: Sequence[CrossInput]) -> Callable[[], list[npt.NDArray[np.float32]]]:
        """Start scoring; call the result to wait for it.  A GPU computes meanwhile."""
        self.outputs(head)
        submitted: list[tuple[Sequence[int], Tensor]] = []
        with inference(self.model, self.dtype):
            for picked in token_batches(rows, self.batch_tokens):
                batch = self.inputs.batch([rows[i] for i in picked]).to(self.device)
                submitted.append((picked, self.model(head, batch)))
        return partial(_collect, rows, submitted)

    def save(self, folder: str | Path, dtype: torch.dtype = torch.float32) -> None:
        """Write a checkpoint folder."""
        checkpoint = Checkpoint(
            kind=KIND,
            settings=to_mapping(self.config),
            backbone=self._backbone_config,
            tokens=asdict(self.inputs.tokens),
            tokenizer=self.inputs.tokenizer_json,
            tensors=tensors_to_save(self.model.state_dict(), dtype),
            notes=self.notes,
        )
        write_checkpoint(folder, checkpoint)


def _build(backbone: Any, config: CrossConfig, source: str) -> CrossModel:
    _check_length(config, backbone)
    return CrossModel(backbone, head_configs(config, source))


def _collect(
    rows: Sequence[CrossInput], submitted: Iterable[tuple[Sequence[int], Tensor]]
) -> list[npt.NDArray[np.float32]]:
    """Wait for the scores of all batches and split them by row, in order."""
    found: dict[int, npt.NDArray[np.float32]] = {}
    for picked, scores in submitted:
        edges = np.cumsum([len(rows[i].places) for i in picked])[:-1]
        found.update(zip(picked, np.split(scores.cpu().numpy(), edges), strict=True))
    return [found[i] for i in range(len(rows))]


def head_configs(config: CrossConfig, source: str = "heads") -> dict[str, HeadConfig]:
    return {name: from_mapping(HeadConfig, head, f"{source}: {name}") for name, head in config.heads.items()}


def _check_length(config: CrossConfig, backbone: Any) -> None:
    limit = max_positions(backbone)
    if limit is not None and config.length > limit:
        raise ConfigError(f"length = {config.length}, but the backbone holds {limit}: set it lower")


def _copy_classifier(head: nn.Module, folder: Path) -> None:
    """Copy the pooler and one-logit classifier of the model in `folder` into `head`, if it has them."""
    from safetensors import safe_open

    file = folder / "model.safetensors"
    if not file.is_file():
        return
    with safe_open(file, framework="pt") as tensors:
        full_names = {name.rpartition("bert.")[2]: name for name in tensors.keys()}  # noqa: SIM118 (no mapping)
        wanted = {
            "pooler.weight": "pooler.dense.weight",
            "pooler.bias": "pooler.dense.bias",
            "output.weight": "classifier.weight",
            "output.bias": "classifier.bias",
        }
        if not set(wanted.values()) <= full_names.keys():
            return
        state = {ours: tensors.get_tensor(full_names[theirs]).float() for ours, theirs in wanted.items()}
    ours, theirs = ({name: t.shape for name, t in each.items()} for each in (head.state_dict(), state))
    if ours == theirs:
        head.load_state_dict(state)
