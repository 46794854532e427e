from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path
from threading import Barrier
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
import torch

from baleen.core.errors import CheckpointError, ConfigError, EncoderMismatchError, QueryError, StoredIndexError
from baleen.core.types import Answer, Fact, Passage, Query, Trace, Verdict
from baleen.hops import demo
from baleen.hops.condenser import Condenser, RelevanceCondenser
from baleen.hops.config import CondenserConfig, Pipeline, RunConfig, RunOptions
from baleen.hops.pipeline import Condensing, read_outcomes, run_hops
from baleen.hops.readers import Answerer, Verifier
from baleen.hops.reranker import Reranker
from baleen.hops.retriever import Retriever
from baleen.index.index import Index
from baleen.models import folder
from baleen.models.cross_encoder import HEADS, CrossEncoder
from baleen.models.encoder import Encoder
from baleen.models.folder import ModelFolder, read_model, write_model
from baleen.system import Baleen
from fakes import CORPUS, bert_folder, tiny_encoder
from hop_fakes import CLAIM
from index_fakes import slow_scores
from schema_fakes import check_schema

pytestmark = pytest.mark.usefixtures("one_thread")

PIPELINES = get_args(Pipeline)
CLAIMS = [CLAIM, "whales", "The Deep Choir was written by a former cellist who is the mayor of a harbour town."]
READING = dict.fromkeys(HEADS, "reading")
SETTINGS = {"run": {"hops": 3, "k": 2}}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`model`, one whole model whose heads share a backbone; `index`, of the eight passages."""
    root = tmp_path_factory.mktemp("system")
    encoder = tiny_encoder(root / "fake")
    encoder.dtype = torch.float32
    encoder.save(root / "model" / "retriever")
    reading = CrossEncoder.from_backbone(bert_folder(root / "cross", seed=1), dtype=torch.float32)
    centre(reading)
    reading.save(root / "model" / "reading")
    write_model(root / "model", {"retriever": "retriever", **READING}, SETTINGS)
    Index.build(root / "index", CORPUS, encoder, bits=4)
    return root


def centre(reading: CrossEncoder) -> None:
    """Spread the scores of the random heads, and shift them so that about half of the sentences score above 0."""
    query, inputs = Query(CLAIM), reading.inputs
    marked = [row for passage in CORPUS for row in inputs.sentences(query, passage)]
    alone = [inputs.sentence(query, passage.title, text) for passage in CORPUS for text in passage.sentences]
    for head, rows in (("sentences", marked), ("facts", marked), ("reranker", alone)):
        output = reading.model.heads[head].output
        with torch.no_grad():
            output.weight *= 20
            output.bias -= float(np.median(np.concatenate(reading.score(head, rows))))


@pytest.fixture(scope="module")
def baleen(home: Path) -> Baleen:
    return Baleen.load(home / "model", home / "index")


@pytest.fixture(scope="module")
def parts(home: Path) -> tuple[Retriever, CrossEncoder]:
    """The retriever and the reading of the model, in float32 on any machine."""
    retriever = Retriever.load(home / "model", home / "index")
    retriever.encoder.dtype = torch.float32
    retriever.encoder.model.backbone.float()
    return retriever, CrossEncoder.load(home / "model" / "reading", dtype=torch.float32)


def over(home: Path, folder: Path, passages: Sequence[Passage]) -> Baleen:
    """The model over an index of other passages."""
    retriever = Retriever.load(home / "model", home / "index")
    index = Index.build(folder, passages, retriever.encoder, bits=4)
    return Baleen(read_model(home / "model"), Retriever(retriever.encoder, index))


def scores(trace: Trace) -> list[float]:
    """Every score of a run, in order."""
    hits = [hit.score for hop in trace.hops for hit in (*hop.ranking, *hop.condensed.chosen)]
    judged = [
        score
        for hop in trace.hops
        for each in hop.condensed.judgements
        for score in (each.sentence_score, each.fact_score)
        if score
    ]
    outcome = trace.outcome.probability if isinstance(trace.outcome, Verdict) else getattr(trace.outcome, "score", 0.0)
    return [*hits, *judged, *(fact.score for fact in trace.facts), outcome]


def steps(trace: Trace) -> list[Any]:
    """What a run did, without its scores and its times."""
    return [
        (
            hop.encoded_query,
            hop.excluded,
            hop.ranking.pids,
            [(fact.pid, fact.sid, fact.hop) for fact in hop.facts],
            hop.tokens,
        )
        for hop in trace.hops
    ]


# Whole runs


def test_a_claim_is_verified_and_a_question_answered(baleen: Baleen) -> None:
    verified, answered = baleen.verify(CLAIM), baleen.ask(CLAIM)
    assert isinstance(verified.outcome, Verdict)
    assert sum(verified.outcome.probabilities.values()) == pytest.approx(1.0)
    assert isinstance(answered.outcome, Answer)
    assert steps(verified) == steps(answered)
    for trace in (verified, answered):
        assert trace.query == Query(CLAIM)
        assert [len(hop.ranking) for hop in trace.hops] == [2, 2, 2]
        assert len(set(trace.pids)) == 6
        assert trace.facts, "something is found by these weights, so that the tests below have something to compare"
        assert trace.untrained == ()


@pytest.mark.parametrize("pipeline", ["condense", "rerank", "hybrid"])
def test_a_real_trace_goes_to_json_and_back(baleen: Baleen, pipeline: str) -> None:
    for trace in (baleen.verify(CLAIM, pipeline=pipeline), baleen.ask(CLAIM, pipeline=pipeline)):
        document = json.loads(json.dumps(trace.to_json(judgements=True)))
        assert Trace.from_json(document) == trace
        check_schema(document)
        check_schema(trace.to_json())


def test_every_stage_has_its_seconds_and_tokens(baleen: Baleen) -> None:
    for pipeline, stages in (("condense", {"sentences", "facts"}), ("rerank", {"reranker"})):
        trace = baleen.verify(CLAIM, pipeline=pipeline)
        assert trace.seconds.keys() == {"read"}
        for hop in trace.hops:
            assert hop.seconds.keys() == {"encode", "search"}
            assert hop.condensed.seconds.keys() == hop.condensed.tokens.keys() == stages
            assert all(spent > 0 for spent in (*hop.seconds.values(), *hop.condensed.seconds.values()))
            assert hop.tokens["encode"] >= 64
            assert all(count > 0 for count in hop.condensed.tokens.values())


@pytest.mark.parametrize("pipeline", ["condense", "rerank"])
@pytest.mark.parametrize("reader", [Verifier, Answerer])
def test_claims_of_a_batch_come_out_as_they_would_alone(
    parts: tuple[Retriever, CrossEncoder], pipeline: str, reader: Any
) -> None:
    retriever, reading = parts

    def finished(*claims: str) -> list[Trace]:
        condenser: Condensing = Condenser(reading, reading) if pipeline == "condense" else Reranker(reading)
        *_, traces = run_hops([Query(claim) for claim in claims], retriever, condenser, [3, 2, 2])
        return read_outcomes(traces, reader(reading))

    together, alone = finished(*CLAIMS), [finished(claim)[0] for claim in CLAIMS]
    assert [steps(trace) for trace in together] == [steps(trace) for trace in alone]
    for found, expected in zip(together, alone, strict=True):
        np.testing.assert_allclose(scores(found), scores(expected), atol=1e-3)
        assert getattr(found.outcome, "text", "") == getattr(expected.outcome, "text", "")
    assert any(trace.facts for trace in alone)


def test_the_scores_of_a_trace_follow_from_its_queries(parts: tuple[Retriever, CrossEncoder]) -> None:
    retriever, reading = parts
    *_, (trace,) = run_hops([Query(CLAIM)], retriever, Condenser(reading, reading), [3, 3])
    assert trace.hops[1].query.facts
    for hop in trace.hops:
        (vectors,) = retriever.encoder.encode_queries([hop.query])
        everywhere = [pid for pid in retriever.index.pids() if pid not in hop.excluded]
        expected = slow_scores(retriever.index, vectors, everywhere, retriever.encoder.focus)
        assert [hit.score for hit in hop.ranking] == pytest.approx(
            [expected[pid] for pid in hop.ranking.pids], abs=1e-4
        )
        assert min(hit.score for hit in hop.ranking) >= sorted(expected.values())[-3] - 1e-4, "the best were taken"
        assert hop.encoded_query == retriever.encoder.inputs.decode_query(
            retriever.encoder.inputs.query_ids([hop.query])[0]
        )


def test_a_passages_shown_tokens_are_as_many_as_its_vectors(parts: tuple[Retriever, CrossEncoder]) -> None:
    retriever, _ = parts
    for passage in CORPUS:
        shown = retriever.encoder.inputs.passage_tokens(passage)
        assert len(shown) == len(retriever.index.vectors(passage.pid))


def test_hops_come_one_by_one_and_a_reader_ends_them(baleen: Baleen) -> None:
    running = baleen.hops([CLAIM, "whales"])
    assert [len(trace.hops) for trace in next(running)] == [1, 1]
    *_, traces = running
    reader = baleen.reader("verifier")
    assert reader is not None
    assert steps(read_outcomes(traces, reader)[0]) == steps(baleen.verify(CLAIM))


@pytest.mark.parametrize("pipeline", ["condense", "rerank", "hybrid"])
def test_a_stream_has_the_trace_after_each_hop_and_last_the_outcome(baleen: Baleen, pipeline: Any) -> None:
    for task, run in (("verify", baleen.verify), ("ask", baleen.ask)):
        streamed = list(baleen.stream(CLAIM, task, pipeline=pipeline))  # type: ignore[arg-type]
        found = [(len(trace.hops), trace.outcome is None) for trace in streamed]
        assert found == [(1, True), (2, True), (3, True), (3, False)]
        whole = run(CLAIM, pipeline=pipeline)
        assert (steps(streamed[-1]), streamed[-1].outcome) == (steps(whole), whole.outcome)
        assert streamed[-1].ranked_by == whole.ranked_by


def test_many_texts_stream_together(baleen: Baleen) -> None:
    *hops, last = baleen.stream_many([CLAIM, "whales"], "ask", hops=2)
    assert [[len(trace.hops) for trace in traces] for traces in hops] == [[1, 1], [2, 2]]
    assert [type(trace.outcome) for trace in last] == [Answer, Answer]


def test_a_stream_ends_where_the_run_stops(baleen: Baleen) -> None:
    streamed = list(baleen.stream(CLAIM, k=25, hops=4))
    assert [len(trace.hops) for trace in streamed] == [1, 2, 2]
    assert all(trace.stopped for trace in streamed[1:])
    assert streamed[-1].outcome is not None


def test_every_hop_has_the_titles_of_its_passages(baleen: Baleen) -> None:
    titles = {passage.pid: passage.title for passage in CORPUS}
    for pipeline in PIPELINES:
        trace = baleen.verify(CLAIM, pipeline=pipeline)
        for hop in (hop for each in (trace, *trace.parts) for hop in each.hops):
            assert hop.titles == {pid: titles[pid] for pid in hop.ranking.pids}


@pytest.mark.parametrize("call", ["verify", "ask", "stream", "verify_many", "ask_many", "stream_many", "hops"])
def test_a_misspelt_option_is_refused_before_anything_is_loaded(
    home: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    system = Baleen.load(home / "model", home / "index")
    monkeypatch.setattr(CrossEncoder, "load", never)
    monkeypatch.setattr(Encoder, "encode_query_ids", never)
    text = [CLAIM] if call.endswith(("many", "hops")) else CLAIM
    with pytest.raises(ConfigError, match="there is no setting 'stop_erly'; did you mean 'stop_early'"):
        getattr(system, call)(text, stop_erly=True)
    with pytest.raises(ConfigError, match="the setting 'named_bonus' is now 'mention_boost'"):
        getattr(system, call)(text, named_bonus=2)
    with pytest.raises(ConfigError, match="there is no task 'verfy'; did you mean 'verify'"):
        system.stream(CLAIM, "verfy")  # type: ignore[arg-type]


def never(*_: Any, **__: Any) -> None:
    raise AssertionError("something was loaded or encoded")


def test_run_options_are_the_fields_of_the_run_config() -> None:
    assert get_type_hints(RunOptions).keys() == {field.name for field in fields(RunConfig)}


# Loading


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders of cross-encoders, as they are loaded."""
    folders, load = [], CrossEncoder.load

    def counted(folder: Path, **options: Any) -> CrossEncoder:
        folders.append(folder)
        return load(folder, **options)

    monkeypatch.setattr(CrossEncoder, "load", counted)
    return folders


def test_two_first_calls_at_once_load_each_folder_once(home: Path, loads: list[Path]) -> None:
    system, barrier = Baleen.load(home / "model", home / "index"), Barrier(2)

    def run(_: int) -> Trace:
        barrier.wait()
        return system.verify(CLAIM)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(run, range(2))
    assert loads == [home / "model" / "reading"]
    assert steps(first) == steps(second)


def test_a_warm_system_loads_nothing_more(home: Path, loads: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    system = Baleen.load(home / "model", home / "index", warm=True)
    assert loads == [home / "model" / "reading"]
    asked: list[int] = []
    retrieve = Retriever.retrieve
    monkeypatch.setattr(
        Retriever, "retrieve", lambda self, queries, *rest: asked.append(len(queries)) or retrieve(self, queries, *rest)
    )
    system.verify(CLAIM)
    assert (len(loads), asked) == (1, [1, 1, 1])
    system.warm("ask")
    assert (len(loads), asked[3:]) == (1, [1, 1])


def test_a_model_without_readers_is_warmed_for_its_hops(home: Path, loads: list[Path]) -> None:
    components = dict.fromkeys(("sentences", "facts"), "reading")
    system = Baleen(ModelFolder(home / "model", components, SETTINGS), Retriever.load(home / "model", home / "index"))
    system.warm()
    assert loads == [home / "model" / "reading"]


def test_warming_refuses_a_task_without_its_reader(home: Path) -> None:
    with pytest.raises(CheckpointError, match="has no answerer"):
        Baleen.load(home / "model" / "retriever", home / "index").warm("ask")


def test_a_model_folder_and_an_index_are_read_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    opened: list[Path] = []
    read_json, open_index = folder.read_json, Index.open
    monkeypatch.setattr(folder, "read_json", lambda path: read.append(path) or read_json(path))
    monkeypatch.setattr(Index, "open", lambda root, **options: opened.append(root) or open_index(root, **options))
    Baleen.load(home / "model", home / "index")
    assert (read.count(home / "model" / "config.json"), opened) == (1, [home / "index"])


def test_a_hybrid_is_the_merge_of_the_other_two(baleen: Baleen) -> None:
    merged = baleen.verify(CLAIM, pipeline="hybrid")
    apart = [baleen.verify(CLAIM, pipeline=pipeline) for pipeline in ("condense", "rerank")]
    assert [steps(trace) for trace in merged.parts] == [steps(trace) for trace in apart]
    assert merged.facts == apart[0].facts
    assert len(set(merged.pids)) == len(merged.pids)
    assert merged.outcome == apart[0].outcome


# Claims and corpora of all kinds


@pytest.mark.parametrize(
    "claim",
    ["whale " * 5000, "座头鲸在格雷峡湾过冬。", "الحوت الأحدب يغني", "🐋🎶", "[MASK] [SEP] [unused0]", "\u200b", "?"],
    ids=["5000 words", "Chinese", "Arabic", "emoji", "special tokens", "nothing to see", "punctuation"],
)
def test_any_claim_that_is_not_empty_runs_through(baleen: Baleen, claim: str) -> None:
    for pipeline in ("condense", "rerank"):
        trace = baleen.verify(claim, pipeline=pipeline, hops=2)
        assert len(trace.hops) == 2
        assert trace.query.text == claim
        assert trace.outcome is not None


@pytest.mark.parametrize("claim", ["", " \n\t"])
def test_an_empty_claim_is_refused_before_anything_is_run(baleen: Baleen, claim: str) -> None:
    for refuse in (baleen.verify, baleen.ask):
        with pytest.raises(QueryError, match="empty"):
            refuse(claim)
    with pytest.raises(QueryError, match="empty"):
        baleen.hops(["whales", claim])
    with pytest.raises(QueryError, match="empty"):
        baleen.retriever.search(claim)


def test_an_unpaired_surrogate_is_refused(baleen: Baleen) -> None:
    """A lone surrogate, which Python makes of bytes that are not UTF-8."""
    search = baleen.retriever.search
    refusals: list[Callable[[], Any]] = [
        lambda: baleen.verify("a\udcff"),
        lambda: baleen.hops(["whales", "a\udcff"]),
        lambda: search("a\udcff"),
        lambda: search(Query("whales", (Fact("p0", 0, "a\udcff", "Whales sing."),))),
        lambda: search("whales", exclude=["p0", "a\udcff"]),
        lambda: search("whales", allow=["a\udcff"]),
    ]
    for refuse in refusals:
        with pytest.raises(QueryError, match=r"'a\\udcff' contains an unpaired surrogate"):
            refuse()
    assert len(search("whales", exclude=["nobody"])), "an id that is merely unknown is none to refuse"


def test_no_claims_no_traces(baleen: Baleen) -> None:
    assert baleen.verify_many([]) == []
    assert baleen.ask_many([], pipeline="hybrid") == []


@pytest.mark.parametrize("size", [1, 2, 10])
def test_a_corpus_smaller_than_k_is_read_whole(home: Path, tmp_path: Path, size: int) -> None:
    passages = [replace(CORPUS[number % 8], pid=f"q{number}") for number in range(size)]
    baleen = over(home, tmp_path / "index", passages)
    for pipeline in ("condense", "rerank", "hybrid"):
        trace = baleen.verify(CLAIM, pipeline=pipeline, k=25)
        assert sorted(trace.ranking().pids) == sorted(passage.pid for passage in passages)
        assert trace.stopped == "no passage was left at hop 2"


def test_eight_hops_gather_more_facts_than_the_encoder_can_read(parts: tuple[Retriever, CrossEncoder]) -> None:
    whole, reading = parts
    retriever = Retriever(whole.encoder.with_settings(facts_length=100), whole.index)
    everything = CondenserConfig(pool=20, keep=-1e9)
    *_, (trace,) = run_hops([Query(CLAIM)], retriever, Condenser(reading, reading, everything), [1] * 8)
    assert len(trace.hops) == 8
    assert len(trace.facts) == 16, "every sentence but the empty one"
    assert max(hop.tokens["encode"] for hop in trace.hops) <= 64 + 100
    inputs, last = retriever.encoder.inputs, trace.hops[-1]

    def is_read(fact: Fact) -> bool:
        return str(inputs.tokenizer.decode(inputs.tokenize([fact.text])[0])) in last.encoded_query

    assert all(is_read(fact) for fact in last.query.facts if fact.hop == 7)
    assert not all(is_read(fact) for fact in last.query.facts if fact.hop == 1)


def test_one_string_is_no_list_of_claims(home: Path, tmp_path: Path) -> None:
    system = over(home, tmp_path / "index", CORPUS)
    with pytest.raises(QueryError, match="where texts are expected; put it into a list"):
        system.verify_many(CLAIM)
    with pytest.raises(QueryError, match="where queries are expected; put it into a list"):
        system.retriever.search_many(CLAIM)


def test_an_unknown_reader_is_refused(home: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no reader 'verify'; there are verifier and answerer"):
        over(home, tmp_path / "index", CORPUS).reader("verify")


def test_passages_without_sentences_or_text_are_no_trouble(home: Path, tmp_path: Path) -> None:
    passages = [*CORPUS[:2], Passage("bare", "A title", ""), Passage("unsplit", "", "Text without sentences.")]
    trace = over(home, tmp_path / "index", passages).verify(CLAIM, k=4)
    assert set(trace.pids) == {"p0", "p1", "bare", "unsplit"}
    assert {fact.pid for fact in trace.facts} <= {"p0", "p1"}


# How a run is set up


@pytest.mark.parametrize(
    ("settings", "depths"),
    [
        ({}, (25, 25, 25, 25)),
        ({"hops": 2}, (25, 25)),
        ({"k": 10, "hops": 1}, (10,)),
        ({"k": (10, 40)}, (10, 40)),
        ({"k": [10, 40], "hops": 4}, (10, 40, 40, 40)),
        ({"k": (10, 20, 30), "hops": 2}, (10, 20)),
        ({"k": 3, "hops": 8}, (3,) * 8),
    ],
)
def test_each_hop_has_its_depth(settings: dict[str, Any], depths: tuple[int, ...]) -> None:
    assert RunConfig(**settings).depths == depths


@pytest.mark.parametrize(
    "settings",
    [
        {"hops": 0}, {"hops": -1}, {"k": 0}, {"k": ()}, {"k": (10, 0)}, {"k": (10, 40), "hops": -1}, {"k": "25"},
        {"k": 2.5}, {"hops": 1.5}, {"k": (10, 0), "hops": 1},
    ],
)  # fmt: skip
def test_depths_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="both should be whole numbers, at least 1"):
        RunConfig(**settings)


def test_a_pipeline_or_an_option_that_does_not_exist_is_named(baleen: Baleen) -> None:
    with pytest.raises(ConfigError, match="pipeline = 'condensed' should be one of condense, rerank, hybrid"):
        baleen.verify(CLAIM, pipeline="condensed")
    with pytest.raises(ConfigError, match="no setting 'hop'; did you mean 'hops'"):
        baleen.verify(CLAIM, hop=2)


def test_a_calls_options_outrank_the_models_and_are_not_kept(baleen: Baleen) -> None:
    assert baleen.config == RunConfig(hops=3, k=2)
    assert [len(hop.ranking) for hop in baleen.verify(CLAIM, k=(1, 3), hops=2).hops] == [1, 3]
    assert baleen.config == RunConfig(hops=3, k=2)
    assert len(baleen.verify(CLAIM).hops) == 3


def kept(trace: Trace) -> list[set[tuple[str, int]]]:
    return [{(fact.pid, fact.sid) for fact in hop.facts} for hop in trace.hops]


@pytest.mark.parametrize("pipeline", ["condense", "hybrid"])
def test_a_threshold_of_a_call_is_that_of_a_model_that_has_it(baleen: Baleen, pipeline: str) -> None:
    options: dict[str, Any] = {"pipeline": pipeline, "k": 2, "hops": 2}
    usual = baleen.verify(CLAIM, **options)
    middle = sorted(each.fact_score for each in usual.hops[0].condensed.judgements if each.fact_score is not None)[1]
    for threshold in (-1e9, middle, 0, 1e9):
        settings = {"condenser": {"keep": threshold}}
        own = Baleen(ModelFolder(baleen.model.root, baleen.model.components, settings), baleen.retriever)
        found = baleen.verify(CLAIM, keep=threshold, **options)
        assert kept(found) == kept(own.verify(CLAIM, **options)), threshold
        judged = [each for hop in found.hops for each in hop.condensed.judgements if each.fact_score is not None]
        assert all(each.kept == (each.fact_score > threshold) for each in judged if each.fact_score is not None)
    counts = [len(baleen.verify(CLAIM, keep=each, **options).facts) for each in (-1e9, 1e9)]
    assert counts[0] > counts[1] == 0
    assert kept(baleen.verify(CLAIM, **options)) == kept(usual), "nothing is written back"


def test_the_demo_corpus_is_searched_less_deep(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "default_index", lambda _: home / "index")
    for most, depths in ((1, (1, 1, 1)), (99, (2, 2, 2))):  # and never deeper than the model is set to
        monkeypatch.setattr(demo, "DEMO_DEPTH", most)
        assert Baleen.load(home / "model").config.depths == depths
        assert Baleen.load(home / "model", home / "index").config.depths == (2, 2, 2)
    monkeypatch.setattr(demo, "DEMO_DEPTH", 1)
    trace = Baleen.load(home / "model").verify(CLAIM, k=3, hops=2)
    assert [len(hop.ranking) for hop in trace.hops] == [3, 3], "a call says otherwise"


@pytest.mark.parametrize("pipeline", ["condense", "rerank", "hybrid"])
def test_passages_are_ranked_by_hops_or_by_evidence(baleen: Baleen, pipeline: str) -> None:
    usual, read = (baleen.verify(CLAIM, pipeline=pipeline, k=3, hops=2, ranked_by=by) for by in ("hops", "evidence"))
    assert baleen.verify(CLAIM, pipeline=pipeline, k=3, hops=2).ranking() == usual.ranking()
    assert sorted(read.ranking().pids) == sorted(usual.ranking().pids)
    model = ModelFolder(baleen.model.root, baleen.model.components, {"run": {"ranked_by": "evidence"}})
    assert Baleen(model, baleen.retriever).verify(CLAIM, pipeline=pipeline, k=3, hops=2).ranking() == read.ranking()
    with pytest.raises(ConfigError, match="ranked_by = 'luck' should be one of hops, evidence$"):
        baleen.verify(CLAIM, ranked_by="luck")
    with pytest.raises(ConfigError, match="'reading' is now 'evidence'"):
        baleen.verify(CLAIM, ranked_by="reading")


LOUD = 1000.0  # more than any passage scores
FOLLOWED: dict[str, dict[str, Any]] = {
    # Whatever random heads say, the passage of the first hop carries facts.
    "condense": {"keep": -1e9},
    "rerank": {},
    "hybrid": {"keep": -1e9},
}


@pytest.mark.parametrize("pipeline", FOLLOWED)
def test_mentions_come_from_the_claim_and_from_passages_with_facts(baleen: Baleen, pipeline: str) -> None:
    options: dict[str, Any] = {"pipeline": pipeline, "k": (1, 2), "hops": 2, **FOLLOWED[pipeline]}
    for trace in (
        baleen.verify(CLAIM, mention_boost=LOUD, **options),
        baleen.ask(CLAIM, mention_boost=LOUD, **options),
    ):
        assert [hop.mentioned for hop in trace.hops] == [{"p0": ""}, {"p1": "p0", "p5": "p0"}]
        assert [set(hop.ranking.pids) for hop in trace.hops] == [{"p0"}, {"p1", "p5"}]
        assert all(hit.score > LOUD for hop in trace.hops for hit in hop.ranking)
        assert all(hop.seconds.keys() == {"name", "encode", "search"} for hop in trace.hops)
        assert Trace.from_json(json.loads(json.dumps(trace.to_json(judgements=True)))) == trace


@pytest.mark.parametrize("pipeline", FOLLOWED)
def test_mentions_are_of_new_passages_in_the_ranking(baleen: Baleen, pipeline: str) -> None:
    trace = baleen.verify(CLAIM, mention_boost=2, pipeline=pipeline, k=3, hops=2)
    assert len(set(trace.pids)) == 6
    for each in (trace, *trace.parts):
        for hop in each.hops:
            assert hop.mentioned.keys() <= set(hop.ranking.pids)
            assert set(hop.mentioned.values()) <= {"", *(fact.pid for fact in each.hops[0].facts)}
    assert any(hop.mentioned for hop in trace.hops)


@pytest.mark.parametrize("pipeline", FOLLOWED)
def test_without_a_bonus_no_names_are_looked_for(baleen: Baleen, pipeline: str) -> None:
    options: dict[str, Any] = {"pipeline": pipeline, "k": 2, "hops": 2}
    usual = baleen.verify(CLAIM, **options)
    for bonus in (0, 0.0):
        trace = baleen.verify(CLAIM, mention_boost=bonus, **options)
        assert steps(trace) == steps(usual)
        assert all(hop.mentioned == {} and "name" not in hop.seconds for hop in trace.hops)


def test_a_models_settings_may_say_that_names_are_followed(baleen: Baleen) -> None:
    model = ModelFolder(baleen.model.root, baleen.model.components, {"run": {"k": [1, 2], "mention_boost": LOUD}})
    own, given = Baleen(model, baleen.retriever), baleen.verify(CLAIM, k=(1, 2), hops=2, mention_boost=LOUD)
    assert own.config.mention_boost == LOUD
    assert steps(own.verify(CLAIM)) == steps(given)
    assert steps(own.verify(CLAIM, mention_boost=0)) == steps(baleen.verify(CLAIM, k=(1, 2), hops=2))
    wrong = ModelFolder(baleen.model.root, baleen.model.components, {"run": {"mention_boost": -1}})
    with pytest.raises(ConfigError, match="mention_boost = -1 should be a number, 0 or above"):
        Baleen(wrong, baleen.retriever)


@pytest.mark.parametrize("bonus", [-1, -0.5, float("nan"), float("inf"), float("-inf"), "2", None, [2.0]])
def test_mention_boost_is_a_number_of_0_or_more(bonus: Any) -> None:
    with pytest.raises(ConfigError, match=rf"mention_boost = {re.escape(repr(bonus))} should be a number, 0 or above"):
        RunConfig(mention_boost=bonus)


def test_claims_of_a_batch_have_their_own_mentions(baleen: Baleen) -> None:
    together = baleen.verify_many(CLAIMS, mention_boost=LOUD, k=2, hops=2)
    for claim, found in zip(CLAIMS, together, strict=True):
        alone = baleen.verify(claim, mention_boost=LOUD, k=2, hops=2)
        assert [(hop.ranking.pids, hop.mentioned) for hop in found.hops] == [
            (hop.ranking.pids, hop.mentioned) for hop in alone.hops
        ]
    assert [trace.hops[0].mentioned for trace in together] == [{"p0": ""}, {}, {"p4": ""}]


def test_two_thresholds_are_set_by_a_model_or_by_a_call(baleen: Baleen) -> None:
    model = ModelFolder(baleen.model.root, baleen.model.components, {"condenser": {"keep": -1e9, "final": 1e9}})
    for trace in (Baleen(model, baleen.retriever).verify(CLAIM), baleen.verify(CLAIM, keep=-1e9, final=1e9)):
        assert (bool(trace.hops[0].facts), trace.facts) == (True, ())


def test_a_calls_threshold_outranks_the_models_also_when_untrained(baleen: Baleen) -> None:
    strict = ModelFolder(baleen.model.root, baleen.model.components, {"condenser": {"keep": 1e9}})
    assert len(Baleen(strict, baleen.retriever).verify(CLAIM, keep=-1e9).facts) > 0
    everything, nothing = (baleen.verify(CLAIM, untrained=True, keep=each) for each in (-1e9, 1e9))
    assert (len(everything.facts), nothing.facts) == (6, ()), "two new sentences at each of three hops, or none"


def test_bad_thresholds_of_a_call_are_refused(baleen: Baleen) -> None:
    for said, options in {
        "keep: thresholds are for a condenser, and pipeline = 'rerank' has none": {"pipeline": "rerank", "keep": -1},
        "final = nan, which should be a finite number": {"final": float("nan")},
        "read = 1, final = 0; expected keep <= read <= final": {"read": 1, "final": 0},
    }.items():
        with pytest.raises(ConfigError, match=said):
            baleen.verify(CLAIM, **options)
    model = ModelFolder(baleen.model.root, baleen.model.components, {"run": {"keep": 1}})
    with pytest.raises(ConfigError, match="run: there is no setting 'keep'"):
        Baleen(model, baleen.retriever)


def test_a_models_settings_for_its_stages_are_taken(home: Path, baleen: Baleen) -> None:
    model = ModelFolder(baleen.model.root, baleen.model.components, {"condenser": {"keep": 1e9}})
    strict = Baleen(model, baleen.retriever)
    assert strict.verify(CLAIM, k=2, hops=2).facts == ()
    assert strict.verify(CLAIM, k=2, hops=2, stop_early=True).stopped == "hop 1 added no fact"
    wrong = ModelFolder(baleen.model.root, baleen.model.components, {"condenser": {"kep": 1}})
    with pytest.raises(ConfigError, match="condenser: there is no setting 'kep'; did you mean 'keep'"):
        Baleen(wrong, baleen.retriever).verify(CLAIM)
    with pytest.raises(ConfigError, match="run: there is no setting 'depth'"):
        Baleen(ModelFolder(home, {}, {"run": {"depth": 1}}), baleen.retriever)


def test_components_that_name_one_folder_share_one_model_in_memory(baleen: Baleen) -> None:
    condenser, reranker = baleen.condenser(), baleen.reranker()
    verifier, answerer = baleen.reader("verifier"), baleen.reader("answerer")
    assert isinstance(condenser, Condenser)
    assert isinstance(reranker, Reranker)
    assert isinstance(verifier, Verifier)
    assert isinstance(answerer, Answerer)
    readings = [condenser.sentences, condenser.facts, reranker.reading, verifier.reading, answerer.reading]
    assert len(set(map(id, readings))) == 1


def test_components_in_different_folders_have_different_models(home: Path, tmp_path: Path) -> None:
    (tmp_path / "retriever").symlink_to(home / "model" / "retriever")
    for name in ("first", "second"):
        heads = {head: HEADS[head] for head in ("sentences", "facts")}
        CrossEncoder.from_backbone(home / "cross", heads).save(tmp_path / name)
    write_model(tmp_path, {"retriever": "retriever", "sentences": "first", "facts": "second", "verifier": "first"})
    baleen = Baleen.load(tmp_path, home / "index")
    condenser = baleen.condenser()
    assert isinstance(condenser, Condenser)
    assert condenser.sentences is not condenser.facts
    with pytest.raises(CheckpointError, match="no head 'verifier', only sentences, facts"):
        baleen.verify(CLAIM)


def test_a_missing_component_is_refused_with_the_command_to_train_it(home: Path) -> None:
    baleen = Baleen.load(home / "model" / "retriever", home / "index")
    with pytest.raises(CheckpointError, match="has no verifier.*--stage verifier"):
        baleen.verify(CLAIM)
    with pytest.raises(CheckpointError, match="has no sentences.*--stage sentences"):
        baleen.hops([CLAIM])
    with pytest.raises(CheckpointError, match="has no reranker.*--stage reranker"):
        baleen.hops([CLAIM], untrained=True)


def test_an_untrained_run_says_so_and_needs_no_reader(home: Path, tmp_path: Path) -> None:
    (tmp_path / "retriever").symlink_to(home / "model" / "retriever")
    relevance = CrossEncoder.load(home / "model" / "reading", trainable=True)
    relevance.notes["untrained"] = True
    with torch.no_grad():
        relevance.model.heads["reranker"].output.bias += 9  # so that it likes every sentence
    relevance.save(tmp_path / "relevance")
    write_model(tmp_path, {"retriever": "retriever", "reranker": "relevance"}, {"run": {"untrained": True, "k": 4}})
    baleen = Baleen.load(tmp_path, home / "index")
    assert isinstance(baleen.condenser(untrained=True), RelevanceCondenser)
    trace = baleen.verify(CLAIM)
    assert trace.untrained == ("condenser",)
    assert trace.outcome is None
    assert trace.facts
    assert baleen.verify(CLAIM, pipeline="rerank").untrained == ("reranker",)
    assert baleen.verify(CLAIM, pipeline="hybrid").untrained == ("condenser", "reranker")
    with pytest.raises(CheckpointError, match="has no verifier"):
        baleen.verify(CLAIM, untrained=False)


def test_an_untrained_condenser_leaves_the_trained_reader(baleen: Baleen) -> None:
    assert isinstance(baleen.verify(CLAIM, untrained=True).outcome, Verdict)


def test_an_index_that_is_missing_or_of_another_encoder_is_refused(home: Path, tmp_path: Path) -> None:
    with pytest.raises(StoredIndexError):
        Baleen.load("no such model", tmp_path)
    other = tiny_encoder(tmp_path / "other", seed=5)
    Index.build(tmp_path / "index", CORPUS, other, bits=4)
    with pytest.raises(EncoderMismatchError):
        Baleen.load(home / "model", tmp_path / "index")


def test_a_run_sees_one_state_of_the_index(home: Path, tmp_path: Path) -> None:
    """An index that changes between two hops changes the next run, not this one."""
    system = over(home, tmp_path / "index", CORPUS)
    alone = system.verify(CLAIM, **SETTINGS["run"])
    steps_of_run = system.stream(CLAIM, **SETTINGS["run"])
    first = next(steps_of_run)
    index = system.retriever.index
    assert isinstance(index, Index)
    index.delete([pid for pid in alone.pids if pid not in first.pids])
    *_, last = steps_of_run
    assert steps(last) == steps(alone)
    assert not set(system.verify(CLAIM, **SETTINGS["run"]).pids) >= set(alone.pids)
