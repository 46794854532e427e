"""Residual compression: centroids, residual codebooks, and how both are fitted."""
