"""How good a run is, by the measures of each dataset.

measures.py         what every dataset is measured by          hover.py, hotpotqa.py   what those two add
prediction.py       Prediction, Result                         judging.py              a dataset's questions and its judge
predicting.py       a system, a baseline or a run as one       contender.py            one of them, with what results depend on
evaluating.py       questions through one, batch by batch      lineup.py               several runs in one table
summary.py          means, intervals, by hops                  comparison.py           two runs, question by question
collection.py       the passages that questions are asked of   baselines/              rankings to compare with
trec.py, beir.py, submission.py                                other people's formats  tables.py: Markdown
"""
