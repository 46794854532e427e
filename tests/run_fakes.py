"""Plans of whole runs on a toy corpus.  As a script, run one:

python tests/run_fakes.py PLAN RUN [STAGE SAVES]    with STAGE: SIGKILL itself after this number of its saves
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch

from baleen.models import device
from baleen.training.loop.saves import Saves
from baleen.training.plan import read_plan
from baleen.training.run import train
from toy_data import ToyData, make_toy_data

PLAN = """
hops = 2

[[collections]]
name = "toy"
corpus = ["corpus.jsonl"]
train = [{ dataset = "own", file = "train.jsonl" }]
dev = [{ dataset = "own", file = "dev.jsonl" }]

[retriever]
backbone = "backbone"
steps = [2]
final_steps = 3
per_hop = false
first_depth = 1
positive_depth = 1
negative_depth = 20
depths = [3, 4]

[retriever.encoder]
dim = 16
query_length = 24
facts_length = 64
passage_length = 32
mask_padding = false
query_focus = 3
facts_focus = 2

[retriever.training]
batch_size = 4
lr = 1e-3
precision = "float32"

[reading]
backbone = "backbone"
shared = true
length = 96
query_length = 48
depth = 4
negatives = [3]

[reading.first]
steps = 2
batch_size = 4
lr = 1e-3
precision = "float32"

[reading.training]
steps = 6
batch_size = 4
lr = 1e-3
precision = "float32"
save_every = 2
"""


def small_toy_data(folder: Path, train: int = 12) -> ToyData:
    """Write thirty people, `train` training and six dev questions, and the backbone of the plan."""
    toy = make_toy_data(folder, people=30, train=train, dev=6)
    toy.backbone(toy.folder / "backbone")
    return toy


def write_plan(folder: Path, name: str = "plan", *changes: tuple[str, str]) -> Path:
    """Write the plan above, with replacements, beside its files."""
    text = PLAN
    for old, new in changes:
        assert old in text, f"{old!r} is not in the plan"
        text = text.replace(old, new)
    file = folder / f"{name}.toml"
    file.write_text(text)
    return file


def without(section: str) -> tuple[str, str]:
    """A replacement that removes everything from a section on."""
    return PLAN[PLAN.index(section) :], ""


def kill_after(stage: str, saves: int) -> None:
    """Kill this process after `saves` saves of a stage."""
    write, left = Saves.write, [saves]

    def counted(self: Saves, *arguments: Any) -> None:
        write(self, *arguments)
        if stage in self.folder.parts:
            left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    Saves.write = counted  # type: ignore[method-assign]


if __name__ == "__main__":
    torch.set_num_threads(1)
    device.cpu_has_bfloat16 = lambda *_: False  # as in the tests: see conftest.py
    if len(sys.argv) > 3:
        kill_after(sys.argv[3], int(sys.argv[4]))
    train(read_plan(Path(sys.argv[1])), Path(sys.argv[2]), device="cpu")
