"""Search on a CPU.

search.py   the stages: each scores fewer passages with more precision
tables.py   a query as the kernels take it, and its lookup tables
workers.py  threads
memory.py   aligned arrays, and scratch of each thread
kernels/    numba kernels by stage
simd.py     SIMD instructions of the kernels
"""
