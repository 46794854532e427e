"""Search on a CPU: the stages, their numba kernels, and the SIMD instructions those need."""
