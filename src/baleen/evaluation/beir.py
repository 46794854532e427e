"""Questions of a BEIR folder: queries.jsonl and qrels/SPLIT.tsv; its corpus.jsonl is a collection like any other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from baleen import bytelines
from baleen.datasets import Example
from baleen.datasets.example import BY_ID
from baleen.errors import DatasetError

QUERIES = "queries.jsonl"
SPLITS = ("test", "dev", "train")


def is_beir(path: Path) -> bool:
    """Whether `path` is such a folder, or a file of its qrels."""
    return (path / QUERIES).is_file() or (path.suffix == ".tsv" and (path.parent.parent / QUERIES).is_file())


def read_beir(path: Path) -> list[Example]:
    """The judged questions, with the relevant passages as gold: of the qrels named, or of the folder's test split."""
    qrels = path if path.suffix == ".tsv" else _split(path)
    gold: dict[str, list[str]] = {}
    for place, line in _lines(qrels):
        fields = line.split("\t")
        if len(fields) == 3 and fields[2].strip().isdigit():
            gold.setdefault(fields[0], []).extend([fields[1]] * (int(fields[2]) > 0))
        elif not place.endswith(":1"):  # a header stands in the first line
            raise DatasetError(f"{place}: {len(fields)} fields; expected query-id, corpus-id and a score, with tabs")
    texts = _texts(qrels.parent.parent / QUERIES)
    absent = [qid for qid in gold if qid not in texts]
    if absent:
        raise DatasetError(f"{qrels}: {len(absent)} queries are not in {QUERIES}, such as {absent[0]!r}")
    return [Example(qid, texts[qid], tuple(pids), hops=len(pids), named_by=BY_ID) for qid, pids in gold.items() if pids]


def _split(folder: Path) -> Path:
    for name in SPLITS:
        if (folder / "qrels" / f"{name}.tsv").is_file():
            return folder / "qrels" / f"{name}.tsv"
    raise DatasetError(f"{folder}: has no qrels/test.tsv, nor of dev or train; expected one of them")


def _texts(path: Path) -> dict[str, str]:
    texts = {}
    for place, line in _lines(path):
        try:
            record = json.loads(line)
            texts[str(record["_id"])] = str(record["text"])
        except (ValueError, KeyError, TypeError):
            raise DatasetError(f"{place}: not a query; expected a JSON object with '_id' and 'text'") from None
    return texts


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    try:
        for number, line in enumerate(bytelines.read(path), start=1):
            if line.strip():
                yield f"{path}:{number}", line.decode("utf-8", "replace").rstrip("\r")
    except bytelines.BROKEN as error:
        raise DatasetError(f"{path}: cannot be read: {error}") from None
