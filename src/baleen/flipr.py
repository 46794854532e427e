"""FLIPR, the model: a backbone of Hugging Face, a projection, and vectors of length one.

`Encoder` wraps it for everyday use; training calls its two forward methods itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.functional import linear, normalize
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.initialization import no_init_weights
from transformers.utils import logging as transformers_logging

from baleen.errors import CheckpointError, ConfigError
from baleen.tokenization import EncoderConfig, PassageBatch, QueryBatch, SpecialTokens

# What a configuration says about the file that it came from rather than about the model.
_INCIDENTAL = ("transformers_version", "architectures", "dtype", "torch_dtype", "_name_or_path")


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


@dataclass(frozen=True, eq=False)
class Backbone:
    """A pretrained encoder with its tokenizer, in float32 and without the pooler, which FLIPR has no use for."""

    model: Any
    tokenizer: Tokenizer
    tokens: SpecialTokens

    @property
    def config(self) -> dict[str, Any]:
        """What `build_backbone` needs to make an empty model of the same shape."""
        return {key: value for key, value in self.model.config.to_diff_dict().items() if key not in _INCIDENTAL}

    def add_tokens(self, *tokens: str) -> None:
        """Give the vocabulary those of `tokens` that it lacks; their embeddings start at the mean of all others."""
        new = [token for token in dict.fromkeys(tokens) if self.tokenizer.token_to_id(token) is None]
        if not new:
            return
        mean = self.model.get_input_embeddings().weight.detach().mean(dim=0)
        self.tokenizer.add_special_tokens(new)
        vocabulary = self.tokenizer.get_vocab(with_added_tokens=True)
        numbers = [vocabulary[token] for token in new]
        if max(numbers) >= self.model.get_input_embeddings().num_embeddings:
            self.model.resize_token_embeddings(max(numbers) + 1, mean_resizing=False)
        with torch.no_grad():
            self.model.get_input_embeddings().weight[numbers] = mean


def positions(model: Any) -> int | None:
    """How many tokens a sequence may have; None where positions are relative and there is no limit."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            taken = 0 if module.padding_idx is None else module.padding_idx + 1  # RoBERTa counts from there
            return module.num_embeddings - taken
    return getattr(model.config, "max_position_embeddings", None)


def check_lengths(config: EncoderConfig, model: Any) -> None:
    """Refuse sequences that are longer than the backbone `model` has positions for."""
    limit, query = positions(model), config.query_length + config.facts_length
    if limit is not None and config.passage_length > limit:
        raise ConfigError(f"passage_length = {config.passage_length}, but the backbone holds {limit}: set it lower")
    if limit is not None and query > limit:
        room = (
            f"set facts_length to {limit - config.query_length}" if limit >= config.query_length else "set both lower"
        )
        raise ConfigError(f"query_length + facts_length = {query}, but the backbone holds {limit}: {room}")


def load_backbone(folder: Path) -> Backbone:
    """A model folder as the Hugging Face hub lays it out; what it lacks or cannot be read is a CheckpointError."""
    try:
        with _quiet():
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            model, report = AutoModel.from_pretrained(
                folder, local_files_only=True, dtype=torch.float32, output_loading_info=True
            )
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).partition("\n")[0]
        raise CheckpointError(f"{folder}: not a model that transformers can load: {reason}") from error
    missing = sorted(name for name in report["missing_keys"] if not name.startswith("pooler."))
    if missing:
        raise CheckpointError(f"{folder}: the model lacks weights: {', '.join(missing[:3])}")
    return Backbone(_without_pooler(model), _bare(tokenizer, folder), _special_tokens(tokenizer))


def build_backbone(config: Mapping[str, Any]) -> Any:
    """A model of that configuration whose weights hold nothing yet."""
    empty: Any = AutoModel  # its methods have no types
    try:
        with no_init_weights():
            return _without_pooler(empty.from_config(AutoConfig.for_model(**config), dtype=torch.float32))
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"backbone.json: not a model that transformers can build: {error}") from error


def _without_pooler(model: Any) -> Any:
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    return model


def _bare(tokenizer: Any, folder: Path) -> Tokenizer:
    """The tokenizer itself, as a copy that no one else's settings reach."""
    inner = getattr(tokenizer, "backend_tokenizer", None)
    if inner is None:
        raise CheckpointError(f"{folder}: its tokenizer has no fast version, which is needed")
    return Tokenizer.from_str(inner.to_str())


def _special_tokens(tokenizer: Any) -> SpecialTokens:
    cls, sep = tokenizer.cls_token or tokenizer.bos_token, tokenizer.sep_token or tokenizer.eos_token
    if cls is None or sep is None:
        raise ConfigError("the backbone's tokenizer has no token that opens or none that ends a text")
    return SpecialTokens(cls=cls, sep=sep, pad=tokenizer.pad_token or sep, mask=tokenizer.mask_token)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers' bars and its report of unused heads off the terminal: what matters is checked here."""
    talk: Any = transformers_logging
    level, bars = talk.get_verbosity(), talk.is_progress_bar_enabled()
    talk.set_verbosity_error()
    talk.disable_progress_bar()
    try:
        yield
    finally:
        talk.set_verbosity(level)
        if bars:
            talk.enable_progress_bar()
