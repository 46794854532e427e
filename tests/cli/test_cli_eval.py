"""`baleen eval` and `baleen compare`: output, files, resuming, refusals."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from baleen import cli
from baleen.core.errors import ConfigError, DatasetError, IndexNotFoundError
from baleen.data.corpus import write_passages
from baleen.index.index import Index
from baleen.models.folder import write_model
from cli_fakes import Baleen, Done
from fakes import CORPUS, bert_folder, tiny_encoder

READING = ("sentences", "facts", "reranker", "verifier", "answerer")
SETTINGS = {
    # Whatever random heads say: three facts are kept at each hop.
    "condenser": {"pool": 3, "keep": -1000.0, "max_facts": 3},
    "run": {"hops": 2, "k": 3},
}
HOVER = [
    {
        "uid": "h1", "claim": "Lena Orlova teaches in Vardal.", "label": "SUPPORTED", "num_hops": 2,
        "supporting_facts": [["Lena Orlova", 1], ["University of Vardal", 1]],
    },
    {
        "uid": "h2", "claim": "The mayor of Vardal wrote The Deep Choir.", "label": "NOT_SUPPORTED", "num_hops": 3,
        "supporting_facts": [["Vardal", 1], ["Ivo Brandt", 1], ["The Deep Choir", 0]],
    },
]  # fmt: skip
HOTPOTQA = [
    {
        "_id": "b1", "question": "Who is the mayor of the town on the Grey Fjord?", "answer": "Ivo Brandt",
        "type": "bridge", "supporting_facts": [["Vardal", 0], ["Vardal", 1], ["Grey Fjord", 0]],
    },
    {
        "_id": "b2", "question": "Are Tromsk and Vardal both towns?", "answer": "yes",
        "type": "comparison", "supporting_facts": [["Tromsk", 0], ["Vardal", 0]],
    },
]  # fmt: skip
OWN = [
    {"id": "o1", "text": "Tromsk is a mining town.", "gold": ["Tromsk"], "label": "supported"},
    {"id": "o2", "text": "Who wrote The Deep Choir?", "gold": ["p3", "p4"], "answer": "Ivo Brandt"},
    {"id": "o3", "text": "whale song", "gold": ["p7"]},
]
BM25 = ("--corpus", "corpus.jsonl", "--baseline", "bm25")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole model as `model`, one without readers as `mute`, and an index that both fit."""
    from baleen.models.cross_encoder import CrossEncoder

    home = tmp_path_factory.mktemp("home")
    encoder = tiny_encoder(home)
    reading = CrossEncoder.from_backbone(bert_folder(home / "cross", seed=3))
    for name, components in (("model", READING), ("mute", READING[:3])):
        encoder.save(home / name / "retriever")
        reading.save(home / name / "reading")
        write_model(home / name, {"retriever": "retriever", **dict.fromkeys(components, "reading")}, SETTINGS)
    Index.build(home / "index", CORPUS, encoder, bits=4)
    return home


@pytest.fixture
def baleen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Baleen:
    """Run a command in a folder with the corpus and the questions of each dataset."""
    monkeypatch.chdir(tmp_path)
    write_passages(CORPUS, tmp_path / "corpus.jsonl")
    for name, records in (("hover", HOVER), ("hotpotqa", HOTPOTQA), ("own", OWN)):
        Path(f"{name}.json").write_text(json.dumps(records))

    def run(*arguments: str) -> Done:
        capfd.readouterr()
        monkeypatch.setattr("sys.argv", ["baleen", *arguments])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        printed = capfd.readouterr()
        return Done(int(stop.value.code or 0), printed.out, printed.err)

    return run


@pytest.fixture
def system(home: Path) -> tuple[str, ...]:
    return "--model", str(home / "model"), "--index", str(home / "index")


def lines(path: str) -> list[Any]:
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


# What comes out


def test_a_baseline_over_files_is_one_json_document(baleen: Baleen) -> None:
    pytest.importorskip("bm25s")
    done = baleen("eval", "hover", "hover.json", *BM25, "--at", "1,3", "--json")
    assert (done.code, done.err) == (0, "")
    told = done.json
    assert set(told["metrics"]) == {f"{kind}@{k}" for kind in ("all", "mean", "retrieval") for k in (1, 3)}
    assert told["metrics"]["mean@3"] > told["metrics"]["mean@1"] > 0
    assert (told["dataset"], told["system"], told["passages"], told["questions"]) == ("hover", "bm25", 8, 2)
    assert told["counts"]["all@1"] == 2 > told["counts"]["retrieval@1"]
    assert {hops: group["questions"] for hops, group in told["by_hops"].items()} == {"2": 1, "3": 1}
    low, high = told["intervals"]["mean@3"]
    assert low <= told["metrics"]["mean@3"] <= high
    assert told["gold"]["kept"] == 2


def test_a_person_reads_a_table(baleen: Baleen) -> None:
    pytest.importorskip("bm25s")
    done = baleen("eval", "hover", "hover.json", *BM25, "--at", "1,3")
    assert done.out.startswith("hover (hover.json): bm25 over 8 passages\n\n| metric | all (2) | 95% | 2 hops (1) |")


def test_a_system_gets_every_hover_metric(baleen: Baleen, system: tuple[str, ...]) -> None:
    done = baleen("eval", "hover", "hover.json", *system, "--at", "3,6", "--json", "--submission", "sent.json")
    assert (done.code, done.err) == (0, "")
    assert set(done.json["metrics"]) == {
        *(f"{kind}@{k}" for kind in ("all", "mean", "retrieval") for k in (3, 6)),
        "passage_em", "passage_f1", "sentence_em", "sentence_f1", "label_accuracy", "hover_score",
    }  # fmt: skip
    assert (done.json["system"], done.json["run"]["k"]) == ("condense at 3+3", [3, 3])
    sent = json.loads(Path("sent.json").read_text())
    assert list(sent) == ["h1", "h2"]
    assert all(len(each["predicted_sp"]) == 3 for each in sent.values())
    titles = {passage.title: len(passage.sentences) for passage in CORPUS}
    assert all(0 <= sid < titles[title] for each in sent.values() for title, sid in each["predicted_sp"])


@pytest.mark.parametrize("pipeline", ["condense", "rerank", "hybrid"])
def test_a_system_gets_every_hotpotqa_metric(baleen: Baleen, system: tuple[str, ...], pipeline: str) -> None:
    done = baleen(
        "eval", "hotpotqa", "hotpotqa.json", *system, "--pipeline", pipeline, "-k", "2,3", "--at", "5", "--json"
    )
    sentences = {"sentence_em", "sentence_f1", "joint_em", "joint_f1"}
    assert set(done.json["metrics"]) == {
        "all@5", "mean@5", "passage_recall@5", "answer_recall@5", "passage_em", "passage_f1", "answer_em", "answer_f1",
        *(() if pipeline == "rerank" else sentences),
    }  # fmt: skip
    assert done.json["counts"]["answer_recall@5"] == 1  # the other is a question of yes or no


def test_an_own_dataset_may_mix_claims_and_questions(baleen: Baleen, system: tuple[str, ...]) -> None:
    counts = baleen("eval", "own", "own.json", *system, "--json").json["counts"]
    assert (counts["all@5"], counts["label_accuracy"], counts["answer_em"]) == (3, 1, 1)


def test_a_model_without_readers_is_judged_by_what_it_finds(
    baleen: Baleen, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    places = ("--model", str(home / "mute"), "--index", str(home / "index"))
    found = baleen("eval", "hover", "hover.json", *places, "--batch-size", "1", "--json").json
    assert {"sentence_f1", "all@5"} <= set(found["metrics"])
    assert not {"label_accuracy", "hover_score"} & set(found["metrics"])
    assert [record.getMessage() for record in caplog.records] == [
        "the model has no verifier: its outcomes are not scored"
    ]


def test_missing_gold_fails_or_is_dropped(baleen: Baleen, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("bm25s")
    write_passages(CORPUS[:4], "corpus.jsonl")
    done = baleen("eval", "hover", "hover.json", *BM25)
    assert (done.code, done.out) == (DatasetError.exit_code, "")
    assert "'The Deep Choir' (of h2)" in done.err
    found = baleen("eval", "hover", "hover.json", *BM25, "--missing", "drop", "--json").json
    assert (found["questions"], found["gold"]["dropped"]) == (1, ["h2"])
    assert "1 of 2 questions dropped" in caplog.text


# Files


def test_results_per_question_resume(baleen: Baleen, system: tuple[str, ...]) -> None:
    arguments = ("eval", "hover", "hover.json", *system, "--out", "out.jsonl", "--json", "--batch-size", "1")
    first = baleen(*arguments).json
    whole = Path("out.jsonl").read_bytes()
    told = lines("out.jsonl")
    assert [(each["id"], each["query"]) for each in told] == [(each["uid"], each["claim"]) for each in HOVER]
    assert told[0]["example"]["gold"] == ["p0", "p1"]
    for end in (len(whole), len(whole) - 40, len(whole.splitlines()[0]) + 1, 0):
        Path("out.jsonl").write_bytes(whole[:end])
        again = baleen(*arguments).json
        assert again["metrics"] == first["metrics"]
        assert [each["metrics"] for each in lines("out.jsonl")] == [each["metrics"] for each in told]


def test_a_limited_run_is_continued_without_the_limit(baleen: Baleen, system: tuple[str, ...]) -> None:
    arguments = ("eval", "hover", "hover.json", *system, "--out", "out.jsonl", "--json")
    assert baleen(*arguments, "--limit", "1").json["questions"] == 1
    assert [each["id"] for each in lines("out.jsonl")] == ["h1"]
    assert baleen(*arguments).json["questions"] == 2
    assert [each["id"] for each in lines("out.jsonl")] == ["h1", "h2"]
    assert baleen(*arguments, "--limit", "1").json["questions"] == 1
    assert baleen(*arguments, "--limit", "0").code == 2


def test_results_of_another_run_are_refused(baleen: Baleen, system: tuple[str, ...]) -> None:
    assert baleen("eval", "hover", "hover.json", *system, "--out", "out.jsonl").code == 0
    before = Path("out.jsonl").read_bytes()
    for more, part in ((("--hops", "1"), "k was [3, 3], and is [3]"), (("--at", "7"), "at was ")):
        done = baleen("eval", "hover", "hover.json", *system, "--out", "out.jsonl", *more)
        assert (done.code, done.out) == (ConfigError.exit_code, "")
        assert part in done.err
    assert Path("out.jsonl").read_bytes() == before


@pytest.mark.parametrize("change", [{"label": "NOT_SUPPORTED"}, {"supporting_facts": HOVER[0]["supporting_facts"][:1]}])
def test_results_scored_with_other_gold_are_refused(
    baleen: Baleen, system: tuple[str, ...], change: dict[str, Any]
) -> None:
    arguments = ("eval", "hover", "hover.json", *system, "--out", "out.jsonl")
    assert baleen(*arguments, "--limit", "1").code == 0
    before = Path("out.jsonl").read_bytes()
    Path("hover.json").write_text(json.dumps([{**HOVER[0], **change}, *HOVER[1:]]))
    done = baleen(*arguments)
    assert (done.code, done.out) == (ConfigError.exit_code, "")
    assert (
        "out.jsonl: the result of 'h1' was scored against other gold (passages, sentences, label, answer, " in done.err
    )
    assert Path("out.jsonl").read_bytes() == before


@pytest.mark.parametrize("option", ["--out", "--submission"])
@pytest.mark.parametrize("name", ["r.jsonl.gz", "r.BZ2", "r.jsonl.zst"])
def test_a_compressed_output_name_is_refused(baleen: Baleen, option: str, name: str) -> None:
    done = baleen("eval", "hover", "hover.json", option, name, "--model", "nowhere")
    assert (done.code, done.out) == (ConfigError.exit_code, "")
    assert f"{name}: would not be compressed; choose a name without" in done.err
    assert not Path(name).exists()


def test_thresholds_are_part_of_a_run(baleen: Baleen, system: tuple[str, ...]) -> None:
    arguments = ("eval", "hover", "hover.json", *system, "--at", "3,6", "--json")
    told = baleen(*arguments, "--keep", "-2.5", "--out", "out.jsonl", "--limit", "1").json
    assert (told["system"], told["run"]["keep"]) == ("condense at 3+3, keep -2.5", -2.5)
    before = Path("out.jsonl").read_bytes()
    for more, part in (((), "is None"), (("--keep", "-2"), "is -2.0")):
        done = baleen(*arguments, *more, "--out", "out.jsonl")
        assert (done.code, done.out) == (ConfigError.exit_code, "")
        assert f"keep was -2.5, and {part}" in done.err
    assert Path("out.jsonl").read_bytes() == before
    assert baleen(*arguments, "--keep", "-2.5", "--out", "out.jsonl").json["questions"] == 2
    nothing = baleen(*arguments, "--keep", "1e6", "--out", "none.jsonl").json
    assert nothing["metrics"]["sentence_f1"] == 0
    shown = baleen("compare", "out.jsonl", "none.jsonl").out
    assert shown.startswith("A: out.jsonl (condense, keep -2.5)\nB: none.jsonl (condense, keep 1000000)\n")
    compared = baleen("compare", "out.jsonl", "none.jsonl", "--json").json
    assert (compared["first"]["keep"], compared["second"]["keep"]) == (-2.5, 1e6)


def test_mention_boost_is_part_of_a_run(baleen: Baleen, system: tuple[str, ...]) -> None:
    arguments = ("eval", "hover", "hover.json", *system, "--at", "3,6", "--json")
    told = baleen(*arguments, "--mention-boost", "2", "--out", "named.jsonl", "--limit", "1").json
    assert (told["system"], told["run"]["mention_boost"]) == ("condense at 3+3, mention boost 2", 2.0)
    before = Path("named.jsonl").read_bytes()
    for more, part in (((), "is None"), (("--mention-boost", "0"), "is None"), (("--mention-boost", "2.5"), "is 2.5")):
        done = baleen(*arguments, *more, "--out", "named.jsonl")
        assert (done.code, done.out) == (ConfigError.exit_code, "")
        assert f"mention_boost was 2.0, and {part}" in done.err
    assert Path("named.jsonl").read_bytes() == before
    assert baleen(*arguments, "--mention-boost", "2", "--out", "named.jsonl").json["questions"] == 2
    plain = baleen(*arguments, "--out", "plain.jsonl").json
    assert (plain["system"], "mention_boost" in plain["run"]) == ("condense at 3+3", False)
    shown = baleen("compare", "plain.jsonl", "named.jsonl").out
    assert shown.startswith("A: plain.jsonl (condense)\nB: named.jsonl (condense, mention boost 2)\n")


def test_mentioned_passages_are_boosted(baleen: Baleen, system: tuple[str, ...]) -> None:
    arguments = ("eval", "own", "own.json", *system, "--hops", "1", "-k", "1", "--at", "1", "--json")
    Path("own.json").write_text(
        json.dumps([{"id": n, "text": f"This is {p.title}, then.", "gold": [p.pid]} for n, p in enumerate(CORPUS)])
    )
    assert baleen(*arguments, "--mention-boost", "1000").json["metrics"]["all@1"] == 100
    assert baleen(*arguments).json["metrics"]["all@1"] < 100


def test_colbert_hop_never_boosts_mentions(baleen: Baleen, home: Path, tmp_path: Path) -> None:
    places = {name: str(home / "model" / "reading") for name in READING}
    (tmp_path / "names").mkdir()
    settings = {"run": {"k": 3, "hops": 2, "mention_boost": 2}}
    write_model(tmp_path / "names", {"retriever": str(home / "model" / "retriever"), **places}, settings)
    system = ("--model", str(tmp_path / "names"), "--index", str(home / "index"))
    arguments = ("eval", "hover", "hover.json", *system, "--at", "3,6", "--json")
    told = baleen(*arguments).json
    assert (told["system"], told["run"]["mention_boost"]) == ("condense at 3+3, mention boost 2", 2.0)
    plain = baleen(*arguments, "--mention-boost", "0").json
    assert (plain["system"], plain["run"]["mention_boost"]) == ("condense at 3+3", 0.0), (
        "which is not as the model is set"
    )
    hop = baleen(*arguments, "--baseline", "colbert-hop").json
    assert (hop["system"], hop["run"]["mention_boost"]) == ("colbert-hop at 3+3", 0.0)


def test_a_model_that_reranks_has_no_threshold(baleen: Baleen, home: Path, tmp_path: Path) -> None:
    places = {
        name: str(home / "model" / folder) for name, folder in (("retriever", "retriever"), ("reranker", "reading"))
    }
    (tmp_path / "reranks").mkdir()
    write_model(tmp_path / "reranks", places, {"run": {"pipeline": "rerank", "k": 3}})
    system = ("--model", str(tmp_path / "reranks"), "--index", str(home / "index"))
    done = baleen("eval", "hover", "hover.json", *system, "--keep", "1")
    assert (done.code, done.out) == (ConfigError.exit_code, "")
    assert "thresholds are for a condenser, and pipeline = 'rerank' has none; leave them out" in done.err


def test_a_run_goes_out_and_comes_in(baleen: Baleen) -> None:
    pytest.importorskip("bm25s")
    ours = baleen("eval", "hotpotqa", "hotpotqa.json", *BM25, "--write-run", "run", "--write-qrels", "qrels", "--json")
    theirs = baleen("eval", "hotpotqa", "hotpotqa.json", "--corpus", "corpus.jsonl", "--run", "run", "--json")
    assert theirs.json["metrics"] == ours.json["metrics"]
    assert theirs.json["system"] == "run"
    assert Path("qrels").read_text().splitlines() == ["b1 0 p2 1", "b1 0 p6 1", "b2 0 p5 1", "b2 0 p2 1"]


@pytest.mark.parametrize("option", ["--write-run", "--write-qrels"])
def test_a_run_that_cannot_be_written_costs_no_figures(baleen: Baleen, option: str) -> None:
    pytest.importorskip("bm25s")
    write_passages([replace(passage, pid=f"notes {passage.pid}") for passage in CORPUS], "corpus.jsonl")
    arguments = ("eval", "hotpotqa", "hotpotqa.json", *BM25, "--out", "out.jsonl", "--json")
    done = baleen(*arguments, option, "file")
    assert done.code == DatasetError.exit_code
    assert "has a space in it" in done.err
    assert done.json["metrics"] == baleen(*arguments).json["metrics"]
    assert len(lines("out.jsonl")) == len(HOTPOTQA)
    assert not Path("file").exists()


def test_colbert_that_is_ranked_anew_searches_as_it_does_alone(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With the given threads; without --index, over the index of its own model."""
    from baleen.cli.evaluate import Evaluation, TargetOptions, open_target
    from baleen.cli.options import HopOptions, SystemOptions
    from baleen.evaluation.collection import IndexedCorpus

    monkeypatch.setenv("BALEEN_CHECKPOINTS", str(home))  # which holds no default model
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("baleen.hops.demo.CORE", 20)
    model = str(home / "model")
    options = SystemOptions(model=model, device="cpu", threads=2)
    for target in (TargetOptions("colbert"), TargetOptions("rerank", first="colbert", first_model=model)):
        collection = open_target(Evaluation("own", options, HopOptions(), target, (5,))).collection
        assert isinstance(collection, IndexedCorpus)
        assert (collection.index.threads, collection.index.device) == (2, "cpu")
        assert collection.index.manifest.encoder == tiny_encoder(tmp_path / str(target.baseline)).fingerprint


def test_a_beir_folder_is_a_dataset_of_ones_own(baleen: Baleen) -> None:
    pytest.importorskip("bm25s")
    folder = Path("beir")
    (folder / "qrels").mkdir(parents=True)
    write_passages(CORPUS, folder / "corpus.jsonl")
    (folder / "queries.jsonl").write_text('{"_id": "1", "text": "Who mines silver?"}\n')
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\tp5\t1\n")
    done = baleen("eval", "own", "beir", "--corpus", "beir", "--baseline", "bm25", "--json")
    assert (done.code, done.json["metrics"]["all@2"]) == (0, 100)


def test_runs_are_compared(baleen: Baleen, system: tuple[str, ...]) -> None:
    assert baleen("eval", "hover", "hover.json", *system, "--out", "a.jsonl", "--at", "2,6").code == 0
    colbert = ("--baseline", "colbert", "--exact", *system)
    assert baleen("eval", "hover", "hover.json", *colbert, "--out", "b.jsonl", "--at", "2,6").code == 0
    told = baleen("compare", "a.jsonl", "b.jsonl", "--json", "--metric", "mean@2").json
    assert set(told["differences"]) == {f"{kind}@{k}" for kind in ("all", "mean", "retrieval") for k in (2, 6)}
    assert (told["questions"], told["metric"], told["second"]["system"]) == (2, "mean@2", "colbert")
    values = [[each["metrics"]["mean@2"] for each in lines(path)] for path in ("a.jsonl", "b.jsonl")]
    assert len(told["flips"]) == sum(one != other for one, other in zip(*values, strict=True))
    shown = baleen("compare", "a.jsonl", "a.jsonl").out
    assert "A: a.jsonl (condense)" in shown
    assert "| mean@6 |" in shown
    assert "all@2: 0 questions are better in B" in shown


def test_runs_are_compared_on_their_common_questions(baleen: Baleen, system: tuple[str, ...]) -> None:
    arguments = ("eval", "hover", "hover.json", *system)
    for name in ("some", "again"):
        assert baleen(*arguments, "--limit", "1", "--out", f"{name}.jsonl").code == 0
    assert Path("some.jsonl").read_bytes() == Path("again.jsonl").read_bytes(), "the same questions every time"
    assert baleen(*arguments, "--out", "whole.jsonl").code == 0
    assert "not compared: 0 questions of A alone, 1 of B alone" in baleen("compare", "some.jsonl", "whole.jsonl").out
    told = baleen("compare", "some.jsonl", "whole.jsonl", "--json").json
    assert (told["questions"], told["only_first"], told["only_second"]) == (1, 0, 1)
    assert "| some | 1 |" in baleen("table", "some.jsonl", "whole.jsonl").out


# Refusals


def test_each_refusal_has_its_own_exit_code(baleen: Baleen) -> None:
    Path("notes.jsonl").write_text('{"id": 1}\n')
    nowhere = ("--index", "nowhere", "--model", "nowhere")
    refusals = [
        (["eval", "hover", "hover.json", "--corpus", "corpus.jsonl"], 2, "--corpus goes with"),
        (["eval", "hover", "hover.json", *BM25, "--index", "nowhere"], 2, "name one"),
        (["eval", "hover", "hover.json", *BM25, "--run", "hover.json"], 2, "name one"),
        (["eval", "hover", "hover.json", *BM25, "--hops", "2"], 2, "for a system that takes hops"),
        (["eval", "hover", "hover.json", "--baseline", "colbert-hop", "--corpus", "x"], 2, "what takes hops searches"),
        (["eval", "hover", "hover.json", "--baseline", "colbert-hop", "--pipeline", "rerank"], 2, "reranks: leave"),
        (["eval", "hover", "hover.json", "--baseline", "colbert-hop", "--keep", "1"], 2, "leave --pipeline, --untrained, --keep, --read, --final, --ranked-by and --mention-boost out"),
        (["eval", "hover", "hover.json", "--baseline", "colbert-hop", "--mention-boost", "2"], 2, "--ranked-by and --mention-boost out"),
        (["eval", "hover", "hover.json", "--mention-boost", "-1"], 2, "--mention-boost"),
        (["eval", "hover", "hover.json", *BM25, "--mention-boost", "2"], 2, "for a system that takes hops"),
        (["eval", "hover", "hover.json", *BM25, "--keep", "-1"], 2, "--keep and the like are for a system that takes hops"),
        (["eval", "hover", "hover.json", "--run", "hover.json", "--keep", "-1"], 2, "for a system that takes hops"),
        (["eval", "hover", "hover.json", "--pipeline", "rerank", "--keep", "-1"], ConfigError.exit_code, "pipeline = 'rerank' has none"),
        (["eval", "hover", "hover.json", "--keep", "inf"], ConfigError.exit_code, "should be a finite number"),
        (["eval", "hover", "hover.json", *BM25, "--exact", "--model", "m"], 2, "leave out --exact, --model: what is evaluated here does not take it"),
        (["eval", "hover", "hover.json", "--exact"], 2, "leave out --exact"),
        (["eval", "hover", "hover.json", "--first", "bm25", "--first-model", "m"], 2, "leave out --first, --first-model"),
        (["eval", "hover", "hover.json", "--baseline", "rerank", "--first", "bm25", "--exact", "--instruction", "Find"], 2, "leave out --instruction, --exact"),
        (["eval", "hover", "hover.json", "--baseline", "colbert", "--instruction", "Find"], 2, "leave out --instruction"),
        (["eval", "hover", "hover.json", "--run", "hover.json", "--model", "m"], 2, "leave out --model"),
        (["eval", "hover", "hover.json", "--baseline", "rerank", "--first-model", "m"], 2, "leave out --first-model"),
        (["eval", "hover", "hover.json", "--baseline", "colbert", "--corpus", "corpus.jsonl", "--exact"], 2, "leave out --exact"),
        (["eval", "hover", "hover.json", *BM25, "--at", "five"], 2, "should be numbers"),
        (["eval", "hover", "hover.json", *BM25, "--at", "0,5"], 2, "at least 1"),
        (["eval", "hover", "hover.json", *BM25, "--out", "no/out.jsonl"], 2, "no folder no"),
        (["eval", "own", "own.json", *BM25, "--submission", "sent.json"], 2, "for hover and hotpotqa"),
        (["eval", "hover", "hover.json", "--baseline", "tfidf"], 2, "tfidf"),
        (["eval", "hoover", "hover.json", *BM25], DatasetError.exit_code, "did you mean 'hover'?"),
        (["eval", "hover", "nowhere.json", *BM25], DatasetError.exit_code, "no such file"),
        (["eval", "hover", "hotpotqa.json", *nowhere], DatasetError.exit_code, "record 1: no 'claim'"),
        (["eval", "hover", "hover.json", *nowhere], IndexNotFoundError.exit_code, "nowhere: no index here"),
        (["eval", "hover", "hover.json", "--corpus", "corpus.jsonl", "--baseline", "dense"], ConfigError.exit_code, "needs a model"),
        (["compare", "notes.jsonl", "notes.jsonl"], DatasetError.exit_code, "notes.jsonl:1: not a result"),
        (["compare", "nowhere.jsonl", "notes.jsonl"], 2, "nowhere.jsonl"),
    ]  # fmt: skip
    for arguments, code, part in refusals:
        done = baleen(*arguments)
        assert (done.code, done.out) == (code, ""), arguments
        assert part in done.said, done.said


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom baleen.cli.app import main\nsys.argv = ['baleen', 'eval', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(*{'torch', 'transformers', 'numba', 'numpy', 'bm25s'} & sys.modules.keys(), file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--baseline" in run.stdout
    assert run.stderr.split() == []


@pytest.mark.usefixtures("baleen")
def test_bm25_needs_no_model_library() -> None:
    pytest.importorskip("bm25s")
    code = (
        "import sys\nfrom baleen.cli.app import main\n"
        f"sys.argv = ['baleen', 'eval', 'hover', 'hover.json', *{BM25!r}, '--json']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(*{'torch', 'transformers'} & sys.modules.keys(), file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout)["questions"] == 2
    assert run.stderr.split() == []


def test_colbert_hop_is_the_reranking_pipeline_without_focus(
    baleen: Baleen, home: Path, system: tuple[str, ...], tmp_path: Path
) -> None:
    """It equals a model whose retriever has no focus."""
    from baleen.models.encoder import Encoder

    arguments = ("eval", "hover", "hover.json", "--at", "3,6", "--json")
    told = baleen(*arguments, *system, "--baseline", "colbert-hop", "-k", "3,2", "--out", "hop.jsonl").json
    assert (told["system"], told["run"]["pipeline"]) == ("colbert-hop at 3+2", "rerank")
    encoder = Encoder.load(home / "model", device="cpu").with_settings(query_focus=None, facts_focus=None)
    encoder.save(tmp_path / "maxsim" / "retriever")
    reading = {"reranker": str(home / "model" / "reading"), "verifier": str(home / "model" / "reading")}
    write_model(tmp_path / "maxsim", {"retriever": "retriever", **reading}, {"run": {"pipeline": "rerank"}})
    plain = ("--model", str(tmp_path / "maxsim"), "--index", str(home / "index"), "-k", "3,2", "--out", "plain.jsonl")
    assert baleen(*arguments, *plain).json["metrics"] == told["metrics"]
    assert [each["prediction"] for each in lines("hop.jsonl")] == [each["prediction"] for each in lines("plain.jsonl")]


# Several runs


def two_runs(baleen: Baleen, system: tuple[str, ...]) -> None:
    for name, more in (("one", ("--hops", "1")), ("two", ())):
        assert baleen("eval", "hover", "hover.json", *system, *more, "--at", "3,6", "--out", f"{name}.jsonl").code == 0


def test_runs_are_shown_in_one_table(baleen: Baleen, system: tuple[str, ...]) -> None:
    two_runs(baleen, system)
    assert baleen("eval", "own", "own.json", *system, "--out", "own.jsonl").code == 0
    done = baleen("table", "a hop=one.jsonl", "two.jsonl", "own.jsonl", "--metric", "all@3", "--metric", "mean@3")
    assert done.code == 2
    assert "no run over own has the metric 'all@3'; they have all@2, all@5" in done.said
    done = baleen("table", "a hop=one.jsonl", "two.jsonl", "own.jsonl")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("hover\n\n| run | questions | all@6 | passage_em | passage_f1 |")
    assert [line.split(" | ")[0] for line in done.out.splitlines() if line.startswith("| ") and "---" not in line] == [
        "| run", "| a hop", "| two", "| run, all@6", "| a hop", "| two", "| run", "| own", "| run, all@20", "| own",
    ]  # fmt: skip
    told = baleen("table", "a hop=one.jsonl", "two.jsonl", "--json").json
    assert [each["name"] for each in told["hover"]] == ["a hop", "two"]
    again = baleen("eval", "hover", "hover.json", *system, "--at", "3,6", "--json").json
    assert told["hover"][1]["overall"]["metrics"] == again["metrics"]


def test_runs_with_equal_names_are_refused(baleen: Baleen, system: tuple[str, ...]) -> None:
    two_runs(baleen, system)
    done = baleen("table", "one.jsonl", "one.jsonl")
    assert (done.code, done.out) == (2, "")
    assert "two runs are named 'one'" in done.said
    assert baleen("table", "absent.jsonl").code == DatasetError.exit_code
    assert baleen("table", "name=absent.jsonl").code == DatasetError.exit_code
