"""The embedded default: what serves when nobody names a model or an index.

The model is the untrained starting point: a small pretrained backbone with its principal-component projection, made on
first use.  The index is of a demonstration corpus of 400 Wikipedia introductions that comes with the package, built on
first use and kept in the user's cache.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from importlib.resources import as_file, files
from pathlib import Path

from baleen.backbones import fetch
from baleen.checkpoint import search_roots
from baleen.corpus import read
from baleen.encoder import Encoder, EncoderConfig
from baleen.index import Index
from baleen.index.layout import FORMAT_VERSION
from baleen.markup import passage_text
from baleen.types import Passage

log = logging.getLogger(__name__)

MODEL = "flipr-untrained"
BACKBONE = "bge-small-en-v1.5"
QUESTION = "Who commanded the space mission on which the Berkut spacesuit was worn?"


def demo_passages() -> Iterator[Passage]:
    """The demonstration corpus: Wikipedia's text, CC BY-SA 4.0."""
    with as_file(files("baleen") / "data" / "demo.jsonl.gz") as path:
        yield from read([path])


def untrained(backbone: str | Path | None = None) -> Encoder:
    """An untrained encoder over a backbone: the one named, or a small one that is fetched."""
    # An untrained backbone never learnt what a [MASK] after the query is for, so it does without.
    config = EncoderConfig(mask_padding=False)
    texts = [passage_text(passage.title, passage.text) for passage in demo_passages()]
    if backbone is not None:
        return Encoder.from_backbone(backbone, texts, config)
    log.info("fetching the backbone %s", BACKBONE)
    with tempfile.TemporaryDirectory() as folder:
        return Encoder.from_backbone(fetch([BACKBONE], Path(folder))[0], texts, config)


def default_model() -> Path:
    """The folder of the default model; it is made in the user's cache where it is missing."""
    places = [root / MODEL for root in search_roots()]
    for folder in places:
        if (folder / "config.json").exists():
            return folder
    untrained().save(places[-1])
    return places[-1]


def default_index(encoder: Encoder) -> Path:
    """The folder of the demonstration corpus's index for an encoder; it is built where it is missing."""
    folder = search_roots()[-1].parent / "indexes" / f"demo-{FORMAT_VERSION}-{encoder.fingerprint[:16]}"
    if not (folder / "manifest.json").exists():
        log.info("indexing the demonstration corpus")
        Index.build(folder, demo_passages(), encoder, bits=4)
    return folder
