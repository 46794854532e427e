"""Residual compression: centroids, residual codebooks, and how both are fitted.

codec.py      vectors to cell numbers and residual bytes, and back
fitting.py    fit a codec to a sample, encode passages
kmeans.py     k-means, and the nearest centroid
residuals.py  the residual code
"""
