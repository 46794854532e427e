"""Kill the writer of an index at random moments, and check what it leaves.

    python benchmarks/kills.py [--kills 200] [--seed 0]
    python benchmarks/kills.py --opens 1000

A child builds a small index and keeps changing it (add, delete, compact, rebuild).  It notes the start and end of each
change in a journal.  SIGKILL ends it after a random delay.  Then the index must hold its contents from before or after
the change in progress, all checksums must match, a search must work, and the next writer must remove leftovers.  Prints
a Markdown table; the exit status is 1 if anything else is found.

"before" and "after" are decided by contents, so a killed compaction always counts as "before".  --opens N instead opens
the index N times while the child writes; each must succeed.

A kill is not a power cut: the operating system keeps what it was given, so this does not test fsync.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

# One thread allows forking, which saves each child the imports.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import torch

from baleen.core.errors import BaleenError, IndexNotFoundError
from baleen.core.markdown import markdown_table
from baleen.index import format
from baleen.index.index import Index
from index_fakes import WordEncoder, passages_of, random_text

ENCODER = WordEncoder()
LONGEST_DELAY = 0.6  # seconds after the first change; enough for a few dozen changes
State = dict[str, str] | None  # texts by id; None where there is no index yet


@dataclass(frozen=True)
class Change:
    """One step: its kind, its passages, and the contents of the index afterwards."""

    kind: str
    texts: dict[str, str]
    after: dict[str, str]


def script(seed: int) -> Iterator[Change]:
    """Yield endless changes, the same for the same seed; the first one builds."""
    chance = random.Random(seed)
    held: dict[str, str] = {}
    kinds = ["build"]
    while True:
        kind = chance.choice(kinds)
        texts: dict[str, str] = {}
        if kind == "delete":
            texts = dict.fromkeys(chance.sample(sorted(held), min(3, len(held) - 1)), "")
            held = {pid: text for pid, text in held.items() if pid not in texts}
        elif kind != "compact":
            texts = {f"p{chance.randrange(30)}": random_text(chance, chance.randint(1, 8)) for _ in range(6)}
            held = {**(held if kind == "add" else {}), **texts}
        yield Change(kind, texts, held)
        kinds = ["add", "add", "add", "delete", "delete", "compact", "compact", "build"]


def apply(change: Change, root: Path) -> None:
    match change.kind:
        case "build":
            Index.build(root, passages_of(change.texts), ENCODER, overwrite=True)
        case "add":
            Index.open(root).add(passages_of(change.texts), ENCODER)
        case "delete":
            Index.open(root).delete(change.texts)
        case "compact":
            Index.open(root).compact()


def write_until_killed(root: Path, seed: int, journal: int) -> None:
    """Run in the child: write a byte to the journal before and after each change."""
    for change in script(seed):
        os.write(journal, b"<")
        apply(change, root)
        os.write(journal, b">")


def kill_one(root: Path, seed: int, delay: float) -> bytes:
    """Kill a child `delay` seconds after its first change began; return its journal."""
    with writer(root, seed) as reading:
        journal = reading.read(1)
        time.sleep(delay)
    return journal + reading_to_the_end(reading)


@contextmanager
def writer(root: Path, seed: int) -> Iterator[IO[bytes]]:
    """Run a child that writes while the block runs; its journal stays readable afterwards."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            write_until_killed(root, seed, writing)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(writing)
    try:
        yield os.fdopen(reading, "rb", buffering=0)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def reading_to_the_end(journal: IO[bytes]) -> bytes:
    with journal:
        return journal.read()


@dataclass(frozen=True)
class Outcome:
    during: str  # kind of change in progress, or "nothing"
    found: str  # "before", "after", or a fault


def judge(root: Path, seed: int, journal: bytes) -> Outcome:
    """Compare the index with the script."""
    changes = script(seed)
    before: State = None
    for _ in range(journal.count(b">")):
        before = next(changes).after
    if journal.endswith(b">"):
        under_way, after = "nothing", before
    else:
        change = next(changes)
        under_way, after = change.kind, change.after
    try:
        state = read_state(root)
        if state not in (before, after):
            return Outcome(under_way, f"neither: {state}")
        check_next_writer(root, state)
    except Exception as error:
        return Outcome(under_way, f"{type(error).__name__}: {error}")
    return Outcome(under_way, "before" if state == before else "after")


def read_state(root: Path) -> State:
    """Return the contents of the index, with all of it checked."""
    try:
        index = Index.open(root, threads=1)
    except IndexNotFoundError:
        return None
    index.verify()
    state = {pid: index.passage(pid).text for pid in index.pids()}
    (ranking,) = index.search([ENCODER.encode_query("stem1-1 stem2-2")], len(state) + 1)
    assert sorted(ranking.pids) == sorted(state), "a search returns every passage once"
    return state


def check_next_writer(root: Path, state: State) -> None:
    """Check that the next change succeeds and leaves only files of the manifest."""
    new = {"afterwards": "a text that is added afterwards"}
    if state is None:
        Index.build(root, passages_of(new), ENCODER, threads=1)
    else:
        Index.open(root, threads=1).add(passages_of(new), ENCODER)
    assert read_state(root) == {**(state or {}), **new}
    named = {entry.path for entry in format.read_manifest(root).files()} | {"manifest.json", "lock"}
    left = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()} - named
    assert not left, f"left over: {sorted(left)}"


def run(kills: int, seed: int) -> Counter[Outcome]:
    torch.set_num_threads(1)
    chance = random.Random(seed)
    outcomes: Counter[Outcome] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        warm_up(Path(folder) / "warm-up")
        for number in range(kills):
            root = Path(folder) / f"{number}"
            outcomes[judge(root, number, kill_one(root, number, chance.uniform(0, LONGEST_DELAY)))] += 1
    return outcomes


def warm_up(root: Path) -> None:
    """Make every kind of change once, so that children find compiled kernels."""
    kinds: set[str] = set()
    for change in script(0):
        apply(change, root)
        kinds.add(change.kind)
        if len(kinds) == 4:
            break
    read_state(root)


def open_while_written(opens: int, seed: int) -> Counter[str]:
    """Count successful opens while a child changes the index, and errors by type."""
    torch.set_num_threads(1)
    answers: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "index"
        warm_up(root)
        with writer(root, seed) as journal:
            for _ in range(opens):
                try:
                    Index.open(root, threads=1)
                    answers["opened"] += 1
                except BaleenError as error:
                    answers[type(error).__name__] += 1
        journal.close()
    return answers


def outcome_table(outcomes: Counter[Outcome]) -> str:
    rows = []
    for kind in ("build", "add", "delete", "compact", "nothing"):
        counts = Counter({outcome.found: n for outcome, n in outcomes.items() if outcome.during == kind})
        before, after = counts["before"], counts["after"]
        rows.append([kind, str(before), str(after), str(counts.total() - before - after)])
    return markdown_table(["killed during", "before", "after", "broken"], rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200, help="writers to kill (default 200)")
    parser.add_argument("--seed", type=int, default=0, help="random seed")
    parser.add_argument("--opens", type=int, default=0, help="opens while a child writes, instead of kills")
    arguments = parser.parse_args()
    if arguments.opens:
        answers = open_while_written(arguments.opens, arguments.seed)
        print(", ".join(f"{answer}: {n}" for answer, n in answers.items()))
        return 1 if answers["opened"] < arguments.opens else 0
    outcomes = run(arguments.kills, arguments.seed)
    print(outcome_table(outcomes))
    broken = {outcome: n for outcome, n in outcomes.items() if outcome.found not in ("before", "after")}
    for outcome, n in broken.items():
        print(f"{n} x killed during {outcome.during}: {outcome.found}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
