"""Curves against figures worked out by hand, and complete, repeatable pictures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from baleen.core.errors import MissingExtraError
from baleen.core.types import Hit, Ranking
from baleen.data.example import Example
from baleen.evaluation.results import HopSummary, Prediction, Result
from plot import Curve, Figure, draw, figures, main, recall_after_hops, recall_at_k, recall_by_hops, words_after_hops


def result(qid: str, gold: tuple[str, ...], *taken: tuple[str, int], hops: int | None = 2) -> Result:
    """A question whose hops found the passages of each word, one per letter, with `words` of context after each."""
    found = tuple(HopSummary(tuple(word), words) for word, words in taken)
    ranking = Ranking(tuple(Hit(pid, 0.0) for hop in found for pid in hop.pids))
    return Result(Example(qid, "x", gold, hops=hops), Prediction(ranking, hops=found))


RESULTS = [
    result("q1", ("a", "b"), ("axy", 10), ("bzw", 30)),
    result("q2", ("a", "b"), ("bax", 20), ("yzw", 20)),
    result("q3", ("a", "b", "c"), ("axy", 0), ("bzw", 40), hops=3),
    result("q4", (), ("xyz", 6), hops=None),
]


def test_recall_at_k_counts_the_first_k() -> None:
    third = round(100 / 3, 4)
    assert recall_at_k(RESULTS) == [(1, 0.0), (2, third), (3, third), (5, 2 * third + 0.0001)]
    assert recall_at_k(RESULTS[3:]) == recall_at_k([]) == []


def test_recall_after_hops_counts_the_first_hops() -> None:
    assert recall_after_hops(RESULTS) == [(1, round(100 / 3, 4)), (2, round(200 / 3, 4))]
    ranked = Result(RESULTS[0].example, Prediction(RESULTS[0].prediction.ranking))
    assert recall_after_hops([ranked]) == []


def test_recall_by_the_hops_of_a_question() -> None:
    assert recall_by_hops(RESULTS) == [(2, 100.0), (3, 0.0)]


def test_a_question_that_stopped_keeps_its_words() -> None:
    assert words_after_hops(RESULTS) == [(1, 9.0), (2, 24.0)]
    assert words_after_hops([]) == []


def test_figures_without_points_are_left_out() -> None:
    ranked = [Result(each.example, Prediction(each.prediction.ranking)) for each in RESULTS]
    found = {figure.name: figure for figure in figures({"ours": RESULTS, "bm25": ranked})}
    assert list(found) == ["recall-at-k", "recall-after-hops", "recall-by-hops", "context-words"]
    assert [curve.name for curve in found["recall-at-k"].curves] == ["ours", "bm25"]
    assert found["recall-after-hops"].curves == (Curve("ours", tuple(recall_after_hops(RESULTS))),)
    assert [figure.name for figure in figures({"bm25": ranked})] == ["recall-at-k", "recall-by-hops"]
    assert figures({"nothing": RESULTS[3:]})[0].name == "context-words"
    for figure in found.values():
        assert Figure.from_json(figure.to_json()) == figure


def test_pictures_are_complete_and_repeatable(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    drawn = figures({"ours": RESULTS, "half | of them": RESULTS[:2]})
    paths = draw(drawn, tmp_path / "one" / "deep")
    assert [path.name for path in paths] == [f"{each.name}.{ending}" for each in drawn for ending in ("png", "svg")]
    for path, again in zip(paths, draw(drawn, tmp_path / "two"), strict=True):
        content = path.read_bytes()
        assert content == again.read_bytes()
        assert content.startswith(b"\x89PNG") if path.suffix == ".png" else content.rstrip().endswith(b"</svg>")


def test_a_missing_library_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"drawing figures needs the package 'matplotlib'.*baleen\[eval\]"):
        draw(figures({"ours": RESULTS}), tmp_path)


def stored(file: Path, results: list[Result]) -> str:
    """A file as `baleen eval --out` writes it."""
    file.write_text("".join(json.dumps({"run": {"dataset": "own"}, **each.to_json()}) + "\n" for each in results))
    return str(file)


def test_the_script_draws_results_files(tmp_path: Path, capsys: Any) -> None:
    pytest.importorskip("matplotlib")
    one, two = stored(tmp_path / "one.jsonl", RESULTS), stored(tmp_path / "two.jsonl", RESULTS[:2])
    main([one, f"half={two}", "--out", str(tmp_path / "drawn"), "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert len(printed["files"]) == 8
    assert all(Path(file).stat().st_size for file in printed["files"])
    assert [curve["name"] for curve in printed["figures"][0]["curves"]] == ["one", "half"]
    main([one, "--out", str(tmp_path / "drawn")])
    assert capsys.readouterr().out.splitlines() == printed["files"]


@pytest.mark.parametrize(
    ("runs", "part"),
    [
        (("one.jsonl", "one.jsonl"), "two runs are called 'one'"),
        (("absent.jsonl",), "absent.jsonl: cannot be read"),
        (("none.jsonl",), "there is nothing to draw"),
    ],
)
def test_runs_that_cannot_be_drawn_are_refused(
    runs: tuple[str, ...], part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    stored(tmp_path / "one.jsonl", RESULTS)
    stored(tmp_path / "none.jsonl", [result("q4", (), hops=None)])
    with pytest.raises(SystemExit) as stop:
        main([*runs, "--out", "drawn"])
    assert stop.value.code
    assert part in capsys.readouterr().err
