"""The training loop of every model.

trainer.py      the loop: parameters, batches, a loss
config.py       its settings
sampling.py     which examples a step takes
prefetching.py  batches ahead of time
optimizer.py    AdamW, gradient clipping, dropout
saves.py        saves that a run resumes from
logs.py         losses, norms, throughput
distributed.py  several processes
"""
