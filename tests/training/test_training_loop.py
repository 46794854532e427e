"""The training loop: stops and resumes give the same weights, saves are complete, errors are clear."""

from __future__ import annotations

import errno
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from baleen.core.config import from_mapping
from baleen.core.errors import ConfigError, TrainingError
from baleen.core.progress import progress
from baleen.training.loop.config import TrainConfig
from baleen.training.loop.logs import (
    CURVES,
    LOG,
    MIN_RECORDS,
    Cost,
    Load,
    Speed,
    WorkDone,
    draw_curves,
    gpu_peak_flops,
    read_log,
)
from baleen.training.loop.optimizer import adamw, learning_rate
from baleen.training.loop.sampling import Order, Part
from baleen.training.loop.saves import Saves, write_tensors
from baleen.training.loop.trainer import Trainer
from baleen.training.packing import group_by_length
from training_fakes import EXAMPLES, Toy, settings, train

pytestmark = pytest.mark.usefixtures("one_thread")

SCRIPT = Path(__file__).parents[1] / "training_fakes.py"
TIMES = ("seconds", "steps_per_second", "tokens_per_second", "examples_per_second")


class StopError(Exception):
    pass


def stop_at(count: int) -> Any:
    def stop(taken: int) -> None:
        if taken == count:
            raise StopError

    return stop


def untimed(folder: Path) -> list[dict[str, Any]]:
    """The log without values that depend on the clock."""
    return [{key: value for key, value in record.items() if key not in TIMES} for record in read_log(folder)]


def weights(toy: nn.Module) -> dict[str, list[float]]:
    return {name: tensor.flatten().tolist() for name, tensor in toy.state_dict().items()}


# What a step takes


def test_an_epoch_takes_every_example_once_in_a_new_order() -> None:
    order = Order(EXAMPLES, 4, seed=5)
    rows = [order.row(place) for step in range(2 * EXAMPLES) for place in order.places(step)]
    epochs = [rows[start : start + EXAMPLES] for start in range(0, len(rows) - EXAMPLES, EXAMPLES)]
    assert all(sorted(epoch) == list(range(EXAMPLES)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == len(epochs)


def test_steps_can_be_made_in_any_order() -> None:
    straight, jumping = Order(EXAMPLES, 6, seed=5), Order(EXAMPLES, 6, seed=5)
    expected = [[straight.row(place) for place in straight.places(step)] for step in range(40)]
    for step in random.Random(0).sample(range(40), 40):
        assert [jumping.row(place) for place in jumping.places(step)] == expected[step]
    assert straight.rng(17).random() == jumping.rng(17).random() != jumping.rng(18).random()


def test_counts_follow_weights_to_within_one() -> None:
    given = [1.0] * 5 + [0.5] * 10 + [0.1] * 20
    order = Order(len(given), 7, seed=3, weights=given)
    rows = [order.row(place) for place in range(12 * 40)]  # an epoch has 12 of them on average
    taken = Counter(rows)
    for row, weight in enumerate(given):
        assert abs(taken[row] - 40 * weight) <= 2
    shares = [sum(taken[row] for row in part) / len(rows) for part in (range(5), range(5, 15), range(15, 35))]
    assert shares == pytest.approx([5 / 12, 5 / 12, 2 / 12], abs=0.02)
    jumping = Order(len(given), 7, seed=3, weights=given)
    assert [jumping.row(place) for place in (400, 3, 77)] == [rows[400], rows[3], rows[77]]


def test_equal_weights_change_nothing() -> None:
    plain = [Order(EXAMPLES, 4, seed=5).row(place) for place in range(100)]
    for weight in (1.0, 0.001, 30.0):
        order = Order(EXAMPLES, 4, seed=5, weights=[weight] * EXAMPLES)
        assert [order.row(place) for place in range(100)] == plain


def test_an_example_of_small_weight_is_taken_eventually() -> None:
    order = Order(2, 1, seed=0, weights=[1e-3, 1.0])
    rows = [order.row(place) for place in range(3003)]
    assert rows.count(0) in (2, 3, 4)


@pytest.mark.parametrize("given", [[1.0], [1.0, 0.0], [1.0, -1.0], [1.0, math.nan]])
def test_bad_weights_are_refused(given: list[float]) -> None:
    with pytest.raises(TrainingError, match=f"{len(given)} weights for 2 examples; expected one above 0 for each"):
        Order(2, 1, seed=0, weights=given)


def test_parts_add_up_to_the_batch() -> None:
    order = Order(EXAMPLES, 12, seed=0)
    parts = [place for index in range(3) for place in order.places(7, Part(index, 3))]
    assert parts == list(order.places(7))


@pytest.mark.parametrize("most", [0.3, 0.125, 0.0])
def test_groups_hold_every_row_once_with_little_padding(most: float) -> None:
    lengths = [min(256, int(length)) for length in np.random.default_rng(1).lognormal(4.6, 0.5, 96)]
    groups = group_by_length(lengths, most)
    assert sorted(row for group in groups for row in group) == list(range(96))
    slots = sum(len(group) * max(lengths[row] for row in group) for group in groups)
    assert 1 - sum(lengths) / slots <= most
    assert len(groups) <= {0.3: 3, 0.125: 6, 0.0: 96}[most]


def test_groups_have_the_least_padding_of_their_number() -> None:
    lengths = [3, 3, 4, 9, 10, 10, 30]
    groups = group_by_length(lengths, 0.1)
    assert [sorted(lengths[row] for row in group) for group in groups] == [[30], [9, 10, 10], [3, 3, 4]]


# How fast


def test_the_learning_rate_rises_and_falls_linearly() -> None:
    rates = [learning_rate(step, peak=8.0, steps=10, warmup=4) for step in range(10)]
    assert rates == pytest.approx([2, 4, 6, 8, 8, 8 * 5 / 6, 8 * 4 / 6, 4, 8 * 2 / 6, 8 / 6])
    assert learning_rate(0, peak=8.0, steps=10, warmup=0) == 8
    assert settings(steps=50, warmup=0.1).warmup_steps == 5
    assert settings(steps=50, warmup=7).warmup_steps == 7


def test_norms_and_biases_do_not_decay() -> None:
    toy = Toy()
    groups = adamw(toy, 0.1, 0.5).param_groups
    decay = {id(parameter): group["weight_decay"] for group in groups for parameter in group["params"]}
    assert {name: decay[id(p)] for name, p in toy.named_parameters()} == {
        "embedding.weight": 0.5,
        "norm.weight": 0.0,
        "norm.bias": 0.0,
        "head.weight": 0.5,
        "head.bias": 0.0,
        "unused.weight": 0.5,
        "unused.bias": 0.0,
    }


def test_updates_match_adamw_written_out(tmp_path: Path) -> None:
    """Against a plain loop over the same batches, with active clipping and no dropout."""
    config = settings(clip=0.3, weight_decay=0.1)
    outcome, task = train(tmp_path, config, toy=Toy(dropout=0.0))
    other = Toy(dropout=0.0)
    optimizer = adamw(other, config.lr, config.weight_decay)
    for step in range(config.steps):
        batch = task.batch(step, Part())
        loss = (other(batch.ids) - batch.targets).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(other.parameters(), 0.3)
        optimizer.param_groups[0]["lr"] = optimizer.param_groups[1]["lr"] = config.rate(step)
        optimizer.step()
        optimizer.zero_grad()
    assert outcome.loss == loss.item()
    assert weights(task.toy) == weights(other)


def test_the_loss_falls(tmp_path: Path) -> None:
    outcome, _ = train(tmp_path, settings(steps=150, batch_size=8), toy=Toy(dropout=0.0))
    assert outcome.loss < 0.02 < read_log(tmp_path)[0]["loss"]


def test_passes_add_up_to_one_update(tmp_path: Path) -> None:
    whole, first = train(tmp_path / "1", settings(batch_size=8), toy=Toy(dropout=0.0))
    parts, second = train(tmp_path / "4", settings(batch_size=8, accumulate=4), toy=Toy(dropout=0.0))
    assert parts.loss == pytest.approx(whole.loss, rel=1e-4)
    assert untimed(tmp_path / "4")[0]["absolute"] == pytest.approx(untimed(tmp_path / "1")[0]["absolute"])
    assert Counter(second.made) == {step: 4 * count for step, count in Counter(first.made).items()}


def test_the_seed_decides(tmp_path: Path) -> None:
    losses = [train(tmp_path / str(n), settings(seed=seed))[0].loss for n, seed in enumerate([1, 1, 2])]
    assert losses[0] == losses[1] != losses[2]


def test_random_draws_between_steps_change_nothing(tmp_path: Path) -> None:
    def noisy() -> float:
        return random.random() + float(np.random.rand()) + torch.rand(()).item()

    calm, _ = train(tmp_path / "calm")
    disturbed, _ = train(tmp_path / "noisy", evaluate=noisy, config=settings(evaluate_every=1))
    assert disturbed.loss == calm.loss


def test_bfloat16_arithmetic_leaves_the_weights_float32(tmp_path: Path) -> None:
    outcome, task = train(tmp_path, settings(precision="bfloat16"))
    assert math.isfinite(outcome.loss)
    assert {parameter.dtype for parameter in task.toy.parameters()} == {torch.float32}


def test_the_module_keeps_its_mode(tmp_path: Path) -> None:
    _, task = train(tmp_path, toy=Toy().eval())
    assert not task.toy.training


# Stopping and going on


@pytest.mark.parametrize("moments", [[3], [6], [11, 1, 2], random.Random(4).choices(range(1, 8), k=4)])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_stopped_run_ends_like_an_undisturbed_one(tmp_path: Path, moments: list[int], accumulate: int) -> None:
    config = settings(accumulate=accumulate, save_every=3)
    undisturbed, task = train(tmp_path / "whole", config)
    for count in moments:
        with pytest.raises(StopError):
            train(tmp_path / "stopped", config, resume=True, stop=stop_at(count))
    outcome, resumed = train(tmp_path / "stopped", config, resume=True)
    assert outcome.loss == undisturbed.loss
    assert weights(resumed.toy) == weights(task.toy)
    assert untimed(tmp_path / "stopped") == untimed(tmp_path / "whole")


def test_resuming_makes_no_batch_twice(tmp_path: Path) -> None:
    with pytest.raises(StopError):
        train(tmp_path, stop=stop_at(8))
    _, task = train(tmp_path, resume=True)
    assert task.made == list(range(5, 12))


def test_a_killed_run_ends_like_an_undisturbed_one(tmp_path: Path) -> None:
    undisturbed, _ = train(tmp_path / "whole", settings(steps=30))
    command = [sys.executable, str(SCRIPT), str(tmp_path / "killed"), "30"]
    with subprocess.Popen([*command, "0.05"], stdout=subprocess.DEVNULL) as process:
        wait_for(lambda: (Saves(tmp_path / "killed").latest() or 0) >= 10)
        process.send_signal(signal.SIGKILL)
    reached = Saves(tmp_path / "killed").latest()
    assert reached is not None
    assert reached < 30
    outcome, _ = train(tmp_path / "killed", settings(steps=30), resume=True)
    assert outcome.loss == undisturbed.loss
    assert untimed(tmp_path / "killed") == untimed(tmp_path / "whole")


def wait_for(condition: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def test_resuming_a_finished_run_does_nothing(tmp_path: Path) -> None:
    outcome, task = train(tmp_path)
    log = (tmp_path / LOG).read_bytes()
    again, other = train(tmp_path, resume=True)
    assert (again.step, again.loss) == (outcome.step, outcome.loss)
    assert weights(other.toy) == weights(task.toy)
    assert (tmp_path / LOG).read_bytes() == log


def test_a_run_is_not_overwritten(tmp_path: Path) -> None:
    train(tmp_path)
    with pytest.raises(TrainingError, match="holds a run that reached step 12; resume it"):
        train(tmp_path)


def test_another_config_is_refused_by_name(tmp_path: Path) -> None:
    train(tmp_path, about={"negatives": 1})
    with pytest.raises(TrainingError, match="another run: lr was 0.05 and is 0.01, seed was 0 and is 3"):
        train(tmp_path, settings(lr=0.01, seed=3), resume=True, about={"negatives": 1})
    with pytest.raises(TrainingError, match="negatives was 1 and is 2"):
        train(tmp_path, resume=True, about={"negatives": 2})


def test_settings_that_do_not_change_weights_may_differ(tmp_path: Path) -> None:
    undisturbed, _ = train(tmp_path / "whole")
    with pytest.raises(StopError):
        train(tmp_path / "stopped", stop=stop_at(8))
    outcome, _ = train(tmp_path / "stopped", settings(save_every=1, log_every=4), resume=True)
    assert outcome.loss == undisturbed.loss


def test_another_architecture_is_refused_by_name(tmp_path: Path) -> None:
    train(tmp_path)
    with pytest.raises(TrainingError, match=r"another architecture: embedding.weight was \[10, 8\] and is \[10, 4\]"):
        train(tmp_path, toy=Toy(width=4), resume=True)


def test_a_save_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    train(tmp_path)
    path = tmp_path / "step-000012" / "state.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format_version": 9}))
    with pytest.raises(TrainingError, match="version 9; this Baleen reads"):
        train(tmp_path, resume=True)


@pytest.mark.parametrize("name", ["state.json", "weights.safetensors"])
def test_a_damaged_save_is_refused(tmp_path: Path, name: str) -> None:
    train(tmp_path)
    path = tmp_path / "step-000012" / name
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(TrainingError, match=f"{name}: cannot be read"):
        train(tmp_path, resume=True)


# What goes wrong


@pytest.mark.parametrize(("worth", "said"), [(math.nan, "loss is nan"), (math.inf, "loss is inf")])
def test_a_non_finite_loss_ends_the_run_and_keeps_the_last_save(tmp_path: Path, worth: float, said: str) -> None:
    task_config = settings(log_every=100)

    def spoil(toy: Toy) -> Any:
        def stop(taken: int) -> None:
            if taken == 8:
                with torch.no_grad():
                    toy.head.bias.fill_(worth)

        return stop

    toy = Toy()
    with pytest.raises(TrainingError, match=f"step 8: {said}.* at learning rate 0.025") as caught:
        train(tmp_path, task_config, toy=toy, stop=spoil(toy))
    assert caught.value.exit_code == 9
    assert Saves(tmp_path).steps() == [5]
    assert train(tmp_path, task_config, resume=True)[0].loss == train(tmp_path / "whole", task_config)[0].loss


def test_non_finite_gradients_end_the_run_before_a_save(tmp_path: Path) -> None:
    toy = Toy()
    toy.head.bias.register_hook(lambda gradient: gradient * math.inf)
    with pytest.raises(TrainingError, match="step 1: grad_norm is"):
        train(tmp_path, settings(save_every=1), toy=toy)
    assert Saves(tmp_path).steps() == []


def test_a_full_disk_keeps_the_previous_save(tmp_path: Path) -> None:
    written: list[Path] = []

    def write(tensors: dict[str, Tensor], path: Path) -> None:
        write_tensors(tensors, path)
        written.append(path)
        if len(written) == 4:  # the second save's optimizer, half of which is there
            path.write_bytes(path.read_bytes()[:50])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(TrainingError, match="step 10 could not be saved .no space left on device.; the save of step 5"):
        train(tmp_path, saves=Saves(tmp_path, write))
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} - {"tensorboard"} == {"step-000005"}
    assert train(tmp_path, resume=True)[0].loss == train(tmp_path / "whole")[0].loss


def test_a_full_device_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="(?i)no such file"):
        write_tensors({"a": torch.ones(2)}, tmp_path / "nowhere" / "a.safetensors")


def test_rounded_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="the weights are torch.bfloat16.*trainable=True"):
        train(tmp_path, toy=Toy().bfloat16())


def test_an_indivisible_batch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="batch_size = 4, which cannot be divided into 3 equal parts"):
        train(tmp_path, settings(accumulate=3))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"steps": 0}, "steps = 0, which should be at least 1"),
        ({"lr": -1.0}, "lr = -1.0, which should not be negative"),
        ({"clip": 0.0}, "clip = 0.0, which should be above 0"),
        ({"dropout": 1.0}, "dropout = 1.0, which should be 0 or more and below 1"),
        ({"dropout": -0.1}, "dropout = -0.1, which should be 0 or more and below 1"),
        ({"warmup": 30}, "warmup = 30, which is more than steps = 12"),
    ],
)
def test_bad_settings_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        settings(**changes)


def test_settings_are_read_by_name() -> None:
    assert from_mapping(TrainConfig, {"steps": 7, "precision": "float32"}).steps == 7
    with pytest.raises(ConfigError, match="precision = 'half' should be one of"):
        from_mapping(TrainConfig, {"precision": "half"})


def test_no_examples_are_refused() -> None:
    with pytest.raises(TrainingError, match="no examples"):
        Order(0, 4, 0)


# The dev metric


def test_the_best_weights_are_kept_and_restored(tmp_path: Path) -> None:
    metrics, seen = iter([0.1, 0.5, 0.3, 0.2]), []
    toy = Toy()

    def evaluate() -> float:
        assert not toy.training
        seen.append(weights(toy))
        return next(metrics)

    outcome, _ = train(tmp_path, settings(evaluate_every=3), toy=toy, evaluate=evaluate)
    assert (outcome.best_step, outcome.metric, outcome.step) == (6, 0.5, 12)
    assert weights(toy) == seen[1]
    assert [r["metric"] for r in read_log(tmp_path) if "metric" in r] == [0.1, 0.5, 0.3, 0.2]
    assert Saves(tmp_path).steps() == [12]
    assert {path.name for path in tmp_path.glob("step-*")} == {"step-000006", "step-000012"}


def test_patience_ends_the_run(tmp_path: Path) -> None:
    metrics = iter([0.5, 0.4, math.nan, 0.9])
    config = settings(evaluate_every=2, patience=2)
    outcome, _ = train(tmp_path, config, evaluate=lambda: {"metric": next(metrics), "other": 1.0})
    assert (outcome.step, outcome.best_step) == (6, 2)
    again, task = train(tmp_path, config, resume=True, evaluate=lambda: 1.0)
    assert (again.step, again.best_step) == (6, 2)
    assert task.made == []


@pytest.mark.parametrize("count", [4, 7, 10])
def test_the_best_weights_survive_a_stop(tmp_path: Path, count: int) -> None:
    def dev(toy: Toy) -> Any:
        return lambda: math.sin(1e4 * toy.head.bias.item())

    config, first, second, third = settings(evaluate_every=2), Toy(), Toy(), Toy()
    whole, _ = train(tmp_path / "whole", config, toy=first, evaluate=dev(first))
    with pytest.raises(StopError):
        train(tmp_path / "cut", config, toy=second, evaluate=dev(second), stop=stop_at(count))
    outcome, _ = train(tmp_path / "cut", config, toy=third, evaluate=dev(third), resume=True)
    assert (outcome.best_step, outcome.metric) == (whole.best_step, whole.metric)
    assert weights(third) == weights(first)


# Logs


def test_a_record_holds_means_rates_and_speeds(tmp_path: Path) -> None:
    train(tmp_path, settings(log_every=5))
    records = read_log(tmp_path)
    assert [record["step"] for record in records] == [5, 10, 12]
    assert list(records[0]) == ["step", "loss", "absolute", "lr", "grad_norm", *TIMES[1:], "padding", "seconds"]
    assert records[0]["padding"] == 0.25
    assert records[-1]["lr"] == pytest.approx(0.05 / 10)
    single = tmp_path / "single"
    train(single, settings(log_every=1))
    mean = np.mean([record["loss"] for record in read_log(single)[:5]])
    assert records[0]["loss"] == pytest.approx(mean)


def test_an_incomplete_last_line_is_ignored(tmp_path: Path) -> None:
    with pytest.raises(StopError):
        train(tmp_path, stop=stop_at(8))
    with (tmp_path / LOG).open("a") as file:
        file.write('{"step": 8, "lo')
    train(tmp_path, resume=True)
    assert [record["step"] for record in read_log(tmp_path)] == [2, 4, 6, 8, 10, 12]


def test_curves_are_drawn_if_there_is_enough(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    train(tmp_path, settings(log_every=1), evaluate=lambda: 0.5)
    assert (tmp_path / CURVES).read_bytes().startswith(b"\x89PNG")
    few = [{"step": step, "loss": 1.0} for step in range(1, MIN_RECORDS)]
    assert not draw_curves(few, tmp_path / "none.png")
    assert not draw_curves([{"step": step} for step in range(20)], tmp_path / "none.png")
    assert draw_curves([*few, {"step": MIN_RECORDS, "loss": 0.5}], tmp_path / "some.png")
    assert sorted(path.name for path in tmp_path.glob("*.png")) == [CURVES, "some.png"]


def test_tensorboard_gets_the_same_numbers(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with pytest.raises(StopError):
        train(tmp_path, stop=stop_at(8))
    train(tmp_path, resume=True)
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard")).Reload().Scalars("loss")
    found = {event.step: event.value for event in events}
    assert found == pytest.approx({record["step"]: record["loss"] for record in read_log(tmp_path)})


def test_a_note_is_shown_beside_the_progress_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("training", total=2, visible=True) as bar:
        bar.advance()
        bar.note("loss 0.31")
    assert "loss 0.31" in capsys.readouterr().err


def test_loads_add_up() -> None:
    masks = [torch.tensor([[True, True, False], [True, True, True]]), torch.ones(1, 5, dtype=torch.bool)]
    load = Load.of(2, masks)
    assert load == Load(examples=2, tokens=10, slots=11, squares=4 + 9 + 25)
    assert load + load == Load(4, 20, 22, 76)
    assert load.padding == pytest.approx(1 / 11)
    assert Load().padding == 0


def test_flops_are_six_per_weight_and_token_plus_attention() -> None:
    toy = Toy(width=8)
    assert Cost.of(toy).flops(Load(tokens=100, squares=7)) == 6 * (8 + 8 + 9 + 9) * 100
    assert Cost(1000, layers=2, hidden=16).flops(Load(tokens=10, squares=50)) == 60_000 + 12 * 2 * 16 * 50


def test_speed_is_work_over_time() -> None:
    work = WorkDone(Load(examples=8, tokens=90, slots=100, squares=500), steps=4, seconds=2.0)
    speed = Speed.of(work, 2, Cost(1000), 1e6)
    assert speed == Speed(2.0, 90.0, 8.0, pytest.approx(0.1), 6 * 1000 * 90 / 2 / 1e6)
    assert Speed.of(work, 2, Cost(1000), None).utilisation is None
    assert Speed.of(WorkDone(), 1, Cost(1), None).steps_per_second == 0
    assert WorkDone.of(asdict(work)) == work
    assert WorkDone.of({}) == WorkDone()
    assert work.plus(work.load, 4, 2.0) == WorkDone(work.load + work.load, 8, 4.0)


def test_the_speed_of_a_stopped_run_covers_all_its_work(tmp_path: Path) -> None:
    """Time of saves and evaluations does not count; work before a stop does."""
    slow = lambda: time.sleep(0.05) or 0.0  # noqa: E731
    straight, _ = train(tmp_path / "straight", settings(evaluate_every=1), evaluate=slow)
    assert straight.seconds > 12 * 0.05
    assert straight.speed.steps_per_second > 12 / (straight.seconds - 12 * 0.05)
    assert straight.speed.padding == 0.25
    assert straight.speed.utilisation is None
    assert straight.report()["tokens_per_second"] == round(straight.speed.tokens_per_second, 4)

    def stop(taken: int) -> None:
        if taken == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "stopped", stop=stop)
    train(tmp_path / "stopped", resume=True)
    (state,) = (json.loads(path.read_text()) for path in (tmp_path / "stopped").glob("step-000012/state.json"))
    assert state["counters"]["work"]["steps"] == 12
    assert state["counters"]["work"]["load"]["examples"] == 12 * 4


def test_peak_flops_are_known_by_gpu_name() -> None:
    assert gpu_peak_flops("NVIDIA H200") == gpu_peak_flops("NVIDIA H100 80GB HBM3") == 989e12
    assert gpu_peak_flops("NVIDIA A100-SXM4-80GB") == 312e12
    assert gpu_peak_flops("NVIDIA GeForce RTX 4090") is None


# Several processes


@pytest.mark.slow
def test_two_processes_learn_like_one(tmp_path: Path) -> None:
    """Under torchrun with gloo; without dropout, which each process draws for itself."""
    script = tmp_path / "two.py"
    script.write_text(
        "import sys, pathlib\n"
        "from training_fakes import Toy, settings, train\n"
        "outcome, _ = train(pathlib.Path(sys.argv[1]), settings(batch_size=8), toy=Toy(dropout=0.0), resume=True)\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [*command, str(tmp_path / "two")], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    one, task = train(tmp_path / "one", settings(batch_size=8), toy=Toy(dropout=0.0))
    resumed, other = train(tmp_path / "two", settings(batch_size=8), toy=Toy(dropout=0.0), resume=True)
    assert resumed.step == one.step
    assert resumed.loss == pytest.approx(one.loss, rel=1e-4)
    assert [r["loss"] for r in read_log(tmp_path / "two")] == pytest.approx(
        [r["loss"] for r in read_log(tmp_path / "one")], rel=1e-4
    )
    for name, values in weights(task.toy).items():
        if not name.startswith("unused"):
            assert weights(other.toy)[name] == pytest.approx(values, abs=1e-4)


def test_a_loss_may_be_one_tensor(tmp_path: Path) -> None:
    config = settings()
    _, task = train(tmp_path / "named", config)
    other = Toy()
    trainer = Trainer(other, task.batch, lambda b: (other(b.ids) - b.targets).square().mean(), config, tmp_path / "one")
    trainer.run()
    assert weights(other) == weights(task.toy)
