"""The bench of mining: every way makes the same scores, and the first is what the others are measured by."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
import torch

from baleen import cli
from baleen.bench.mining import mining_rows, mining_table, written_out
from baleen.bench.synthetic import SyntheticCorpus
from baleen.scoring import focused_score
from baleen.training.maxsim import Lanes


@pytest.mark.parametrize("facts", [0, 12])
def test_ways_agree_and_are_compared_with_the_first(facts: int) -> None:
    first, second = mining_rows(50, 3, facts, "cpu")
    assert (first.way, second.way) == ("written out", "in pieces")
    assert (first.gain, first.difference) == (1.0, 0.0)
    assert second.gain == first.seconds / second.seconds
    assert second.difference < 1e-2
    assert first.lanes == 3 * (64 + facts)
    assert first.teraflops == pytest.approx(2 * first.lanes * 50 * 80 * 128 / first.seconds / 1e12)


def test_what_is_written_out_is_the_focused_score() -> None:
    corpus = SyntheticCorpus(7)
    query = corpus.queries(1)[0].query
    passages = torch.from_numpy(corpus.chunk(0)).float()
    found = written_out(Lanes.of([query], torch.device("cpu"), torch.float32), passages, 32)
    expected = focused_score(torch.from_numpy(query)[None], None, None, None, passages, None)
    torch.testing.assert_close(found, expected, atol=5e-3, rtol=0)


def test_a_table_has_a_line_for_each_way() -> None:
    lines = mining_table(mining_rows(10, 1, 0, "cpu")).splitlines()
    assert [line.split(" | ")[0] for line in lines] == ["| way", "| ---", "| written out", "| in pieces"]


def test_the_command_prints_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["bench", "mining", "--size", "20", "--queries", "2", "--device", "cpu", "--json"]
    monkeypatch.setattr("sys.argv", ["baleen", *arguments])
    with suppress(SystemExit):
        cli.main()
    found = json.loads(capsys.readouterr().out)
    assert [row["way"] for row in found["mining"]] == ["written out", "in pieces"]
    assert "cpu" in found["machine"]
