"""The environment records of a run: device, versions, commit."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch

from baleen.training.environment import ENVIRONMENT, commit, environment, note_environment, read_environments


@pytest.fixture(autouse=True)
def no_given_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BALEEN_COMMIT", raising=False)


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", str(folder), *who, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit of sources/module.py; installed/ is ignored."""
    for name in ("sources", "installed"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "module.py").write_text("one\n")
    (tmp_path / ".gitignore").write_text("installed/\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


def test_an_environment_has_the_device_the_versions_and_the_processes() -> None:
    found = environment(torch.device("cpu"), processes=2)
    assert (found["device"], found["processes"], found["cuda"]) == ("cpu", 2, None)
    assert {"cpu", "cores", "memory_gb", "date", "python", "torch", "transformers", "commit", "changed"} < found.keys()


def test_the_commit_is_that_of_the_sources(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    assert commit(repository / "sources") == {"commit": head, "changed": False}


def test_changed_sources_are_recorded(repository: Path) -> None:
    (repository / "elsewhere.txt").write_text("new\n")
    assert commit(repository / "sources")["changed"] is False, "what lies elsewhere is no source"
    (repository / "sources" / "new.py").write_text("new\n")
    assert commit(repository / "sources")["changed"] is True
    (repository / "sources" / "new.py").unlink()
    (repository / "sources" / "module.py").write_text("two\n")
    assert commit(repository / "sources")["changed"] is True


def test_a_repository_around_an_installed_package_is_ignored(repository: Path) -> None:
    assert commit(repository / "installed") == {"commit": None, "changed": None}


def test_without_a_repository_the_commit_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit(tmp_path) == {"commit": None, "changed": None}
    monkeypatch.setenv("BALEEN_COMMIT", "abc123")
    assert commit(tmp_path) == {"commit": "abc123", "changed": None}


def test_without_git_the_commit_is_unknown(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert commit(repository / "sources") == {"commit": None, "changed": None}


def test_each_environment_is_recorded_once_in_order(tmp_path: Path) -> None:
    first = {"date": "2026-11-15", "device": "one"}
    note_environment(tmp_path, first)
    stamp = (tmp_path / ENVIRONMENT).stat().st_mtime_ns
    note_environment(tmp_path, {**first, "date": "2026-11-16"})
    assert (tmp_path / ENVIRONMENT).stat().st_mtime_ns == stamp, "another day is no other place"
    note_environment(tmp_path, {**first, "device": "two"})
    note_environment(tmp_path, first)
    assert [each["device"] for each in read_environments(tmp_path)] == ["one", "two", "one"]


@pytest.mark.parametrize("content", [None, "half of", "[]", "{}", '{"environments": 3}', '{"environments": [3]}'])
def test_an_unreadable_file_of_environments_is_ignored(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / ENVIRONMENT).write_text(content)
    assert read_environments(tmp_path) == []
    note_environment(tmp_path, {"device": "one"})
    assert read_environments(tmp_path) == [{"device": "one"}]
