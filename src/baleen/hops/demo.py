"""The embedded default: what serves when nobody names a model or an index.

The model is the shipped checkpoint where there is one.  Else it is an untrained starting point, made on first use of two
small pretrained backbones: a retriever with a principal-component projection, and a cross-encoder whose own relevance
score stands in for a condenser.

The corpus is 3,000 Wikipedia introductions that come with the package, and claims and questions over it.  Its first
`CORE` passages hold every gold passage and the nearest distractors; they are what is indexed on first use, into the
user's cache.  An index of all of it may lie in the folder of a checkpoint, as `python -m baleen.hops.demo MODEL` writes
it, and is taken where its manifest names this corpus and this encoder.
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
# Without a condenser to tell what to drop, more hops would only gather more.
RUN = {"untrained": True, "hops": 2, "k": 5}
CORE = 300  # passages that a laptop indexes in half a minute
SAMPLE = 64  # passages whose token vectors give the principal components
SHIPPED_INDEX = "demo-index"
DEMO_DEPTH = 10  # passages of a hop at most: of so small a corpus they are enough, and a laptop reads them in a second


def demo_passages(count: int | None = None) -> Iterator[Passage]:
    """The demonstration corpus, or the first `count` passages of it: Wikipedia's text, CC BY-SA."""
    with as_file(files("baleen") / "data" / "demo" / "demo.jsonl.gz") as path:
        yield from islice(read_passages([path]), count)


@cache
def demo_sha256() -> str:
    """Of the corpus's file."""
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
    """An untrained encoder over a backbone: the one named, or a small one.

    Its projection is fitted to `passages`, some of those that will be searched; the demonstration's stand in for them.
    """
    # An untrained backbone never learnt what a [MASK] after the query is for, so it does without.
    config = EncoderConfig(mask_padding=False, dim=dim)
    chosen = demo_passages(SAMPLE) if passages is None else passages
    texts = [passage_text(each.title, each.text) for each in chosen]
    return Encoder.from_backbone(backbone or small_backbone(BACKBONE), texts, config)


def write_untrained(folder: Path, retriever: str | Path, cross_encoder: str | Path) -> None:
    """The untrained model, over two backbones: a retriever, and a reranker that stands in for a condenser."""
    relevance = CrossEncoder.from_backbone(cross_encoder, {"reranker": HEADS["reranker"]})
    relevance.notes["untrained"] = True
    _write(folder, untrained_encoder(retriever), relevance, {"run": RUN})


def write_whole(folder: Path, retriever: Encoder, cross_encoder: str | Path) -> None:
    """A model with every component, of which only the retriever and the reranker are of use before training."""
    reading = CrossEncoder.from_backbone(cross_encoder)
    reading.notes["untrained"] = True
    _write(folder, retriever, reading, {})


def _write(folder: Path, retriever: Encoder, reading: CrossEncoder, settings: Mapping[str, Any]) -> None:
    with replace_folder(folder) as aside:
        retriever.save(aside / "retriever")
        reading.save(aside / "reading")
        write_model(aside, {"retriever": "retriever", **dict.fromkeys(reading.config.heads, "reading")}, settings)


def default_model() -> Path:
    """The folder of the shipped model, or of the untrained one where none is shipped."""
    return _there(SHIPPED) or untrained_model()


def untrained_model() -> Path:
    """The folder of the untrained model, which is made in the user's cache where it is missing."""
    found = _there(MODEL)
    if found is not None:
        return found
    folder = search_roots()[-1] / MODEL
    write_untrained(folder, small_backbone(BACKBONE), small_backbone(CROSS_ENCODER))
    return folder


def small_backbone(hub: str) -> Path:
    """The folder of a backbone: one among the roots with its bare name (`tools/fetch_backbones.py` writes such), or the hub's."""
    return _there(hub.rpartition("/")[2]) or resolve_folder(hub)


def _there(name: str) -> Path | None:
    """The first folder of that name among the roots that holds a model."""
    places = (root / name for root in search_roots())
    return next((folder for folder in places if (folder / "config.json").exists()), None)


def default_index(encoder: Encoder) -> Path:
    """The folder of the demonstration corpus's index for an encoder: a shipped one, or one of its core in the cache."""
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
    """The index of the whole corpus that lies in a checkpoint's folder and that this encoder made, if there is one."""
    for root in search_roots():
        for manifest in sorted(root.glob(f"*/{SHIPPED_INDEX}/manifest.json")):
            if _is_ours(manifest.parent, fingerprint):
                return manifest.parent
    return None


def _is_ours(folder: Path, fingerprint: str) -> bool:
    """Whether an index is of this corpus and by this encoder; one that cannot be read is neither."""
    try:
        manifest = read_manifest(folder)
    except BaleenError as error:
        log.warning("passed over: %s", error)
        return False
    return manifest.encoder == fingerprint and manifest.settings.get("corpus") == demo_sha256()


def write_demo_index(folder: Path, encoder: Encoder, count: int | None = None, *, bits: int = 4) -> None:
    """Index the corpus, or the first `count` passages of it, and note in the manifest what it is of."""
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
