"""The application: its commands, and the exit codes of errors."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from baleen.cli.compare import compare, table
from baleen.cli.evaluate import evaluate
from baleen.cli.hops import ask, demo, search, verify
from baleen.cli.index import index, split
from baleen.cli.synthesize import synthesize
from baleen.cli.train import init, train
from baleen.core.errors import BaleenError
from baleen.core.machine import package_version

app = typer.Typer(
    help="Multi-hop retrieval and claim verification over any corpus.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
PANELS: dict[str, dict[str, Callable[..., None]]] = {
    "Use": {"verify": verify, "ask": ask, "search": search},
    "Build": {"index": index, "split": split, "synthesize": synthesize},
    "Train": {"init": init, "train": train},
    "Evaluate": {"eval": evaluate, "compare": compare, "table": table},
}
for panel, commands in PANELS.items():
    for name, command in commands.items():
        app.command(name, rich_help_panel=panel)(command)
app.command("demo", hidden=True)(demo)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"baleen {package_version('baleen')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Multi-hop retrieval and claim verification over any corpus."""


# Batches of varying lengths fragment the memory of a GPU; expandable segments do not.
_ALLOCATION = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
_EXPANDABLE = "expandable_segments:True"


def main() -> None:
    """Run a command; print an error as one line and exit with its code."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    for noisy in ("numba", "transformers", "httpx", "huggingface_hub"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    if sys.platform == "linux" and not any(name in os.environ for name in _ALLOCATION):
        os.environ[_ALLOCATION[0]] = _EXPANDABLE  # before torch is imported
    try:
        app()
    except BaleenError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(1)
    except OSError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(BaleenError.exit_code)
