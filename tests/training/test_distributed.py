"""Communication of processes, with hand-made ones in place of torchrun's (the slow tests use torchrun)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from baleen.training.hop_order.mining import ExactIndex, TokenisedCorpus
from baleen.training.loop.distributed import Processes, average_gradients, is_first, started_processes
from fakes import CORPUS, QUERIES, tiny_encoder


@dataclass(frozen=True)
class Beside(Processes):
    """One of two processes; the other has the given tensors, or zeros."""

    size: int = 2
    others: list[Tensor] = field(default_factory=list)

    def average(self, tensors: Iterable[Tensor]) -> None:
        held = list(tensors)
        for tensor, other in zip(held, self.others or map(torch.zeros_like, held), strict=True):
            tensor.copy_((tensor + other) / 2)

    def gather_columns(self, tensor: Tensor) -> Tensor:
        return torch.cat([self.others.pop(0), tensor], dim=1)


@dataclass(frozen=True)
class Before(Processes):
    """A process that records its tensors for another one."""

    size: int = 2
    kept: list[Tensor] = field(default_factory=list)

    def gather_columns(self, tensor: Tensor) -> Tensor:
        self.kept.append(tensor)
        return tensor


def test_one_process_does_not_communicate() -> None:
    alone = Processes()
    assert alone.first
    assert alone.shard([1, 2, 3]) == [1, 2, 3]
    assert alone.gather((1, 2)) == [1, 2]
    assert alone.broadcast("this") == "this"
    tensor = torch.ones(2, 3)
    assert alone.gather_columns(tensor) is tensor


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_shards_cover_all_items_in_order(size: int) -> None:
    items = list(range(5))
    shares = [Processes(rank, size).shard(items) for rank in range(size)]
    assert [item for share in shares for item in share] == items
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_torchrun_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.delenv("RANK", raising=False)
    assert (started_processes(), is_first()) == (1, True)
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "3")
    assert (started_processes(), is_first()) == (4, False)


def test_gradients_are_averaged_and_unreached_ones_stay_none() -> None:
    module = nn.ModuleDict({"both": nn.Linear(1, 1, bias=False), "other": nn.Linear(1, 1, bias=False)})
    module["neither"] = nn.Linear(1, 1, bias=False)
    both, other, neither = (module[name].weight for name in ("both", "other", "neither"))
    both.grad = torch.tensor([[4.0]])
    theirs = [torch.tensor([1.0, 1.0, 0.0]), torch.tensor([[2.0]]), torch.tensor([[6.0]]), torch.zeros(1, 1)]
    average_gradients(module, Beside(1, others=theirs))
    assert both.grad.item() == 3.0
    assert other.grad is not None
    assert other.grad.item() == 3.0
    assert neither.grad is None


@pytest.mark.parametrize("k", [3, 100])
def test_two_processes_find_the_same_passages_as_one(k: int, tmp_path: Path) -> None:
    encoder = tiny_encoder(tmp_path, query_focus=12, facts_focus=3)
    corpus = TokenisedCorpus.of(encoder.inputs, CORPUS)
    gone = [{"p0", "p1"}, set(), {"p7"}]
    expected = ExactIndex(encoder, corpus).rank(QUERIES, k, gone)
    first = Before(0)
    ExactIndex(encoder, corpus, first).rank(QUERIES, k, gone)
    found = ExactIndex(encoder, corpus, Beside(1, others=first.kept)).rank(QUERIES, k, gone)
    assert [ranking.pids for ranking in found] == [ranking.pids for ranking in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert [hit.score for hit in ours] == pytest.approx([hit.score for hit in theirs], abs=1e-4)


def test_more_processes_than_passages_work(tmp_path: Path) -> None:
    encoder = tiny_encoder(tmp_path, query_focus=12, facts_focus=3)
    corpus = TokenisedCorpus.of(encoder.inputs, CORPUS[:1])
    last = ExactIndex(encoder, corpus, Before(1))
    assert last.blocks == []
    assert [len(ranking) for ranking in last.rank(QUERIES, 5)] == [0, 0, 0]
