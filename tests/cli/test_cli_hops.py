"""`baleen verify` and `baleen ask`: output, exit codes, resuming a killed run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from baleen import cli
from baleen.cli.options import HopOptions
from baleen.cli.show import Chain
from baleen.core.errors import CheckpointError, ConfigError, DatasetError, IndexNotFoundError, QueryError
from baleen.core.types import FILLER, Answer, Condensed, Fact, Hop, Judgement, Query, Trace, Verdict
from baleen.hops.config import VERIFY, RunConfig
from baleen.index.index import Index
from baleen.models.folder import write_model
from cli_fakes import Baleen, Done
from fakes import CORPUS, bert_folder, tiny_encoder
from schema_fakes import check_schema

CLAIM = "The mayor of the town where Lena Orlova teaches is a former cellist."
KEYS = {*Trace.json_schema()["required"], "seconds"}
SETTINGS = {
    # Whatever random heads say: two facts are kept at each hop, and those of the hop before are dropped for them.
    "condenser": {"pool": 2, "keep": -1000.0, "max_facts": 2},
    "run": {"hops": 2, "k": 3},
}
READING = ("sentences", "facts", "reranker", "verifier", "answerer")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole model as `model`, one of retriever and reranker as `bare`, another as `other`, and an index of each."""
    from baleen.models.cross_encoder import CrossEncoder

    home = tmp_path_factory.mktemp("home")
    reading = CrossEncoder.from_backbone(bert_folder(home / "cross", seed=3))
    for name, seed, components, settings in (
        ("model", 0, READING, SETTINGS),
        ("bare", 0, ("reranker",), {}),
        ("other", 1, READING, SETTINGS),
    ):
        encoder = tiny_encoder(home / f"backbone-{name}", seed=seed)
        encoder.save(home / name / "retriever")
        reading.save(home / name / "reading")
        write_model(home / name, {"retriever": "retriever", **dict.fromkeys(components, "reading")}, settings)
        Index.build(home / f"{name}.index", CORPUS, encoder, bits=4)
    return home


@pytest.fixture
def baleen(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Baleen:
    """Run `verify` or `ask` in an empty folder, over the model and index of this name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run(command: str, *arguments: str, model: str = "model") -> Done:
        capfd.readouterr()
        places = ("--model", str(home / model), "--index", str(home / f"{model}.index"))
        monkeypatch.setattr("sys.argv", ["baleen", command, *arguments, *places])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        printed = capfd.readouterr()
        return Done(int(stop.value.code or 0), printed.out, printed.err)

    return run


def write_claims(path: str, count: int) -> list[dict[str, Any]]:
    claims = [{"id": f"c{n}", "claim": f"{CORPUS[n % len(CORPUS)].title} is number {n}."} for n in range(count)]
    Path(path).write_text("".join(json.dumps(claim) + "\n" for claim in claims))
    return claims


def ids(path: str) -> list[str]:
    return [json.loads(line)["id"] for line in Path(path).read_text("utf-8").splitlines()]


def texts(document: dict[str, Any]) -> list[str]:
    """The final facts of a document."""
    return [document["facts"][each["fact"]]["text"] for each in document["final"]]


def test_json_prints_one_document_and_nothing_else(baleen: Baleen) -> None:
    done = baleen("verify", CLAIM, "--json")
    assert (done.code, done.err) == (0, "")
    assert set(done.json) == KEYS | {"options"}
    check_schema(done.json)
    assert (done.json["query"], done.json["untrained"], done.json["stopped"]) == (CLAIM, [], "")
    verdict = Trace.from_json(done.json).outcome
    assert isinstance(verdict, Verdict)
    assert set(verdict.probabilities) == {"supported", "not supported"}
    assert verdict.probability == max(verdict.probabilities.values()) == verdict.probabilities[verdict.label]
    assert len(done.json["hops"]) == 2
    assert done.json["seconds"] > 0


def test_facts_passages_and_hops_agree(baleen: Baleen) -> None:
    found = baleen("verify", CLAIM, "--json").json
    trace = Trace.from_json(found)
    facts = trace.facts
    assert [fact.hop for fact in facts] == [2, 2]
    for fact in facts:
        assert next(p for p in CORPUS if p.pid == fact.pid).sentences[fact.sid] == fact.text
    carrying = {fact.pid for fact in facts}
    passages = found["passages"]
    assert [set(passage) for passage in passages] == [{"pid", "title", "score", "hop", "rank", "fact_score"}] * 6
    assert {passage["pid"] for passage in passages[: len(carrying)]} == carrying
    assert all((passage["fact_score"] is not None) == (passage["pid"] in carrying) for passage in passages)
    for passage in passages:
        hit = found["hops"][passage["hop"] - 1]["passages"][passage["rank"] - 1]
        assert (hit["pid"], hit["score"]) == (passage["pid"], passage["score"])
    for told, hop in zip(found["hops"], trace.hops, strict=True):
        assert told["words"] == hop.words > 0


def test_an_answer_names_the_sentence_it_stands_in(baleen: Baleen) -> None:
    done = baleen("ask", "Who is the mayor of Vardal?", "--json")
    assert (done.code, set(done.json)) == (0, KEYS | {"options"})
    answer = Trace.from_json(done.json).outcome
    assert isinstance(answer, Answer)
    assert answer.text in ("yes", "no") or any(
        (answer.pid, answer.sid) == (fact.pid, fact.sid) for fact in Trace.from_json(done.json).facts
    )


def test_a_person_reads_the_chain(baleen: Baleen) -> None:
    done = baleen("verify", CLAIM)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == f"Claim: {CLAIM}"
    for number in (1, 2):
        (head,) = [line for line in lines if line.startswith(f"Hop {number}  3 passages in ")]
        assert sum(passage.title in head for passage in CORPUS) >= 3
    found = baleen("verify", CLAIM, "--json").json
    for hop in Trace.from_json(found).hops:
        for fact in hop.facts:
            assert any(line.strip().endswith(fact.text) for line in lines)
    assert "  Dropped\n" in done.out
    assert "over the limit of 2 facts" in done.out
    assert f"Verdict: {found['outcome']['label']}, probability " in done.out
    reported = done.out.partition("Facts reported with the verdict\n")[2]
    assert all(f"{fact.title}: {fact.text}\n" in reported for fact in Trace.from_json(found).facts)
    assert f"2 facts, {found['hops'][-1]['words']} words of context, " in done.out
    assert "untrained" not in done.out
    assert "\x1b" not in done.out
    assert max(map(len, lines)) > 80


def test_facts_added_from_earlier_hops_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    old, joined, new = CORPUS[0].fact(1, 2.0, 1), CORPUS[1].fact(0, -3.0, 1), CORPUS[2].fact(0, 1.0, 2)
    judged = tuple(Judgement(fact.pid, fact.sid, None, fact.score, kept=True) for fact in (old, joined, new))

    def told(*facts: Fact, judgements: tuple[Judgement, ...] = judged) -> str:
        hop = Hop(Query(CLAIM, (old,)), condensed=Condensed(facts, judgements))
        Chain(VERIFY).hop(2, hop)
        return capsys.readouterr().out

    added = f"  Added from passages of earlier hops\n     -3.00  {joined.title}: {joined.text}\n"
    assert told(joined, old).endswith("0 new facts kept in 0.0 ms, beside 1 of earlier hops\n" + added)
    assert "Added" not in told(old, new)
    assert "Added" not in told(joined, judgements=()), "one half of a hybrid run may go on after the other has stopped"


def test_reported_facts_below_the_thresholds_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    kept, added = CORPUS[0].fact(0, 2.0, 1), CORPUS[1].fact(0, -3.0, 1)
    judgement = Judgement(added.pid, added.sid, 1.0, added.score, kept=True, reason=f"{FILLER}, as fewer ...")
    trace = Trace(Query(CLAIM), hops=(Hop(Query(CLAIM), condensed=Condensed((kept, added), (judgement,))),))
    Chain(VERIFY).end(trace, 1.0)
    lines = capsys.readouterr().out.splitlines()
    marked = [line.endswith("(added below the thresholds: too few passages supplied facts)") for line in lines]
    assert [line.split()[0] for line, each in zip(lines, marked, strict=True) if each] == ["-3.00"]


def test_a_person_reads_the_answer(baleen: Baleen) -> None:
    done = baleen("ask", "Who is the mayor of Vardal?", "-k", "2,4", "--pipeline", "hybrid")
    assert done.code == 0
    assert done.out.startswith("Question: Who is the mayor of Vardal?\n")
    assert "Answer: " in done.out
    assert "Hop 2  4 passages" in done.out


def test_options_outrank_the_settings_of_the_model(baleen: Baleen) -> None:
    found = baleen("verify", CLAIM, "-k", "1,2,3", "--hops", "3", "--pipeline", "rerank", "--json").json
    assert [len(hop["passages"]) for hop in found["hops"]] == [1, 2, 3]
    assert [fact.sid for fact in Trace.from_json(found).facts] == [-1, -1, -1]
    assert len(baleen("verify", CLAIM, "-k", "2", "--json").json["hops"]) == 2


@pytest.mark.parametrize("pipeline", ["condense", "hybrid"])
def test_thresholds_override_the_model_and_are_in_the_json(baleen: Baleen, pipeline: str) -> None:
    arguments = ("verify", CLAIM, "--pipeline", pipeline, "--json")
    found = baleen(*arguments, "--keep", "1e6", "--judgements").json
    assert (found["final"], found["options"]["keep"]) == ([], 1e6)
    reasons = {each["reason"] for hop in found["hops"] for each in hop["judgements"]}
    assert "not above the threshold of 1e+06" in reasons
    lower = baleen(*arguments, "--keep", "-1000").json
    usual = baleen(*arguments).json
    assert texts(lower) == texts(usual)
    assert (lower["options"]["keep"], "keep" in usual["options"]) == (-1000.0, False)


def test_keep_holds_on_the_way_and_final_at_the_end(baleen: Baleen) -> None:
    found = baleen("verify", CLAIM, "--keep", "-1e6", "--final", "1e6", "--json").json
    assert [bool(hop["facts"]) for hop in found["hops"]] == [True, False]
    assert (texts(found), found["options"]) == ([], {"keep": -1e6, "final": 1e6})


def test_borderline_facts_are_read_but_not_reported(baleen: Baleen) -> None:
    found = baleen("verify", CLAIM, "--keep", "-1e6", "--read", "-1e6", "--final", "1e6", "--json").json
    assert (texts(found), found["options"]["read"]) == ([], -1e6)
    read = baleen("verify", CLAIM, "--keep", "-1e6", "--json").json
    assert read["borderline"] == []
    assert Trace.from_json(found).borderline == Trace.from_json(read).facts
    assert found["outcome"] == read["outcome"], "the verdict is read off the same facts"
    assert found["hops"][-1]["words"] == read["hops"][-1]["words"]
    shown = baleen("verify", CLAIM, "--keep", "-1e6", "--read", "-1e6", "--final", "1e6").out
    hops, _, borderline = shown.partition("Borderline facts: seen by the reader, not reported\n")
    assert all(f"{fact.title}: {fact.text}" in borderline for fact in Trace.from_json(read).facts)
    assert "  Dropped\n" in hops.partition("Hop 2")[2], "what the last hop dropped for them"
    assert f"\n0 facts, {len(read['final'])} borderline, " in shown


def test_passages_are_ranked_by_evidence_on_request(baleen: Baleen) -> None:
    found = baleen("verify", CLAIM, "--ranked-by", "evidence", "--json", "--judgements").json
    weighed = {
        (each["pid"], each["sid"])
        for hop in found["hops"]
        for each in hop["judgements"]
        if each["fact_score"] is not None
    }
    ranks = [any(pid == passage["pid"] for pid, _ in weighed) for passage in found["passages"]]
    assert ranks == sorted(ranks, reverse=True), "what was weighed comes first"
    assert "--ranked-by" in baleen("verify", CLAIM, "--ranked-by", "luck").err


def test_mentions_are_boosted_on_request(baleen: Baleen) -> None:
    found = baleen("verify", CLAIM, "-k", "1,2", "--mention-boost", "1000", "--json").json
    assert [hop.mentioned for hop in Trace.from_json(found).hops] == [{"p0": ""}, {"p1": "p0", "p5": "p0"}]
    assert min(hit["score"] for hop in found["hops"] for hit in hop["passages"]) > 1000
    for more in ((), ("--mention-boost", "0")):
        usual = baleen("ask", CLAIM, "-k", "1,2", *more, "--json").json
        assert [hop.mentioned for hop in Trace.from_json(usual).hops] == [{}, {}]


def test_mention_boost_is_part_of_a_run(baleen: Baleen) -> None:
    write_claims("claims.jsonl", 2)
    arguments = ["verify", "--file", "claims.jsonl"]
    lines = baleen(*arguments, "--mention-boost", "2").lines
    assert [line["run"]["mention_boost"] for line in lines] == [2.0, 2.0]
    for line in baleen(*arguments, "--mention-boost", "0").lines:
        assert "mention_boost" not in line["run"], "results of before names were followed are taken up, too"
    assert baleen(*arguments, "--mention-boost", "2", "--out", "out.jsonl").code == 0
    before = Path("out.jsonl").read_bytes()
    for more, part in (([], "is None"), (["--mention-boost", "0"], "is None"), (["--mention-boost", "2.5"], "is 2.5")):
        done = baleen(*arguments, *more, "--out", "out.jsonl")
        assert (done.code, done.out) == (ConfigError.exit_code, "")
        assert f"mention_boost was 2.0, and {part}" in done.err
    assert baleen(*arguments, "--mention-boost", "2.0", "--out", "out.jsonl").code == 0
    assert Path("out.jsonl").read_bytes() == before


def test_an_infinite_mention_boost_is_refused(baleen: Baleen) -> None:
    done = baleen("verify", CLAIM, "--mention-boost", "inf")
    assert (done.code, done.out) == (ConfigError.exit_code, "")
    assert "mention_boost = inf should be a number, 0 or above" in done.err


def test_untrained_runs_take_thresholds(baleen: Baleen) -> None:
    options = ("--untrained", "--hops", "1", "--json")
    assert baleen("ask", CLAIM, *options, "--keep", "1e6", model="bare").json["final"] == []
    assert len(baleen("ask", CLAIM, *options, "--keep", "-1e6", model="bare").json["final"]) == 2


def test_a_corpus_that_runs_out_ends_the_run(baleen: Baleen) -> None:
    done = baleen("verify", CLAIM, "-k", "99", "--hops", "4")
    assert "stopped early: no passage was left at hop 2" in done.out
    assert "Hop 3" not in done.out


def test_untrained_and_missing_parts_are_reported(baleen: Baleen) -> None:
    shown = baleen("verify", CLAIM, "--untrained", "--hops", "2", "-k", "3", model="bare")
    assert shown.code == 0
    assert "untrained: condenser (reranker scores are used instead)\n" in shown.out
    assert (
        "no verdict: the model has no verifier; train one with `baleen train CONFIG.toml --stage verifier`" in shown.out
    )
    asked = baleen("ask", CLAIM, "--untrained", "--hops", "1", "--json", model="bare")
    assert (asked.json["outcome"], asked.json["untrained"]) == (None, ["condenser"])


def test_judgements_are_in_the_json_on_request(baleen: Baleen) -> None:
    plain, full = (baleen("verify", CLAIM, "--json", *more).json for more in ((), ("--judgements",)))
    assert not any("judgements" in hop for hop in plain["hops"])
    assert all(hop["judgements"] for hop in full["hops"])
    Path("claims.jsonl").write_text(json.dumps({"claim": CLAIM}) + "\n")
    (line,) = baleen("verify", "--file", "claims.jsonl", "--judgements").lines
    assert all(hop["judgements"] for hop in line["hops"])
    assert line["run"]["judgements"] is True


def test_explanations_cover_every_passage_with_a_fact(baleen: Baleen) -> None:
    found = baleen("verify", CLAIM, "--json", "--explain", "--pipeline", "hybrid").json
    assert set(found) == KEYS | {"options", "explanations"}
    explained = found["explanations"]
    assert {each["pid"] for each in explained} == {fact.pid for fact in Trace.from_json(found).facts}
    for each in explained:
        counted = [match["score"] for match in each["matches"] if match["counted"]]
        assert sum(counted) == pytest.approx(each["score"], rel=1e-4)
    shown = baleen("verify", CLAIM, "--explain").out
    assert "query: " in shown.rpartition("words of context")[2]


def test_each_refusal_has_its_own_exit_code(baleen: Baleen) -> None:
    write_claims("claims.jsonl", 2)
    refusals = [
        (["verify"], 2, "expected one claim, or a file"),
        (["verify", CLAIM, "--file", "claims.jsonl"], 2, "expected one claim, or a file"),
        (["verify", CLAIM, "--out", "out.jsonl"], 2, "--out takes"),
        (["verify", "--file", "claims.jsonl", "--json"], 2, "JSON lines"),
        (["verify", CLAIM, "--judgements"], 2, "--judgements is for JSON"),
        (["verify", "--file", "claims.jsonl", "--out", "nowhere/out.jsonl"], 2, "no folder nowhere"),
        (["verify", "--file", "nowhere.jsonl"], 2, "nowhere.jsonl"),
        (["verify", CLAIM, "-k", "ten"], 2, "should be a number"),
        (["verify", CLAIM, "-k", "3,0"], 2, "at least 1"),
        (["verify", CLAIM, "--hops", "0"], 2, "--hops"),
        (["verify", CLAIM, "--pipeline", "guess"], 2, "--pipeline"),
        (["verify", CLAIM, "--keep", "high"], 2, "--keep"),
        (["verify", CLAIM, "--keep", "nan"], ConfigError.exit_code, "keep = nan, which should be a finite number"),
        (["verify", CLAIM, "--keep", "1", "--final", "0"], ConfigError.exit_code, "expected keep <= read <= final"),
        (["verify", CLAIM, "--read", "3", "--final", "2"], ConfigError.exit_code, "expected keep <= read <= final"),
        (["verify", CLAIM, "--keep", "1,2"], 2, "--keep"),
        (["ask", CLAIM, "--keep", "-1", "--pipeline", "rerank"], ConfigError.exit_code, "pipeline = 'rerank' has none"),
        (["verify", CLAIM, "--mention-boost", "-1"], 2, "--mention-boost"),
        (["ask", CLAIM, "--mention-boost", "much"], 2, "--mention-boost"),
        (["ask", "  "], QueryError.exit_code, "empty"),
        (["ask", "\udcff"], QueryError.exit_code, "unpaired surrogate"),
    ]
    for arguments, code, part in refusals:
        done = baleen(*arguments, model="nowhere")
        assert (done.code, done.out) == (code, ""), arguments
        assert part in done.said
    for model, code, part in (
        ("nowhere", IndexNotFoundError.exit_code, "nowhere.index: no index here"),
        ("bare", CheckpointError.exit_code, "--stage verifier"),
    ):
        done = baleen("verify", CLAIM, model=model)
        assert (done.code, done.out) == (code, "")
        assert part in done.said


BAD = {
    "no JSON": "not json",
    "a list": '[{"claim": "x"}]',
    "no text": '{"id": 2}',
    "a text that is none": '{"claim": 3}',
    "an empty claim": '{"claim": " "}',
    "unpaired surrogate": '{"claim": "\\ud800"}',
    "an id that is none": '{"id": [1], "claim": "x"}',
    "an id that is there": '{"uid": "1", "claim": "x"}',
}


@pytest.mark.parametrize("line", BAD.values(), ids=BAD.keys())
def test_a_bad_line_is_named_before_anything_is_computed(baleen: Baleen, line: str) -> None:
    Path("bad.jsonl").write_text('{"claim": "x"}\n' + line + "\n")
    done = baleen("verify", "--file", "bad.jsonl", "--out", "out.jsonl", model="nowhere")
    assert (done.code, done.out) == (DatasetError.exit_code, "")
    assert done.err.startswith("error: bad.jsonl:2: ")
    assert done.err.count("\n") == 1
    assert not Path("out.jsonl").exists()


def test_compressed_results_are_refused(baleen: Baleen) -> None:
    Path("claims.jsonl").write_text('{"claim": "x"}\n')
    done = baleen("verify", "--file", "claims.jsonl", "--out", "out.jsonl.gz", model="nowhere")
    assert (done.code, done.out) == (ConfigError.exit_code, "")
    assert "out.jsonl.gz: would not be compressed" in done.err


def test_an_empty_file_and_a_bad_list_are_named(baleen: Baleen) -> None:
    Path("empty.jsonl").write_text("\n")
    assert "empty.jsonl: an empty file" in baleen("verify", "--file", "empty.jsonl").err
    Path("bad.json").write_text('[{"claim": "x"},\n {"no": "claim"}]')
    assert "bad.json: record 2: " in baleen("verify", "--file", "bad.json").err
    Path("broken.json").write_text('[{"claim": "x"},')
    assert baleen("verify", "--file", "broken.json").code == DatasetError.exit_code


def test_a_file_goes_to_standard_output_as_lines(baleen: Baleen) -> None:
    records = [{"question": "whales?"}, {"qid": 7, "text": "Who sings?"}, {"_id": "x", "claim": "Tromsk is a town."}]
    Path("list.json").write_text(json.dumps(records, indent=1))
    done = baleen("ask", "--file", "list.json", "--batch-size", "2")
    assert (done.code, done.err) == (0, "")
    assert [(line["id"], line["query"]) for line in done.lines] == [
        ("1", "whales?"),
        ("7", "Who sings?"),
        ("x", "Tromsk is a town."),
    ]
    assert all(set(line) == KEYS | {"id", "run"} for line in done.lines)


def test_a_file_and_one_claim_come_to_the_same(baleen: Baleen) -> None:
    claims = write_claims("claims.jsonl", 3)
    lines = baleen("verify", "--file", "claims.jsonl", "--explain").lines
    alone = baleen("verify", claims[1]["claim"], "--json", "--explain").json
    assert texts(lines[1]) == texts(alone)
    assert lines[1]["outcome"]["probability"] == pytest.approx(alone["outcome"]["probability"], abs=1e-4)
    assert len(lines[1]["explanations"]) == len(alone["explanations"])


def test_untrained_parts_are_reported_once_on_standard_error(baleen: Baleen, caplog: pytest.LogCaptureFixture) -> None:
    write_claims("claims.jsonl", 3)
    done = baleen("verify", "--file", "claims.jsonl", "--untrained", "-k", "2", "--batch-size", "1", model="bare")
    assert len(done.lines) == 3
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["untrained", "no verdict"]


def test_a_killed_run_is_resumed(baleen: Baleen, home: Path) -> None:
    claims = write_claims("claims.jsonl", 40)
    arguments = ["verify", "--file", "claims.jsonl", "--out", "out.jsonl"]
    places = ["--model", str(home / "model"), "--index", str(home / "model.index")]
    process = subprocess.Popen(
        [sys.executable, "-m", "baleen", *arguments, *places, "--batch-size", "1"], stderr=subprocess.PIPE
    )
    out = Path("out.jsonl")
    try:
        deadline = time.monotonic() + 120
        while not (out.exists() and out.read_bytes().count(b"\n") >= 3):
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    killed_at = out.read_bytes().count(b"\n")
    assert 3 <= killed_at < 40
    done = baleen(*arguments)
    assert (done.code, done.out) == (0, "")
    assert ids("out.jsonl") == [claim["id"] for claim in claims]


def test_a_partial_last_line_is_removed(baleen: Baleen) -> None:
    claims = write_claims("claims.jsonl", 3)
    assert baleen("verify", "--file", "claims.jsonl", "--out", "out.jsonl").code == 0
    whole = Path("out.jsonl").read_bytes()
    ends = [0, *(place + 1 for place, byte in enumerate(whole) if byte == ord("\n"))]
    for end in (5, ends[1] + 1000, len(whole) - 1):
        Path("out.jsonl").write_bytes(whole[:end])
        assert baleen("verify", "--file", "claims.jsonl", "--out", "out.jsonl").code == 0
        assert ids("out.jsonl") == [claim["id"] for claim in claims]
        kept = max(place for place in ends if place <= end)
        assert Path("out.jsonl").read_bytes()[:kept] == whole[:kept]


def test_a_finished_file_stays_and_a_longer_one_is_completed(baleen: Baleen) -> None:
    write_claims("claims.jsonl", 2)
    baleen("verify", "--file", "claims.jsonl", "--out", "out.jsonl")
    before = Path("out.jsonl").read_bytes()
    assert baleen("verify", "--file", "claims.jsonl", "--out", "out.jsonl", "--batch-size", "1").code == 0
    assert Path("out.jsonl").read_bytes() == before
    write_claims("claims.jsonl", 4)
    baleen("verify", "--file", "claims.jsonl", "--out", "out.jsonl")
    assert Path("out.jsonl").read_bytes().startswith(before)
    assert ids("out.jsonl") == ["c0", "c1", "c2", "c3"]


def test_results_of_other_settings_are_refused(baleen: Baleen) -> None:
    write_claims("claims.jsonl", 2)
    arguments = ["--file", "claims.jsonl", "--out", "out.jsonl"]
    assert baleen("verify", *arguments).code == 0
    before = Path("out.jsonl").read_bytes()
    for command, more, model, part in (
        ("ask", [], "model", "command was verify, and is ask"),
        ("verify", ["--pipeline", "rerank"], "model", "pipeline was condense, and is rerank"),
        ("verify", ["--hops", "3"], "model", "k was [3, 3], and is [3, 3, 3]"),
        ("verify", ["--explain"], "model", "explain was False, and is True"),
        ("verify", ["--judgements"], "model", "judgements was None, and is True"),
        ("verify", ["--keep", "-2"], "model", "keep was None, and is -2.0"),
        ("verify", ["--ranked-by", "evidence"], "model", "ranked_by was hops, and is evidence"),
        ("verify", ["--mention-boost", "2"], "model", "mention_boost was None, and is 2.0"),
        ("verify", [], "other", "index was "),
    ):
        done = baleen(command, *arguments, *more, model=model)
        assert (done.code, done.out) == (ConfigError.exit_code, "")
        assert done.err.startswith("error: out.jsonl:1: made by another run (")
        assert part in done.err
    Path("claims.jsonl").write_text('{"id": "c1", "claim": "Something else."}\n')
    assert "'c1' is of another text" in baleen("verify", *arguments).err
    assert Path("out.jsonl").read_bytes() == before


@pytest.mark.parametrize("content", [b"my notes", b"my notes\n", b'{"id": "c0", "claim": "x"}', b"{}\n[]\n"])
def test_a_file_that_holds_something_else_is_left_alone(baleen: Baleen, content: bytes) -> None:
    write_claims("claims.jsonl", 1)
    Path("out.jsonl").write_bytes(content)
    done = baleen("verify", "--file", "claims.jsonl", "--out", "out.jsonl")
    assert (done.code, Path("out.jsonl").read_bytes()) == (ConfigError.exit_code, content)
    assert "out.jsonl:1: " in done.err


def test_two_processes_do_not_write_to_one_file(baleen: Baleen) -> None:
    import fcntl

    write_claims("claims.jsonl", 1)
    with Path("out.jsonl").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = baleen("verify", "--file", "claims.jsonl", "--out", "out.jsonl")
    assert (done.code, os.path.getsize("out.jsonl")) == (ConfigError.exit_code, 0)
    assert "another process" in done.err


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom baleen.cli.app import main\nsys.argv = ['baleen', 'verify', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(*{'torch', 'transformers', 'numba', 'numpy'} & sys.modules.keys(), file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--untrained" in run.stdout
    assert run.stderr.split() == []


def test_every_run_option_is_an_option_of_the_command_line() -> None:
    assert {field.name for field in fields(HopOptions)} == {field.name for field in fields(RunConfig)}
