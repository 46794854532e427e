"""What is known of the backbones and datasets that a model may be made of: their names and their licences."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MIT, APACHE = "MIT", "Apache-2.0"
BY_SA, BY = "CC BY-SA 4.0", "CC BY 4.0"


@dataclass(frozen=True)
class Backbone:
    """A pretrained encoder: its name on the Hugging Face hub, its licence, and the language of what it learnt from."""

    hub: str
    licence: str
    language: str = "en"


@dataclass(frozen=True)
class Dataset:
    """Questions or claims that people wrote over Wikipedia: what they are called, on the hub too, and their licence."""

    title: str
    licence: str
    hub: str | None = None


_BACKBONES = (
    Backbone("BAAI/bge-small-en-v1.5", MIT),
    Backbone("answerdotai/answerai-colbert-small-v1", APACHE),
    Backbone("cross-encoder/ms-marco-MiniLM-L-12-v2", APACHE),
    Backbone("sentence-transformers/all-MiniLM-L6-v2", APACHE),
    Backbone("google-bert/bert-base-uncased", APACHE),
    Backbone("google/electra-base-discriminator", APACHE),
    Backbone("google/electra-large-discriminator", APACHE),
)
DATASETS = {
    "hover": Dataset("HoVer", BY_SA, "hover-nlp/hover"),
    "hotpotqa": Dataset("HotPotQA", BY_SA, "hotpotqa/hotpot_qa"),
    "2wiki": Dataset("2WikiMultiHopQA", APACHE, "xanhho/2WikiMultihopQA"),
    "musique": Dataset("MuSiQue", BY),
    "exfever": Dataset("EX-FEVER", MIT),
}


def known_backbone(name: str) -> Backbone | None:
    """The backbone that a plan names, by its name on the hub, or by the last part of that or of a folder's path."""
    return next((each for each in _BACKBONES if Path(each.hub).name == Path(name).name), None)


def dataset_title(dataset: str) -> str:
    return DATASETS[dataset].title if dataset in DATASETS else dataset


def short_path(path: str) -> str:
    """The folder and the name of a file, which say enough on another machine too."""
    return "/".join(part for part in Path(path).parts[-2:] if part not in ("/", "..", "."))
