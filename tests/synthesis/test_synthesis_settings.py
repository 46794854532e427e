"""Settings of a synthesis."""

from __future__ import annotations

import math
from typing import Any

import pytest

from baleen.core.errors import ConfigError
from baleen.synthesis.settings import SynthesisConfig


def test_the_defaults_are_shares_that_sum_to_one() -> None:
    config = SynthesisConfig()
    for shares in (config.hops, config.kinds, config.labels):
        assert sum(shares.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"limit": 0}, "a limit of 0 claims; expected at least 1"),
        ({"questions": 1.5}, "questions = 1.5; expected a share between 0 and 1"),
        ({"unnamed": -0.1}, "unnamed = -0.1"),
        ({"solved": math.nan}, "solved = nan"),
        ({"hops": {1: 1.0}}, "hops .1.; expected one or more numbers from 2 on"),
        ({"hops": {}}, "hops"),
        ({"hops": {2: -1.0, 3: 1.0}}, "shares of hops .-1.0, 1.0.; expected numbers from 0 on, one of them above 0"),
        ({"hops": {2: 0.0}}, "shares of hops"),
        ({"kinds": {"chian": 1.0}}, "kinds .'chian'. are not known; expected some of chain, bridge"),
        ({"kinds": {"chain": math.inf}}, "shares of kinds"),
        ({"kinds": {}}, "shares of kinds"),
        ({"labels": {"true": 1.0}}, "labels .'true'. are not known; expected some of supported, refuted"),
        ({"labels": {"supported": math.nan}}, "shares of labels"),
    ],
)
def test_invalid_settings_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SynthesisConfig(**given)


def test_balanced_gives_equal_shares_to_all_that_have_one() -> None:
    config = SynthesisConfig(seed=3, hops={2: 0.9, 3: 0.1, 4: 0}, kinds={"chain": 0.2, "tree": 0.8}).balanced()
    assert config.hops == {2: 1.0, 3: 1.0}
    assert config.kinds == {"chain": 1.0, "tree": 1.0}
    assert set(config.labels.values()) == {1.0}
    assert config.seed == 3
