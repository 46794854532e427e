"""Latent hop ordering: infer the hop of each gold passage while training the retriever.

algorithm.py       Algorithm 1 of the paper, with models
supervision.py     its rules, without models
strategies.py      one question supervised by a ranking or by a fixed order
fixed.py           fixed orders, and recall under a perfect condenser
mining.py          exact search over corpora in device memory
maxsim.py          its scores, on any device
maxsim_kernel.py   its scores, by Triton
evidence_match.py  answers and titles found in texts
report.py          reports of an inferred order
"""
