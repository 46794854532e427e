"""Questions of a BEIR folder: queries.jsonl and qrels/SPLIT.tsv.  Its corpus.jsonl is an ordinary collection."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path

from baleen.core import files
from baleen.core.errors import DatasetError
from baleen.data import parsing
from baleen.data.example import BY_ID, Example
from baleen.data.parsing import InputError

QUERIES = "queries.jsonl"
SPLITS = ("test", "dev", "train")


def is_beir(path: Path) -> bool:
    """Whether `path` is a BEIR folder, or a qrels file of one."""
    return (path / QUERIES).is_file() or (path.suffix == ".tsv" and (path.parent.parent / QUERIES).is_file())


def read_beir(path: Path) -> list[Example]:
    """Read the judged questions with their relevant passages, from a qrels file or a folder's test split."""
    qrels = path if path.suffix == ".tsv" else _split(path)
    gold = _gold(qrels)
    texts = _texts(qrels.parent.parent / QUERIES, gold)
    absent = [qid for qid in gold if qid not in texts]
    if absent:
        raise DatasetError(f"{qrels}: {len(absent)} queries are not in {QUERIES}, such as {absent[0]!r}")
    return [Example(qid, texts[qid], tuple(pids), hops=len(pids), named_by=BY_ID) for qid, pids in gold.items() if pids]


def _gold(qrels: Path) -> dict[str, list[str]]:
    """The relevant passages of each judged question; a score of 0 or less marks an irrelevant one."""
    gold: dict[str, list[str]] = {}
    for place, line in _lines(qrels):
        try:
            qid, pid, score = _judgement(line)
        except InputError as flaw:
            if place.endswith(":1"):  # a header
                continue
            raise DatasetError(f"{place}: {flaw}; expected query-id, corpus-id and score, separated by tabs") from None
        gold.setdefault(qid, []).extend([pid] * (score > 0))
    return gold


def _judgement(line: str) -> tuple[str, str, int]:
    row = line.split("\t")
    if len(row) != 3:
        raise InputError(f"{len(row)} fields")
    try:
        return row[0], row[1], int(row[2])
    except ValueError:
        raise InputError(f"the score {row[2]!r} is not a whole number") from None


def _split(folder: Path) -> Path:
    for name in SPLITS:
        if (folder / "qrels" / f"{name}.tsv").is_file():
            return folder / "qrels" / f"{name}.tsv"
    raise DatasetError(f"{folder}: no qrels; expected qrels/test.tsv, qrels/dev.tsv or qrels/train.tsv")


def _texts(path: Path, judged: Collection[str]) -> dict[str, str]:
    """The text of each judged question; questions of other splits are not checked."""
    texts = {}
    for place, line in _lines(path):
        try:
            record = json.loads(line)
            qid = str(record["_id"])
            if qid in judged:
                texts[qid] = parsing.text(record, "text")
        except InputError as flaw:
            raise DatasetError(f"{place}: {flaw}") from None
        except (ValueError, KeyError, TypeError):
            raise DatasetError(f"{place}: not a query; expected a JSON object with '_id' and 'text'") from None
    return texts


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    try:
        for number, line in enumerate(files.read_lines(path), start=1):
            if line.strip():
                yield f"{path}:{number}", line.decode("utf-8", "replace").rstrip("\r")
    except files.READ_ERRORS as error:
        raise DatasetError(f"{path}: cannot be read: {error}") from None
