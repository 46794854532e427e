"""Rankings to compare with: single-hop ones behind one interface, and ColBERT-Hop, which is a system.

baseline.py     Baseline: texts -> rankings
opening.py      BaselineConfig, open_baseline: one by its name
bm25.py         words
dense.py        one vector a text
colbert.py      token vectors without focus
rerank.py       a cross-encoder on top of another
colbert_hop.py  hops without focus, with a reranker
"""

from baleen.evaluation.baselines.baseline import Baseline
from baleen.evaluation.baselines.opening import NAMES, BaselineConfig, open_baseline

__all__ = ["NAMES", "Baseline", "BaselineConfig", "open_baseline"]
