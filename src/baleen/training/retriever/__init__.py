"""Training of FLIPR.

task.py     the loss, and `train_retriever`
batches.py  queries with positives and negatives
rows.py     tokenised queries and passages
"""
