"""Files of claims and questions: lines and lists, plain and compressed."""

from __future__ import annotations

import bz2
import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from baleen.core import files
from baleen.core.errors import DatasetError
from baleen.data.claims import Claim, read_claims

PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}
RECORDS = [{"claim": "A.", "text": "not this"}, {"_id": "b", "question": "B?"}, {"uid": 7, "text": "C"}]
READ = [Claim("1", "A."), Claim("b", "B?"), Claim("7", "C")]


@pytest.mark.parametrize("suffix", PACKED)
def test_lines_and_a_list_hold_the_same_claims(tmp_path: Path, suffix: str) -> None:
    lines, listed = tmp_path / f"c.jsonl{suffix}", tmp_path / f"c.json{suffix}"
    lines.write_bytes(PACKED[suffix]("\n".join(map(json.dumps, RECORDS)).encode()))
    listed.write_bytes(PACKED[suffix](json.dumps(RECORDS, indent=1).encode()))
    assert read_claims(lines) == read_claims(listed) == READ


@pytest.mark.parametrize("suffix", PACKED)
def test_lines_are_compressed_by_suffix(tmp_path: Path, suffix: str) -> None:
    path, lines = tmp_path / f"c.jsonl{suffix}", [b'{"claim": "x"}'] * 200
    assert files.write_lines(lines, path) == 200
    assert list(files.read_lines(path)) == lines
    assert (path.stat().st_size < 1000) == bool(suffix)


def test_a_list_may_be_one_line_of_any_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_LINE", 20)
    path = tmp_path / "c.json"
    path.write_text(json.dumps(RECORDS))
    assert read_claims(path) == READ
    path.write_text(json.dumps(RECORDS[0]))
    with pytest.raises(DatasetError, match=r"c.json:1: a line of more than 20 bytes; expected one record per line"):
        read_claims(path)


def test_empty_lines_count_and_a_byte_order_mark_does_not(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(b'\xef\xbb\xbf\r\n{"claim": "x"}\r\n\n{"claim": "y"}')
    assert read_claims(path) == [Claim("2", "x"), Claim("4", "y")]


def test_a_byte_order_mark_after_empty_blocks_is_removed(tmp_path: Path) -> None:
    """The first pieces of a large .zst file decompress to nothing."""
    noise = random.Random(0).randbytes(60_000).hex()
    path = tmp_path / "c.jsonl.zst"
    path.write_bytes(PACKED[".zst"](b"\xef\xbb\xbf" + json.dumps({"claim": "x", "noise": noise}).encode()))
    assert read_claims(path) == [Claim("1", "x")]
    assert next(files.read_lines(path)).startswith(b"{")


def test_a_missing_or_truncated_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"c.jsonl: no such file"):
        read_claims(tmp_path / "c.jsonl")
    path = tmp_path / "c.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"claim": "x"}')[:-9])
    with pytest.raises(DatasetError, match=r"c.jsonl.gz: cannot be read "):
        read_claims(path)
