"""Floor 5: predictions, judged by each dataset's own metrics.  Never imports `training`.

evaluate.py    run a contender over questions
collection.py  the passages that are searched
results.py     predictions in a file that resumes
measures.py    metrics by dataset
statistics.py  bootstrap intervals and paired tests
tables.py      tables in Markdown
trec.py        TREC runs and qrels
submission.py  files for leaderboards
baselines/     BM25, dense, ColBERT, reranking, ColBERT-Hop"""
