"""Exchange formats: TREC runs and qrels, BEIR folders, submissions; measures against pytrec_eval."""

from __future__ import annotations

import json
import os
import random
import unicodedata
from pathlib import Path

import pytest

from baleen.core.errors import ConfigError, DatasetError
from baleen.core.types import WHOLE_PASSAGE, Fact, Hit, Ranking
from baleen.data.beir import is_beir, read_beir
from baleen.data.example import NOT_ENOUGH, SUPPORTED, Example
from baleen.evaluation import measures
from baleen.evaluation.results import Prediction, Result
from baleen.evaluation.scoring import CUTOFFS, Scorer
from baleen.evaluation.statistics import summarize
from baleen.evaluation.submission import submission, write_submission
from baleen.evaluation.trec import read_run, write_qrels, write_run


def hit_list(*pids: str) -> Ranking:
    return Ranking(tuple(Hit(pid, 0.5) for pid in pids))


def result(qid: str, *pids: str, gold: tuple[str, ...] = ("p1",)) -> Result:
    return Result(Example(qid, "x", gold), Prediction(hit_list(*pids)))


# TREC


def test_a_run_comes_back_in_its_order(tmp_path: Path) -> None:
    results = [result("q1", "p9", "p1", "p5"), result("q2", "p1"), result("q3")]
    write_run(results, tmp_path / "run.trec")
    lines = (tmp_path / "run.trec").read_text().splitlines()
    assert lines[0] == "q1 Q0 p9 1 3 baleen"
    read = read_run(tmp_path / "run.trec")
    assert {qid: ranking.pids for qid, ranking in read.items()} == {"q1": ("p9", "p1", "p5"), "q2": ("p1",)}


def test_somebodys_run_is_ordered_by_score_and_then_by_rank(tmp_path: Path) -> None:
    run = tmp_path / "run.trec"
    run.write_text("q1 Q0 a 1 0.5 x\nq1 Q0 b 2 7e1 x\n\nq1\tQ0\td\t4\t0.5\tx\nq1 Q0 c 3 0.5 x\n")
    assert read_run(run)["q1"] == Ranking((Hit("b", 70.0), Hit("a", 0.5), Hit("c", 0.5), Hit("d", 0.5)))


def test_qrels_have_a_line_for_each_gold_passage(tmp_path: Path) -> None:
    write_qrels([Example("q1", "x", ("p1", "p2")), Example("q2", "x")], tmp_path / "qrels")
    assert (tmp_path / "qrels").read_text() == "q1 0 p1 1\nq1 0 p2 1\n"


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("q1 Q0 p1 1 3", "run:2: 5 fields; expected 'qid Q0 pid rank score tag'"),
        ("q1 Q0 p1 1 high x", "run:2: 'high' is not a number"),
        ("q1 Q0 p1 first 3 x", "run:2: 'first' is not a number"),
        ("q1 Q0 p0 2 3 x", "run:2: the passage 'p0' is repeated for the question 'q1'"),
    ],
)
def test_a_bad_line_of_a_run_is_named(tmp_path: Path, line: str, part: str) -> None:
    (tmp_path / "run").write_text(f"q1 Q0 p0 1 9 x\n{line}\n")
    with pytest.raises(DatasetError, match=part):
        read_run(tmp_path / "run")
    with pytest.raises(DatasetError, match="cannot be read: no such file"):
        read_run(tmp_path / "nowhere")


def test_ids_that_trec_has_no_room_for_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="'my notes.md' has a space"):
        write_run([result("q1", "my notes.md")], tmp_path / "run")


def test_a_run_or_qrels_are_there_whole_or_as_they_were(tmp_path: Path) -> None:
    for name in ("new", "old"):
        path = tmp_path / name
        if name == "old":
            path.write_text("before\n")
        with pytest.raises(DatasetError, match="has a space"):
            write_run([result("q1", "p1"), result("q2", "my notes.md")], path)
        with pytest.raises(DatasetError, match="has a space"):
            write_qrels([Example("q1", "x", ("p1", "my notes.md"))], path)
    assert [each.name for each in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old").read_text() == "before\n"


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_qrels([Example("q1", "x", ("p1",))], pipe)
    assert (os.read(end, 100), pipe.is_fifo()) == (b"q1 0 p1 1\n", True)
    os.close(end)


def test_pytrec_eval_agrees(tmp_path: Path) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    rng, pids = random.Random(0), [f"p{number}" for number in range(200)]
    examples = [Example(f"q{n}", "x", tuple(rng.sample(pids, rng.randint(1, 4)))) for n in range(40)]
    scorer = Scorer("own", CUTOFFS, {}.__getitem__)
    results = [scorer.score(example, Prediction(hit_list(*rng.sample(pids, 150)))) for example in examples]
    write_run(results, tmp_path / "run")
    write_qrels(examples, tmp_path / "qrels")
    with (tmp_path / "run").open() as run, (tmp_path / "qrels").open() as qrels:
        measures = {f"recall.{','.join(map(str, CUTOFFS))}"}
        theirs = pytrec_eval.RelevanceEvaluator(pytrec_eval.parse_qrel(qrels), measures).evaluate(
            pytrec_eval.parse_run(run)
        )
    for each in results:
        told = theirs[each.example.qid]
        assert {f"mean@{k}": pytest.approx(told[f"recall_{k}"]) for k in CUTOFFS}.items() <= each.metrics.items()
        assert all(each.metrics[f"all@{k}"] == (told[f"recall_{k}"] == 1) for k in CUTOFFS)
    mean = sum(told["recall_20"] for told in theirs.values()) / len(theirs)
    assert summarize(results).metrics["mean@20"] == pytest.approx(100 * mean, abs=1e-3)


# BEIR


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    (tmp_path / "qrels").mkdir()
    (tmp_path / "queries.jsonl").write_text('{"_id": "1", "text": "Who sings?"}\n{"_id": "2", "text": "Who mines?"}\n')
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\tp4\t1\n1\tp7\t2\n2\tp5\t0\n")
    (tmp_path / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\n2\tp5\t1\n")
    return tmp_path


def test_a_beir_folder_gives_its_judged_questions(beir: Path) -> None:
    assert is_beir(beir)
    (example,) = read_beir(beir)
    assert (example.qid, example.text, example.gold, example.named_by) == ("1", "Who sings?", ("p4", "p7"), "id")
    assert is_beir(beir / "qrels" / "dev.tsv")
    assert [example.gold for example in read_beir(beir / "qrels" / "dev.tsv")] == [("p5",)]
    assert not is_beir(beir / "qrels")


def test_judgements_of_nothing_and_less_are_of_passages_that_do_not_count(beir: Path) -> None:
    (beir / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\tp4\t-1\n1\tp7\t2\n2\tp5\t-2\n2\tp6\t0\n")
    assert [(example.qid, example.gold) for example in read_beir(beir)] == [("1", ("p7",))]


@pytest.mark.parametrize(
    ("text", "part"),
    [('" "', "'text' is empty; expected at least one word"), ("null", "'text' is null; expected a string")],
)
def test_a_judged_question_has_a_text(beir: Path, text: str, part: str) -> None:
    (beir / "queries.jsonl").write_text(f'{{"_id": "1", "text": "Who sings?"}}\n{{"_id": "2", "text": {text}}}\n')
    with pytest.raises(DatasetError, match=f"queries.jsonl:2: {part}"):
        read_beir(beir)
    (beir / "qrels" / "test.tsv").write_text("1\tp4\t1\n")
    assert [example.text for example in read_beir(beir)] == ["Who sings?"], "what is not asked is not looked at"


def test_bad_beir_folders_are_refused(beir: Path) -> None:
    qrels = beir / "qrels" / "test.tsv"
    qrels.write_text("query-id\tcorpus-id\tscore\n1 p4 1\n")
    with pytest.raises(DatasetError, match="test.tsv:2: 1 fields"):
        read_beir(beir)
    qrels.write_text("query-id\tcorpus-id\tscore\n1\tp4\thigh\n")
    with pytest.raises(DatasetError, match="test.tsv:2: the score 'high' is not a whole number; expected query-id"):
        read_beir(beir)
    qrels.write_text("9\tp4\t1\n")
    with pytest.raises(DatasetError, match="1 queries are not in queries.jsonl, such as '9'"):
        read_beir(beir)
    for query, part in (('{"id": "9"}', "not a query"), ('{"_id": "9"}', "no 'text' among the keys '_id'")):
        (beir / "queries.jsonl").write_text(f"{query}\n")
        with pytest.raises(DatasetError, match=f"queries.jsonl:1: {part}"):
            read_beir(beir)
    for name in ("test", "dev"):
        (beir / "qrels" / f"{name}.tsv").unlink()
    with pytest.raises(DatasetError, match="no qrels; expected qrels/test.tsv"):
        read_beir(beir)


# Leaderboards

FACTS = (
    Fact("p2", 1, "Vardal", "", 0.3),
    Fact("p0", 0, "Lena Orlova", "", 0.2),
    Fact("p0", 1, "Lena Orlova", "", 0.9),
    Fact("p3", WHOLE_PASSAGE, "Ivo Brandt", "", 0.1),
)
EVIDENCE = [["Lena Orlova", 1], ["Lena Orlova", 0], ["Vardal", 1]]


def told(qid: str = "q1", **outcome: str) -> Result:
    prediction = Prediction(hit_list("p0", "p2", "p3"), FACTS, condensed=True, **outcome)
    return Result(Example(qid, "A claim."), prediction)


def test_hotpotqa_takes_answers_and_supporting_facts_apart() -> None:
    found = submission("hotpotqa", [told(answer="Ivo Brandt"), result("q2", "p0")])
    assert found == {"answer": {"q1": "Ivo Brandt", "q2": ""}, "sp": {"q1": EVIDENCE, "q2": []}}


def test_hover_takes_labels_and_ranked_evidence_by_uid(tmp_path: Path) -> None:
    path = tmp_path / "hover.json"
    write_submission("hover", [told(label=SUPPORTED), told("q2", label=NOT_ENOUGH), result("q3", "p0")], path)
    sent = json.loads(path.read_text())
    assert sent["q1"] == {"claim": "A claim.", "predicted_label": "SUPPORTED", "predicted_sp": EVIDENCE}
    assert sent["q2"]["predicted_label"] == "NOT_SUPPORTED"
    assert sent["q3"] == {"claim": "x", "predicted_label": "NOT_SUPPORTED", "predicted_sp": []}
    assert [each.name for each in tmp_path.iterdir()] == ["hover.json"]


def test_what_hover_would_make_of_it_is_what_we_measure() -> None:
    """The official measures, as defined: names in NFD, an id behind each; the same set, and the F1 of what is common."""
    gold = [["Lena Orlova", 1], ["Vardal", 1]]
    sent = submission("hover", [told(label=SUPPORTED)])["q1"]
    ours, theirs = (
        {f"{unicodedata.normalize('NFD', name)}_{sid}" for name, sid in each} for each in (sent["predicted_sp"], gold)
    )
    common = len(ours & theirs)
    f1 = 2 * (common / len(ours)) * (common / len(theirs)) / (common / len(ours) + common / len(theirs))
    example = Example("q1", "A claim.", ("p0", "p2"), (("p0", 1), ("p2", 1)), label=SUPPORTED, hops=2)
    sentences = tuple(fact for fact in FACTS if fact.sid != WHOLE_PASSAGE)
    prediction = Prediction(hit_list("p0", "p2"), sentences, condensed=True, label=SUPPORTED)
    found = measures.hover_measures(example, prediction, (2,))
    assert (found["sentence_em"], found["label_accuracy"]) == (float(ours == theirs), 1)
    assert found["sentence_f1"] == pytest.approx(f1)


def test_other_datasets_have_no_leaderboard() -> None:
    with pytest.raises(ConfigError, match="for musique; there is one for hover and hotpotqa"):
        submission("musique", [])
