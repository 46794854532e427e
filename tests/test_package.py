"""The front door: every name that the package promises is there, and comes from the module said to be its home."""

from __future__ import annotations

from importlib import import_module

import pytest

import baleen


def test_all_lists_every_name_with_a_home() -> None:
    assert set(baleen.__all__) == {*baleen._HOMES, "__version__"} == set(dir(baleen))


@pytest.mark.parametrize("name", baleen.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(baleen, name) is not None
    if name in baleen._HOMES:
        assert getattr(baleen, name) is getattr(import_module(baleen._HOMES[name]), name)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Whale'"):
        baleen.Whale  # noqa: B018
