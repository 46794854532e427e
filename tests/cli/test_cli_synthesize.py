"""`baleen synthesize`: files, output, refusals."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from baleen.core.errors import ConfigError, CorpusError, DatasetError, MissingExtraError
from baleen.data.corpus import write_passages
from baleen.data.formats import read_examples
from baleen.data.gold import Catalogue, resolve_gold
from cli_fakes import Baleen, command_line
from small_encyclopaedia import TEXTS, passages

ALL = ("--limit", "5000", "--solved", "1")


@pytest.fixture
def baleen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Baleen]:
    """Run `baleen synthesize` in a folder with the small encyclopaedia as `corpus.jsonl`."""
    monkeypatch.chdir(tmp_path)
    write_passages(passages(), tmp_path / "corpus.jsonl")

    yield from command_line(monkeypatch, capfd, "synthesize")


def lines(path: str) -> list[dict[str, Any]]:
    content = Path(path).read_bytes()
    return [json.loads(line) for line in (gzip.decompress(content) if path.endswith(".gz") else content).splitlines()]


class TestFile:
    def test_is_read_as_a_dataset_of_one_s_own_that_fits_its_corpus(self, baleen: Baleen) -> None:
        assert baleen("corpus.jsonl", "--out", "claims.jsonl", *ALL).code == 0
        examples = list(read_examples("own", Path("claims.jsonl")))
        records = lines("claims.jsonl")
        assert len(examples) == len(records) > 100
        resolved, report = resolve_gold(examples, Catalogue.of(passages()))
        assert (report.kept, report.missing, report.facts_dropped, report.orders_dropped) == (len(examples), 0, 0, 0)
        for example, record in zip(resolved, records, strict=True):
            assert (example.qid, example.text) == (record["id"], record["text"])
            assert example.order == tuple(record["order"])
            assert (example.hops, example.kind) == (record["hops"], record["kind"])
            assert (example.label, example.answer) == (record["label"], record["answer"])

    def test_may_be_compressed(self, baleen: Baleen) -> None:
        for name in ("plain.jsonl", "packed.jsonl.gz"):
            assert baleen("corpus.jsonl", "--out", name, "--limit", "20").code == 0
        assert lines("packed.jsonl.gz") == lines("plain.jsonl")
        assert len(list(read_examples("own", Path("packed.jsonl.gz")))) == 20

    def test_is_the_same_byte_for_byte_in_every_process(self, baleen: Baleen, tmp_path: Path) -> None:
        assert baleen("corpus.jsonl", "--out", "here.jsonl", "--limit", "60", "--seed", "5").code == 0
        for hashing in ("0", "77"):
            command = [
                "-m",
                "baleen",
                "synthesize",
                "corpus.jsonl",
                "--out",
                f"{hashing}.jsonl",
                "--limit",
                "60",
                "--seed",
                "5",
            ]
            environment = {**os.environ, "PYTHONHASHSEED": hashing}
            subprocess.run([sys.executable, *command], check=True, cwd=tmp_path, env=environment, capture_output=True)
            assert Path(f"{hashing}.jsonl").read_bytes() == Path("here.jsonl").read_bytes()

    def test_is_another_for_another_seed(self, baleen: Baleen) -> None:
        for seed in ("1", "2"):
            assert baleen("corpus.jsonl", "--out", f"{seed}.jsonl", "--limit", "30", "--seed", seed).code == 0
        assert [each["text"] for each in lines("1.jsonl")] != [each["text"] for each in lines("2.jsonl")]

    def test_has_as_many_lines_as_were_asked_for(self, baleen: Baleen) -> None:
        assert baleen("corpus.jsonl", "--out", "claims.jsonl", "--limit", "7").code == 0
        assert len(lines("claims.jsonl")) == 7


class TestReport:
    def test_is_one_json_document(self, baleen: Baleen) -> None:
        done = baleen("corpus.jsonl", "--out", "claims.jsonl", "--limit", "40", "--json")
        report = json.loads(done.out)
        assert report["written"] == 40 == sum(report["counts"]["hops"].values())
        assert report["skipped"] == 0
        assert report["graph"]["passages"] == len(TEXTS)
        assert report["counts"]["kind"] == Counter(record["kind"] for record in lines("claims.jsonl"))

    def test_or_a_page_with_a_table(self, baleen: Baleen) -> None:
        done = baleen("corpus.jsonl", "--out", "claims.jsonl", "--limit", "40")
        assert done.out.startswith("20 passages, 20 of them defined; ")
        assert "| hops | kind | supported |" in done.out
        assert "40 written to claims.jsonl in " in done.out

    def test_counts_what_could_not_be_read(self, baleen: Baleen) -> None:
        with Path("corpus.jsonl").open("a") as stream:
            stream.write("no json\n")
        assert baleen("corpus.jsonl", "--out", "claims.jsonl").code == CorpusError.exit_code
        assert json.loads(baleen("corpus.jsonl", "--out", "a.jsonl", "--skip-bad", "--json").out)["skipped"] == 1
        assert "skipped: 1 passages" in baleen("corpus.jsonl", "--out", "a.jsonl", "--skip-bad").out


class TestShares:
    def test_of_hops_and_kinds(self, baleen: Baleen) -> None:
        assert (
            baleen("corpus.jsonl", "--out", "c.jsonl", "--hops", "2", "--kinds", "chain=0.5,bridge=0.5", *ALL).code == 0
        )
        assert {(each["hops"], each["kind"]) for each in lines("c.jsonl")} == {(2, "chain"), (2, "bridge")}

    def test_of_questions(self, baleen: Baleen) -> None:
        assert baleen("corpus.jsonl", "--out", "c.jsonl", "--questions", "1", *ALL).code == 0
        assert {each["label"] for each in lines("c.jsonl")} == {None}

    def test_of_gaps_among_them(self, baleen: Baleen) -> None:
        assert baleen("corpus.jsonl", "--out", "c.jsonl", "--questions", "1", "--gaps", "1", *ALL).code == 0
        made = {each["made"] for each in lines("c.jsonl") if each["kind"] != "comparison"}
        assert made == {"gap"}

    def test_balanced_makes_them_equal(self, baleen: Baleen) -> None:
        shares = ("--hops", "2=0.99,3=0.01", "--kinds", "chain=0.99,bridge=0.01", "--limit", "60", "--solved", "1")
        seen = []
        for name, option in (("skewed", ()), ("balanced", ("--balanced",))):
            assert baleen("corpus.jsonl", "--out", f"{name}.jsonl", *shares, *option).code == 0
            found = lines(f"{name}.jsonl")
            seen.append(sum((each["hops"], each["kind"]) == (2, "chain") for each in found) / len(found))
        skewed, balanced = seen
        assert skewed > 0.5 > balanced

    def test_of_what_one_search_solves(self, baleen: Baleen) -> None:
        done = baleen("corpus.jsonl", "--out", "c.jsonl", "--solved", "0")
        assert done.code == CorpusError.exit_code  # the first 20 of 20 passages are all of them
        assert not Path("c.jsonl").exists()


class TestAvoid:
    def test_nothing_like_them_is_written(self, baleen: Baleen) -> None:
        assert baleen("corpus.jsonl", "--out", "dev.jsonl", "--limit", "20").code == 0
        assert baleen("corpus.jsonl", "--out", "c.jsonl", "--avoid", "own:dev.jsonl", *ALL).code == 0
        dev, found = lines("dev.jsonl"), lines("c.jsonl")
        assert found
        assert not {each["text"] for each in dev} & {each["text"] for each in found}
        assert not {frozenset(each["gold"]) for each in dev} & {frozenset(each["gold"]) for each in found}

    def test_gold_may_be_named_by_title(self, baleen: Baleen) -> None:
        gold = [["petra kolding", 0], ["BRENHOLT", 0]]
        dev = {
            "uid": "1",
            "claim": "Nothing of the sort.",
            "supporting_facts": gold,
            "label": "SUPPORTED",
            "num_hops": 2,
        }
        Path("dev.json").write_text(json.dumps([dev]))
        assert baleen("corpus.jsonl", "--out", "with.jsonl", *ALL).code == 0
        assert baleen("corpus.jsonl", "--out", "without.jsonl", "--avoid", "hover:dev.json", *ALL).code == 0
        assert ["p10", "p11"] in [each["gold"] for each in lines("with.jsonl")]
        assert ["p10", "p11"] not in [each["gold"] for each in lines("without.jsonl")]


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--hops", "two"], "'two' hops: expected a number from 2 on"),
            (["--hops", "²"], "expected a number"),
            (["--hops", ""], "expected a number"),
            (["--hops", "2=much"], "expected NAME or NAME=SHARE"),
            (["--avoid", "dev.json"], "expected DATASET:FILE"),
            (["--limit", "0"], "limit"),
            (["--questions", "2"], "questions"),
            (["--gaps", "2"], "gaps"),
        ],
    )
    def test_of_arguments_that_cannot_be_read(self, baleen: Baleen, arguments: list[str], message: str) -> None:
        done = baleen("corpus.jsonl", "--out", "c.jsonl", *arguments)
        assert done.code == 2
        assert message in " ".join(done.err.replace("│", " ").split())

    @pytest.mark.parametrize(
        "arguments",
        [["--hops", "1"], ["--hops", "2=0"], ["--hops", "2=nan"], ["--kinds", "chian"], ["--kinds", "tree=-1"]],
    )
    def test_of_settings_that_cannot_hold(self, baleen: Baleen, arguments: list[str]) -> None:
        assert baleen("corpus.jsonl", "--out", "c.jsonl", *arguments).code == ConfigError.exit_code

    @pytest.mark.parametrize(
        ("out", "message"), [("claims.txt", "unknown format"), ("nowhere/claims.jsonl", "no such folder")]
    )
    def test_of_a_file_that_cannot_be_written_before_anything_is_read(
        self, baleen: Baleen, out: str, message: str
    ) -> None:
        Path("corpus.jsonl").write_text("no json\n")
        done = baleen("corpus.jsonl", "--out", out)
        assert done.code == CorpusError.exit_code
        assert message in done.err

    def test_of_a_corpus_or_a_dataset_that_is_not_there(self, baleen: Baleen) -> None:
        assert baleen("nothing.jsonl", "--out", "c.jsonl").code == CorpusError.exit_code
        assert baleen("corpus.jsonl", "--out", "c.jsonl", "--avoid", "hoover:a").code == DatasetError.exit_code

    def test_of_a_corpus_that_nothing_can_be_made_of(self, baleen: Baleen) -> None:
        loose = [
            passage for passage in passages() if passage.title in {"Quillham", "The Salt Lantern", "Brenholt Rovers"}
        ]
        write_passages(loose, Path("loose.jsonl"))
        done = baleen("loose.jsonl", "--out", "c.jsonl")
        assert done.code == CorpusError.exit_code
        assert "nothing could be made from 3 passages, 3 of them defined, with 0 links; expected passages" in done.err
        assert not Path("c.jsonl").exists()

    def test_a_missing_mentions_package(self, baleen: Baleen, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "ahocorasick_rs", None)
        done = baleen("corpus.jsonl", "--out", "c.jsonl")
        assert done.code == MissingExtraError.exit_code
        assert "pip install 'baleen[synthesis]'" in done.err


def test_a_folder_of_markdown_is_a_corpus_too(baleen: Baleen) -> None:
    for title, sentences in TEXTS.items():
        path = Path("docs") / f"{title.lower().replace(' ', '-')}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# {title}\n\n{' '.join(sentences)}\n")
    assert baleen("docs", "--out", "claims.jsonl", "--limit", "50").code == 0
    found = lines("claims.jsonl")
    assert len(found) == 50
    assert all(pid.endswith(".md") for each in found for pid in each["gold"])
