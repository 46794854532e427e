"""`baleen.data.corpus`: reading, refusals, writing."""

from __future__ import annotations

import bz2
import gzip
import json
import logging
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from baleen.core import files
from baleen.core.errors import CorpusError, MissingExtraError
from baleen.core.types import Passage
from baleen.data import corpus
from baleen.data.corpus import Tally

WHALE = {"id": "1", "title": "Whale", "text": "Whales swim. Dr. Roe met one."}
KRILL = {"id": "2", "title": "Krill", "text": ["Krill are small.", "", " Whales eat them."]}
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "c.jsonl": bytes,
    "c.json": bytes,
    "c.jsonl.gz": gzip.compress,
    "c.jsonl.zst": zstandard.ZstdCompressor().compress,
    "c.jsonl.bz2": bz2.compress,
    "C.JSONL.GZ": gzip.compress,
}


def jsonl(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def put(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def pids(*paths: Path, **options: Any) -> list[str]:
    return [passage.pid for passage in corpus.read_passages(paths, **options)]


class TestRecords:
    @pytest.mark.parametrize("name", PACKERS)
    def test_a_file_of_json_lines_is_read_plain_or_compressed(self, tmp_path: Path, name: str) -> None:
        whale, krill = corpus.read_passages([put(tmp_path / name, PACKERS[name](jsonl(WHALE, KRILL)))])
        assert (whale.pid, whale.title, whale.text) == ("1", "Whale", WHALE["text"])
        assert whale.sentences == ("Whales swim.", "Dr. Roe met one.")
        assert krill.sentences == ("Krill are small.", "", "Whales eat them.")

    def test_several_compressed_pieces_in_one_file_are_one_file(self, tmp_path: Path) -> None:
        for name, pack in PACKERS.items():
            path = put(tmp_path / name, pack(jsonl(WHALE)) + pack(jsonl(KRILL)))
            assert pids(path) == ["1", "2"], name

    def test_an_id_may_be_called_id_or_underscore_id_and_be_an_integer(self, tmp_path: Path) -> None:
        path = put(tmp_path / "c.jsonl", jsonl({**WHALE, "id": 7}, {"_id": "b", "title": "", "text": "Text."}))
        assert pids(path) == ["7", "b"]

    def test_other_keys_are_metadata(self, tmp_path: Path) -> None:
        path = put(tmp_path / "c.jsonl", jsonl({**WHALE, "year": 2017, "tags": ["a", None], "at": {"x": 1.5}}))
        (passage,) = corpus.read_passages([path])
        assert passage.metadata == {"year": 2017, "tags": ["a", None], "at": {"x": 1.5}}

    def test_an_object_called_metadata_is_spread(self, tmp_path: Path) -> None:
        path = put(tmp_path / "c.jsonl", jsonl({**WHALE, "url": "u", "metadata": {"year": 2017, "url": "other"}}))
        (passage,) = corpus.read_passages([path])
        assert passage.metadata == {"year": 2017, "url": "u"}

    def test_blank_lines_crlf_and_a_byte_order_mark_are_skipped(self, tmp_path: Path) -> None:
        content = b"\xef\xbb\xbf" + jsonl(WHALE, KRILL).replace(b"\n", b"\r\n\r\n") + b"\n  \n"
        assert pids(put(tmp_path / "c.jsonl", content)) == ["1", "2"]

    def test_the_last_line_needs_no_end(self, tmp_path: Path) -> None:
        assert pids(put(tmp_path / "c.jsonl", jsonl(WHALE, KRILL).rstrip())) == ["1", "2"]

    def test_lines_may_be_longer_than_what_is_read_at_a_time(self, tmp_path: Path) -> None:
        path = put(tmp_path / "c.jsonl", jsonl({**WHALE, "text": ["long " * 100_000]}, KRILL))
        first, second = corpus.read_passages([path])
        assert (len(first.text), second.pid) == (500_000, "2")

    def test_one_path_need_not_be_in_a_list(self, tmp_path: Path) -> None:
        path = put(tmp_path / "c.jsonl", jsonl(WHALE))
        assert len(list(corpus.read_passages(str(path)))) == len(list(corpus.read_passages(path))) == 1

    def test_text_that_is_split_already_needs_no_splitter(self, tmp_path: Path) -> None:
        path = put(tmp_path / "c.jsonl", jsonl(KRILL))
        code = "import sys; from baleen.data.corpus import read_passages; list(read_passages(sys.argv[1])); sys.exit('sentencex' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 0


class TestFolders:
    @pytest.mark.parametrize("name", ["corpus.jsonl", "corpus.jsonl.gz"])
    def test_a_beir_folder_is_its_corpus(self, tmp_path: Path, name: str) -> None:
        record = {"_id": "MED-10", "title": "", "text": "Statins help.", "metadata": {"url": "u"}}
        put(tmp_path / name, PACKERS["c" + name.removeprefix("corpus")](jsonl(record)))
        put(tmp_path / "queries.jsonl", jsonl({"_id": "q", "text": "Do statins help?"}))
        put(tmp_path / "qrels" / "test.tsv", "query-id\tcorpus-id\tscore\n")
        (passage,) = corpus.read_passages([tmp_path])
        assert passage == Passage("MED-10", "", "Statins help.", ((0, 13),), {"url": "u"})

    def test_the_wiki_dump_of_abstracts_keeps_every_sentence_id(self, tmp_path: Path) -> None:
        page = {"id": "12", "url": "u", "title": "Anarchism", "text": ["Anarchism is old.", "", " It has schools."]}
        bulky = {"text_with_links": ["<a>"], "charoffset": [[0, 9]], "charoffset_with_links": [[0, 9]]}
        put(tmp_path / "AB" / "wiki_00.bz2", bz2.compress(jsonl({**page, "id": "13"})))
        put(tmp_path / "AA" / "wiki_01.bz2", bz2.compress(jsonl({**page, **bulky})))
        first, second = corpus.read_passages([tmp_path])
        assert first.sentences == ("Anarchism is old.", "", "It has schools.")
        assert (first.pid, second.pid, first.metadata) == ("12", "13", {"url": "u"})

    def test_the_full_wiki_dump_has_paragraphs_of_sentences(self, tmp_path: Path) -> None:
        page = {"id": "12", "url": "u", "title": "Anarchism", "text": [["Anarchism"], ["It is old.", " It lives."]]}
        (passage,) = corpus.read_passages([put(tmp_path / "wiki_00.bz2", bz2.compress(jsonl(page)))])
        assert passage.sentences == ("Anarchism", "It is old.", "It lives.")
        assert passage.text == "Anarchism It is old. It lives."

    def test_parts_are_read_in_order_of_their_names_and_text_beside_them_is_left_out(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        put(tmp_path / "part-1.jsonl.gz", gzip.compress(jsonl(KRILL)))
        put(tmp_path / "part-0.jsonl", jsonl(WHALE))
        put(tmp_path / "README.md", "# About these files")
        put(tmp_path / ".hidden" / "part-2.jsonl", "rubbish")
        with caplog.at_level(logging.WARNING):
            assert pids(tmp_path) == ["1", "2"]
        assert "1 text files are ignored" in caplog.text


class TestTextFiles:
    def test_a_short_file_is_one_passage(self, tmp_path: Path) -> None:
        put(tmp_path / "b" / "sea.md", "# The sea\n\nIt is deep. It is wet.\n\n## Shores\n\nSand.\n")
        put(tmp_path / "a.txt", "Whales\n\nThey swim.\n\nThey sing.\n")
        whales, sea = corpus.read_passages([tmp_path])
        assert (whales.pid, whales.title, whales.text) == ("a.txt", "Whales", "They swim.\n\nThey sing.")
        assert (sea.pid, sea.title) == ("b/sea.md", "The sea")
        assert sea.sentences == ("It is deep.", "It is wet.", "Shores", "Sand.")

    def test_a_single_file_is_called_by_its_name(self, tmp_path: Path) -> None:
        assert pids(put(tmp_path / "deep" / "a.txt", "Some text.")) == ["a.txt"]

    @pytest.mark.parametrize(
        ("name", "content", "title", "text"),
        [
            ("a.txt", "Short line\nand more of it.", "Short line", "Short line\nand more of it."),
            ("a.txt", "Alone", "Alone", "Alone"),
            ("a.txt", "\ufeff\n\nTitle\n\nText.", "Title", "Text."),
            (
                "old-notes.txt",
                "A first line that is much too long to be the title of anything, " * 2,
                "old-notes",
                None,
            ),
            ("a.txt", "# not a heading\n\nText.", "# not a heading", "Text."),
            ("a.md", "Before.\n\n## The *title* ##\nText.", "The *title*", "Before.\n\nText."),
            ("a.md", "# The C#\n\nText.", "The C#", "Text."),
            ("a.md", "```\n# a comment\n```\n\n# Title", "Title", "```\n# a comment\n```"),
            ("a.md", "#hashtag\n\nText.", "#hashtag", "Text."),
        ],
    )
    def test_the_title_is_a_heading_or_a_short_first_line_or_the_stem(
        self, tmp_path: Path, name: str, content: str, title: str, text: str | None
    ) -> None:
        (passage,) = corpus.read_passages([put(tmp_path / name, content)])
        assert passage.title == title
        assert passage.text == (text or content.strip())

    def test_a_long_file_is_cut_between_paragraphs(self, tmp_path: Path) -> None:
        path = put(tmp_path / "a.txt", "Title\n\n" + "\n\n".join(["one two three four."] * 5))
        passages = list(corpus.read_passages([path], chunk_words=8))
        assert [passage.pid for passage in passages] == ["a.txt#1", "a.txt#2", "a.txt#3"]
        assert {passage.title for passage in passages} == {"Title"}
        assert passages[0].text == "one two three four.\n\none two three four."
        assert passages[2].text == "one two three four."

    def test_a_long_paragraph_is_cut_between_sentences(self, tmp_path: Path) -> None:
        path = put(
            tmp_path / "a.txt", "Title\n\nThe cat sat down. The dog ran off. A very long sentence that stays whole."
        )
        assert [passage.text for passage in corpus.read_passages([path], chunk_words=5)] == [
            "The cat sat down.",
            "The dog ran off.",
            "A very long sentence that stays whole.",
        ]

    def test_headings_cut_a_long_markdown_file_and_name_its_passages(self, tmp_path: Path) -> None:
        path = put(tmp_path / "a.md", "Intro.\n\n# Whales\n\nThey swim far.\n\n## Empty\n\n## Food\n\nKrill is food.")
        assert [(passage.title, passage.text) for passage in corpus.read_passages([path], chunk_words=5)] == [
            ("Whales", "Intro."),
            ("Whales", "They swim far."),
            ("Whales: Food", "Krill is food."),
        ]


BAD_LINES = [
    (b"{oops", "not JSON (Expecting property name", "expected one JSON object per line"),
    (b"[1, 2]", "a list;", "expected a JSON object"),
    (b"null", "null;", "expected a JSON object"),
    (b"[" * 100_000, "not JSON", "expected one JSON object per line"),
    (b'{"id": "3", "title": "T", "text": "t", "score": NaN}', "not JSON (NaN", "expected one JSON object per line"),
    (jsonl({"title": "T", "text": "t"}), "no 'id' or '_id' among the keys 'title', 'text';", "expected a string or an"),
    (jsonl({"id": "3", "text": "t"}), "no 'title' among the keys 'id', 'text';", "expected a string"),
    (jsonl({"id": "3", "title": "T"}), "no 'text' among the keys", "expected a string or a list of sentences"),
    (b"{}", "no 'id' or '_id' among the keys (none)", "expected"),
    (jsonl({**WHALE, "id": 1.5}), "'id' is a number;", "expected a string or an integer"),
    (jsonl({**WHALE, "id": True}), "'id' is a boolean;", "expected a string or an integer"),
    (jsonl({**WHALE, "id": ""}), "the id is empty;", "expected"),
    (jsonl({"_id": None, "title": "", "text": "t"}), "'_id' is null;", "expected a string or an integer"),
    (jsonl({**WHALE, "title": None}), "'title' is null;", "expected a string"),
    (jsonl({**WHALE, "text": {"a": 1}}), "'text' is an object;", "expected a string or a list of sentences"),
    (jsonl({**WHALE, "text": ["One.", 2]}), "sentence 1 of 'text' is a number;", "expected a string"),
    (jsonl({**WHALE, "text": [["One."], [["Two."]]]}), "sentence 1 of 'text' is a list;", "expected a string"),
    (jsonl({**WHALE, "text": " \n "}), "'text' is empty;", "expected at least one word"),
    (jsonl({**WHALE, "text": []}), "'text' is empty;", "expected at least one word"),
    (jsonl({**WHALE, "text": ["", " "]}), "'text' is empty;", "expected at least one word"),
    (jsonl(KRILL), "the id '2' is repeated;", "expected every id once over all files"),
    (jsonl({**KRILL, "id": 2}), "the id '2' is repeated;", "expected every id once over all files"),
    (b'{"id": "\xff"}', "invalid UTF-8 at byte 9;", "expected UTF-8"),
    (b'{"id": "3", "title": "\\ud83d", "text": "t"}', "an unpaired surrogate;", "expected valid Unicode"),
    (b'"' + b"x" * files.MAX_LINE + b'"', "a line over 10,000,000 bytes;", "expected shorter ones"),
]
BAD_FILES: list[tuple[str, bytes, int, str]] = [
    ("e.jsonl", b"", 1, "an empty file"),
    ("e.jsonl", b"\n \n", 1, "an empty file"),
    ("e.jsonl.gz", gzip.compress(b""), 1, "an empty file"),
    ("e.txt", b"", 1, "an empty file"),
    ("e.txt", b" \n\n", 1, "an empty file"),
    ("e.md", b"# Nothing but a title", 1, "an empty file"),
    ("e.txt", b"one\ntwo \xff\n", 2, "invalid UTF-8; expected UTF-8"),
    ("e.jsonl.gz", b"not gzip at all", 1, "the rest of the file cannot be read (Not a gzipped file"),
    ("e.jsonl.zst", b"not zstd at all", 1, "the rest of the file cannot be read (zstd decompress"),
    ("e.bz2", b"not bzip2 at all", 1, "the rest of the file cannot be read (Invalid data stream"),
    ("e.jsonl.gz", gzip.compress(jsonl(WHALE))[:-9], 2, "expected a complete, undamaged file"),
    ("e.jsonl.zst", zstandard.ZstdCompressor().compress(jsonl(WHALE))[:-9], 1, "expected a complete, undamaged file"),
    ("e.bz2", bz2.compress(jsonl(WHALE))[:-9], 2, "expected a complete, undamaged file"),
]
each_bad_line = pytest.mark.parametrize(("line", "found", "expected"), BAD_LINES, ids=range(len(BAD_LINES)))
each_bad_file = pytest.mark.parametrize(("name", "content", "line", "found"), BAD_FILES, ids=range(len(BAD_FILES)))


class TestBadInput:
    @each_bad_line
    def test_a_bad_line_is_named_and_said_in_one_line(
        self, tmp_path: Path, line: bytes, found: str, expected: str
    ) -> None:
        path = put(tmp_path / "c.jsonl", jsonl(KRILL) + b"\n" + line.rstrip() + b"\n" + jsonl({**WHALE, "id": "last"}))
        with pytest.raises(CorpusError) as caught:
            list(corpus.read_passages([path]))
        message = str(caught.value)
        assert message.startswith(f"{path}:3: {found}")
        assert expected in message
        assert "\n" not in message
        assert len(message) < 400

    @each_bad_line
    def test_a_bad_line_can_be_skipped_and_is_counted(
        self, tmp_path: Path, line: bytes, found: str, expected: str
    ) -> None:
        path = put(tmp_path / "c.jsonl", jsonl(KRILL) + line.rstrip() + b"\n" + jsonl({**WHALE, "id": "last"}))
        tally = Tally()
        assert pids(path, skip_bad=True, tally=tally) == ["2", "last"]
        assert (tally.passages, tally.bad) == (2, 1)
        assert tally.first_bad[0].startswith(f"{path}:2: {found}")
        assert expected in tally.first_bad[0]

    @each_bad_file
    def test_a_bad_file_is_named(self, tmp_path: Path, name: str, content: bytes, line: int, found: str) -> None:
        path = put(tmp_path / name, content)
        with pytest.raises(CorpusError) as caught:
            list(corpus.read_passages([path]))
        assert str(caught.value).startswith(f"{path}:{line}: ")
        assert found in str(caught.value)

    @each_bad_file
    def test_a_bad_file_can_be_skipped_and_the_next_is_read(
        self, tmp_path: Path, name: str, content: bytes, line: int, found: str
    ) -> None:
        tally = Tally()
        found_pids = pids(
            put(tmp_path / name, content), put(tmp_path / "ok.jsonl", jsonl(KRILL)), skip_bad=True, tally=tally
        )
        assert found_pids[-1] == "2"
        assert tally.bad == 1
        assert f"{name}:{line}: " in tally.first_bad[0]
        assert found in tally.first_bad[0]

    def test_ids_must_differ_over_all_files(self, tmp_path: Path) -> None:
        first, second = put(tmp_path / "a.jsonl", jsonl(WHALE)), put(tmp_path / "b.jsonl", jsonl(KRILL, WHALE))
        with pytest.raises(CorpusError, match=r"b\.jsonl:2: the id '1' is repeated"):
            list(corpus.read_passages([first, second]))

    def test_only_the_first_few_messages_are_kept_and_logged(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        tally = Tally()
        assert pids(put(tmp_path / "c.jsonl", b"rubbish\n" * 100), skip_bad=True, tally=tally) == []
        assert (tally.bad, len(tally.first_bad), len(caplog.records)) == (100, 5, 5)

    def test_a_text_file_that_is_too_large_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(corpus, "MAX_TEXT_FILE", 10)
        with pytest.raises(CorpusError, match="a text file over 10 bytes"):
            list(corpus.read_passages([put(tmp_path / "a.txt", "More than ten bytes.")]))

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("absent.jsonl", "no such file or folder"),
            ("table.csv", "unknown format"),
            ("empty", "nothing to read"),
        ],
    )
    def test_a_path_that_cannot_be_a_corpus_is_an_error_at_once(self, tmp_path: Path, name: str, message: str) -> None:
        put(tmp_path / "table.csv", "a,b")
        (tmp_path / "empty").mkdir()
        with pytest.raises(CorpusError, match=f"{name}: {message}"):
            corpus.read_passages([put(tmp_path / "c.jsonl", jsonl(WHALE)), tmp_path / name], skip_bad=True)

    def test_zst_without_its_package_says_what_to_install(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = put(tmp_path / "c.jsonl.zst", PACKERS["c.jsonl.zst"](jsonl(WHALE)))
        monkeypatch.setitem(sys.modules, "zstandard", None)
        with pytest.raises(MissingExtraError, match="pip install zstandard"):
            list(corpus.read_passages([path]))


class TestStreaming:
    def test_what_is_behind_the_passages_asked_for_is_not_looked_at(self, tmp_path: Path) -> None:
        path = put(tmp_path / "c.jsonl", jsonl(WHALE, KRILL) + b"rubbish\n")
        assert [passage.pid for passage in islice(corpus.read_passages([path]), 2)] == ["1", "2"]

    def test_the_tally_grows_with_the_reading(self, tmp_path: Path) -> None:
        tally = Tally()
        passages = corpus.read_passages([put(tmp_path / "c.jsonl", jsonl(WHALE, KRILL))], tally=tally)
        assert tally.passages == 0
        next(passages)
        assert tally.passages == 1

    @pytest.mark.parametrize("name", PACKERS)
    def test_an_endless_line_is_never_held_whole(
        self, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(files, "MAX_LINE", 100)
        path = put(tmp_path / name, PACKERS[name](b"x" * 500_000 + b"\nshort\n" + b"y" * 500))
        assert [len(line) for line in files.read_lines(path)] == [101, 5, 101]


class TestLinks:
    DUMP = json.dumps(
        {
            "id": 7,
            "title": "Krill",
            "text": [["Krill feed whales.", " R&D in Oslo."], [" No link."]],
            "text_with_links": [
                [
                    'Krill feed <a href="Baleen%20whale">whales</a>.',
                    ' <a href="R%26D">R&amp;D</a> in <a href="Oslo" class="x">Oslo</a>.',
                ],
                [" No link."],
            ],
            "charoffset": [[[0, 5]]],
        }
    ).encode()

    def passage(self, tmp_path: Path, content: bytes, **options: Any) -> Passage:
        (passage,) = corpus.read_passages([put(tmp_path / "c.jsonl", content)], **options)
        return passage

    def test_of_the_wiki_dump_are_kept_where_they_are_asked_for(self, tmp_path: Path) -> None:
        passage = self.passage(tmp_path, self.DUMP, links=True)
        assert passage.metadata == {"links": [["whales", "Baleen whale"], ["R&D", "R&D"], ["Oslo", "Oslo"]]}
        assert passage.sentences == ("Krill feed whales.", "R&D in Oslo.", "No link.")

    def test_are_left_out_otherwise(self, tmp_path: Path) -> None:
        assert self.passage(tmp_path, self.DUMP).metadata == {}

    def test_come_back_when_they_were_written(self, tmp_path: Path) -> None:
        passage = self.passage(tmp_path, self.DUMP, links=True)
        corpus.write_passages([passage], tmp_path / "again.jsonl")
        assert list(corpus.read_passages(tmp_path / "again.jsonl", links=True)) == [passage]

    def test_of_a_corpus_s_own_are_metadata_as_they_stand(self, tmp_path: Path) -> None:
        own = {**WHALE, "links": ["Krill", ["them", "Krill"]]}
        for links in (True, False):
            assert self.passage(tmp_path, jsonl(own), links=links).metadata == {"links": own["links"]}

    @pytest.mark.parametrize("odd", [None, 3, {}, "plain", [None, [1], {}], '<a href="">nothing</a> <a href="X"></a>'])
    def test_that_are_none_do_no_harm(self, tmp_path: Path, odd: Any) -> None:
        assert self.passage(tmp_path, jsonl({**WHALE, "text_with_links": odd}), links=True).metadata == {"links": []}


class TestWritingLines:
    def test_are_written_as_they_are_and_counted(self, tmp_path: Path) -> None:
        assert corpus.write_lines([b'{"a": 1}', b'"b"'], tmp_path / "c.jsonl") == 2
        assert (tmp_path / "c.jsonl").read_bytes() == b'{"a": 1}\n"b"\n'

    def test_may_be_compressed(self, tmp_path: Path) -> None:
        corpus.write_lines([b"1", b"2"], tmp_path / "c.jsonl.gz")
        assert gzip.decompress((tmp_path / "c.jsonl.gz").read_bytes()) == b"1\n2\n"

    def test_a_file_appears_only_once_it_is_complete(self, tmp_path: Path) -> None:
        path = put(tmp_path / "c.jsonl", "as it was")

        def lines() -> Iterator[bytes]:
            yield b"1"
            raise RuntimeError("the maker stopped")

        with pytest.raises(RuntimeError):
            corpus.write_lines(lines(), path)
        assert path.read_text() == "as it was"
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.parametrize(("name", "message"), [("c.csv", "unknown format"), ("no/c.jsonl", "no such folder")])
    def test_what_cannot_be_written_is_refused_before_a_line_is_made(
        self, tmp_path: Path, name: str, message: str
    ) -> None:
        lines = iter([b"1"])
        with pytest.raises(CorpusError, match=message):
            corpus.write_lines(lines, tmp_path / name)
        with pytest.raises(CorpusError, match=message):
            corpus.check_writable(tmp_path / name)
        assert list(lines) == [b"1"]


class TestWriting:
    @pytest.mark.parametrize("name", ["c.jsonl", "c.jsonl.gz", "c.jsonl.zst"])
    def test_what_is_written_is_read_back(self, tmp_path: Path, name: str) -> None:
        passages = [
            Passage(
                "1", "Whale", "Whales\n\nswim.  They sing.", ((0, 13), (15, 25)), {"year": 2017, "metadata": {"a": 1}}
            ),
            Passage.from_sentences("ä/2", "", ["Krill 😀.", "", " Small. "], {"id": "x", "charoffset": [1]}),
        ]
        assert corpus.write_passages(iter(passages), tmp_path / name) == 2
        again = list(corpus.read_passages([tmp_path / name]))
        for ours, theirs in zip(passages, again, strict=True):
            assert (ours.pid, ours.title, ours.sentences) == (theirs.pid, theirs.title, theirs.sentences)
            assert ours.metadata == theirs.metadata

    @given(sentences=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
    def test_sentences_are_the_same_whatever_is_in_them(
        self, tmp_path_factory: pytest.TempPathFactory, sentences: list[str]
    ) -> None:
        path = tmp_path_factory.getbasetemp() / "round-trip.jsonl"
        passage = Passage.from_sentences("1", "T", [*sentences, "End."])
        corpus.write_passages([passage], path)
        (again,) = corpus.read_passages([path])
        assert again.sentences == passage.sentences

    @pytest.mark.parametrize("name", ["c.jsonl", "c.jsonl.gz", "c.jsonl.zst"])
    def test_equal_passages_make_equal_files(self, tmp_path: Path, name: str) -> None:
        passages = [Passage.from_sentences("1", "T", ["Text."])]
        for folder in ("a", "b"):
            (tmp_path / folder).mkdir()
            corpus.write_passages(passages, tmp_path / folder / name)
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()

    def test_a_writing_that_fails_leaves_the_old_file_and_nothing_else(self, tmp_path: Path) -> None:
        path = put(tmp_path / "c.jsonl", "old")

        def failing() -> Iterator[Passage]:
            yield Passage.from_sentences("1", "T", ["Text."])
            raise RuntimeError("no more")

        with pytest.raises(RuntimeError):
            corpus.write_passages(failing(), path)
        assert [entry.name for entry in tmp_path.iterdir()] == ["c.jsonl"]
        assert path.read_text() == "old"

    def test_a_text_that_was_never_split_is_written_whole(self, tmp_path: Path) -> None:
        path = tmp_path / "c.jsonl"
        corpus.write_passages([Passage("1", "T", "One. Two.")], path)
        (back,) = corpus.read_passages(path)
        assert (back.pid, back.title, back.text) == ("1", "T", "One. Two.")

    @pytest.mark.parametrize(("name", "message"), [("c.csv", "unknown format"), ("no/c.jsonl", "no such folder")])
    def test_an_unwritable_name_is_refused(self, tmp_path: Path, name: str, message: str) -> None:
        with pytest.raises(CorpusError, match=message):
            corpus.write_passages([], tmp_path / name)


def test_passages_are_counted_up_to_the_damage_of_a_file(tmp_path: Path) -> None:
    lines = b"".join(b'{"id": "%d", "text": "x"}\n' % number for number in range(3))
    (tmp_path / "whole.jsonl").write_bytes(lines)
    (tmp_path / "note.txt").write_text("One.\nTwo.")
    assert corpus.estimate_count([tmp_path / "whole.jsonl", tmp_path / "note.txt"]) == 4
    for name, content in (
        ("cut", gzip.compress(lines)[:-12]),
        ("none", b"not gzip"),
        ("bad", b"\x1f\x8b\x08" + b"x" * 40),
    ):
        (tmp_path / f"{name}.jsonl.gz").write_bytes(content)
        assert 0 <= corpus.estimate_count([tmp_path / f"{name}.jsonl.gz", tmp_path / "note.txt"]) <= 4


class TestSamples:
    PASSAGES = tuple(Passage.from_sentences(str(number), "", [f"Number {number}."]) for number in range(40))

    def test_no_more_than_are_there(self) -> None:
        assert corpus.sample_passages(iter(self.PASSAGES[:3]), 5) == list(self.PASSAGES[:3])
        assert corpus.sample_passages(iter([]), 5) == []

    def test_the_same_seed_draws_the_same(self) -> None:
        first, again, other = (corpus.sample_passages(self.PASSAGES, 10, seed) for seed in (1, 1, 2))
        assert first == again != other
        assert len({passage.pid for passage in first}) == 10

    def test_each_passage_is_drawn_as_often_as_any_other(self) -> None:
        counts = Counter(
            passage.pid for seed in range(2000) for passage in corpus.sample_passages(self.PASSAGES, 10, seed)
        )
        assert len(counts) == 40
        # 500 each are expected, with a standard deviation of 19
        assert max(abs(count - 500) for count in counts.values()) < 100
