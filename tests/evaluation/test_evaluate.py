"""Predict and score in batches, show the running metric, read results files, and choose readers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from baleen.core.errors import DatasetError
from baleen.core.progress import Bar
from baleen.core.types import Answer, Condensed, Hit, Query, Ranking, Trace, Verdict
from baleen.data.example import Example
from baleen.evaluation.evaluate import BaselinePredictor, RunPredictor, SystemPredictor, evaluate_batches, read_results
from baleen.evaluation.results import Prediction
from baleen.evaluation.scoring import Scorer
from baleen.hops.pipeline import run_hops
from hop_fakes import chain

EXAMPLES = [Example(f"q{number}", f"text {number}", (f"p{number % 2}",), hops=1) for number in range(5)]
FIRST = Ranking((Hit("p0", 1.0),))


class Counting:
    """A predictor that finds p0, and notes how many questions came at once."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        self.sizes.append(len(examples))
        return [Prediction(FIRST) for _ in examples]


def scorer(*cutoffs: int) -> Scorer:
    return Scorer("own", cutoffs or (5, 20), {}.__getitem__)


def test_questions_are_evaluated_in_batches_and_in_order() -> None:
    predictor = Counting()
    batches = list(evaluate_batches(EXAMPLES, predictor, scorer(), batch_size=2))
    assert predictor.sizes == [2, 2, 1]
    assert [result.example.qid for batch in batches for result in batch] == [example.qid for example in EXAMPLES]
    assert [result.metrics["all@5"] for batch in batches for result in batch] == [1, 0, 1, 0, 1]


def test_the_progress_bar_shows_the_running_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []

    @contextmanager
    def shown(*_: Any, **__: Any) -> Iterator[Bar]:
        yield Bar(lambda _, text: notes.append(text))

    monkeypatch.setattr("baleen.evaluation.evaluate.progress", shown)
    results = [
        result for batch in evaluate_batches(EXAMPLES[:2], Counting(), scorer(), batch_size=1) for result in batch
    ]
    assert list(dict.fromkeys(notes)) == ["all@20 100.0", "all@20 50.0"]
    notes.clear()
    list(evaluate_batches(EXAMPLES[2:3], Counting(), scorer(), before=results))
    assert notes[-1] == "all@20 66.7"
    assert scorer(3, 7).headline == "all@7"


def test_run_rankings_are_found_by_question_id() -> None:
    predictor = RunPredictor({"q1": FIRST})
    assert [each.ranking.pids for each in predictor.predict(EXAMPLES[:2])] == [(), ("p0",)]


def test_a_baseline_ranks_to_the_depth_given() -> None:
    class Asked:
        settings: dict[str, Any] = {}  # noqa: RUF012

        def rank(self, texts: Sequence[str], k: int) -> list[Ranking]:
            return [Ranking((Hit(f"{text}, {k} deep", 1.0),)) for text in texts]

    (prediction,) = BaselinePredictor(Asked(), 7).predict(EXAMPLES[:1])
    assert prediction.ranking.pids == ("text 0, 7 deep",)
    assert not prediction.condensed


class Reads:
    """Serves as a Baleen whose readers say who they are."""

    def __init__(self, *readers: str) -> None:
        self.readers = readers

    def hops(self, texts: Sequence[str], **options: Any) -> Iterator[list[Trace]]:
        assert options == {"k": 2}
        return run_hops([Query(text) for text in texts], chain(), Nothing(), [2])  # type: ignore[arg-type]

    def reader(self, component: str, *, optional: bool = False) -> Any:
        assert optional
        return Says(component) if component in self.readers else None


class Nothing:
    untrained = ()

    def condense(self, queries: Sequence[Query], *_: Any) -> list[Any]:
        return [Condensed() for _ in queries]

    def finish(self, trace: Trace, *_: Any) -> Trace:
        return trace


class Says:
    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, queries: Sequence[Query], *_: Any) -> list[Verdict | Answer]:
        return [Verdict("supported", 1.0) if self.name == "verifier" else Answer("Vardal", 1.0) for _ in queries]


MIXED = [Example("a", "x", label="refuted"), Example("b", "y", answer="z"), Example("c", "w")]


@pytest.mark.parametrize(
    ("dataset", "said"),
    [
        ("own", [("supported", None), (None, "Vardal"), (None, None)]),
        ("hover", [("supported", None)] * 3),
        ("exfever", [("supported", None)] * 3),
        ("musique", [(None, "Vardal")] * 3),
        ("hotpotqa", [(None, "Vardal")] * 3),
    ],
)
def test_the_dataset_or_the_example_decides_the_reader(dataset: str, said: list[tuple[str | None, str | None]]) -> None:
    system: Any = Reads("verifier", "answerer")
    predictions = SystemPredictor(system, dataset, {"k": 2}).predict(MIXED)
    assert [(each.label, each.answer) for each in predictions] == said
    assert all(len(each.ranking) == 2 and each.condensed for each in predictions)


def test_without_a_reader_the_outcome_is_empty() -> None:
    system: Any = Reads("answerer")
    predictions = SystemPredictor(system, "own", {"k": 2}).predict(MIXED)
    assert [(each.label, each.answer) for each in predictions] == [(None, None), (None, "Vardal"), (None, None)]


def test_a_file_of_results_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    (results,) = evaluate_batches(EXAMPLES, Counting(), scorer())
    path.write_text("".join(json.dumps({"run": {"system": "x"}, **result.to_json()}) + "\n" for result in results))
    stored = read_results(path)
    assert (stored.run, stored.results) == ({"system": "x"}, results)


@pytest.mark.parametrize("line", ["{", "[]", '{"run": {}}', '{"run": 1, "example": 2, "prediction": 3, "metrics": 4}'])
def test_a_malformed_line_of_results_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(DatasetError, match="out.jsonl:1: not a result of `baleen eval`"):
        read_results(path)


def test_an_empty_or_missing_results_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    with pytest.raises(DatasetError, match="contains no result"):
        read_results(tmp_path / "empty")
    with pytest.raises(DatasetError, match="cannot be read"):
        read_results(tmp_path / "nowhere")
