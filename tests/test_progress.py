from __future__ import annotations

import pytest

from baleen.progress import Pace, progress, throughput, time_left, track


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


def test_nobody_can_tell_before_something_is_done() -> None:
    pace = Pace(50)
    assert pace.left(3.0) is None
    pace.mark(0, 4.0)  # a note beside the bar
    assert pace.left(5.0) is None
    assert Pace(None).left(1.0) is None


def test_the_time_left_is_told_after_the_first_batch_and_counts_down() -> None:
    pace = Pace(50)
    pace.mark(10, 20.0)
    assert pace.left(20.0) == pytest.approx(80.0)
    assert pace.left(25.0) == pytest.approx(75.0)
    assert pace.left(900.0) == 0.0


def test_what_came_first_pays_for_loading_and_is_left_out_of_the_mean() -> None:
    pace = Pace(50)
    pace.mark(10, 100.0)  # 90 of them spent on loading
    pace.mark(20, 110.0)
    assert pace.left(110.0) == pytest.approx(30.0)
    pace.mark(20, 112.0)  # a note changes nothing
    assert pace.left(112.0) == pytest.approx(28.0)
    pace.mark(50, 140.0)
    assert pace.left(140.0) == 0.0


def test_slow_batches_do_not_lose_the_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One report is enough, as in a run of fifty questions whose batches take a minute each."""
    monkeypatch.setenv("COLUMNS", "120")
    with progress("evaluating", total=50, unit="questions", visible=True) as bar:
        bar.advance(48)
        bar.note("all@20 50.0")
    told = capsys.readouterr().err
    assert "0:00:00 left" in told
    assert "all@20 50.0" in told


def test_time_left_reads_well() -> None:
    assert time_left(None) == "-:--:-- left"
    assert [time_left(seconds) for seconds in (0.4, 61, 3723)] == ["0:00:00 left", "0:01:01 left", "1:02:03 left"]
