"""The paper's ablation: the same plan trained with a part left out, evaluated side by side.

rows.py     what each row leaves out, and which rows share a training run
plan.py     the [ablation] of a plan
passages.py digests of collections, so that an index or results over other passages are not taken for these
run.py      trains, indexes and evaluates every row, and skips what is done
report.py   the tables, as Markdown and as JSON
"""
