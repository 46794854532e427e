"""Records, errors, settings, files and processes.  Standard library and numpy only.

types.py      Passage, Fact, Query, Ranking, Hop, Trace, Verdict, Answer
records.py    records to JSON and back
ranking.py    the passages of all hops in one ranked list
trace_json.py the JSON document of a trace, and its schema
errors.py     the tree of errors, with exit codes
config.py     settings from mappings and TOML; an unknown key is an error
vectors.py    query and passage vectors
files.py      lines of compressed files, files of records, atomic replacement, locks
parallel.py   background threads, forked workers, cores
progress.py   progress bars
markdown.py   Markdown tables
machine.py    the machine behind a figure; seconds and tokens by stage
"""
