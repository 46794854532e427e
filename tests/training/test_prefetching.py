"""Prefetching by a thread or by processes: order, buffer size, errors."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from baleen.core.errors import TrainingError
from baleen.core.parallel import forks_are_safe
from baleen.training.loop import prefetching, trainer
from baleen.training.loop.config import TrainConfig
from baleen.training.loop.logs import Load
from baleen.training.loop.prefetching import prefetch, prefetch_processes
from baleen.training.loop.sampling import Part
from baleen.training.loop.trainer import Trainer

pytestmark = pytest.mark.usefixtures("one_thread")

WAYS = [0, 1, 2]


@pytest.mark.parametrize("processes", WAYS)
def test_items_come_in_order(processes: int) -> None:
    assert list(prefetch(lambda key: key * 10, range(20), processes)) == [key * 10 for key in range(20)]
    assert list(prefetch(lambda key: key * 10, range(5, 7), processes)) == [50, 60]
    assert list(prefetch(lambda key: key, range(0), processes)) == []


@pytest.mark.parametrize("processes", WAYS)
def test_an_error_is_raised_in_the_place_of_its_item(processes: int) -> None:
    def make(key: int) -> int:
        if key == 3:
            raise TrainingError("there is no passage 'p9'")
        return key

    found = prefetch(make, range(20), processes)
    assert [next(found) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(TrainingError) as caught:
        next(found)
    assert str(caught.value) == "there is no passage 'p9'"


class OddError(Exception):
    """Cannot be unpickled from its message."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} beside {other}")


def test_an_error_of_a_process_has_its_traceback() -> None:
    def wrong(_: int) -> None:
        raise KeyError("p9")

    def odd(_: int) -> None:
        raise OddError(1, 2)

    with pytest.raises(KeyError) as caught:
        next(prefetch(wrong, range(3), 1))
    assert any('raise KeyError("p9")' in note for note in caught.value.__notes__)
    with pytest.raises(TrainingError, match="OddError: 1 beside 2"):
        next(prefetch(odd, range(3), 1))


def test_an_error_ends_the_processes() -> None:
    def make(key: int) -> int:
        if key == 2:
            raise TrainingError("no more")
        return os.getpid()

    found = prefetch(make, range(100), 2)
    others = {next(found), next(found)}
    with pytest.raises(TrainingError) as held:
        next(found)
    assert str(held.value) == "no more"
    assert not [pid for pid in others if running(pid)]


def test_a_thread_prefetches_a_few_items() -> None:
    made: list[int] = []
    found = prefetch(made.append, range(100))
    next(found)
    time.sleep(0.01)
    assert len(made) <= 4
    found.close()
    assert len(made) <= 5


def test_forked_processes_end_with_the_stream() -> None:
    found = prefetch(lambda _: os.getpid(), range(1000), 2)
    others = {next(found) for _ in range(8)}
    assert len(others) == 2
    assert os.getpid() not in others
    found.close()
    assert not [pid for pid in others if running(pid)]


def running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_forking_keeps_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "TOKENIZERS_PARALLELISM"
    for before in ("true", None):
        monkeypatch.delenv(name, raising=False)
        if before is not None:
            monkeypatch.setenv(name, before)
        assert list(prefetch(lambda _: os.environ[name], range(2), 1)) == ["false", "false"]
        assert os.environ.get(name) == before


def test_training_on_a_cpu_starts_no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert prefetch_processes(torch.device("cpu")) == 0
    for count, wanted in ((1, 0), (2, 1), (16, 4)):
        monkeypatch.setattr(prefetching, "cores_per_process", lambda count=count: count)
        assert prefetch_processes(torch.device("cuda")) == (wanted if forks_are_safe() else 0)


class Numbers:
    """A batch of numbers to multiply by 3."""

    load = Load(4, 4, 4, 4)

    def __init__(self, step: int) -> None:
        self.numbers = torch.arange(4.0) + step

    def to(self, _: torch.device) -> Numbers:
        return self


def test_forked_batches_train_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = trained(tmp_path / "alone")
    monkeypatch.setattr(trainer, "prefetch_processes", lambda _: 2)
    assert trained(tmp_path / "helped") == alone


def trained(folder: Path) -> tuple[float, float]:
    torch.manual_seed(0)
    model = nn.Linear(1, 1)

    def loss(batch: Numbers) -> Tensor:
        wanted = 3 * batch.numbers
        return (model(batch.numbers.unsqueeze(1)).squeeze(1) - wanted).square().mean()

    def batch(step: int, _: Part) -> Numbers:
        return Numbers(step)

    Trainer(model, batch, loss, TrainConfig(steps=8, batch_size=4, lr=0.1, device="cpu"), folder).run()
    return model.weight.item(), model.bias.item()
