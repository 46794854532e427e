"""The command line.  Standard output carries results alone; progress and logs go to standard error.

    app.py              the application: its commands, and how errors become exit codes
    indexing.py         index, split
    searching.py        search
    hops.py             verify, ask: one text, or a file of them
    chain.py            a run as a person reads it
    document.py         a run as one JSON document
    demo.py             demo
    init.py             init
    training.py         train
    evaluating.py       eval
    contenders.py       who is evaluated
    comparing.py        compare, table
    synthesizing.py     synthesize
    question_files.py   DATASET:FILE: a file of questions
    options.py          options that several commands share
    output.py           reports and rankings, as several commands print them

Heavy modules are imported inside the commands, so that `baleen --help` answers at once.
"""

from baleen.cli.app import main

__all__ = ["main"]
