"""Compare the index with other late-interaction engines on the same vectors and machine.

    make bench-peers
    python benchmarks/peers.py --passages 20000 --with pylate --json peers.json

Each engine is a process (`benchmarks/peers/run_*.py`), the peers in environments that are created if missing:
.venv-fast-plaid, and .venv-pylate (about 6 GB) on request.  Indexes are built one by one.  Then each query goes to all
engines in turn, in rotating order, so that other load affects all alike.  Peers have no focus, so every query
vector counts for all.  Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from baleen.core.machine import machine_info
from common import Columns, latency, machine_line, number, rows_table
from workload import RealVectors, SyntheticCorpus, recall

ROOT = Path(__file__).resolve().parent.parent
RUNNERS = Path(__file__).resolve().parent / "peers"
WARM_UP = 5
PAUSE = 0.02  # seconds between engines, for spinning threads of the last one to stop
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS", "NUMBA_NUM_THREADS")


class Environment(NamedTuple):
    """The environment of a peer: its folder, its requirement, and a module to test for."""

    folder: str
    requirement: str
    module: str


ENVIRONMENTS = {
    "fast-plaid": Environment(".venv-fast-plaid", "fast-plaid", "fast_plaid"),
    "pylate": Environment(".venv-pylate", "pylate[warp]", "xtr_warp"),
}


class Contestant(NamedTuple):
    name: str
    runner: str
    bits: int
    home: str = ""  # a key of ENVIRONMENTS; empty for this interpreter


CONTESTANTS = (
    Contestant("exact, torch fp32", "run_exact.py", 32),
    Contestant("Baleen", "run_baleen.py", 2),
    Contestant("Baleen", "run_baleen.py", 4),
    Contestant("fast-plaid", "run_fast_plaid.py", 4, "fast-plaid"),
    Contestant("WARP (PyLate)", "run_warp.py", 4, "pylate"),
)
REFERENCE = "fast-plaid", 4  # of ratios


def log(message: str) -> None:
    sys.stderr.write(message + "\n")
    sys.stderr.flush()


# Environments


def python_of(home: str, folder: Path | None) -> Path | None:
    """The interpreter of a peer's environment, created if missing; None if that fails."""
    environment = ENVIRONMENTS[home]
    folder = folder or ROOT / environment.folder
    python = folder / "bin" / "python"
    if _succeeds(python, "-c", f"import {environment.module}"):
        return python
    log(f"making {folder.name}: this takes minutes")
    install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", environment.requirement)
    if _succeeds(Path(sys.executable), "-m", "venv", str(folder)) and _succeeds(python, *install):
        return python
    log(f"{home} could not be installed and is left out")
    return None


def _succeeds(*command: str | Path) -> bool:
    try:
        return subprocess.run(command, stdout=sys.stderr, check=False).returncode == 0
    except OSError:
        return False


# Workers


class Worker:
    """A running engine; `ask` waits for its answer."""

    def __init__(self, contestant: Contestant, process: subprocess.Popen[str]) -> None:
        self.contestant, self._process = contestant, process
        self.built: dict[str, Any] = {}
        self.found: list[list[int]] = []
        self.milliseconds: list[float] = []

    def ask(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.contestant.name} ended at '{line}' with status {self._process.wait()}")
        result: dict[str, Any] = json.loads(answer)
        return result

    def search(self, query: int) -> None:
        answer = self.ask(f"search {query}")
        self.found.append(answer["ids"])
        self.milliseconds.append(1000 * answer["seconds"])


@contextmanager
def working(contestant: Contestant, python: Path, folder: Path, k: int, threads: int) -> Iterator[Worker]:
    index = folder / f"{contestant.runner.removesuffix('.py')}-{contestant.bits}"
    arguments = [folder, index, contestant.bits, k, threads]
    environment = os.environ | dict.fromkeys(THREADS, str(threads)) | {"BALEEN_QUIET": "1"}
    process = subprocess.Popen(
        [python, RUNNERS / contestant.runner, *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    with process:
        try:
            yield Worker(contestant, process)
        finally:
            process.kill()


def build_all(workers: Sequence[Worker]) -> list[Worker]:
    """Build one index after the other; engines that fail are left out."""
    ready = []
    for worker in workers:
        name = f"{worker.contestant.name}, {worker.contestant.bits} bits"
        try:
            worker.built = worker.ask("build")
        except (RuntimeError, OSError) as error:
            log(f"{name} is left out: {error}")
            continue
        log(f"{name}: built in {worker.built['seconds']:.1f} s")
        ready.append(worker)
    return ready


def search_all(workers: Sequence[Worker], queries: int) -> None:
    """Send every query to every engine, in rotating order."""
    for worker in workers:
        for query in range(min(WARM_UP, queries)):
            worker.ask(f"search {query}")
    for query in range(queries):
        turn = query % len(workers)
        for worker in (*workers[turn:], *workers[:turn]):
            time.sleep(PAUSE)
            worker.search(query)
    log(f"{queries} queries put to {len(workers)} engines")


# Data and report


def write_data(folder: Path, options: argparse.Namespace) -> tuple[str, int, int, int]:
    """Write the workers' input; return the dataset's name and the numbers of passages, vectors and queries."""
    data: SyntheticCorpus | RealVectors
    if options.corpus:
        limits = {"queries": options.queries, "limit": options.passages}
        data = RealVectors.encode(options.corpus, options.checkpoint, options.questions, **limits)
        queries = [query.query for query in data.queries(options.queries)]
    else:
        data = SyntheticCorpus(options.passages)
        queries = [query.query for query in data.queries(options.queries, options.vectors)]
    parts = list(data.stream())
    lengths = np.concatenate([part.lengths for part in parts])
    np.save(folder / "vectors.npy", np.concatenate([part.vectors for part in parts]))
    np.save(folder / "lengths.npy", lengths)
    np.save(folder / "queries.npy", np.concatenate(queries))
    np.save(folder / "query_lengths.npy", np.array([len(query) for query in queries]))
    return data.name, len(data), int(lengths.sum()), len(queries)


def rows(workers: Sequence[Worker], vectors: int, dim: int) -> list[dict[str, Any]]:
    """One row per engine; recall is against the first engine, which is exact."""
    expected = [[str(row) for row in found] for found in workers[0].found]
    measured = []
    for worker in workers:
        p50, p95 = np.percentile(worker.milliseconds, [50, 95])
        size = worker.built["bytes"] / vectors if worker is not workers[0] else 4.0 * dim
        measured.append(
            {
                "engine": worker.contestant.name,
                "bits": worker.contestant.bits,
                "build_s": worker.built["seconds"] if worker is not workers[0] else None,
                "bytes_per_vector": size,
                "p50_ms": float(p50),
                "p95_ms": float(p95),
                "recall": recall([[str(row) for row in found] for found in worker.found], expected),
            }
        )
    return [row | ratios(row, measured) for row in measured]


def ratios(row: dict[str, Any], measured: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """Speed, build time and size relative to the reference; None without a figure."""
    reference = next((other for other in measured if (other["engine"], other["bits"]) == REFERENCE), None)
    keys = {"times_faster": "p50_ms", "times_quicker_built": "build_s", "times_smaller": "bytes_per_vector"}
    return {
        name: reference[key] / row[key] if reference is not None and row[key] else None for name, key in keys.items()
    }


COLUMNS: Columns = {
    "engine": lambda row: str(row["engine"]),
    "bits": number("bits", "d"),
    "build s": number("build_s"),
    "bytes/vector": number("bytes_per_vector"),
    "p50 / p95 ms": latency,
    "recall@k": number("recall", ".3f"),
    "times faster": number("times_faster", ".1f"),
    "times quicker built": number("times_quicker_built", ".1f"),
    "times smaller": number("times_smaller", ".1f"),
}


def compare(options: argparse.Namespace) -> dict[str, Any]:
    homes: dict[str, Path | None] = {"": Path(sys.executable), "fast-plaid": None, "pylate": None}
    homes["fast-plaid"] = python_of("fast-plaid", options.fast_plaid_venv)
    if "pylate" in options.extra:
        homes["pylate"] = python_of("pylate", options.pylate_venv)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="baleen-peers-")))
        name, passages, vectors, queries = write_data(folder, options)
        present = [(contestant, homes[contestant.home]) for contestant in CONTESTANTS]
        workers = [
            stack.enter_context(working(contestant, python, folder, options.k, options.threads))
            for contestant, python in present
            if python is not None
        ]
        ready = build_all(workers)
        search_all(ready, queries)
        counts = {"dataset": name, "passages": passages, "vectors": vectors, "queries": queries}
        dim = np.load(folder / "queries.npy").shape[1]
        settings = {**counts, "dim": dim, "k": options.k, "threads": options.threads}
        return {"machine": machine_info(), "settings": settings, "peers": rows(ready, vectors, dim)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=20_000, help="number of passages, synthetic or of --corpus")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--vectors", type=int, default=64, help="vectors of a synthetic query")
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--with", dest="extra", nargs="*", choices=["pylate"], default=[], help="more engines")
    parser.add_argument("--corpus", type=Path, help="a collection, encoded once for all engines; needs --checkpoint")
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--questions", type=Path, help="JSONL or a JSON list (default: sentences of the corpus)")
    parser.add_argument("--json", type=Path, help="also write the result to this file")
    parser.add_argument("--fast-plaid-venv", type=Path, help="existing environment with fast-plaid")
    parser.add_argument("--pylate-venv", type=Path, help="existing environment with pylate[warp]")
    options = parser.parse_args()
    if bool(options.corpus) != bool(options.checkpoint):
        parser.error("--corpus and --checkpoint go together")
    result = compare(options)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    about = "{passages:,} passages, {vectors:,} vectors of {dim} dimensions, {queries} queries, {threads} threads"
    heading = f"{machine_line(result['machine'])}; {about.format(**result['settings'])}"
    sys.stdout.write(f"{heading}\n\n{rows_table(COLUMNS, result['peers'])}\n\nRatios are to fast-plaid at 4 bits.\n")


if __name__ == "__main__":
    main()
