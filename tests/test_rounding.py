"""Rounding in training: as coarse as it says, of no weight at many bits, and nothing that a retriever could not learn under.

python tests/test_rounding.py       prints errors of rounding, and the recall at two bits of docs/training.md
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from torch import Tensor

from baleen.encoder import Encoder
from baleen.errors import ConfigError
from baleen.index import Index
from baleen.index.codec import cell_count
from baleen.index.fitting import Quantizer, Sample, fit
from baleen.training.mining import Haystack, TokenisedCorpus
from baleen.training.retriever_batches import RetrieverBatches, RetrieverTraining
from baleen.training.retriever_task import RetrieverTask, train_retriever
from baleen.training.rounding import rounded
from baleen.training.rounds import Rounds
from baleen.training.supervision import Supervised
from baleen.types import Query
from baleen.vectors import PassageVectors
from fakes import CORPUS, tiny_encoder
from rounds_fakes import learning_plan, taken_up, toy_collection
from toy_world import make_world
from workload import SyntheticCorpus, recall

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def vectors() -> Tensor:
    return torch.from_numpy(SyntheticCorpus(60, 40, 32).chunk(0)).float()


def whole(vectors: Tensor) -> Tensor:
    return torch.ones(vectors.shape[:2], dtype=torch.bool)


def error(found: Tensor, vectors: Tensor) -> float:
    return float((found - vectors).square().sum(dim=-1).mean())


def stored_error(sample: Tensor, vectors: Tensor, cells: int, bits: int) -> float:
    """What an index that was fitted on a sample (p, m, d) leaves of vectors (p, m, d)."""
    learnt, stored = (PassageVectors.of(list(part.numpy())) for part in (sample, vectors))
    codec = fit(Sample(learnt.vectors, learnt), cells, bits)
    back = torch.from_numpy(codec.restore(codec.decode(Quantizer(codec).encode(stored))))
    return error(back, vectors.flatten(0, 1))


def test_every_bit_brings_vectors_nearer_and_eight_leave_them_all_but_as_they_are(vectors: Tensor) -> None:
    errors = [error(rounded(vectors, whole(vectors), bits), vectors) for bits in range(1, 9)]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 0.05
    assert errors[-1] < 1e-3, "of a vector's length of 1, and that in the few that lie beyond the last level"


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_it_is_about_as_coarse_as_an_index(vectors: Tensor, bits: int) -> None:
    theirs, ours = stored_error(vectors, vectors, 128, bits), error(rounded(vectors, whole(vectors), bits), vectors)
    assert 0.8 * theirs <= ours <= 3 * theirs


def test_gradients_pass_as_if_nothing_were_rounded(vectors: Tensor) -> None:
    free = vectors.clone().requires_grad_()
    weights = torch.rand_like(vectors)
    (rounded(free, whole(vectors), 1) * weights).sum().backward()  # type: ignore[no-untyped-call]
    assert free.grad is not None
    torch.testing.assert_close(free.grad, weights)


def test_what_is_masked_stays_and_counts_for_nothing(vectors: Tensor) -> None:
    mask = whole(vectors)
    mask[:, 25:] = False
    found = rounded(vectors, mask, 2)
    assert torch.equal(found[~mask], vectors[~mask])
    other = vectors.clone()
    other[~mask] = 7.0
    assert torch.equal(rounded(other, mask, 2)[mask], found[mask])


@pytest.mark.parametrize("count", [1, 2, 17])
def test_a_handful_of_vectors_is_rounded_too(vectors: Tensor, count: int) -> None:
    few = vectors[:1, :count]
    found = rounded(few, whole(few), 2)
    assert found.isfinite().all()
    assert error(found, few) < 1


@pytest.mark.parametrize("bits", [0, 9, 16])
def test_bits_that_make_no_sense_are_refused(bits: int) -> None:
    with pytest.raises(ConfigError, match=f"rounding = {bits}, which should be bits, 1 to 8"):
        RetrieverTraining(rounding=bits)


@pytest.mark.parametrize("in_batch", [False, True])
def test_a_batch_is_scored_with_rounded_passages_and_teaches_the_encoder(tmp_path: Path, in_batch: bool) -> None:
    encoder = tiny_encoder(tmp_path)
    records = [
        Supervised(p.pid, 1, Query(p.title), (p.pid,), tuple(other.pid for other in CORPUS if other.pid != p.pid))
        for p in CORPUS
    ]
    passages = {passage.pid: passage for passage in CORPUS}
    plain, fine, coarse = (RetrieverTraining(in_batch=in_batch, rounding=bits) for bits in (None, 8, 1))
    batch = RetrieverBatches(encoder.inputs, records, passages.__getitem__, plain, batch_size=4, seed=0).batch(0)
    with torch.no_grad():
        exact, near, far = (RetrieverTask(encoder, config).scores(batch) for config in (plain, fine, coarse))
    assert (near - exact).abs().max() < 0.1 * (far - exact).abs().max()
    RetrieverTask(encoder, coarse).loss(batch)["loss"].backward()  # type: ignore[no-untyped-call]
    assert all(p.grad is not None and p.grad.isfinite().all() for p in encoder.model.projection.parameters())
    assert encoder.model.projection.weight.grad.abs().max() > 0


# What comes of it


def started(folder: Path, seed: int = 0) -> Rounds:
    """A retriever's start on the made-up world of a seed."""
    toy = make_world(folder / "toy", people=240, train=600, dev=60, seed=seed)
    plan = learning_plan(toy.backbone(toy.folder / "backbone"), per_hop=False)
    taken = taken_up(plan, 2, toy_collection(toy.folder), folder / "run")
    taken.run.do("start", taken._start)
    return taken


@dataclass(frozen=True)
class Trained:
    """`recall`: of the ten best by exact search, the share that an index of two bits has, all of it searched.

    `first`: of the dev questions, those whose best passage by exact search is gold.
    """

    recall: float
    first: float


def trained(rounds: Rounds, rounding: int | None, folder: Path) -> Trained:
    encoder = Encoder.load(rounds.run.folder("start") / "checkpoint", "cpu", torch.float32, trainable=True)
    records = [record for record in rounds._first_targets(folder) if record.positives and record.negatives]
    training, learning = replace(rounds.plan.training, steps=40), replace(rounds.plan.learning, rounding=rounding)
    train_retriever(encoder, records, rounds.world.passage, folder / f"{rounding}", training, learning)
    examples, passages = [each.example for each in rounds.world.dev], list(rounds.world.passages.values())
    queries = [Query(example.text) for example in examples]
    exact = Haystack(encoder, TokenisedCorpus.of(encoder.inputs, passages)).rank(queries, 10)
    index = Index.build(folder / f"{rounding}.index", passages, encoder, bits=2)
    found = [index.search(vectors, 10, exact=True).pids for vectors in encoder.encode_queries(queries)]
    first = [ranking.pids[0] in example.gold for ranking, example in zip(exact, examples, strict=True)]
    return Trained(recall(found, [ranking.pids for ranking in exact]), sum(first) / len(first))


@pytest.mark.parametrize("rounding", [None, 2])
def test_a_retriever_learns_its_questions_and_an_index_of_two_bits_finds_what_exact_search_finds(
    tmp_path: Path, rounding: int | None
) -> None:
    found = trained(started(tmp_path), rounding, tmp_path)
    assert found.first >= 0.95
    assert found.recall >= 0.88


def test_rounding_depends_on_the_vectors_alone(vectors: Tensor) -> None:
    np.testing.assert_array_equal(rounded(vectors, whole(vectors), 2), rounded(vectors, whole(vectors), 2))


def print_errors() -> None:
    corpus = SyntheticCorpus(4000)
    stored = np.concatenate([part.vectors for part in corpus.stream()]).astype(np.float32)
    passages = torch.from_numpy(stored).view(4000, 80, -1)
    sample = passages[torch.randperm(4000, generator=torch.Generator().manual_seed(0))[:500]]
    batch = passages[:190]
    for bits in (1, 2, 4):
        theirs = stored_error(sample, passages[:250], cell_count(len(stored)), bits)
        ours = error(rounded(batch, whole(batch), bits), batch)
        print(f"{bits} bits: squared error {theirs:.4f} of an index, {ours:.4f} of a batch")


def print_recalls() -> None:
    for seed in range(3):
        with TemporaryDirectory() as folder:
            rounds = started(Path(folder), seed)
            for rounding in (None, 2, 1):
                found = trained(rounds, rounding, Path(folder))
                print(f"seed {seed}, rounding {rounding}: recall {found.recall:.3f}, first is gold {found.first:.3f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    print_errors()
    print_recalls()
