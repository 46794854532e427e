"""Training of everything that reads: condenser, reranker, verifier, answerer."""
