"""Latent hop ordering: in which order gold passages can be found, and the retriever that this trains."""
