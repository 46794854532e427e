"""Multi-hop claims and questions generated from a corpus: see `synthesizing.synthesize` and docs/synthesis.md."""
