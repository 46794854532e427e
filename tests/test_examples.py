"""The Python examples in README.md and docs/ run as they stand, with a tiny encoder under the default model's name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from baleen.corpus import write
from baleen.embedded import SHIPPED, write_untrained
from fakes import CORPUS, bert_folder

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL), start=1)
]


def test_the_readme_has_an_example() -> None:
    assert any(example.id is not None and example.id.startswith("README") for example in EXAMPLES)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs_as_it_stands(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backbone = bert_folder(tmp_path / "backbone", hidden_size=128)
    write_untrained(tmp_path / "checkpoints" / SHIPPED, backbone, backbone)
    monkeypatch.setenv("BALEEN_CHECKPOINTS", str(tmp_path / "checkpoints"))
    monkeypatch.chdir(tmp_path)
    write(CORPUS[:6], tmp_path / "articles.jsonl")
    write(CORPUS[6:], tmp_path / "more.jsonl")
    exec(compile(example, "example", "exec"), {})
