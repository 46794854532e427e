"""Run the Python examples of README.md and docs/, page by page, with a tiny encoder as the default model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from baleen.data.corpus import write_passages
from baleen.hops.demo import SHIPPED, write_untrained
from fakes import CORPUS, bert_folder

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = {page.name: re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL) for page in PAGES}
WITH_EXAMPLES = [name for name, examples in EXAMPLES.items() if examples]


def test_the_readme_has_examples() -> None:
    assert "README.md" in WITH_EXAMPLES


@pytest.mark.parametrize("page", WITH_EXAMPLES)
def test_the_examples_of_a_page_run_one_after_another(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backbone = bert_folder(tmp_path / "backbone", hidden_size=128)
    write_untrained(tmp_path / "checkpoints" / SHIPPED, backbone, backbone)
    monkeypatch.setenv("BALEEN_CHECKPOINTS", str(tmp_path / "checkpoints"))
    monkeypatch.chdir(tmp_path)
    write_passages(CORPUS[:6], tmp_path / "articles.jsonl")
    write_passages(CORPUS[6:], tmp_path / "more.jsonl")
    (tmp_path / "articles").mkdir()
    for passage in CORPUS[:6]:
        (tmp_path / "articles" / f"{passage.pid}.md").write_text(f"# {passage.title}\n\n{passage.text}\n", "utf-8")
    session: dict[str, object] = {}
    for number, example in enumerate(EXAMPLES[page], start=1):
        exec(compile(example, f"{page}, example {number}", "exec"), session)
