"""The five heads as tasks: the sequences of a record, the targets at their places, and the loss.

SentenceTask    condenser, stage 1      FactTask    condenser, stage 2      RerankTask      reranker
VerdictTask     verifier                AnswerTask  answerer
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from baleen.core.errors import TrainingError
from baleen.core.types import Lookup, Passage
from baleen.models.cross_encoder import ANSWER_OUTPUTS, CrossEncoder
from baleen.models.pairs import CrossInput, Word
from baleen.training.cross_encoder.condenser_examples import FactExample, FactSource, RerankExample, SentenceExample
from baleen.training.cross_encoder.reader_examples import (
    AnswerExample,
    AnswerSource,
    AnswerSpan,
    VerdictExample,
    VerdictSource,
)
from baleen.training.cross_encoder.task import CrossEncoderTask, HeadTraining, Label, Sample, pad_rows
from baleen.training.losses import fact_loss, label_loss, ranking_loss, sentence_loss, span_loss

_START, _END, *_KINDS = range(len(ANSWER_OUTPUTS))
_KIND_NAMES = ANSWER_OUTPUTS[2:]


@dataclass(frozen=True)
class AnswerTarget:
    """The number of an answer's `kind`, the number of `words` of its facts, and the first and last word of each span."""

    kind: int
    words: int
    spans: list[tuple[int, int]]


class _PassageTask(CrossEncoderTask[Sample, Label]):
    """A task whose records have pids; `passage` looks them up, with a cache."""

    def __init__(
        self,
        cross_encoder: CrossEncoder,
        records: Sequence[Sample],
        passage: Lookup,
        config: HeadTraining | None = None,
    ) -> None:
        super().__init__(cross_encoder, records, config)
        self._find = lru_cache(self.config.remembered)(passage)

    def passage(self, pid: str) -> Passage:
        try:
            return self._find(pid)
        except KeyError:
            raise TrainingError(
                f"there is no passage '{pid}'; the records were made with another corpus: use that one"
            ) from None

    def draw_negatives(self, pids: Sequence[str], rng: np.random.Generator) -> list[str]:
        """The configured number of negatives, with repetition if there are too few."""
        count = self.config.negatives
        picked = rng.permutation(len(pids))[:count] if len(pids) >= count else rng.integers(len(pids), size=count)
        return [pids[i] for i in picked]


class SentenceTask(_PassageTask[SentenceExample, list[bool]]):
    """Gold sentences of a passage against its other sentences and those of negative passages."""

    head = "sentences"

    def check(self, record: SentenceExample) -> None:
        _need(record, gold_sentence=record.sids, negative=record.negatives)

    def encode(self, record: SentenceExample, rng: np.random.Generator, /) -> tuple[list[CrossInput], list[bool]]:
        positive = self.inputs.sentences(record.query, self.passage(record.positive))
        against = [self.passage(pid) for pid in self.draw_negatives(record.negatives, rng)]
        negative = [row for passage in against for row in self.inputs.sentences(record.query, passage)]
        labels = [sid in record.sids for row in positive for sid in row.keys]
        return positive + negative, labels + [False for row in negative for _ in row.keys]

    def targets(self, labels: Sequence[list[bool]]) -> dict[str, Tensor]:
        return _place_labels(labels)

    def losses(self, scores: Tensor, targets: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {"loss": sentence_loss(scores[:, 0], targets["examples"], targets["labels"])}


def _need(record: SentenceExample | RerankExample, **parts: Sequence[object]) -> None:
    for name, part in parts.items():
        if not part:
            lacking = name.replace("_", " ")
            raise TrainingError(f"query '{record.qid}' has no {lacking} at hop {record.hop}: leave such records out")


class FactTask(CrossEncoderTask[FactExample | FactSource, list[bool]]):
    """Gold facts against the others of their pool, and above 0; a source gives a new pool each time."""

    head = "facts"

    def encode(
        self, record: FactExample | FactSource, rng: np.random.Generator, /
    ) -> tuple[list[CrossInput], list[bool]]:
        pool = record.draw(rng) if isinstance(record, FactSource) else record
        rows = self.inputs.facts(pool.claim, pool.facts)
        return rows, [pool.labels[place] for row in rows for place in row.keys]

    def targets(self, labels: Sequence[list[bool]]) -> dict[str, Tensor]:
        return _place_labels(labels)

    def losses(self, scores: Tensor, targets: Mapping[str, Tensor]) -> dict[str, Tensor]:
        labels = targets["labels"]
        loss = fact_loss(scores[:, 0], targets["examples"], labels, self.config.fact_weight)
        return {"loss": loss, "accuracy": ((scores[:, 0] > 0) == labels).float().mean()}


def _place_labels(labels: Sequence[Sequence[bool]]) -> dict[str, Tensor]:
    """For every place, the number of its example and its label: `examples` (P,) int64, `labels` (P,) bool."""
    owners = np.repeat(np.arange(len(labels)), [len(own) for own in labels])
    return {"examples": torch.from_numpy(owners), "labels": torch.tensor([x for own in labels for x in own])}


class RerankTask(_PassageTask[RerankExample, list[int]]):
    """A gold passage against others; the best window of a passage counts."""

    head = "reranker"

    def check(self, record: RerankExample) -> None:
        _need(record, negative=record.negatives)

    def encode(self, record: RerankExample, rng: np.random.Generator, /) -> tuple[list[CrossInput], list[int]]:
        pids = [record.positive, *self.draw_negatives(record.negatives, rng)]
        windows = [self.inputs.passage(record.query, self.passage(pid)) for pid in pids]
        return [row for rows in windows for row in rows], list(map(len, windows))

    def targets(self, window_counts: Sequence[list[int]]) -> dict[str, Tensor]:
        """`windows` (B, 1 + n, W) int64: places of each passage's windows; `real` (B, 1 + n, W) bool: False for padding."""
        counts = [count for own in window_counts for count in own]
        edges = [0, *accumulate(counts)]
        windows, real = pad_rows(range(edge, edge + count) for edge, count in zip(edges, counts, strict=False))
        shape = len(window_counts), len(window_counts[0]), -1
        return {"windows": windows.view(shape), "real": real.view(shape)}

    def losses(self, scores: Tensor, targets: Mapping[str, Tensor]) -> dict[str, Tensor]:
        each = scores[:, 0][targets["windows"]].masked_fill(~targets["real"], -torch.inf)
        best = each.amax(dim=2)  # (B, 1 + n)
        return {"loss": ranking_loss(best), "accuracy": (best.argmax(dim=1) == 0).float().mean()}


class VerdictTask(CrossEncoderTask[VerdictExample | VerdictSource, int]):
    """The label of a claim with its facts; a source gives new facts each time."""

    head = "verifier"

    @cached_property
    def labels(self) -> tuple[str, ...]:
        return self.cross_encoder.outputs(self.head)

    def check(self, record: VerdictExample | VerdictSource) -> None:
        if record.label not in self.labels:
            known = ", ".join(self.labels)
            raise TrainingError(f"claim '{record.qid}' is labelled '{record.label}', but the head has {known}")

    def encode(
        self, record: VerdictExample | VerdictSource, rng: np.random.Generator, /
    ) -> tuple[list[CrossInput], int]:
        example = record.draw(rng) if isinstance(record, VerdictSource) else record
        return [self.inputs.evidence(example.query)[0].at_cls()], self.labels.index(example.label)

    def targets(self, labels: Sequence[int]) -> dict[str, Tensor]:
        return {"labels": torch.tensor(labels)}

    def losses(self, scores: Tensor, targets: Mapping[str, Tensor]) -> dict[str, Tensor]:
        labels = targets["labels"]
        return {"loss": label_loss(scores, labels), "accuracy": (scores.argmax(dim=1) == labels).float().mean()}


class AnswerTask(CrossEncoderTask[AnswerExample | AnswerSource, AnswerTarget]):
    """Yes, no or a span as the answer to a question; every occurrence of the answer counts as right."""

    head = "answerer"

    def encode(
        self, record: AnswerExample | AnswerSource, rng: np.random.Generator, /
    ) -> tuple[list[CrossInput], AnswerTarget]:
        example = record.draw(rng) if isinstance(record, AnswerSource) else record
        row, words = self.inputs.evidence(example.query)
        spans = list(token_spans(words, example.spans))
        return [row], AnswerTarget(_KIND_NAMES.index(example.kind), len(words), spans)

    def targets(self, answers: Sequence[AnswerTarget]) -> dict[str, Tensor]:
        """Places of each [CLS] `starts` (B,) and of the words `words` (B, T), with `tokens` (B, T) bool False for padding.

        Targets: `kinds` (B,), and `spans` (B, S, 2) in words with `valid` (B, S) bool.
        """
        starts = [0, *accumulate(1 + each.words for each in answers)][:-1]
        words, tokens = pad_rows(
            range(start + 1, start + 1 + each.words) for start, each in zip(starts, answers, strict=True)
        )
        firsts, valid = pad_rows([first for first, _ in each.spans] for each in answers)
        lasts, _ = pad_rows([last for _, last in each.spans] for each in answers)
        return {
            "starts": torch.tensor(starts),
            "words": words,
            "tokens": tokens,
            "kinds": torch.tensor([each.kind for each in answers]),
            "spans": torch.stack([firsts, lasts], dim=2),
            "valid": valid,
        }

    def losses(self, scores: Tensor, targets: Mapping[str, Tensor]) -> dict[str, Tensor]:
        words = scores[targets["words"]]  # (B, T, outputs)
        starts, ends = words[..., _START], words[..., _END]
        span = span_loss(starts, ends, targets["spans"], targets["valid"], targets["tokens"])
        kind = cross_entropy(scores[targets["starts"]][:, _KINDS], targets["kinds"])
        return {"loss": span + kind, "span": span, "kind": kind}


def token_spans(words: Sequence[Word], spans: Sequence[AnswerSpan]) -> Iterator[tuple[int, int]]:
    """The first and last word of every span; spans of a fact that was cut before their end are left out."""
    for span in spans:
        inside = [n for n, w in enumerate(words) if w.fact == span.fact and w.start < span.end and w.end > span.start]
        if inside and words[inside[-1]].end >= span.end:
            yield inside[0], inside[-1]
