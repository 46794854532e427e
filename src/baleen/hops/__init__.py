"""Floor 3: the paper.  Retrieve, condense, repeat; then read.

pipeline.py   the loop over hops, and the hybrid of two runs
config.py     RunConfig
retriever.py  an encoder over an index
mentions.py   passages whose titles are mentioned
condenser.py  the two-stage condenser
evidence.py   the final facts of a run
reranker.py   the reranker
readers.py    verdicts and answers
explain.py    which tokens matched
demo.py       the default model and index"""
