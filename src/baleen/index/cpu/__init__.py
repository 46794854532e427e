"""Search on a CPU: stages, query tables, worker threads, numba kernels and their SIMD instructions."""
