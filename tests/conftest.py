"""Fixtures that tests of several modules share; a module asks for `one_thread` by its `pytestmark`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Torch on one thread: several would spend longer on meeting each other than on so few numbers."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
