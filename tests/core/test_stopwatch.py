from __future__ import annotations

import pytest

from baleen.core.machine import StageTimer
from baleen.core.types import Condensed


def test_seconds_are_shared_by_all_claims_and_tokens_belong_to_one() -> None:
    watch = StageTimer(2)
    with watch("encode"):
        sum(range(10_000))
    watch.read(0, "encode", 30)
    watch.read(0, "encode", 12)
    watch.read(1, "encode", 7)
    first, second = (watch.stamp(number, Condensed()) for number in range(2))
    assert first.tokens == {"encode": 42}
    assert second.tokens == {"encode": 7}
    assert first.seconds == second.seconds == watch.seconds
    assert 0 < watch.seconds["encode"] < 60


def test_a_stage_that_runs_twice_adds_up_and_one_that_fails_counts() -> None:
    watch = StageTimer(1)
    with watch("read"):
        pass
    once = watch.seconds["read"]
    with pytest.raises(ValueError, match="no"), watch("read"):
        raise ValueError("no")
    assert watch.seconds["read"] > once


def test_what_was_stamped_does_not_change_afterwards() -> None:
    watch = StageTimer(1)
    stamped = watch.stamp(0, Condensed())
    with watch("read"):
        watch.read(0, "read", 1)
    assert (stamped.seconds, stamped.tokens) == ({}, {})


def test_no_claims_no_division() -> None:
    watch = StageTimer(0)
    with watch("read"):
        pass
    assert watch.seconds.keys() == {"read"}
