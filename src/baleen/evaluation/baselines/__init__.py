"""Systems to compare with.

baseline.py  the protocol, and a baseline by name
bm25.py      words
dense.py     one vector per text
colbert.py   late interaction without focus; ColBERT-Hop
rerank.py    a cross-encoder on top of another baseline"""
