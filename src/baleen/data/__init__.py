"""Floor 1: files in, records out.  No model is needed here.

corpus.py      collections of passages
textfiles.py   plain text and Markdown into passages
sentences.py   sentence splitting
titles.py      titles, and where a text mentions them
claims.py      files of claims and questions
example.py     Example, and how answers are compared
formats.py     one reader per dataset
parsing.py     typed fields of dataset records
gold.py        gold passages of a dataset, resolved to passages of a corpus
beir.py        BEIR folders
demo/          the demonstration corpus and its claims"""
