"""Run the command line in the process of a test."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from baleen import cli


@dataclass
class Done:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def said(self) -> str:
        """Standard error without the frame and line breaks of usage errors."""
        return " ".join(self.err.replace("│", " ").split())


Baleen = Callable[..., Done]


def command_line(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *command: str) -> Iterator[Baleen]:
    """Yield a function that runs `baleen COMMAND ...` with logs on standard error; for a fixture."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()

    def run(*arguments: object) -> Done:
        monkeypatch.setattr("sys.argv", ["baleen", *command, *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "200")
        root.handlers.clear()
        capfd.readouterr()
        try:
            cli.main()
            code = 0
        except SystemExit as exit:
            code = exit.code if isinstance(exit.code, int) else 1
        return Done(code, *capfd.readouterr())

    yield run
    root.handlers[:] = handlers
    root.setLevel(level)
