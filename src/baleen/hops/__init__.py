"""The paper: retrieve, condense, repeat; then read.

pipeline.py   the loop over hops, and the hybrid of two runs
config.py     tasks, RunConfig, RunOptions, CondenserConfig
retriever.py  an encoder over an index
mentions.py   boosts passages whose titles are mentioned
condenser.py  the two-stage condenser
evidence.py   the final facts of a run
reranker.py   the reranker
readers.py    verdicts and answers
explain.py    which tokens matched
demo.py       the default model and index"""
