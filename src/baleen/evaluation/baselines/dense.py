"""Single-vector retrieval: dot products of normalised [CLS] vectors of any Hugging Face encoder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from baleen.core.errors import QueryError
from baleen.core.parallel import chunks
from baleen.core.types import Passage, Ranking
from baleen.evaluation.baselines.baseline import ranking_of
from baleen.models.backbone import load_backbone, max_positions
from baleen.models.checkpoint import resolve_folder
from baleen.models.device import best_dtype, disable_cudnn_attention, inference, resolve_device
from baleen.models.markup import passage_text
from baleen.models.tokens import token_batches

LENGTH = 512
_CHUNK = 2048  # texts sorted by length together


class SingleVectorEncoder:
    """An encoder of texts into one vector each."""

    def __init__(self, name: str | Path, device: str | None = None) -> None:
        folder = resolve_folder(name)
        backbone = load_backbone(folder)
        self.device = resolve_device(device)
        self.dtype = best_dtype(self.device)
        self.length = min(LENGTH, max_positions(backbone.model) or LENGTH)
        self.digest = _digest(backbone.model)
        self._model = backbone.model.to(self.device, self.dtype).eval()
        disable_cudnn_attention(self.device)
        self._tokenizer = backbone.tokenizer
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        tokens = backbone.tokens
        self._cls, self._sep, self._pad = (
            int(self._tokenizer.token_to_id(token) or 0) for token in (tokens.cls, tokens.sep, tokens.pad)
        )

    def encode(self, texts: Sequence[str]) -> Tensor:
        """(texts, hidden), float32 on the CPU."""
        rows = [
            [self._cls, *each.ids[: self.length - 2], self._sep]
            for each in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        ]
        vectors = torch.empty((len(rows), self._model.config.hidden_size))
        with inference(self._model, self.dtype):
            for picked in token_batches(rows, 2048 if self.device.type == "cpu" else 65536):
                vectors[picked] = self._pooled([rows[i] for i in picked])
        return vectors

    def _pooled(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """(batch, hidden): normalised vectors at [CLS]."""
        ids = torch.full((len(rows), max(map(len, rows))), self._pad)
        attention = torch.zeros(ids.shape, dtype=torch.int64)
        for number, row in enumerate(rows):
            ids[number, : len(row)] = torch.tensor(row)
            attention[number, : len(row)] = 1
        output = self._model(input_ids=ids.to(self.device), attention_mask=attention.to(self.device))
        return normalize(output.last_hidden_state[:, 0].float(), dim=-1).cpu()


class Dense:
    """Exact search over the vectors of `title | text`; `instruction` is put before every question."""

    def __init__(self, passages: Iterable[Passage], encoder: SingleVectorEncoder, instruction: str = "") -> None:
        self.settings: dict[str, Any] = {"model": encoder.digest, "length": encoder.length, "instruction": instruction}
        self._encoder, self._instruction, self._pids = encoder, instruction, list[str]()
        parts = []
        for chunk in chunks(passages, _CHUNK):
            self._pids += [passage.pid for passage in chunk]
            parts.append(encoder.encode([passage_text(passage.title, passage.text) for passage in chunk]))
        if not parts:
            raise QueryError("there is no passage to rank")
        self._vectors = torch.cat(parts)  # (passages, hidden)

    def rank(self, texts: Sequence[str], k: int) -> list[Ranking]:
        queries = self._encoder.encode([self._instruction + text for text in texts])
        best = (queries @ self._vectors.T).topk(min(k, len(self._pids)), dim=1)
        return [ranking_of(self._pids, *pair) for pair in zip(best.indices.tolist(), best.values.tolist(), strict=True)]


def _digest(model: Any) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
