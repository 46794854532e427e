"""Whoever answers questions of a dataset: a whole system over its hops, a ranking baseline, or somebody's run."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from baleen.datasets import Example
from baleen.evaluation.baselines import Baseline
from baleen.evaluation.judging import CLAIMS, QUESTIONS
from baleen.evaluation.prediction import Prediction
from baleen.types import Ranking, Trace

if TYPE_CHECKING:
    from baleen.system import Baleen

log = logging.getLogger(__name__)

VERIFIER, ANSWERER = "verifier", "answerer"


class Predictor(Protocol):
    def predict(self, examples: Sequence[Example]) -> list[Prediction]: ...


class System:
    """Claims are verified and questions answered, where the model has a reader for them; `options` are RunConfig's."""

    def __init__(self, system: Baleen, dataset: str, options: Mapping[str, Any]) -> None:
        self.system, self.dataset, self.options = system, dataset, options
        self._lacking: set[str] = set()

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        *_, traces = self.system.hops([example.text for example in examples], **self.options)
        for component in (VERIFIER, ANSWERER):
            places = [place for place, example in enumerate(examples) if self._reader_for(example) == component]
            read = self._read(component, [traces[place] for place in places])
            for place, trace in zip(places, read, strict=True):
                traces[place] = trace
        return [Prediction.of_trace(trace) for trace in traces]

    def _reader_for(self, example: Example) -> str | None:
        """By the dataset; a file of one's own may hold claims, questions, and texts that are neither."""
        if self.dataset in CLAIMS or (self.dataset not in QUESTIONS and example.label is not None):
            return VERIFIER
        return ANSWERER if self.dataset in QUESTIONS or example.answer is not None else None

    def _read(self, component: str, traces: list[Trace]) -> list[Trace]:
        from baleen.pipeline import conclude  # brings the models' libraries, which a baseline may do without

        if not traces:
            return []
        reader = self.system.reader(component, optional=True)
        if reader is None and component not in self._lacking:
            self._lacking.add(component)
            log.warning("the model has no %s, so what it would say is not judged", component)
        return traces if reader is None else conclude(traces, reader)


class Ranked:
    """What a baseline ranks, `depth` passages deep."""

    def __init__(self, baseline: Baseline, depth: int) -> None:
        self.baseline, self.depth = baseline, depth

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        return [Prediction(ranking) for ranking in self.baseline.rank([each.text for each in examples], self.depth)]


class Recorded:
    """Rankings that somebody else made, by question; a question that has none counts as nothing found."""

    def __init__(self, rankings: Mapping[str, Ranking]) -> None:
        self.rankings = rankings

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        return [Prediction(self.rankings.get(example.qid, Ranking())) for example in examples]
