"""Latent hop ordering: infer the hop of each gold passage while training the retriever."""
