"""What the files of HotPotQA and 2WikiMultiHopQA give beside a question: the passages that it was asked over, as `context`."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baleen import bytelines
from baleen.datasets.example import Example
from baleen.restating.question import BRACKET
from baleen.synthesis.quality import names_any

KEPT = 60  # words of a passage that is not gold: what it is, and whether it speaks of a man or a woman


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The text of a question's gold passages, and (title, opening) of the others that do not speak of what is gold."""

    gold: str = ""
    others: tuple[tuple[str, str], ...] = ()


def read_surroundings(path: Path, examples: Iterable[Example]) -> dict[str, Surroundings]:
    """By the id of a question, for a file that `read_examples` has read; nothing for records without a `context`."""
    gold = {example.qid: example.gold for example in examples}
    found: dict[str, Surroundings] = {}

    def keep(record: dict[str, Any]) -> dict[str, Any]:
        qid, passages = str(record.get("_id")), _passages(record)
        if qid in gold and passages:
            found[qid] = _told_apart(gold[qid], passages)
        return {}  # ten passages a record are let go as soon as it is complete

    content = bytelines.content(path)
    for text in (
        [content] if content.lstrip().startswith(b"[") else filter(None, map(bytes.strip, content.split(b"\n")))
    ):
        json.loads(text, object_hook=keep)
    return found


def _passages(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    context = record.get("context")
    return [
        (item[0], " ".join(map(str, item[1])))
        for item in (context if isinstance(context, list) else [])
        if isinstance(item, list) and len(item) == 2 and isinstance(item[0], str) and isinstance(item[1], list)
    ]


def _told_apart(gold: Collection[str], passages: Iterable[tuple[str, str]]) -> Surroundings:
    names, own, others = [BRACKET.sub("", title) for title in gold], [], []
    for title, text in passages:
        if title in gold:
            own.append(f"{title} {text}")
        elif not names_any(f"{title} {text}", names):
            others.append((title, " ".join(text.split()[:KEPT])))
    return Surroundings(" ".join(own), tuple(others))
