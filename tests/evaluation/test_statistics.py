"""Means, bootstrap intervals and comparisons of runs: worked figures, seeds, and what cannot be compared."""

from __future__ import annotations

import numpy as np
import pytest

from baleen.core.errors import DatasetError
from baleen.core.markdown import markdown_table
from baleen.core.types import Hit, Ranking
from baleen.data.example import Example
from baleen.evaluation.results import Prediction, Result
from baleen.evaluation.statistics import (
    by_hops,
    compare,
    interval,
    metric_names,
    permutation_p,
    resampled_means,
    summarize,
)
from baleen.evaluation.tables import comparison_table, flips_table, summary_table


def result(number: int, hops: int | None = 2, pids: tuple[str, ...] = (), **metrics: float) -> Result:
    ranking = Ranking(tuple(Hit(pid, 1.0) for pid in pids))
    named = {name.replace("_at_", "@"): value for name, value in metrics.items()}
    return Result(Example(f"q{number}", f"question {number}", ("p0", "p1"), hops=hops), Prediction(ranking), named)


def run(values: list[int], name: str = "all_at_20") -> list[Result]:
    return [result(number, **{name: value}) for number, value in enumerate(values)]


def test_means_are_in_percent_over_the_questions_that_have_the_metric() -> None:
    results = [result(0, all_at_5=1), result(1, all_at_5=0), result(2, all_at_5=0, label_accuracy=1)]
    whole = summarize(results)
    assert whole.questions == 3
    assert whole.metrics == {"all@5": pytest.approx(100 / 3, abs=1e-3), "label_accuracy": 100}
    assert whole.counts == {"all@5": 3, "label_accuracy": 1}
    assert summarize([]).metrics == {}
    assert summarize(results, samples=0).intervals == {}


def test_metric_names_are_ordered_by_kind_and_cutoff() -> None:
    mixed = result(0, joint_f1=0, mean_at_5=0, all_at_100=0, all_at_20=0, hover_score=0, retrieval_at_2=0)
    assert metric_names([mixed]) == ["all@20", "all@100", "mean@5", "retrieval@2", "hover_score", "joint_f1"]


def test_questions_are_grouped_by_their_hops() -> None:
    groups = by_hops([result(0, 2, all_at_5=1), result(1, 4, all_at_5=0), result(2, None, all_at_5=1)])
    assert {hops: (group.questions, group.metrics["all@5"]) for hops, group in groups.items()} == {
        2: (1, 100),
        4: (1, 0),
    }


def test_an_interval_is_that_of_the_mean() -> None:
    values = np.array([1.0] * 300 + [0.0] * 100)
    low, high = interval(values)
    error = 100 * np.sqrt(0.75 * 0.25 / 400)
    assert low == pytest.approx(75 - 1.96 * error, abs=0.6)
    assert high == pytest.approx(75 + 1.96 * error, abs=0.6)
    assert interval(values) == (low, high) != interval(values, seed=1)
    assert interval(np.ones(5)) == (100, 100)


def test_resampling_in_blocks_draws_as_many_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("baleen.evaluation.statistics._CELLS", 30)
    means = resampled_means(np.array([0.0, 1.0] * 5), samples=100, seed=0)
    assert means.shape == (100,)
    assert 0.3 < means.mean() < 0.7


def test_a_permutation_test_tells_chance_from_a_difference() -> None:
    assert permutation_p(np.zeros(10)) == 1
    assert permutation_p(np.array([1.0, -1.0] * 5)) == 1
    assert permutation_p(np.array([1.0])) == 1  # one coin says nothing
    assert permutation_p(np.ones(6)) == pytest.approx(2 / 64, abs=0.006)  # all heads or all tails
    assert permutation_p(np.ones(30)) < 0.001
    assert permutation_p(np.ones(6)) == permutation_p(np.array([1.0] * 6 + [0.0] * 50))


def test_runs_are_compared_question_by_question() -> None:
    first, second = run([1, 0, 0, 0, 1, 0, 0, 0, 0, 0]), run([0, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    comparison = compare(first, list(reversed(second)))
    difference = comparison.differences["all@20"]
    assert (difference.first, difference.second, difference.difference) == (20, 90, 70)
    assert (comparison.questions, comparison.only_first, comparison.only_second) == (10, 0, 0)
    assert difference.interval[0] > 0
    assert difference.p == pytest.approx(20 / 512, abs=0.006)  # 9 tosses, at most one of them the other way
    assert [flip.qid for flip in comparison.flips] == [f"q{number}" for number in (1, 2, 3, 5, 6, 7, 8, 9, 0)]
    assert compare(first, second).to_json() == compare(first, second).to_json()
    back = compare(second, first).differences["all@20"]
    assert (back.difference, back.p) == (-70, difference.p)


def test_questions_and_metrics_that_one_run_lacks_are_left_out() -> None:
    first = [*run([1, 0, 1]), result(7, all_at_20=1)]
    second = [result(0, all_at_20=0, label_accuracy=1), result(1, mean_at_5=1), result(9, all_at_20=1)]
    comparison = compare(first, second)
    assert (comparison.questions, comparison.only_first, comparison.only_second) == (2, 2, 1)
    assert {name: each.questions for name, each in comparison.differences.items()} == {"all@20": 1}


def test_flips_show_both_sides() -> None:
    first = [result(0, pids=("p0", "p5", "p1"), all_at_2=0)]
    second = [result(0, pids=("p1", "p0"), all_at_2=1)]
    (flip,) = compare(first, second, "all@2").flips
    assert (flip.first, flip.second, flip.gold) == ("ranks 1, 3", "ranks 2, 1", "p0, p1")
    assert "| q0 | p0, p1 | ranks 1, 3 | ranks 2, 1 | question 0 |" in flips_table([flip])
    said = Result(Example("q", "x", label="refuted"), Prediction(label="supported"), {"label_accuracy": 0.0})
    other = Result(said.example, Prediction(label="refuted"), {"label_accuracy": 1.0})
    (flip,) = compare([said], [other]).flips
    assert (flip.gold, flip.first, flip.second) == ("refuted", "supported", "refuted")


def test_runs_over_other_questions_are_refused() -> None:
    first = run([1, 0])
    other_text = [Result(Example("q0", "another", ("p0", "p1")), Prediction(), {"all@20": 1.0})]
    for second, metric, part in (
        ([result(9, all_at_20=1)], None, "no question in common"),
        (other_text, None, "'q0' has another text"),
        (run([1, 0], "joint_f1"), None, "share no metric"),
        (first, "all@7", "no metric 'all@7' in both runs; they share all@20"),
    ):
        with pytest.raises(DatasetError, match=part):
            compare(first, second, metric)


def test_tables_are_markdown() -> None:
    assert markdown_table(["a", "b"], [["1|2", "3"]]) == "| a | b |\n| --- | --- |\n| 1\\|2 | 3 |"
    results = [result(0, 2, all_at_5=1), result(1, 3, all_at_5=0, hover_score=1)]
    shown = summary_table(summarize(results), by_hops(results)).splitlines()
    assert shown[0] == "| metric | all (2) | 95% | 2 hops (1) | 3 hops (1) |"
    assert shown[2] == "| all@5 | 50.0 | 0.0 to 100.0 | 100.0 | 0.0 |"
    assert shown[3] == "| hover_score | 100.0 (of 1) | 100.0 to 100.0 | - | 100.0 |"
    alone = summary_table(summarize(results[:1], samples=0), by_hops(results[:1])).splitlines()
    assert alone[0::2] == ["| metric | all (1) | 95% |", "| all@5 | 100.0 | - |"]
    compared = comparison_table(compare(run([0, 0]), run([1, 0]))).splitlines()
    assert compared[2].startswith("| all@20 | 0.0 | 50.0 | +50.0 | 0.0 to 100.0 | ")
