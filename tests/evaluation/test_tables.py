"""Tables of several runs: their columns and cells."""

from __future__ import annotations

from baleen.data.example import Example
from baleen.evaluation.results import Prediction, Result
from baleen.evaluation.tables import columns, hop_numbers, hops_table, runs_table, summarize_run


def result(qid: str, hops: int | None, **metrics: float) -> Result:
    named = {name.replace("_at_", "@"): value for name, value in metrics.items()}
    return Result(Example(qid, "x", ("p0",), hops=hops), Prediction(), named)


OURS = [result("q1", 2, retrieval_at_100=1, all_at_100=1), result("q2", 3, all_at_100=0)]
THEIRS = [result("q1", 2, retrieval_at_100=0, all_at_100=0, passage_em=1)]


def test_columns_are_the_datasets_that_some_run_has() -> None:
    entries = [summarize_run("ours", OURS), summarize_run("theirs", THEIRS)]
    assert columns("hover", entries) == ["retrieval@100", "all@100", "passage_em"]
    assert columns("own", entries) == ["all@100", "passage_em"]


def test_with_other_cutoffs_the_largest_comes_first() -> None:
    deep = [result("q1", 2, all_at_3=0, all_at_7=1, mean_at_7=1, passage_em=1)]
    assert columns("musique", [summarize_run("ours", deep)]) == ["all@7", "passage_em"]


def test_without_the_datasets_columns_all_metrics_are_columns() -> None:
    assert columns("musique", [summarize_run("ours", [result("q1", 2, joint_em=1)])]) == ["joint_em"]


def test_a_row_shows_how_many_questions_a_metric_applies_to() -> None:
    entries = [summarize_run("ours", OURS), summarize_run("the | other", THEIRS)]
    assert runs_table(entries, ["retrieval@100", "all@100", "passage_em"]).splitlines() == [
        "| run | questions | retrieval@100 | all@100 | passage_em |",
        "| --- | --- | --- | --- | --- |",
        "| ours | 2 | 100.0 (of 1) | 50.0 | - |",
        "| the \\| other | 1 | 0.0 | 0.0 | 100.0 |",
    ]


def test_hops_table_has_gaps_for_missing_hop_numbers() -> None:
    entries = [summarize_run("ours", OURS), summarize_run("theirs", THEIRS)]
    assert hop_numbers(entries) == [2, 3]
    assert hops_table(entries, "all@100").splitlines()[2:] == [
        "| ours | 50.0 | 100.0 | 0.0 |",
        "| theirs | 0.0 | 0.0 | - |",
    ]


def test_a_run_summary_has_intervals_only_with_samples() -> None:
    summary = summarize_run("ours", OURS, samples=10).to_json()
    assert summary["overall"]["metrics"]["all@100"] == 50.0
    assert set(summary["hops"]) == {2, 3}
    assert summary["overall"]["intervals"]
    assert not summarize_run("ours", OURS).overall.intervals
