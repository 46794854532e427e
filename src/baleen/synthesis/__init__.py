"""Multi-hop claims and questions made out of any corpus: see `synthesizing.synthesize`, and docs/synthesis.md."""
