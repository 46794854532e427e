"""Training from unordered gold passages.

plan.py         every table of a plan
run.py          the stages of a run, in order
stages.py       the folder of a run: each stage is done once
environment.py  machine, versions and commit of a run
data.py         corpora and questions to train on
losses.py       loss functions
packing.py      layouts for rows of unequal length
loop/           the training loop
hop_order/      latent hop ordering: Algorithm 1 of the paper
retriever/      training of retrievers
cross_encoder/  training of condenser, reranker and readers

This room never imports `evaluation`.
"""
