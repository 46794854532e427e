"""Fixtures that tests of several modules share: `float32` is for all, a module asks for `one_thread` by its `pytestmark`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def float32() -> Iterator[None]:
    """Models in float32 on every CPU: those that have bfloat16 would take it, and round what tests compare."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("baleen.models.device.cpu_has_bfloat16", lambda: False)
        yield


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Torch on one thread: several would spend longer on meeting each other than on so few numbers."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
