"""Floor 5: training from unordered gold passages.  Never imports `evaluation`.

plan.py         every table of a plan
run.py          the stages of a run, in order
stages.py       the folder of a run: a stage is done once
environment.py  the machine, versions and commit of a run
data.py         corpora and questions to train on
losses.py       loss functions
packing.py      rows of unequal length through a model
loop/           the training loop
hop_order/      latent hop ordering: Algorithm 1 of the paper
retriever/      retriever training
cross_encoder/  condenser, reranker and reader training"""
