"""The command line.  Standard output carries results only; progress and logs go to standard error.

    app.py         the application: its commands, and the exit codes of errors
    hops.py        verify, ask, search
    show.py        a run for a person and as JSON; reports and rankings
    index.py       index, split
    train.py       train, init
    evaluate.py    eval
    compare.py     compare, table
    synthesize.py  synthesize
    options.py     options that several commands share

Heavy modules are imported inside the commands, so that `baleen --help` is fast.
"""

from baleen.cli.app import main

__all__ = ["main"]
