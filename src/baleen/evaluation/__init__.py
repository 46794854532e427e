"""Floor 4: evaluate predictions by each dataset's own metrics.  Never imports `training`.

datasets.py    the registry: how each dataset is scored, shown and submitted
measures.py    metrics of one question
scoring.py     gold passages and scores of predictions
evaluate.py    evaluate a system, a baseline or a TREC run
collection.py  passages to evaluate over
results.py     predictions, and results files that a killed run resumes
statistics.py  means, bootstrap intervals and paired tests
tables.py      Markdown tables
trec.py        TREC runs and qrels
submission.py  files for leaderboards
baselines/     BM25, dense, ColBERT, reranking, ColBERT-Hop
"""
