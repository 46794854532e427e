"""The command line.  Standard output carries results alone; progress and logs go to standard error.

    app.py         the application: its commands, and how errors become exit codes
    hops.py        verify, ask, demo, search
    show.py        a run for a person, and as one JSON document
    index.py       index, split
    train.py       train, init
    evaluate.py    eval
    compare.py     compare, table
    synthesize.py  synthesize
    options.py     options that several commands share

Heavy modules are imported inside the commands, so that `baleen --help` answers at once.
"""

from baleen.cli.app import main

__all__ = ["main"]
