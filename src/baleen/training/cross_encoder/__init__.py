"""Training of the cross-encoder heads: condenser, reranker, verifier, answerer."""
