"""`baleen demo`: the shortest way to see something."""

from __future__ import annotations

from baleen.cli.hops import verify
from baleen.cli.options import DeviceOption


def demo(device: DeviceOption = None) -> None:
    """Take one claim through its hops, over the demonstration corpus."""
    from baleen.embedded import demo_claims

    verify(demo_claims()[0]["text"], device=device)
