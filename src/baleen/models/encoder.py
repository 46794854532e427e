"""The encoder: queries with their facts, and passages, as token vectors.

encoder = Encoder.load("name or folder")
encoder.encode_queries([Query("...")])                      one QueryVectors for each
for passages, vectors in encoder.encode_passages(corpus):   a chunk at a time, in the corpus's order
    ...
encoder.model, encoder.inputs                               what training works on
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize

from baleen.core.config import from_mapping, to_mapping
from baleen.core.errors import ConfigError
from baleen.core.parallel import background
from baleen.core.progress import track
from baleen.core.types import Passage, Query
from baleen.core.vectors import PassageVectors, QueryVectors
from baleen.models.backbone import SAMPLE_TEXTS, build_backbone, check_lengths, load_backbone, principal_components
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
from baleen.models.folder import component_folder
from baleen.models.tokens import (
    EncodedRows,
    EncoderConfig,
    PassageBatch,
    QueryBatch,
    QueryIds,
    RetrieverInputs,
    SpecialTokens,
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
    """`vectors` (B, M, d), and `mask` (B, M) bool for those that count: neither padding nor punctuation."""

    vectors: Tensor
    mask: Tensor


class FLIPR(nn.Module):
    """A backbone of Hugging Face (any encoder with `last_hidden_state`) and a projection without bias."""

    def __init__(self, backbone: Any, dim: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.projection = nn.Linear(backbone.config.hidden_size, dim, bias=False)

    def forward_queries(self, batch: QueryBatch) -> EncodedQueries:
        """Claim and facts in one pass, so that they attend to each other; their vectors apart."""
        vectors = self._vectors(batch.ids, batch.attention)  # (B, T, d)
        columns = torch.arange(vectors.shape[1], device=vectors.device)
        facts_columns = columns[: batch.facts_width]
        places = batch.claim_lengths.unsqueeze(1) + facts_columns  # (B, L): facts start where the row's claim ends
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
        """The backbone's own vectors: (B, T), (B, T) bool -> (B, T, hidden)."""
        output: Tensor = self.backbone(input_ids=ids, attention_mask=attention.long()).last_hidden_state
        return output

    def _vectors(self, ids: Tensor, attention: Tensor) -> Tensor:
        hidden = self.hidden(ids, attention)
        # The last step stays in float32 whatever the backbone computes in: scores are sums of many small differences.
        with torch.autocast(hidden.device.type, enabled=False):
            return normalize(linear(hidden.float(), self.projection.weight.float()), dim=-1)


KIND = "flipr"
# What passage vectors depend on: an index stays valid when only the reading of queries or the score changes.
_PASSAGE_SETTINGS = ("dim", "passage_length", "passage_marker", "drop_punctuation")


class Encoder:
    """FLIPR with its tokenizer and configuration, on one device.

    `dtype` is what the backbone computes in; vectors are always projected and normalised in float32.  `precision` is
    what `load` was asked for, None where that was left to the device.
    """

    precision: Precision | None = None

    def __init__(
        self,
        model: FLIPR,
        inputs: RetrieverInputs,
        backbone_config: Mapping[str, Any],
        *,
        device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
        stored_dtype: torch.dtype = torch.float32,
        notes: Mapping[str, Any] | None = None,
    ) -> None:
        self.device = resolve_device(device)
        self.dtype = dtype or best_dtype(self.device)
        self.model, self.inputs = model.to(self.device).eval(), inputs
        if self.device.type == "cpu":
            use_products(model.backbone)
        self.stored_dtype, self.notes = stored_dtype, dict(notes or {})
        self._backbone_config = dict(backbone_config)
        self._weights: tuple[int, str] | None = None  # their hash, and the version that it is of

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
        """The encoder in a checkpoint folder or in a whole model's, or by a name that `resolve` finds.

        `dtype` None takes that of `precision`, which None takes bfloat16 where the device computes in it natively and
        float32 elsewhere.  Unless `trainable`, the backbone's weights are held in that type, or its linear layers in
        int8, which is fastest and cannot be saved again.
        """
        device = resolve_device(device)
        dtype = dtype or dtype_of(precision, device)
        folder = component_folder(resolve_folder(name), "retriever")
        checkpoint = read_checkpoint(folder, KIND)
        config = from_mapping(EncoderConfig, checkpoint.settings, str(folder / "config.json"))
        model = FLIPR(build_backbone(checkpoint.backbone), config.dim)
        check_lengths(config, model.backbone)
        check_names(checkpoint.tensors, model.state_dict(), str(folder))
        model.load_state_dict({name: tensor.float() for name, tensor in checkpoint.tensors.items()}, assign=True)
        tokens = from_mapping(SpecialTokens, checkpoint.tokens, str(folder / "config.json"))
        inputs = RetrieverInputs(checkpoint.tokenizer, tokens, config)
        stored = checkpoint.tensors["projection.weight"].dtype
        encoder = cls(
            model, inputs, checkpoint.backbone, device=device, dtype=dtype, stored_dtype=stored, notes=checkpoint.notes
        )
        encoder.precision = precision
        if not trainable:
            model.backbone.to(encoder.dtype)
        if not trainable and precision == "int8":
            quantize_linears(model.backbone)
        encoder._weights = (encoder._version(), checkpoint.weights_sha256)
        return encoder

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
        """An untrained encoder over any Hugging Face encoder.

        Its projection starts from the principal components of the backbone's vectors over `texts`: some hundred
        passages of the kind that will be searched serve best, and a page of plain English stands in for them.
        """
        config = config or EncoderConfig()
        backbone = load_backbone(resolve_folder(name))
        check_lengths(config, backbone.model)
        backbone.add_tokens(config.query_marker, config.passage_marker)
        inputs = RetrieverInputs(backbone.tokenizer.to_str(), backbone.tokens, config)
        encoder = cls(FLIPR(backbone.model, config.dim), inputs, backbone.config, device=device, dtype=dtype)
        encoder._start_projection(SAMPLE_TEXTS if texts is None else texts)
        return encoder

    def _start_projection(self, texts: Iterable[str]) -> None:
        with inference(self.model, self.dtype):
            start = principal_components(self._token_vectors(texts), self.dim)
        with torch.no_grad():
            self.model.projection.weight.copy_(start)

    def _token_vectors(self, texts: Iterable[str]) -> Iterator[torch.Tensor]:
        """The backbone's own vectors of texts read as passages, a batch at a time: (n, hidden)."""
        ids = self.inputs.passage_ids(Passage("", "", text) for text in texts)
        batches = list(token_batches(ids, self.batch_tokens))
        for rows in track(batches, "fitting the projection", unit="batches"):
            batch = self.inputs.passage_batch([ids[i] for i in rows]).to(self.device)
            yield self.model.hidden(batch.ids, batch.attention)[batch.keep].float()

    def with_settings(self, **changes: Any) -> Self:
        """The same model under other settings, such as `query_focus=None`; None is a value here, not a blank."""
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
        """How many of the claim's and of the facts' matches count towards a score; None: all."""
        return self.config.query_focus, self.config.facts_focus

    @property
    def batch_tokens(self) -> int:
        """How many tokens, padding included, go through the backbone at once unless the caller says otherwise."""
        return 2048 if self.device.type == "cpu" else 65536

    @property
    def fingerprint(self) -> str:
        """A sha256 of all that passage vectors depend on, whatever the device and the type they are computed in."""
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
        version = self._version()
        if self._weights is None or self._weights[0] != version:
            self._weights = (version, self._checkpoint(self.stored_dtype).weights_sha256)
        return self._weights[1]

    def _version(self) -> int:
        """Grows with every step of an optimiser, so that a hash is never older than the weights."""
        return sum(parameter._version for parameter in self.model.parameters())

    def save(self, folder: str | Path, dtype: torch.dtype | None = None) -> None:
        """Write a checkpoint folder; `dtype` None keeps the type that the encoder was loaded from."""
        write_checkpoint(folder, self._checkpoint(dtype or self.stored_dtype))

    def _checkpoint(self, dtype: torch.dtype) -> Checkpoint:
        return Checkpoint(
            kind=KIND,
            settings=to_mapping(self.config),
            backbone=self._backbone_config,
            tokens=asdict(self.inputs.tokens),
            tokenizer=self.inputs.tokenizer_json,
            tensors=rounded_to(self.model.state_dict(), dtype),
            notes=self.notes,
        )

    def encode_queries(self, queries: Sequence[Query]) -> list[QueryVectors]:
        """The float32 vectors of each query and of its facts, in the order of `queries`."""
        return self.encode_query_ids(self.inputs.query_ids(queries))

    def encode_query_ids(self, rows: Sequence[QueryIds]) -> list[QueryVectors]:
        """`encode_queries` of what `inputs.query_ids` has laid out already."""
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
        """Some passages at a time, `chunk` if given, with their float16 vectors, in the order of `passages`.

        `passages` may be a stream of any size: up to two chunks are read and tokenised ahead of the one being encoded.
        """
        limit = batch_tokens or self.batch_tokens
        size = chunk or max(128, limit // 16)  # several batches' worth, so that sorting by length pays
        with closing(background(self._passage_batches(passages, size, limit))) as chunks:
            for part, batches in chunks:
                yield part, self._encode_batches(batches)

    def _passage_batches(
        self, passages: Iterable[Passage], size: int, batch_tokens: int
    ) -> Iterator[tuple[list[Passage], list[tuple[list[int], PassageBatch]]]]:
        """`size` passages at a time, with the batches of like length that they make, each under its rows."""
        source = iter(passages)
        while part := list(islice(source, size)):
            ids = self.inputs.passage_ids(part)
            rows = token_batches(ids, batch_tokens)
            yield part, [(some, self.inputs.passage_batch([ids[i] for i in some])) for some in rows]

    def _encode_batches(self, batches: Iterable[tuple[list[int], PassageBatch]]) -> PassageVectors:
        parts: list[EncodedRows] = []
        device = self.model.projection.weight.device  # which of several, whatever the thread takes for the current one
        with inference(self.model, self.dtype):
            for rows, batch in batches:
                kept = batch.keep.flatten().nonzero().squeeze(1).to(device)
                encoded = self.model.forward_passages(batch.to(device))
                vectors = encoded.vectors.flatten(0, 1).index_select(0, kept).half()  # (kept in the batch, d)
                parts.append(EncodedRows(rows, vectors, batch.keep.sum(dim=1).tolist()))
        return restore_order(parts)
