"""The embedded default: what serves when nobody names a model or an index.

The model is an untrained starting point, made on first use of two small pretrained backbones: a retriever with a
principal-component projection, and a cross-encoder whose own relevance score stands in for a condenser.  The index is of
a demonstration corpus of 400 Wikipedia introductions that comes with the package, built on first use and kept in the
user's cache.  A dozen claims and questions over it come along too.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Iterator, Mapping
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from baleen.backbones import fetch
from baleen.checkpoint import replacing, search_roots
from baleen.corpus import read
from baleen.crossencoder import HEADS, CrossEncoder
from baleen.encoder import Encoder, EncoderConfig
from baleen.index import Index
from baleen.index.layout import FORMAT_VERSION
from baleen.markup import passage_text
from baleen.model_folder import write_model
from baleen.types import Passage

log = logging.getLogger(__name__)

MODEL = "baleen-untrained"
BACKBONE = "bge-small-en-v1.5"
CROSS_ENCODER = "ms-marco-MiniLM-L-12-v2"
# Without a condenser to tell what to drop, more hops would only gather more.
RUN = {"stand_in": True, "hops": 2, "k": 5}


def demo_passages() -> Iterator[Passage]:
    """The demonstration corpus: Wikipedia's text, CC BY-SA 4.0."""
    with as_file(files("baleen") / "data" / "demo.jsonl.gz") as path:
        yield from read([path])


def demo_claims() -> list[dict[str, Any]]:
    """Claims and questions over the demonstration corpus: `id`, `text`, `gold` titles, `label` or `answer`, `hops`."""
    lines = (files("baleen") / "data" / "demo_claims.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def untrained(backbone: str | Path | None = None) -> Encoder:
    """An untrained encoder over a backbone: the one named, or a small one that is fetched."""
    if backbone is None:
        with tempfile.TemporaryDirectory() as scratch:
            return untrained(fetch([BACKBONE], Path(scratch))[0])
    # An untrained backbone never learnt what a [MASK] after the query is for, so it does without.
    config = EncoderConfig(mask_padding=False)
    texts = [passage_text(passage.title, passage.text) for passage in demo_passages()]
    return Encoder.from_backbone(backbone, texts, config)


def write_untrained(folder: Path, retriever: str | Path, cross_encoder: str | Path) -> None:
    """The default model, over two backbones: a retriever, and a reranker that stands in for a condenser."""
    relevance = CrossEncoder.from_backbone(cross_encoder, {"reranker": HEADS["reranker"]})
    relevance.notes["untrained"] = True
    _write(folder, untrained(retriever), relevance, {"run": RUN})


def write_whole(folder: Path, retriever: Encoder, cross_encoder: str | Path) -> None:
    """A model with every component, of which only the retriever and the reranker are of use before training."""
    reading = CrossEncoder.from_backbone(cross_encoder)
    reading.notes["untrained"] = True
    _write(folder, retriever, reading, {})


def _write(folder: Path, retriever: Encoder, reading: CrossEncoder, settings: Mapping[str, Any]) -> None:
    with replacing(folder) as aside:
        retriever.save(aside / "retriever")
        reading.save(aside / "reading")
        write_model(aside, {"retriever": "retriever", **dict.fromkeys(reading.config.heads, "reading")}, settings)


def default_model() -> Path:
    """The folder of the default model; it is made in the user's cache where it is missing."""
    places = [root / MODEL for root in search_roots()]
    for folder in places:
        if (folder / "config.json").exists():
            return folder
    log.info("fetching the backbones %s and %s", BACKBONE, CROSS_ENCODER)
    with tempfile.TemporaryDirectory() as scratch:
        write_untrained(places[-1], *fetch([BACKBONE, CROSS_ENCODER], Path(scratch)))
    return places[-1]


def default_index(encoder: Encoder) -> Path:
    """The folder of the demonstration corpus's index for an encoder; it is built where it is missing."""
    folder = search_roots()[-1].parent / "indexes" / f"demo-{FORMAT_VERSION}-{encoder.fingerprint[:16]}"
    if not (folder / "manifest.json").exists():
        log.info("indexing the demonstration corpus")
        Index.build(folder, demo_passages(), encoder, bits=4)
    return folder
