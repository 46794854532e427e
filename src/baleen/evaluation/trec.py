"""Rankings and gold passages in TREC's formats.

    run       qid Q0 pid rank score tag
    qrels     qid 0 pid relevance

Readers of runs sort by score and ignore the rank, but scores of different hops are not comparable.  So written scores
count down from the top of the ranking.  Files are written atomically.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path

from baleen.core import files
from baleen.core.errors import DatasetError
from baleen.core.types import Hit, Ranking
from baleen.data.example import Example
from baleen.evaluation.results import Result, numbered_lines

TAG = "baleen"
RUN = "qid Q0 pid rank score tag"


def write_run(results: Iterable[Result], path: Path) -> None:
    rows = (
        (result.example.qid, "Q0", pid, str(rank), str(len(result.prediction.ranking) - rank + 1), TAG)
        for result in results
        for rank, pid in enumerate(result.prediction.ranking.pids, start=1)
    )
    _write(rows, path)


def write_qrels(examples: Iterable[Example], path: Path) -> None:
    _write(((example.qid, "0", pid, "1") for example in examples for pid in example.gold), path)


def _write(rows: Iterable[tuple[str, ...]], path: Path) -> None:
    with files.replacing(path) as aside:
        files.write_lines((_line(row) for row in rows), aside)


def _line(row: tuple[str, ...]) -> bytes:
    for value in row:
        if len(value.split()) != 1:
            raise DatasetError(f"the id {value!r} has a space in it or is empty; TREC's formats cannot hold such ids")
    return " ".join(row).encode()


def read_run(path: Path) -> dict[str, Ranking]:
    """Read rankings by question id, sorted by score, then by rank."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for place, (qid, _, pid, rank, score, _) in _rows(path):
        if pid in found.setdefault(qid, {}):
            raise DatasetError(f"{place}: the passage {pid!r} is repeated for the question {qid!r}; expected it once")
        found[qid][pid] = (-_number(place, score), _number(place, rank))
    return {
        qid: Ranking(tuple(Hit(pid, -place[0]) for pid, place in sorted(each.items(), key=itemgetter(1))))
        for qid, each in found.items()
    }


def _rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the place and fields of each line; a wrong number of fields is a DatasetError."""
    for place, line in numbered_lines(path):
        row = line.decode("utf-8", "replace").split()
        if len(row) not in (0, len(RUN.split())):
            raise DatasetError(f"{place}: {len(row)} fields; expected '{RUN}'")
        if row:
            yield place, row


def _number(place: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DatasetError(f"{place}: {text!r} is not a number; expected '{RUN}'") from None
