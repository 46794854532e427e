"""`baleen demo`: the shortest way to see something."""

from __future__ import annotations

from baleen.cli.hops import ask
from baleen.cli.options import DeviceOption

QUESTION, DEPTH = "commander", "3"


def demo(device: DeviceOption = None) -> None:
    """Take one question through two hops, over the demonstration corpus."""
    from baleen.embedded import demo_claims

    texts = {claim["id"]: claim["text"] for claim in demo_claims()}
    ask(texts[QUESTION], k=DEPTH, device=device)
