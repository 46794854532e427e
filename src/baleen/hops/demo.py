"""The default model and index, used when none is named.

The model is the shipped checkpoint.  Without one it is an untrained model, made on first use from two small pretrained
backbones: a retriever with a principal-component projection, and a reranker whose score replaces the condenser's.

The corpus is 3,000 Wikipedia introductions in the package, with claims and questions.  Its first `CORE` passages contain
every gold passage and the nearest distractors; they are indexed on first use, into the user's cache.  An index of the
whole corpus in a checkpoint's folder (`python -m baleen.hops.demo MODEL` writes one) is used instead if its manifest
names this corpus and this encoder.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import as_file, files
from itertools import islice
from pathlib import Path
from typing import Any

from baleen.core.errors import BaleenError
from baleen.core.types import Passage
from baleen.data.corpus import read_passages
from baleen.index.format import FORMAT_VERSION, read_manifest
from baleen.index.index import Index
from baleen.models.checkpoint import replace_folder, resolve_folder, search_roots
from baleen.models.cross_encoder import HEADS, CrossEncoder
from baleen.models.encoder import Encoder
from baleen.models.folder import write_model
from baleen.models.markup import passage_text
from baleen.models.tokens import EncoderConfig

log = logging.getLogger(__name__)

SHIPPED = "baleen-small"
MODEL = "baleen-untrained"
BACKBONE = "BAAI/bge-small-en-v1.5"
CROSS_ENCODER = "cross-encoder/ms-marco-MiniLM-L-12-v2"
# More hops would only add facts, as an untrained condenser drops none.
RUN = {"untrained": True, "hops": 2, "k": 5}
CORE = 300  # passages; a laptop indexes them in half a minute
SAMPLE = 64  # passages whose token vectors give the principal components
SHIPPED_INDEX = "demo-index"
DEMO_DEPTH = 10  # most passages per hop over this small corpus; a laptop reads them in a second


def demo_passages(count: int | None = None) -> Iterator[Passage]:
    """The demonstration corpus, or the first `count` passages of it: Wikipedia's text, CC BY-SA."""
    with as_file(files("baleen") / "data" / "demo" / "demo.jsonl.gz") as path:
        yield from islice(read_passages([path]), count)


@cache
def demo_sha256() -> str:
    """Hash of the corpus's file."""
    return hashlib.sha256((files("baleen") / "data" / "demo" / "demo.jsonl.gz").read_bytes()).hexdigest()


def demo_claims() -> list[dict[str, Any]]:
    """Claims and questions over the demonstration corpus, in the shape of the dataset `own`.

    `id`, `text`, `gold` titles with their `pids`, `facts` as (title, number of the sentence), `hops`, and a `label`
    (supported, refuted, not enough information) or an `answer`.
    """
    lines = (files("baleen") / "data" / "demo" / "demo_claims.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def untrained_encoder(
    backbone: str | Path | None = None, passages: Iterable[Passage] | None = None, dim: int = 128
) -> Encoder:
    """An untrained encoder over a backbone (None: a small one).

    Its projection is fitted to `passages` (None: some of the demonstration corpus).
    """
    # An untrained backbone has not learnt to use the [MASK]s after a query.
    config = EncoderConfig(mask_padding=False, dim=dim)
    chosen = demo_passages(SAMPLE) if passages is None else passages
    texts = [passage_text(each.title, each.text) for each in chosen]
    return Encoder.from_backbone(backbone or small_backbone(BACKBONE), texts, config)


def write_untrained(folder: Path, retriever: str | Path, cross_encoder: str | Path) -> None:
    """Write the untrained model over two backbones: a retriever and a reranker."""
    relevance = CrossEncoder.from_backbone(cross_encoder, {"reranker": HEADS["reranker"]})
    relevance.notes["untrained"] = True
    _write(folder, untrained_encoder(retriever), relevance, {"run": RUN})


def write_whole(folder: Path, retriever: Encoder, cross_encoder: str | Path) -> None:
    """Write a model with every component; only its retriever and reranker are useful before training."""
    reading = CrossEncoder.from_backbone(cross_encoder)
    reading.notes["untrained"] = True
    _write(folder, retriever, reading, {})


def _write(folder: Path, retriever: Encoder, reading: CrossEncoder, settings: Mapping[str, Any]) -> None:
    with replace_folder(folder) as aside:
        retriever.save(aside / "retriever")
        reading.save(aside / "reading")
        write_model(aside, {"retriever": "retriever", **dict.fromkeys(reading.config.heads, "reading")}, settings)


def default_model() -> Path:
    """The folder of the shipped model, or of the untrained one."""
    return _find(SHIPPED) or untrained_model()


def untrained_model() -> Path:
    """The folder of the untrained model, made in the user's cache if it is missing."""
    found = _find(MODEL)
    if found is not None:
        return found
    folder = search_roots()[-1] / MODEL
    log.info("making an untrained model of %s and %s", BACKBONE, CROSS_ENCODER)
    write_untrained(folder, small_backbone(BACKBONE), small_backbone(CROSS_ENCODER))
    return folder


def small_backbone(hub: str) -> Path:
    """The folder of a backbone among the roots (`tools/fetch_backbones.py` writes it), or from the hub."""
    return _find(hub.rpartition("/")[2]) or resolve_folder(hub)


def _find(name: str) -> Path | None:
    """The first folder of this name among the roots that holds a model."""
    places = (root / name for root in search_roots())
    return next((folder for folder in places if (folder / "config.json").exists()), None)


def default_index(encoder: Encoder) -> Path:
    """The folder of the demonstration index for an encoder: a shipped one, or one of `CORE` passages in the cache."""
    shipped = shipped_index(encoder.fingerprint)
    if shipped is not None:
        return shipped
    name = f"demo-{FORMAT_VERSION}-{demo_sha256()[:8]}-{encoder.fingerprint[:16]}"
    folder = search_roots()[-1].parent / "indexes" / name
    if not (folder / "manifest.json").exists():
        log.info("indexing %d passages of the demonstration corpus", CORE)
        write_demo_index(folder, encoder, CORE)
    return folder


def shipped_index(fingerprint: str) -> Path | None:
    """The folder of a shipped index of the whole corpus by this encoder, or None."""
    for root in search_roots():
        for manifest in sorted(root.glob(f"*/{SHIPPED_INDEX}/manifest.json")):
            if _is_ours(manifest.parent, fingerprint):
                return manifest.parent
    return None


def _is_ours(folder: Path, fingerprint: str) -> bool:
    """Whether an index is of this corpus and this encoder; one that cannot be read is not."""
    try:
        manifest = read_manifest(folder)
    except BaleenError as error:
        log.warning("index skipped: %s", error)
        return False
    return manifest.encoder == fingerprint and manifest.settings.get("corpus") == demo_sha256()


def write_demo_index(folder: Path, encoder: Encoder, count: int | None = None, *, bits: int = 4) -> None:
    """Index the corpus, or its first `count` passages, and note the corpus in the manifest."""
    device = str(encoder.device)
    passages = demo_passages(count)
    Index.build(folder, passages, encoder, bits=bits, overwrite=True, device=device, corpus=demo_sha256())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m baleen.hops.demo", description="Put an index of the demonstration corpus into a model's folder."
    )
    parser.add_argument("model", help="a model's folder or name")
    parser.add_argument("--bits", type=int, default=2, help="bits a dimension (default: 2)")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        folder = resolve_folder(options.model)
        write_demo_index(folder / SHIPPED_INDEX, Encoder.load(folder), bits=options.bits)
    except BaleenError as error:
        log.error("%s", error)
        return error.exit_code
    print(folder / SHIPPED_INDEX)
    return 0


if __name__ == "__main__":
    sys.exit(main())
