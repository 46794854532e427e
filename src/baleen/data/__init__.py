"""Files in, records out.  No model is needed here.

corpus.py      collections of passages
textfiles.py   plain text and Markdown into passages
sentences.py   sentence splitting
titles.py      names of passages, and mentions of them in text
parsing.py     records of JSON files, and their typed fields
claims.py      files of claims and questions
example.py     Example, and how answers are compared
formats.py     datasets: one parser each, and `read_examples`
gold.py        gold passages of a dataset, matched to a corpus
beir.py        BEIR folders
demo/          the demonstration corpus and its claims
"""
