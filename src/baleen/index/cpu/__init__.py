"""Search on a CPU: the stages, query tables, worker threads, numba kernels, and the SIMD instructions those need."""
