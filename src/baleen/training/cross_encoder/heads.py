"""The five heads as tasks: how a record of each is laid out, what should be read at its places, and the loss.

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
from baleen.training.cross_encoder.task import CrossEncoderTask, ReadingTraining, Sample, Wanted, table
from baleen.training.losses import fact_loss, label_loss, ranking_loss, sentence_loss, span_loss

_START, _END, *_KINDS = range(len(ANSWER_OUTPUTS))
_KIND_NAMES = ANSWER_OUTPUTS[2:]


@dataclass(frozen=True)
class WantedAnswer:
    """The `kind` of an answer by number, how many `words` its facts have, and the first and last word of each span."""

    kind: int
    words: int
    spans: list[tuple[int, int]]


class _PassageTask(CrossEncoderTask[Sample, Wanted]):
    """A task whose records name passages, which `passage` finds by pid; the last ones looked up are kept."""

    def __init__(
        self,
        reading: CrossEncoder,
        records: Sequence[Sample],
        passage: Lookup,
        config: ReadingTraining | None = None,
    ) -> None:
        super().__init__(reading, records, config)
        self._find = lru_cache(self.config.remembered)(passage)

    def passage(self, pid: str) -> Passage:
        try:
            return self._find(pid)
        except KeyError:
            raise TrainingError(f"there is no passage '{pid}': the records were made with another corpus") from None

    def drawn(self, pids: Sequence[str], rng: np.random.Generator) -> list[str]:
        """As many negatives as the settings say, twice the same where there are too few."""
        count = self.config.negatives
        picked = rng.permutation(len(pids))[:count] if len(pids) >= count else rng.integers(len(pids), size=count)
        return [pids[i] for i in picked]


class SentenceTask(_PassageTask[SentenceExample, list[bool]]):
    """Every gold sentence of a passage against its other sentences and those of passages that are not gold."""

    head = "sentences"

    def check(self, record: SentenceExample) -> None:
        _need(record, gold_sentence=record.sids, negative=record.negatives)

    def lay(self, record: SentenceExample, rng: np.random.Generator, /) -> tuple[list[CrossInput], list[bool]]:
        positive = self.inputs.sentences(record.query, self.passage(record.positive))
        against = [self.passage(pid) for pid in self.drawn(record.negatives, rng)]
        negative = [row for passage in against for row in self.inputs.sentences(record.query, passage)]
        labels = [sid in record.sids for row in positive for sid in row.keys]
        return positive + negative, labels + [False for row in negative for _ in row.keys]

    def targets(self, wanted: Sequence[list[bool]]) -> dict[str, Tensor]:
        return _marks(wanted)

    def judge(self, scores: Tensor, targets: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {"loss": sentence_loss(scores[:, 0], targets["examples"], targets["labels"])}


def _need(record: SentenceExample | RerankExample, **parts: Sequence[object]) -> None:
    for name, part in parts.items():
        if not part:
            lacking = name.replace("_", " ")
            raise TrainingError(f"query '{record.qid}' has no {lacking} at hop {record.hop}: leave such records out")


class FactTask(CrossEncoderTask[FactExample | FactSource, list[bool]]):
    """Gold facts against the others of their pool, and above 0; of a source, another pool every time."""

    head = "facts"

    def lay(self, record: FactExample | FactSource, rng: np.random.Generator, /) -> tuple[list[CrossInput], list[bool]]:
        pool = record.drawn(rng)
        rows = self.inputs.facts(pool.claim, pool.facts)
        return rows, [pool.labels[place] for row in rows for place in row.keys]

    def targets(self, wanted: Sequence[list[bool]]) -> dict[str, Tensor]:
        return _marks(wanted)

    def judge(self, scores: Tensor, targets: Mapping[str, Tensor]) -> dict[str, Tensor]:
        labels = targets["labels"]
        loss = fact_loss(scores[:, 0], targets["examples"], labels, self.config.fact_weight)
        return {"loss": loss, "accuracy": ((scores[:, 0] > 0) == labels).float().mean()}


def _marks(wanted: Sequence[Sequence[bool]]) -> dict[str, Tensor]:
    """Of every place, whose it is and whether it is a positive: `examples` (P,) int64, `labels` (P,) bool."""
    owners = np.repeat(np.arange(len(wanted)), [len(labels) for labels in wanted])
    return {"examples": torch.from_numpy(owners), "labels": torch.tensor([x for labels in wanted for x in labels])}


class RerankTask(_PassageTask[RerankExample, list[int]]):
    """A gold passage against others; a passage in several windows counts as its best one."""

    head = "reranker"

    def check(self, record: RerankExample) -> None:
        _need(record, negative=record.negatives)

    def lay(self, record: RerankExample, rng: np.random.Generator, /) -> tuple[list[CrossInput], list[int]]:
        pids = [record.positive, *self.drawn(record.negatives, rng)]
        windows = [self.inputs.passage(record.query, self.passage(pid)) for pid in pids]
        return [row for rows in windows for row in rows], list(map(len, windows))

    def targets(self, wanted: Sequence[list[int]]) -> dict[str, Tensor]:
        """`windows` (B, 1 + n, W) int64: the places of each passage's windows; `real` (B, 1 + n, W) bool: which are."""
        counts = [count for own in wanted for count in own]
        edges = [0, *accumulate(counts)]
        windows, real = table(range(edge, edge + count) for edge, count in zip(edges, counts, strict=False))
        shape = len(wanted), len(wanted[0]), -1
        return {"windows": windows.view(shape), "real": real.view(shape)}

    def judge(self, scores: Tensor, targets: Mapping[str, Tensor]) -> dict[str, Tensor]:
        each = scores[:, 0][targets["windows"]].masked_fill(~targets["real"], -torch.inf)
        best = each.amax(dim=2)  # (B, 1 + n)
        return {"loss": ranking_loss(best), "accuracy": (best.argmax(dim=1) == 0).float().mean()}


class VerdictTask(CrossEncoderTask[VerdictExample | VerdictSource, int]):
    """The label of a claim with its facts; of a source, with others every time."""

    head = "verifier"

    @cached_property
    def labels(self) -> tuple[str, ...]:
        return self.reading.outputs(self.head)

    def check(self, record: VerdictExample | VerdictSource) -> None:
        if record.label not in self.labels:
            known = ", ".join(self.labels)
            raise TrainingError(f"claim '{record.qid}' is labelled '{record.label}', but the head has {known}")

    def lay(self, record: VerdictExample | VerdictSource, rng: np.random.Generator, /) -> tuple[list[CrossInput], int]:
        read = record.drawn(rng)
        return [self.inputs.evidence(read.query)[0].at_cls()], self.labels.index(read.label)

    def targets(self, wanted: Sequence[int]) -> dict[str, Tensor]:
        return {"labels": torch.tensor(wanted)}

    def judge(self, scores: Tensor, targets: Mapping[str, Tensor]) -> dict[str, Tensor]:
        labels = targets["labels"]
        return {"loss": label_loss(scores, labels), "accuracy": (scores.argmax(dim=1) == labels).float().mean()}


class AnswerTask(CrossEncoderTask[AnswerExample | AnswerSource, WantedAnswer]):
    """Whether a question is answered by yes, no or a span, and if so by which; any span that holds the answer will do."""

    head = "answerer"

    def lay(
        self, record: AnswerExample | AnswerSource, rng: np.random.Generator, /
    ) -> tuple[list[CrossInput], WantedAnswer]:
        read = record.drawn(rng)
        row, words = self.inputs.evidence(read.query)
        spans = list(token_spans(words, read.spans))
        return [row], WantedAnswer(_KIND_NAMES.index(read.kind), len(words), spans)

    def targets(self, wanted: Sequence[WantedAnswer]) -> dict[str, Tensor]:
        """`starts` (B,): the place of each [CLS]; `words` (B, T): those of the words, `tokens` (B, T) bool: which are.

        `kinds` (B,), `spans` (B, S, 2) in words, `valid` (B, S) bool.
        """
        starts = [0, *accumulate(1 + each.words for each in wanted)][:-1]
        words, tokens = table(
            range(start + 1, start + 1 + each.words) for start, each in zip(starts, wanted, strict=True)
        )
        firsts, valid = table([first for first, _ in each.spans] for each in wanted)
        lasts, _ = table([last for _, last in each.spans] for each in wanted)
        return {
            "starts": torch.tensor(starts),
            "words": words,
            "tokens": tokens,
            "kinds": torch.tensor([each.kind for each in wanted]),
            "spans": torch.stack([firsts, lasts], dim=2),
            "valid": valid,
        }

    def judge(self, scores: Tensor, targets: Mapping[str, Tensor]) -> dict[str, Tensor]:
        words = scores[targets["words"]]  # (B, T, outputs)
        starts, ends = words[..., _START], words[..., _END]
        span = span_loss(starts, ends, targets["spans"], targets["valid"], targets["tokens"])
        kind = cross_entropy(scores[targets["starts"]][:, _KINDS], targets["kinds"])
        return {"loss": span + kind, "span": span, "kind": kind}


def token_spans(words: Sequence[Word], spans: Sequence[AnswerSpan]) -> Iterator[tuple[int, int]]:
    """The first and the last word of every span; one of a fact that was cut before its end is passed over."""
    for span in spans:
        inside = [n for n, w in enumerate(words) if w.fact == span.fact and w.start < span.end and w.end > span.start]
        if inside and words[inside[-1]].end >= span.end:
            yield inside[0], inside[-1]
