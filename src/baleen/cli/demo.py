"""`baleen demo`: the shortest way to see something."""

from __future__ import annotations

from baleen.cli.hops import verify
from baleen.cli.options import DeviceOption

CLAIM, HOPS, DEPTH = "hammer", 3, "5"


def demo(device: DeviceOption = None) -> None:
    """Verify one claim in three hops, over the demonstration corpus."""
    from baleen.embedded import demo_claims

    texts = {claim["id"]: claim["text"] for claim in demo_claims()}
    verify(texts[CLAIM], hops=HOPS, k=DEPTH, device=device)
