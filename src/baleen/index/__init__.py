"""Floor 2: the compressed index of token vectors.  numpy, numba and torch; never imports `models`.

protocol.py  Searchable, SearchOptions, PassageEncoder: the interface to other rooms
index.py     Index: open, add, delete, compact, verify
snapshot.py  one immutable state: search, passages, titles, vectors
writer.py    build, merge, seal
segment.py   a mapped segment
format.py    manifest, files, commit
store.py     texts and ids
filters.py   metadata filters
scoring.py   MaxSim with focus, the reference
codec/       residual compression and its fitting
cpu/         search on a CPU: stages and kernels
gpu.py       search on a GPU
"""
