"""The application: which commands there are, and how their errors become exit codes."""

from __future__ import annotations

import logging
import os
import sys

import typer

from baleen.cli.compare import compare, table
from baleen.cli.evaluate import evaluate
from baleen.cli.hops import ask, demo, search, verify
from baleen.cli.index import index, split
from baleen.cli.synthesize import synthesize
from baleen.cli.train import init, train
from baleen.core.errors import BaleenError

app = typer.Typer(
    help="Multi-hop retrieval and claim verification over any corpus.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (
    verify,
    ask,
    search,
    index,
    train,
    split,
    init,
    demo,
    compare,
    table,
    synthesize,
):
    app.command()(command)
app.command("eval")(evaluate)

# Queries and passages of ever other lengths leave torch's memory on a GPU full of holes; segments that grow have none.
_ALLOCATION = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
_GROWING = "expandable_segments:True"


def main() -> None:
    """Run a command; an error that is somebody's to mend is one line and an exit code of its own."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    for noisy in ("numba", "transformers", "httpx", "huggingface_hub"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    if sys.platform == "linux" and not any(name in os.environ for name in _ALLOCATION):
        os.environ[_ALLOCATION[0]] = _GROWING  # before torch is imported
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
