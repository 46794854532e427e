"""Baselines, each of which ranks passages.

baseline.py  the protocol, and opening a baseline by name
bm25.py      word matching
dense.py     one vector per text
colbert.py   late interaction without focus; ColBERT-Hop
rerank.py    a cross-encoder on top of another baseline
"""
