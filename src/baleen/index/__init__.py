"""Floor 2: the compressed index of token vectors.  numpy, numba and torch; never imports `models`.

index.py     Index: open, search, add, delete, compact, verify
writer.py    build an index
segment.py   segments: mapped for reading, written once
format.py    manifest, files, commit
store.py     texts and ids
filters.py   metadata filters
scoring.py   MaxSim with focus, the reference
codec/       residual compression and its fitting
cpu/         search on a CPU: stages and kernels
gpu.py       search on a GPU"""
