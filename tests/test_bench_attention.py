"""The bench of attention: both ways read the same texts and agree."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from baleen import cli
from baleen.bench.attention import attention_rows, attention_table


def test_both_ways_agree_and_are_compared() -> None:
    rows = attention_rows([1, 40], rounds=1)
    assert [(row.dtype, row.length, row.texts) for row in rows] == [
        ("bfloat16", 1, 4096),
        ("bfloat16", 40, 102),
        ("float32", 1, 4096),
        ("float32", 40, 102),
    ]
    for row in rows:
        assert row.gain == pytest.approx(row.fused_ms / row.products_ms)
        assert row.difference < (0.05 if row.dtype == "bfloat16" else 1e-4)


def test_a_table_has_a_line_for_each_row() -> None:
    lines = attention_table(attention_rows([8], rounds=1)).splitlines()
    assert [line.split(" | ")[0] for line in lines] == ["| type", "| ---", "| bfloat16", "| float32"]


def test_the_command_prints_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["baleen", "bench", "attention", "--length", "16", "--rounds", "1", "--json"])
    with suppress(SystemExit):
        cli.main()
    found = json.loads(capsys.readouterr().out)
    assert [row["length"] for row in found["attention"]] == [16, 16]
    assert "cpu" in found["machine"]
