"""The retriever's encoder: queries with their facts, and passages, as token vectors.

    encoder = Encoder.load("name or folder")
    encoder.encode_queries([Query("...")])                      a QueryVectors for each
    for passages, vectors in encoder.encode_passages(corpus):   in chunks, in the order of the corpus
        ...

Training uses `encoder.model` and `encoder.inputs`.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize

from baleen.core.config import from_mapping, to_mapping
from baleen.core.errors import ConfigError
from baleen.core.parallel import background, chunks
from baleen.core.progress import track
from baleen.core.types import Passage, Query
from baleen.core.vectors import PassageVectors, QueryVectors
from baleen.models.backbone import SAMPLE_TEXTS, check_lengths, load_backbone, principal_components
from baleen.models.checkpoint import Checkpoint, resolve_folder, tensors_to_save, write_checkpoint
from baleen.models.device import Precision, best_dtype, inference, resolve_device
from baleen.models.folder import component_folder
from baleen.models.loading import load_module, place_module
from baleen.models.tokens import (
    EncodedRows,
    EncoderConfig,
    PassageBatch,
    QueryBatch,
    QueryIds,
    RetrieverInputs,
    restore_order,
    token_batches,
)


@dataclass(frozen=True, eq=False)
class EncodedQueries:
    """`query` (B, N, d) with `query_mask` (B, N) bool, `facts` (B, L, d) with `facts_mask` (B, L) bool; L may be 0."""

    query: Tensor
    query_mask: Tensor
    facts: Tensor
    facts_mask: Tensor


@dataclass(frozen=True, eq=False)
class EncodedPassages:
    """`vectors` (B, M, d); `mask` (B, M) bool is False for padding and punctuation."""

    vectors: Tensor
    mask: Tensor


class FLIPR(nn.Module):
    """A Hugging Face encoder (any with `last_hidden_state`), a projection without bias, and L2 normalisation."""

    def __init__(self, backbone: Any, dim: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.projection = nn.Linear(backbone.config.hidden_size, dim, bias=False)

    def forward_queries(self, batch: QueryBatch) -> EncodedQueries:
        """Encode claims and facts in one pass, so that they attend to each other."""
        vectors = self._vectors(batch.ids, batch.attention)  # (B, T, d)
        columns = torch.arange(vectors.shape[1], device=vectors.device)
        facts_columns = columns[: batch.facts_width]
        places = batch.claim_lengths.unsqueeze(1) + facts_columns  # (B, L): facts start at the end of the claim
        places = places.clamp(max=vectors.shape[1] - 1).unsqueeze(2).expand(-1, -1, vectors.shape[2])
        return EncodedQueries(
            query=vectors[:, : batch.claim_width],
            query_mask=columns[: batch.claim_width] < batch.claim_lengths.unsqueeze(1),
            facts=vectors.gather(1, places),
            facts_mask=facts_columns < batch.facts_lengths.unsqueeze(1),
        )

    def forward_passages(self, batch: PassageBatch) -> EncodedPassages:
        return EncodedPassages(self._vectors(batch.ids, batch.attention), batch.keep)

    def hidden(self, ids: Tensor, attention: Tensor) -> Tensor:
        """Run the backbone alone: (B, T), (B, T) bool -> (B, T, hidden)."""
        output: Tensor = self.backbone(input_ids=ids, attention_mask=attention.long()).last_hidden_state
        return output

    def _vectors(self, ids: Tensor, attention: Tensor) -> Tensor:
        hidden = self.hidden(ids, attention)
        # Always in float32: scores are sums of many small differences.
        with torch.autocast(hidden.device.type, enabled=False):
            return normalize(linear(hidden.float(), self.projection.weight.float()), dim=-1)


KIND = "flipr"
# Settings that change passage vectors; an index stays valid if only others change.
_PASSAGE_SETTINGS = ("dim", "passage_length", "passage_marker", "drop_punctuation")


class Encoder:
    """FLIPR with its tokenizer and configuration, on one device.

    The backbone computes in `dtype`; vectors are projected and normalised in float32.  `precision` is the one given to
    `load`, None for the device's best.  A loaded model is in eval mode, and encoding does not change it, so threads may
    share an encoder.
    """

    def __init__(
        self,
        model: FLIPR,
        inputs: RetrieverInputs,
        backbone_config: Mapping[str, Any],
        *,
        device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
        precision: Precision | None = None,
        stored_dtype: torch.dtype = torch.float32,
        weights_sha256: str | None = None,
        notes: Mapping[str, Any] | None = None,
    ) -> None:
        self.device = resolve_device(device)
        self.dtype, self.precision, self.stored_dtype = dtype or best_dtype(self.device), precision, stored_dtype
        self.model, self.inputs, self.notes = place_module(model, self.device), inputs, dict(notes or {})
        self._backbone_config = dict(backbone_config)
        self._known_hash = None if weights_sha256 is None else (self._weights_version(), weights_sha256)

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
        """Load the encoder of a checkpoint or of a whole model: a folder, or a name for `resolve_folder`.

        `precision` None is bfloat16 if the device supports it natively, otherwise float32; `dtype` overrides it.
        Unless `trainable`, the backbone's weights are rounded to that type (int8: its linear layers are quantized).
        Rounded weights cannot be saved.
        """
        loaded = load_module(
            component_folder(resolve_folder(name), "retriever"),
            KIND,
            EncoderConfig,
            _build,
            device=device,
            dtype=dtype,
            precision=precision,
            trainable=trainable,
        )
        checkpoint = loaded.checkpoint
        return cls(
            loaded.module,
            RetrieverInputs(checkpoint.tokenizer, loaded.tokens, loaded.config),
            checkpoint.backbone,
            device=loaded.device,
            dtype=loaded.dtype,
            precision=precision,
            stored_dtype=checkpoint.tensors["projection.weight"].dtype,
            weights_sha256=checkpoint.weights_sha256,
            notes=checkpoint.notes,
        )

    @classmethod
    def from_backbone(
        cls,
        name: str | Path,
        texts: Iterable[str] | None = None,
        config: EncoderConfig | None = None,
        *,
        device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> Self:
        """Make an untrained encoder of any Hugging Face encoder.

        The projection starts at the principal components of the backbone's vectors of `texts`.  Some hundred passages
        like those to search work best (None: a page of plain English).
        """
        config = config or EncoderConfig()
        backbone = load_backbone(resolve_folder(name))
        check_lengths(config, backbone.model)
        backbone.add_tokens(config.query_marker, config.passage_marker)
        inputs = RetrieverInputs(backbone.tokenizer.to_str(), backbone.tokens, config)
        encoder = cls(FLIPR(backbone.model, config.dim), inputs, backbone.config, device=device, dtype=dtype)
        encoder._fit_projection(SAMPLE_TEXTS if texts is None else texts)
        return encoder

    def _fit_projection(self, texts: Iterable[str]) -> None:
        with inference(self.model, self.dtype):
            weight = principal_components(self._token_vectors(texts), self.dim)
        with torch.no_grad():
            self.model.projection.weight.copy_(weight)

    def _token_vectors(self, texts: Iterable[str]) -> Iterator[torch.Tensor]:
        """Yield the backbone's vectors of texts as passages, a batch at a time: (n, hidden)."""
        ids = self.inputs.passage_ids(Passage("", "", text) for text in texts)
        batches = list(token_batches(ids, self.batch_tokens))
        for rows in track(batches, "fitting the projection", unit="batches"):
            batch = self.inputs.passage_batch([ids[i] for i in rows]).to(self.device)
            yield self.model.hidden(batch.ids, batch.attention)[batch.keep].float()

    def with_settings(self, **changes: Any) -> Self:
        """Return an encoder with other settings, such as `query_focus=None`, over the same model."""
        config = from_mapping(EncoderConfig, {**to_mapping(self.config), **changes}, "with_settings")
        if config.dim != self.dim:
            raise ConfigError(f"dim = {config.dim}, but the projection has {self.dim} dimensions")
        check_lengths(config, self.model.backbone)
        other = copy.copy(self)
        other.inputs = RetrieverInputs(self.inputs.tokenizer_json, self.inputs.tokens, config)
        return other

    @property
    def config(self) -> EncoderConfig:
        return self.inputs.config

    @property
    def dim(self) -> int:
        return self.config.dim

    @property
    def focus(self) -> tuple[int | None, int | None]:
        """How many matches of the claim and of the facts the score sums over (None: all)."""
        return self.config.query_focus, self.config.facts_focus

    @property
    def batch_tokens(self) -> int:
        """Default limit of tokens per batch, padding included."""
        return 2048 if self.device.type == "cpu" else 65536

    @property
    def fingerprint(self) -> str:
        """The sha256 of all that passage vectors depend on, except device and dtype."""
        parts = {
            "kind": KIND,
            "settings": {name: getattr(self.config, name) for name in _PASSAGE_SETTINGS},
            "backbone": self._backbone_config,
            "tokens": asdict(self.inputs.tokens),
            "tokenizer": hashlib.sha256(self.inputs.tokenizer_json.encode()).hexdigest(),
            "weights": self._weights_sha256(),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def _weights_sha256(self) -> str:
        version, known = self._weights_version(), self._known_hash
        if known is None or known[0] != version:
            self._known_hash = known = (version, self._checkpoint(self.stored_dtype).weights_sha256)
        return known[1]

    def _weights_version(self) -> int:
        """A number that grows with every optimizer step, so that a hash is never older than the weights."""
        return sum(parameter._version for parameter in self.model.parameters())

    def save(self, folder: str | Path, dtype: torch.dtype | None = None) -> None:
        """Write a checkpoint folder; `dtype` None keeps the type of the loaded checkpoint."""
        write_checkpoint(folder, self._checkpoint(dtype or self.stored_dtype))

    def _checkpoint(self, dtype: torch.dtype) -> Checkpoint:
        return Checkpoint(
            kind=KIND,
            settings=to_mapping(self.config),
            backbone=self._backbone_config,
            tokens=asdict(self.inputs.tokens),
            tokenizer=self.inputs.tokenizer_json,
            tensors=tensors_to_save(self.model.state_dict(), dtype),
            notes=self.notes,
        )

    def encode_queries(self, queries: Sequence[Query]) -> list[QueryVectors]:
        """Encode each query and its facts as float32 vectors, in order."""
        return self.encode_query_ids(self.inputs.query_ids(queries))

    def encode_query_ids(self, rows: Sequence[QueryIds]) -> list[QueryVectors]:
        """Encode queries that `inputs.query_ids` has tokenised."""
        found: dict[int, QueryVectors] = {}
        with inference(self.model, self.dtype):
            for picked in token_batches(rows, self.batch_tokens):
                encoded = self.model.forward_queries(self.inputs.query_batch([rows[i] for i in picked]).to(self.device))
                query, facts = encoded.query.cpu().numpy(), encoded.facts.cpu().numpy()
                for place, i in enumerate(picked):
                    sizes = len(rows[i].claim), len(rows[i].facts)
                    found[i] = QueryVectors(query[place, : sizes[0]].copy(), facts[place, : sizes[1]].copy())
        return [found[i] for i in range(len(rows))]

    def encode_passages(
        self, passages: Iterable[Passage], *, batch_tokens: int | None = None, chunk: int | None = None
    ) -> Iterator[tuple[list[Passage], PassageVectors]]:
        """Yield chunks of passages with their float16 vectors, in order.

        `passages` may be a stream of any size: at most two chunks are read and tokenised in advance.
        """
        limit = batch_tokens or self.batch_tokens
        size = chunk or max(128, limit // 16)  # several batches' worth, so that sorting by length pays
        with closing(background(self._passage_batches(passages, size, limit))) as chunks:
            for part, batches in chunks:
                yield part, self._encode_batches(batches)

    def _passage_batches(
        self, passages: Iterable[Passage], size: int, batch_tokens: int
    ) -> Iterator[tuple[list[Passage], list[tuple[list[int], PassageBatch]]]]:
        """Yield `size` passages at a time with their batches, each batch with the rows that it holds."""
        for part in chunks(passages, size):
            ids = self.inputs.passage_ids(part)
            rows = token_batches(ids, batch_tokens)
            yield part, [(picked, self.inputs.passage_batch([ids[i] for i in picked])) for picked in rows]

    def _encode_batches(self, batches: Iterable[tuple[list[int], PassageBatch]]) -> PassageVectors:
        parts: list[EncodedRows] = []
        device = self.model.projection.weight.device  # with its number, if there are several GPUs
        with inference(self.model, self.dtype):
            for rows, batch in batches:
                kept = batch.keep.flatten().nonzero().squeeze(1).to(device)
                encoded = self.model.forward_passages(batch.to(device))
                vectors = encoded.vectors.flatten(0, 1).index_select(0, kept).half()  # (kept in the batch, d)
                parts.append(EncodedRows(rows, vectors, batch.keep.sum(dim=1).tolist()))
        return restore_order(parts)


def _build(backbone: Any, config: EncoderConfig) -> FLIPR:
    check_lengths(config, backbone)
    return FLIPR(backbone, config.dim)
