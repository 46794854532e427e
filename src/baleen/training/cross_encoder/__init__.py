"""Training of the cross-encoder heads: condenser, reranker, verifier, answerer.

stages.py              the stages of a run
examples.py            examples of every head, from saved rankings and scores
condenser_examples.py  examples of condenser and reranker
reader_examples.py     examples of the readers
heads.py               the five heads as tasks
task.py                one head, or several that take turns
inference.py           scores of stage 1 over training questions
likely_sentences.py    gold sentences inferred
metrics.py             metrics on dev
"""
