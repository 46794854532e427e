"""Benchmarks that anyone can repeat: what they measure on, how they measure, and how the figures are written down.

synthetic.py        token vectors made up on the fly, for a corpus of any size
real.py             token vectors of a corpus and its questions, encoded once
exact.py            the exact best passages over the original vectors, and recall against them
measure.py          one open index: latency, memory, kernel speed
assign.py           ways to find the cell of a vector: time, error, recall
search.py           the benches themselves: `run`, `growth`, `sweep`
attention.py        attention on a CPU, by products and by the fused kernel
mining.py           exact scores as training mines by, each way beside the first
report.py           results as JSON and as Markdown
"""
