"""What finding a vector's cell through groups of cells costs and wins, beside comparing with every cell.

    all                 every cell is compared with, by a plain product: the nearest, always
    nearest groups      the ten nearest of few groups, as indexes with fewer cells are built
    groups in reach     what a CPU does with many cells; see `baleen.index.assignment`

All ways encode the same vectors with the same codec, and an index is written with each, to tell the recall.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from baleen.bench.exact import recall
from baleen.bench.measure import split_warm_up, timed
from baleen.bench.workload import BenchConfig, Dataset, Workload, built, expectations, workloads
from baleen.index import Index, layout
from baleen.index.clustering import (
    GROUPS_IN_REACH,
    NEAREST_GROUPS,
    Grouped,
    compare_with_all,
    finer_group_count,
    group_count,
)
from baleen.index.fitting import Quantizer
from baleen.index.segment import SegmentWriter
from baleen.types import Record

Array = npt.NDArray[Any]
Way = Callable[[Tensor], Tensor]

VECTORS = 16_384  # that are timed and compared, from passages all over the collection
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class AssignRow(Record):
    """One way to find cells.  `cpu_us` is processor time a vector on all threads together, the best of some rounds.

    `share` of the vectors get their nearest cell; `error` is how much larger the mean squared distance from a cell's
    centroid is than with the nearest.  `recall` is that of an index whose cells were so found.
    """

    dataset: str
    bits: int
    cells: int
    way: str
    cpu_us: float
    share: float
    error: float
    k: int
    recall: float


def assign(config: BenchConfig) -> list[AssignRow]:
    """Every dataset at the first width, each way in turn."""
    return [row for work in workloads(config) for row in _rows(work, config)]


def _rows(work: Workload, config: BenchConfig) -> Iterator[AssignRow]:
    index, _ = built(work, config.bits[0], config)
    centroids = torch.from_numpy(np.array(index.codec.float_centroids[: index.codec.cells]))
    points = torch.from_numpy(some_vectors(work.data, index.manifest.fitted_on) @ index.codec.forward)
    nearest = compare_with_all(points, centroids)
    least = _spread(points, centroids, nearest)
    for name, way in ways(centroids).items():
        seconds, cells = _best_round(way, points)
        yield AssignRow(
            dataset=work.data.name,
            bits=index.codec.bits,
            cells=index.codec.cells,
            way=name,
            cpu_us=1e6 * seconds / len(points),
            share=float((cells == nearest).float().mean()),
            error=_spread(points, centroids, cells) / least - 1,
            k=config.k,
            recall=_recall(work, index, way, config),
        )


def ways(centroids: Tensor) -> dict[str, Way]:
    """By name, comparison with all of them first."""
    few, many = group_count(len(centroids)), finer_group_count(len(centroids))
    return {
        "all": lambda points: compare_with_all(points, centroids),
        "nearest groups": Grouped.by_kmeans(centroids, few, NEAREST_GROUPS),
        "groups in reach": Grouped.by_kmeans(centroids, many, GROUPS_IN_REACH),
    }


def some_vectors(data: Dataset, total: int) -> Array:
    """VECTORS of a collection's `total` vectors, or all if they are fewer, from all over it: float32."""
    step = max(1, total // VECTORS)
    return np.concatenate([part.vectors[::step] for part in data.stream()])[:VECTORS].astype(np.float32)


def _best_round(way: Way, points: Tensor) -> tuple[float, Tensor]:
    """Processor seconds, and the cells."""
    cells, seconds = way(points), []
    for _ in range(ROUNDS):
        start = time.process_time()
        way(points)
        seconds.append(time.process_time() - start)
    return min(seconds), cells


def _spread(points: Tensor, centroids: Tensor, cells: Tensor) -> float:
    return float((points - centroids[cells]).square().sum(dim=1).double().mean())


def _recall(work: Workload, index: Index, way: Way, config: BenchConfig) -> float:
    """Of the exact best passages, in an index with the same codec and cells found this way."""
    _, queries = split_warm_up(work.queries)
    with TemporaryDirectory(prefix="baleen-bench-", dir=work.folder) as folder:
        other = reassigned(work.data, index, way, Path(folder) / "other.index")
        found = timed(other, queries, config.k, config=config.search)
        return recall(found.pids, expectations(work, config.k))


def reassigned(data: Dataset, index: Index, way: Way, root: Path) -> Index:
    """The index of a dataset written anew: the same codec, but cells found by `way`."""
    folder = layout.generation_name(1)
    with layout.writing(root), closing(SegmentWriter(root, f"{folder}/segment", data.dim)) as writer:
        for batch, vectors in data.encode_passages(data.passages()):
            writer.append(batch, vectors)
        segment = writer.finish(Quantizer(index.codec, nearest=way), lambda _: None)
        arrays = index.codec.arrays.items()
        codec = {role: layout.write_array(root, f"{folder}/codec/{role}.bin", array) for role, array in arrays}
        layout.commit(root, replace(index.manifest, generation=1, codec=codec, segments=(segment,)))
    return Index.open(root)
