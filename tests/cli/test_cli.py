"""The command line: output, refusals, exit codes."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from baleen import cli
from baleen.core.errors import ConfigError, EncoderMismatchError, IndexExistsError, IndexNotFoundError, QueryError
from baleen.data.corpus import write_passages
from baleen.hops.demo import SHIPPED, write_untrained
from baleen.index.index import Index
from baleen.models.encoder import Encoder
from cli_fakes import Baleen, Done
from fakes import CORPUS, bert_folder, tiny_encoder


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    backbone = bert_folder(folder / "backbone", hidden_size=128)
    write_untrained(folder / "checkpoints" / SHIPPED, backbone, backbone)
    tiny_encoder(folder / "b", seed=1).save(folder / "checkpoints" / "another")
    return folder / "checkpoints"


@pytest.fixture
def baleen(
    checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Baleen:
    """Run a command in a folder with the tiny corpus as `corpus.jsonl`."""
    monkeypatch.setenv("BALEEN_CHECKPOINTS", str(checkpoints))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    write_passages(CORPUS, tmp_path / "corpus.jsonl")

    def run(*arguments: str) -> Done:
        capfd.readouterr()
        monkeypatch.setattr("sys.argv", ["baleen", *arguments])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        printed = capfd.readouterr()
        return Done(int(stop.value.code or 0), printed.out, printed.err)

    return run


@pytest.fixture
def indexed(baleen: Baleen) -> Baleen:
    assert baleen("index", "corpus.jsonl", "--out", "c.index", "--bits", "4").code == 0
    return baleen


def test_a_search_prints_one_json_document_and_nothing_else(indexed: Baleen) -> None:
    done = indexed("search", "Who teaches at the university?", "--index", "c.index", "-k", "3", "--json")
    assert done.code == 0
    assert set(done.json) == {"query", "hits", "seconds"}
    assert done.json["query"] == "Who teaches at the university?"
    assert [set(hit) for hit in done.json["hits"]] == [{"pid", "title", "score", "text"}] * 3
    scores = [hit["score"] for hit in done.json["hits"]]
    assert scores == sorted(scores, reverse=True)
    first = next(passage for passage in CORPUS if passage.pid == done.json["hits"][0]["pid"])
    assert (done.json["hits"][0]["title"], done.json["hits"][0]["text"]) == (first.title, first.text)


def test_facts_change_the_scores_and_exclusions_the_hits(indexed: Baleen) -> None:
    plain = indexed("search", "whales", "--index", "c.index", "--json").json["hits"]
    facts = indexed("search", "whales", "--index", "c.index", "--fact", "Vardal | A harbour town.", "--json").json[
        "hits"
    ]
    assert {hit["pid"]: hit["score"] for hit in plain} != {hit["pid"]: hit["score"] for hit in facts}
    without = indexed("search", "whales", "--index", "c.index", "--exclude", plain[0]["pid"], "--json").json["hits"]
    assert [hit["pid"] for hit in without] == [hit["pid"] for hit in plain[1:]]


def test_k_beyond_the_corpus_returns_the_corpus(indexed: Baleen) -> None:
    assert len(indexed("search", "whales", "--index", "c.index", "-k", "99", "--json").json["hits"]) == len(CORPUS)


def test_a_search_for_people_names_titles(indexed: Baleen) -> None:
    done = indexed("search", "whales", "--index", "c.index", "-k", "1")
    assert done.code == 0
    assert any(passage.title in done.out for passage in CORPUS)


def test_metadata_filters_a_search(baleen: Baleen) -> None:
    lines = [{"id": i, "title": f"Town {i}", "text": "A harbour town.", "year": 2017 + i % 2} for i in range(6)]
    Path("towns.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert baleen("index", "towns.jsonl", "--out", "t.index").code == 0
    hits = baleen("search", "a town", "--index", "t.index", "--where", "year=2018", "--json").json["hits"]
    assert sorted(hit["pid"] for hit in hits) == ["1", "3", "5"]


def test_an_index_is_described_changed_and_checked(indexed: Baleen) -> None:
    Path("more.jsonl").write_text('{"id": "new", "title": "Squid", "text": "Squid are eaten by whales."}\n')
    assert indexed("index", "--out", "c.index", "--info", "--json").json["passages"] == len(CORPUS)
    assert indexed("index", "more.jsonl", "--out", "c.index", "--add", "--json").json["passages"] == len(CORPUS) + 1
    gone = indexed("index", "--out", "c.index", "--delete", "new", "--delete", CORPUS[0].pid, "--json").json
    assert (gone["removed"], gone["passages"]) == (2, len(CORPUS) - 1)
    assert indexed("index", "--out", "c.index", "--compact", "--json").json["deleted"] == 0
    assert indexed("index", "--out", "c.index", "--verify", "--json").json["files_verified"] > 0


def test_an_addition_replaces_passages_and_reports_them(baleen: Baleen) -> None:
    def paragraphs(count: int) -> str:
        return "\n\n".join(f"Paragraph {number}. " + "Whales sing in the sea. " * 30 for number in range(count))

    def pids() -> list[str]:
        return sorted(Index.open("t.index").pids())

    Path("notes").mkdir()
    Path("notes/long.md").write_text(paragraphs(4))
    Path("notes/kept.md").write_text(paragraphs(2))
    assert baleen("index", "notes", "--out", "t.index").code == 0
    long, kept = [pid for pid in pids() if pid.startswith("long")], [pid for pid in pids() if pid.startswith("kept")]
    assert (len(long), kept) == (4, ["kept.md#1", "kept.md#2"])

    Path("notes/long.md").write_text(paragraphs(2))
    added = baleen("index", "notes/long.md", "--out", "t.index", "--add", "--json").json
    assert (added["indexed"], added["replaced"], added["outdated"]) == (2, 2, 2)
    assert pids() == [*kept, "long.md#1", "long.md#2"]
    Path("notes/long.md").write_text("Whales sing.")
    added = baleen("index", "notes/long.md", "--out", "t.index", "--add", "--json").json
    assert (added["replaced"], added["outdated"], pids()) == (0, 2, [*kept, "long.md"])

    Path("notes/long.md").write_bytes(b"\xff")
    Path("more.jsonl").write_text('{"id": "kept.md#1", "title": "T", "text": "Another."}\n')
    arguments = ("index", "notes/long.md", "more.jsonl", "--out", "t.index", "--add", "--skip-bad", "--json")
    added = baleen(*arguments).json
    assert (added["skipped"], added["replaced"], added["outdated"]) == (1, 1, 0)
    assert pids() == [*kept, "long.md"]


BAD = {
    "no JSON": b'{"id": "1", "title": "T", "text": "x"}\nnot json\n',
    "a missing title": b'{"id": "1", "title": "T", "text": "x"}\n{"id": "2", "text": "x"}\n',
    "a repeated id": b'{"id": "1", "title": "T", "text": "x"}\n{"id": "1", "title": "T", "text": "x"}\n',
    "an empty passage": b'{"id": "1", "title": "T", "text": "x"}\n{"id": "2", "title": "T", "text": " "}\n',
    "invalid UTF-8": b'{"id": "1", "title": "T", "text": "x"}\n{"id": "2", "title": "\xff", "text": "x"}\n',
    "a line of 10 MB": b'{"id": "1", "title": "T", "text": "x"}\n{"id": "2", "text": "' + b"x" * 10_500_000 + b'"}\n',
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD.keys())
def test_bad_input_is_one_line_with_file_and_line(baleen: Baleen, content: bytes) -> None:
    Path("bad.jsonl").write_bytes(content)
    done = baleen("index", "bad.jsonl", "--out", "bad.index")
    assert done.code == 4
    assert done.err.count("\n") == 1
    assert done.err.startswith("error: bad.jsonl:2: ")
    assert not Path("bad.index").exists()
    skipped = baleen("index", "bad.jsonl", "--out", "bad.index", "--skip-bad", "--json")
    assert skipped.code == 0
    assert (skipped.json["indexed"], skipped.json["skipped"]) == (1, 1)


def test_an_empty_file_is_an_error(baleen: Baleen) -> None:
    Path("empty.jsonl").touch()
    done = baleen("index", "empty.jsonl", "--out", "e.index")
    assert (done.code, done.err.count("\n")) == (4, 1)
    assert "empty.jsonl" in done.err
    assert not Path("e.index").exists()


def test_a_failed_addition_leaves_the_index_as_it_was(indexed: Baleen) -> None:
    Path("bad.jsonl").write_bytes(BAD["a missing title"])
    assert indexed("index", "bad.jsonl", "--out", "c.index", "--add").code == 4
    assert indexed("index", "--out", "c.index", "--verify", "--json").json["passages"] == len(CORPUS)


def test_each_refusal_has_its_own_exit_code(indexed: Baleen) -> None:
    refusals = [
        (["search", "whales", "--index", "nowhere"], IndexNotFoundError.exit_code, "nowhere"),
        (["search", " ", "--index", "c.index"], QueryError.exit_code, "empty"),
        (["search", "a\udcff", "--index", "c.index"], QueryError.exit_code, "unpaired surrogate"),
        (["search", "whales", "--fact", "a\udcff", "--index", "c.index"], QueryError.exit_code, "unpaired surrogate"),
        (
            ["search", "whales", "--exclude", "a\udcff", "--index", "c.index"],
            QueryError.exit_code,
            "unpaired surrogate",
        ),
        (["search", "a\udcff", "--index", "c.index", "--model", "nowhere"], QueryError.exit_code, "unpaired surrogate"),
        (["search", "whales", "--index", "c.index", "-k", "0"], QueryError.exit_code, "k = 0"),
        (["search", "whales", "--index", "c.index", "--model", "another"], EncoderMismatchError.exit_code, "encoder"),
        (["index", "corpus.jsonl", "--out", "c.index"], IndexExistsError.exit_code, "already"),
        (["index", "--out", "c.index", "--delete", "nobody"], QueryError.exit_code, "nobody"),
        (["index"], 2, "give files"),
        (["search"], 2, "Missing argument"),
    ]
    for arguments, code, part in refusals:
        done = indexed(*arguments)
        assert (done.code, done.out) == (code, ""), arguments
        assert part in done.err


BUILDING = ("--bits=2", "--cells=4", "--seed=0", "--overwrite")


def test_options_without_effect_are_refused(indexed: Baleen) -> None:
    before = indexed("index", "--out", "c.index", "--info", "--json").out
    for option in BUILDING:
        done = indexed("index", "corpus.jsonl", "--out", "c.index", "--add", option)
        assert (done.code, done.out) == (2, "")
        assert f"leave out {option.partition('=')[0]}: such options are for a new index" in done.said
    reading = ("--add", "--model=another", "--skip-bad", "--device=cpu", "--precision=float32")
    for change in ("--info", "--compact", "--verify", f"--delete={CORPUS[0].pid}"):
        for option in (*BUILDING, *reading):
            done = indexed("index", "--out", "c.index", change, option)
            assert (done.code, done.out) == (2, "")
            assert f"leave out {option.partition('=')[0]}: such options are for files to index" in done.said
    done = indexed("index", "--out", "c.index", "--info", *BUILDING)
    assert "leave out --bits, --cells, --seed, --overwrite:" in done.said
    assert indexed("index", "--out", "c.index", "--info", "--json").out == before


def test_the_docstring_lists_every_module() -> None:
    listed = re.findall(r"^    (\w+\.py) ", str(cli.__doc__), re.MULTILINE)
    there = {path.name for path in Path(cli.__file__).parent.glob("*.py")} - {"__init__.py"}
    assert (sorted(listed), len(set(listed))) == (sorted(there), len(listed))


def test_without_a_model_or_an_index_the_embedded_default_serves(baleen: Baleen) -> None:
    done = baleen("verify")
    assert done.code == 0
    assert "Hop 3" in done.out
    assert "untrained" in done.out
    shown = [line.partition(" in ")[0] for line in baleen("demo").out.splitlines()]
    assert shown[:3] == [line.partition(" in ")[0] for line in done.out.splitlines()[:3]]
    assert "Hop 2" not in baleen("verify", "--hops", "1").out


def test_init_makes_an_encoder_or_a_whole_model(baleen: Baleen, checkpoints: Path) -> None:
    backbone = str(checkpoints.parent / "backbone")
    assert baleen("init", backbone, "--out", "alone").code == 0
    assert baleen("index", "corpus.jsonl", "--model", "alone", "--out", "a.index").code == 0
    assert baleen("init", backbone, "--cross-encoder", backbone, "--out", "whole").code == 0
    done = baleen("verify", "whales sing", "--model", "whole", "--index", "a.index", "--json")
    assert done.json["outcome"]["label"] in ("supported", "not supported")


def test_init_replaces_a_model_only_with_overwrite(baleen: Baleen, checkpoints: Path) -> None:
    backbone = str(checkpoints.parent / "backbone")
    assert baleen("init", backbone, "--out", "model").code == 0
    before = Encoder.load("model").fingerprint
    for more in ([], ["--cross-encoder", backbone]):
        done = baleen("init", backbone, "--dim", "4", "--out", "model", *more)
        assert (done.code, done.out) == (ConfigError.exit_code, "")
        assert "model: there is a model here already; choose another --out, or replace it with --overwrite" in done.err
        assert Encoder.load("model").fingerprint == before
    assert baleen("init", backbone, "--dim", "4", "--out", "model", "--overwrite").code == 0
    assert Encoder.load("model").dim == 4


def test_init_fits_the_projection_to_a_sample_of_a_corpus(baleen: Baleen, checkpoints: Path) -> None:
    backbone = str(checkpoints.parent / "backbone")
    fingerprints = {}
    for name, options in {
        "ours": [],
        "theirs": ["--corpus", "corpus.jsonl"],
        "some": ["--corpus", "corpus.jsonl", "--sample", "1"],
        "again": ["--corpus", "corpus.jsonl", "--sample", "1"],
        "small": ["--corpus", "corpus.jsonl", "--dim", "4"],
    }.items():
        assert baleen("init", backbone, *options, "--out", name).code == 0
        fingerprints[name] = Encoder.load(name).fingerprint
    assert fingerprints["again"] == fingerprints["some"]
    assert len(set(fingerprints.values())) == 4
    assert Encoder.load("small").dim == 4


@pytest.mark.parametrize("option", ["--sample", "--seed"])
def test_init_refuses_a_sample_of_nothing(baleen: Baleen, checkpoints: Path, option: str) -> None:
    done = baleen("init", str(checkpoints.parent / "backbone"), option, "3", "--out", "lone")
    assert done.code == 2
    assert "--corpus" in done.err


def test_init_refuses_too_many_dimensions(baleen: Baleen, checkpoints: Path) -> None:
    done = baleen("init", str(checkpoints.parent / "backbone"), "--dim", "100000", "--out", "wide")
    assert done.code != 0
    assert "set dim lower" in done.err
    assert not Path("wide").exists()


def test_split_writes_a_collection_that_reads_the_same(baleen: Baleen) -> None:
    assert baleen("split", "corpus.jsonl", "--out", "split.jsonl.gz").code == 0
    first = baleen("index", "corpus.jsonl", "--out", "one.index", "--json").json
    second = baleen("index", "split.jsonl.gz", "--out", "two.index", "--json").json
    assert first["vectors"] == second["vectors"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere torch's segments cannot grow")
def test_gpu_segments_expand_unless_configured_otherwise(baleen: Baleen, monkeypatch: pytest.MonkeyPatch) -> None:
    both = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
    for name in both:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    baleen("--help")
    assert [os.environ.get(name) for name in both] == ["expandable_segments:True", None]
    monkeypatch.delenv(both[0])
    monkeypatch.setenv(both[1], "max_split_size_mb:64")
    baleen("--help")
    assert [os.environ.get(name) for name in both] == [None, "max_split_size_mb:64"]


def test_the_version_is_printed(baleen: Baleen) -> None:
    from baleen import __version__

    done = baleen("--version")
    assert (done.code, done.out.strip()) == (0, f"baleen {__version__}")
