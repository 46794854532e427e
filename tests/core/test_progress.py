from __future__ import annotations

import sys

import pytest

from baleen.core.progress import progress, throughput, track


def test_silent_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("encoding", total=3, unit="passages") as bar:
        bar.advance()
        bar.advance(2)
    assert bar.done == 3
    assert list(track(range(3), "counting")) == [0, 1, 2]
    assert capsys.readouterr() == ("", "")


def test_a_visible_bar_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("encoding", total=3, unit="passages", visible=True) as bar:
        bar.advance(3)
    out, err = capsys.readouterr()
    assert out == ""
    assert "encoding" in err
    assert "3/3" in err
    assert "passages/s" in err


def test_throughput_reads_well() -> None:
    assert throughput(12345, 10.0, "tokens") == "1,234 tokens/s"
    assert throughput(1, 2.0, "passages") == "0.5 passages/s"
    assert throughput(0, 0.0, "items") == "0.0 items/s"


def test_quiet_hides_the_bar_in_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("BALEEN_QUIET", "1")
    assert list(track(range(3), "counting")) == [0, 1, 2]
    assert capsys.readouterr().err == ""


def test_slow_batches_keep_the_remaining_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of a minute are longer than rich's default window for its speed estimate."""
    clock = [0.0]
    monkeypatch.setattr("rich.console.monotonic", lambda: clock[0])
    monkeypatch.setenv("COLUMNS", "120")
    with progress("evaluating", total=50, unit="questions", visible=True) as bar:
        for clock[0] in (60.0, 120.0, 180.0):
            bar.advance(10)
        bar.note("all@20 50.0")
    shown = capsys.readouterr().err
    assert "all@20 50.0" in shown
    assert "0:02:00" in shown
